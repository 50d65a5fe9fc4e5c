"""Rows of mirrors that are given away, and what a link's state makes of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from heliostat.handover.held_back import HeldBack
from heliostat.handover.promotion import (
    LeaderEpoch,
    MirrorEnds,
    PartitionPromotion,
    PromotedBy,
    Promotion,
)
from heliostat.handover.still_open import StillOpen
from heliostat.link.known import Known
from heliostat.link.wish_part import changes_between
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName
from heliostat.state.link_state import Stored, feeds_in, mirrors_in
from heliostat.state.promotions import PromotedMirror
from heliostat.topics.values import MirrorRecord
from heliostat.wishes.wish import Wishes

T = TopicName("t")
ENDS = MirrorEnds(
    TopicName("src.t"),
    ClusterId("a"),
    ClusterId("b"),
    UUID(int=1),
    None,
    {
        PartitionId(0): PartitionPromotion(Offset(7), Offset(5), LeaderEpoch(3, Offset(6))),
        PartitionId(1): PartitionPromotion(Offset(0), Offset(0)),
    },
)
GIVEN = Promotion(T, PromotedBy.FAILOVER, "ann", 17, "fire", ENDS)
RECORD = MirrorRecord(T, TopicName("src.t"), None, None, ClusterId("a"), "earliest", 1)


@pytest.mark.parametrize(
    "more",
    [
        {"ends": ENDS},
        {},
        {"is_target_open": True},
        {"still_open": StillOpen((HeldBack("t", 0, 91, 9, 7, "writer", 3.0),), 2)},
    ],
)
def test_a_promotion_comes_back_from_its_row(more: dict[str, Any]) -> None:
    """Given a promotion with and without ends / when its row is read / then it is the same."""
    given = Promotion(T, PromotedBy.SWITCH, "ann", 17, **more)
    assert Promotion.from_json(given.key, given.to_json()) == given
    former = PromotedMirror(given, RECORD)
    assert PromotedMirror.from_json(given.key, former.to_json()) == former


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("promoted/", GIVEN.to_json()),
        ("promoted/t/0", GIVEN.to_json()),
        ("promoted/t", {}),
        ("promoted/t", {**GIVEN.to_json(), "how": "magic"}),
        ("promoted/t", {**GIVEN.to_json(), "by": 3}),
        ("promoted/t", {**GIVEN.to_json(), "still_open": {"named": [{}], "unnamed": 0}}),
        ("promoted/t", {**GIVEN.to_json(), "ends": {"target": "t"}}),
    ],
)
def test_what_is_no_row_is_refused(key: str, row: dict[str, object]) -> None:
    """Given something else in its place / when it is read / then it is no promotion."""
    with pytest.raises((LookupError, TypeError, ValueError)):
        Promotion.from_json(key, row)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_promoted_topic_is_no_mirror_whichever_row_comes_first(*, is_first: bool) -> None:
    """Given the rows of a mirror and of its promotion / when read / then it feeds nothing."""
    rows = {f"mirror/{T}": RECORD.to_json(), f"making/{T}": RECORD.to_json()}
    given = {GIVEN.key: PromotedMirror(GIVEN, RECORD).to_json()}
    both = given | rows if is_first else rows | given
    assert mirrors_in(rows) == {T: RECORD}
    assert mirrors_in(both) == {}
    assert feeds_in(LinkName("l"), both) == []
    stored = Stored()
    for key, row in both.items():
        stored.take(key, row)
    assert (stored.mirrors, set(stored.promoted)) == ({}, {T})


def test_a_reconciliation_under_way_makes_it_no_mirror_again() -> None:
    """Given a promoted mirror that is remembered once more / when it is noticed / then it goes."""
    known = Known({T: RECORD}, {})
    known.promote({T: PromotedMirror(GIVEN, RECORD)})
    assert known.mirrors == {}
    known.mirrors[T] = RECORD
    known.drop_promoted()
    assert known.mirrors == {}


def test_it_is_told_who_gave_it_away() -> None:
    """Given a promotion among wishes / when they change / then an event says who and why."""
    now = Wishes()
    now.promotions[T] = GIVEN
    assert changes_between(Wishes(), now.copy()) == ["t is given away: ann wishes so, fire"]
