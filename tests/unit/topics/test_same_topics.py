"""Whether a topic is still the same one: what ids prove, and what a missing id does."""

from __future__ import annotations

from uuid import UUID

import pytest

from heliostat.clusters.admin import TopicInfo
from heliostat.names import TopicId, TopicName, id_text, is_another, is_still
from heliostat.topics.same_topics import not_shown_same, recreated

A, B = UUID(int=1), UUID(int=2)
ZERO = UUID(int=0)
"""The id in a broker's response if there is none."""
NAME = TopicName("orders")


@pytest.mark.parametrize(
    ("was", "now", "another", "still"),
    [
        (A, A, False, True),
        (A, B, True, False),
        (A, None, False, False),
        (A, ZERO, False, False),
        (None, A, False, True),
        (ZERO, A, False, True),
        (None, None, False, True),
        (ZERO, None, False, True),
    ],
)
def test_an_unknown_id_proves_nothing(
    was: TopicId | None, now: TopicId | None, *, another: bool, still: bool
) -> None:
    """As decoded, and as text: in rows of ours, and as verification has it from responses."""
    assert is_another(was, now) is another
    assert is_still(was, now) is still
    assert is_another(id_text(was), id_text(now)) is another
    assert is_still(id_text(was), id_text(now)) is still


@pytest.mark.parametrize(
    ("was", "now", "is_recreated", "is_kept"),
    [
        (A, A, False, False),
        (A, B, True, True),
        (A, None, False, True),  # may be another one: nothing is deleted from it
        (None, B, False, False),  # nothing but its name was ever known
        (None, None, False, False),
    ],
)
def test_nothing_is_deleted_from_a_topic_not_shown_to_be_the_same(
    was: TopicId | None, now: TopicId | None, *, is_recreated: bool, is_kept: bool
) -> None:
    found = {NAME: TopicInfo(NAME, now, (), is_internal=False)}
    ids = {NAME: id_text(was)}
    assert (recreated(found, ids) == {NAME}) is is_recreated
    assert (not_shown_same(found, ids) == {NAME}) is is_kept


def test_a_deleted_topic_is_neither_the_same_nor_another() -> None:
    assert not recreated({}, {NAME: id_text(A)})
    assert not not_shown_same({}, {NAME: id_text(A)})
