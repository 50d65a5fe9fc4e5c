"""What `explain` says of records that went from the mirror as the source had deleted them."""

from __future__ import annotations

import pytest
from unit.explaining.test_explain import NOW_MS, P0, T, answer, evidence, link, says

from heliostat.explaining.explain import explain
from heliostat.explaining.values import Question
from heliostat.names import Offset
from heliostat.offsets.values import Why
from heliostat.status.history_records import PastEvent
from heliostat.topics.deletion_rule import FOLLOWED

EVENT = PastEvent(NOW_MS, "info", f"{T}: 50 offsets {FOLLOWED} (by rule)", T)


@pytest.mark.parametrize(
    ("entries", "events", "words"),
    [
        (["ESS.*"], (EVENT,), "went from the mirror at 2023-11-14 22:13:20Z: ESS.temperature: 50"),
        (["ESS.*"], (EVENT, EVENT), "22:13:20Z, the last of 2 times within a day"),
        (["ESS.*"], (), "goes from this mirror as well (topics.follow_deletes has ESS.*)"),
        ([], (), ""),
    ],
)
def test_a_start_that_went_as_at_the_source_is_told_with_when(
    entries: list[str], events: tuple[PastEvent, ...], words: str
) -> None:
    found = evidence(
        link=link(include=["ESS.*"], follow_deletes=entries),
        translated=answer(3, None, Why.BELOW_START, "the mirror has nothing before 50"),
        followed=events,
    )
    told = explain(Question(T, P0.partition, Offset(3)), found)
    assert says(told, words)
    assert bool(words) or not says(told, "as well")
