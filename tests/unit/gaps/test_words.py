"""Texts about gaps: the ledger, waiting stops, and sums in the status."""

from __future__ import annotations

import pytest
from unit.gaps.test_choices import facts

from heliostat.cli.gaps import _explanation, _lines
from heliostat.cli.view import gaps_words
from heliostat.gaps.choices import Cause, GapChoice
from heliostat.gaps.ledger import GapDecision, GapRow
from heliostat.names import LinkName, Offset, PartitionId, TopicName
from heliostat.operate.gaps import GapReport, PendingDecision
from heliostat.operate.resolve import DecisionOptions

T = TopicName("ESS")


def row(last: int | None, count: int | None) -> GapRow:
    return GapRow(
        topic=T,
        partition=PartitionId(3),
        first=Offset(100),
        last=None if last is None else Offset(last),
        count=count,
        cause=Cause.SOURCE_OVERTOOK,
        at_ms=0,
        choice=GapChoice.CONTINUE,
        decided_by="user ops",
        mirror=T,
    )


def test_the_ledger_shows_what_is_lost_and_what_is_unknown() -> None:
    rows = (row(149, 50), row(None, None), row(99, 0))
    lines = _lines(GapReport(LinkName("l"), "stop", rows, ()))
    assert "3 gaps recorded, 50 records lost, and 1 gaps of unknown size" in lines[0]
    assert "ESS-3  offsets 100..149  records lost 50" in lines[1]
    assert "offsets 100..?  records lost unknown" in lines[2]
    assert "offsets -  records lost 0" in lines[3]
    assert all("decided by user ops" in line for line in lines[1:])


def test_waiting_stops_name_the_verb_or_the_decision() -> None:
    waits = PendingDecision(T, PartitionId(3), "gap", "SOURCE_OVERTOOK", "gone", 5, None)
    said = GapDecision(T, None, "source_recreated", GapChoice.WAIT, "ops", 0)
    refused = PendingDecision(T, None, "refused", "source_recreated", "another", None, said)
    lines = _lines(GapReport(LinkName("l"), "stop", (), (waits, refused)))
    assert "heliostat resolve ESS 3 --link l" in lines[2]
    assert "decided: wait, by ops" in lines[4]


@pytest.mark.parametrize(
    ("is_merged", "unknown", "held"),
    [
        (False, "", "offsets 20 to 99"),
        (True, "", "100 records that the link has brought there"),
        (True, "no leader", "an unknown number of the link's records: no leader"),
    ],
)
def test_what_the_target_has_is_the_links_own_in_a_merged_topic(
    unknown: str, held: str, *, is_merged: bool
) -> None:
    stand = facts(Cause.SOURCE_OVERTOOK, is_merged=is_merged, own_end_unknown=unknown)
    waits = PendingDecision(T, PartitionId(3), "gap", "SOURCE_OVERTOOK", "gone", 5, None)
    lines = _explanation([DecisionOptions(waits, stand, ())], None)
    assert lines[-1] == f"  target {stand.target} has {held}"


def test_sums_in_the_status() -> None:
    assert gaps_words({"rows": 2, "records_lost": 1500, "unknown": 1}) == (
        "gaps: 2 recorded, 1,500 records lost, and 1 of unknown size (heliostat gaps)"
    )
    assert gaps_words({"rows": 9, "records_lost": 9, "unknown": 0, "dead_letters": 7}) == (
        "gaps: 9 recorded, 9 records lost, 7 of them kept as dead letters "
        "(heliostat gaps, heliostat dlq)"
    )
