"""What would be lost if the source were gone now: a table of what reports tell, and what is true.

In no row may a figure be better than the truth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from heliostat.errors import ConnectionLost
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import (
    PartitionCode,
    PartitionReport,
    PartitionState,
    RoundReport,
)
from heliostat.records.transport.progress_reports import encode_progress
from heliostat.status.board import StatusBoard, as_unreachable
from heliostat.status.lag import BothEnds, Reading, is_lost_as_lag, lag_of, loss_of
from heliostat.status.loss import LOOKED_AGAIN_S, LOSS_NOT_KNOWN, Loss, Rereads, rereads_of
from heliostat.status.snapshot import DRIVER_SILENT_AFTER_S
from heliostat.status.values import LinkStatus, PartitionStatus

NOW_MS = 1_700_000_000_000
P, Q = (TopicPartition(TopicName("t"), PartitionId(number)) for number in (0, 1))
DRIVER = {
    "state": "running",
    "at_ms": NOW_MS,
    "turns": 3,
    "generations": {"0": 1},
    "instance": "a",
    "partitions": 1,
}
LEVEL = PartitionReport(P, P, PartitionState.COPYING, 90, 90, 0, 0, -1, 1, NOW_MS, target_end=90)
BEHIND = replace(LEVEL, high_watermark=100, missing_ms=NOW_MS - 7_000)
OPEN = replace(LEVEL, high_watermark=100, open_records=10)
OPEN_SINCE = {
    "source": "t",
    "partition": 0,
    "first": 90,
    "records": 10,
    "producer_id": 7,
    "transactional_id": "w",
    "since_ms": NOW_MS - 9_000,
}
NOTHING = Loss(0, 0.0, "exact")
TEN = Loss(10, 7.0, "exact")
LATE_MS = round(DRIVER_SILENT_AFTER_S * 1000) + 1_000


@dataclass(frozen=True)
class Case:
    """What is reported, and what is true then."""

    report: PartitionReport
    loss: Loss
    driver: dict[str, Any] | None = None
    """Changes of the driver's report."""
    now_ms: int = NOW_MS
    lane_ago_s: float = 0.0
    ends: BothEnds | None = None


CASES = {
    "level": Case(LEVEL, NOTHING),
    "behind": Case(BEHIND, TEN),
    "an age that was not looked up": Case(replace(BEHIND, missing_ms=-1), Loss(10, None, "exact")),
    "mapped: source offsets count": Case(replace(BEHIND, breaks=3, target_end=55), TEN),
    "filtered: what its pipeline has not seen counts": Case(
        replace(BEHIND, breaks=40, target_end=12), TEN
    ),
    "paused: its lane goes on to ask": Case(replace(BEHIND, state=PartitionState.PAUSED), TEN),
    "an open transaction": Case(OPEN, Loss(10, 9.0, "exact"), {"held_back": [OPEN_SINCE]}),
    "an open transaction of which nothing is known": Case(OPEN, Loss(10, None, "exact")),
    "an open transaction behind other records": Case(
        replace(BEHIND, high_watermark=104, open_records=4),
        Loss(14, 7.0, "exact"),
        {"held_back": [{**OPEN_SINCE, "first": 100}]},
    ),
    "a gap: what lies before the position is not at the target": Case(
        replace(
            BEHIND,
            state=PartitionState.GAP,
            code=PartitionCode.SOURCE_OVERTOOK,
            reason="gone",
        ),
        TEN,
    ),
    "the source was truncated, and is longer again": Case(
        replace(
            BEHIND,
            state=PartitionState.GAP,
            code=PartitionCode.SOURCE_TRUNCATED,
            reason="lost",
        ),
        Loss(10, 7.0, "bound"),
    ),
    "the source was truncated, and ends where the mirror does": Case(
        replace(LEVEL, state=PartitionState.GAP, code=PartitionCode.SOURCE_TRUNCATED, reason="l"),
        LOSS_NOT_KNOWN,
    ),
    "the source ends before what was copied": Case(
        replace(LEVEL, high_watermark=80), LOSS_NOT_KNOWN
    ),
    "the source hangs while some is missing": Case(
        replace(BEHIND, is_end_old=True), Loss(10, 7.0, "bound")
    ),
    "the source hangs, and all was there": Case(replace(LEVEL, is_end_old=True), LOSS_NOT_KNOWN),
    "the source hangs, and only a transaction was open": Case(
        replace(OPEN, is_end_old=True), Loss(10, None, "bound")
    ),
    "the position is not known yet": Case(
        replace(LEVEL, position=-1, high_watermark=-1), LOSS_NOT_KNOWN
    ),
    "its lane is silent": Case(BEHIND, LOSS_NOT_KNOWN, lane_ago_s=60.0),
    "its lane is silent, and both ends were read": Case(
        BEHIND,
        Loss(25, 3.0, "exact"),
        lane_ago_s=60.0,
        ends=BothEnds(115, 90, NOW_MS - 3_000),
    ),
    "its lane is silent, and has copied on": Case(
        BEHIND, Loss(5, 3.0, "exact"), lane_ago_s=60.0, ends=BothEnds(115, 110, NOW_MS - 3_000)
    ),
    "its lane is silent, its mirror is mapped and has grown": Case(
        replace(BEHIND, breaks=1), LOSS_NOT_KNOWN, lane_ago_s=60.0, ends=BothEnds(115, 97, NOW_MS)
    ),
    "the driver has ended": Case(BEHIND, Loss(10, 7.0, "bound"), {"state": "ended"}),
    "the driver has ended with an open transaction": Case(
        OPEN, Loss(10, None, "bound"), {"state": "ended"}
    ),
    "the driver has ended, level": Case(LEVEL, LOSS_NOT_KNOWN, {"state": "ended"}),
    "the driver has ended, and both ends were read": Case(
        LEVEL, Loss(30, 2.0, "exact"), {"state": "ended"}, ends=BothEnds(120, 90, NOW_MS - 2_000)
    ),
    "the driver is silent": Case(BEHIND, LOSS_NOT_KNOWN, now_ms=NOW_MS + LATE_MS),
}


def board_of(case: Case) -> StatusBoard:
    board = StatusBoard(LinkName("l"))
    board.consume("driver", {**DRIVER, **(case.driver or {})})
    report = RoundReport(LaneId(0), 1, 0, 0, 0, "", [], [])
    report.lane_partitions, report.plan = 1, 1
    at_ms = NOW_MS - round(case.lane_ago_s * 1000)
    for record in encode_progress(report, [case.report], at_ms, is_whole=True):
        board.consume("lane/0", json.loads(record))
    return board


def seen(case: Case) -> tuple[LinkStatus, list[PartitionStatus]]:
    board, ends = board_of(case), {} if case.ends is None else {P: case.ends}
    return board.status(case.now_ms, ends), board.partitions(case.now_ms, ends)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_partition_topic_and_link_tell_what_would_be_lost(case: Case) -> None:
    status, partitions = seen(case)
    [partition], [topic] = partitions, status.topics
    assert partition.would_be_lost == topic.would_be_lost == status.would_be_lost == case.loss


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_it_is_never_less_than_the_lag(case: Case) -> None:
    status, _ = seen(case)
    if status.would_be_lost.records is not None and status.lag_records is not None:
        assert status.would_be_lost.records >= status.lag_records
    if status.unknown:
        assert status.would_be_lost.truth != "exact"


@pytest.mark.parametrize("reading", Reading)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_where_the_lag_stands_for_the_loss_it_is_the_same(case: Case, reading: Reading) -> None:
    if is_lost_as_lag(case.report, reading):
        lag = lag_of(case.report, reading, NOW_MS, case.ends)
        assert loss_of(case.report, reading, NOW_MS, case.ends) == lag


def test_a_partition_that_nobody_has_reported_makes_a_bound() -> None:
    status, _ = seen(Case(BEHIND, TEN, {"partitions": 2}))
    assert status.would_be_lost == Loss(10, 7.0, "bound")
    assert status.topics[0].would_be_lost == TEN
    assert seen(Case(LEVEL, NOTHING, {"partitions": 2}))[0].would_be_lost == LOSS_NOT_KNOWN


def test_topics_without_a_mirror_are_lost_as_a_whole() -> None:
    counts = {"mirrored": 1, "refused": 2, "waiting": 1, "left_out": 5}
    status, _ = seen(Case(LEVEL, NOTHING, {"topics": counts}))
    assert status.without_mirror == 3
    assert status.would_be_lost == Loss(0, 0.0, "bound")
    expected = "would be lost now: at least 0 records, and all of 3 topics that have no mirror"
    assert status.loss_in_words() == expected
    refused = seen(Case(BEHIND, TEN, {"refused": {"x": "why"}}))[0]
    assert refused.loss_in_words() == (
        "would be lost now: at least 10 records, the oldest 7.0 s old, "
        "and all of 1 topic that has no mirror"
    )


def test_of_a_link_without_reports_and_of_a_dead_target_nothing_is_known() -> None:
    assert StatusBoard(LinkName("l")).status(NOW_MS).would_be_lost == LOSS_NOT_KNOWN
    status, _ = seen(Case(BEHIND, TEN, {"groups": groups(4)}))
    assert status.rereads is not None
    as_unreachable(status, ConnectionLost("x"))
    assert status.would_be_lost == status.topics[0].would_be_lost == LOSS_NOT_KNOWN
    assert status.loss_in_words() == "would be lost now: not known"


# -- groups ------------------------------------------------------------------------------------


def groups(records: int, **changes: Any) -> dict[str, Any]:
    """The driver's report on groups."""
    rows = {
        "records": records,
        "groups": int(records > 0),
        "unknown": 0,
        "moving": 0,
        "most": {"g": records} if records else {},
        "sync": True,
    }
    return {"last_turn_ms": NOW_MS - 3_000, "rereads": {**rows, **changes}}


LATER_MS = round(LOOKED_AGAIN_S * 1000)


@pytest.mark.parametrize(
    ("told", "now_ms", "is_running", "known", "text"),
    [
        (groups(0), NOW_MS, True, (0, "exact"), "0 records"),
        (groups(1), NOW_MS, True, (1, "exact"), "1 record, by 1 group"),
        (groups(0, moving=2), NOW_MS, True, (0, "bound"), "at least 0 records"),
        (groups(7, unknown=1), NOW_MS, True, (7, "bound"), "at least 7 records, by 1 group"),
        (groups(0, unknown=1), NOW_MS, True, (None, "not_known"), "not known"),
        (groups(7), NOW_MS, False, (7, "bound"), "at least 7 records, by 1 group"),
        (groups(0), NOW_MS, False, (None, "not_known"), "not known"),
        (groups(0), NOW_MS + LATER_MS, True, (None, "not_known"), "not known"),
        (groups(7), NOW_MS + LATER_MS, True, (7, "bound"), "at least 7 records, by 1 group"),
    ],
)
def test_rereads_by_the_drivers_report(
    told: dict[str, Any],
    now_ms: int,
    is_running: bool,
    known: tuple[int | None, str],
    text: str,
) -> None:
    found = rereads_of({"groups": told}, now_ms, is_running=is_running)
    assert found is not None
    assert ((found.records, found.truth), found.text()) == (known, text)
    assert found.at_ms == NOW_MS - 3_000


@pytest.mark.parametrize("driver", [{}, {"groups": {}}, {"groups": {"last_turn_ms": 5}}])
def test_a_driver_that_tells_nothing_of_groups_is_not_taken_for_none(
    driver: dict[str, Any],
) -> None:
    assert rereads_of(driver, NOW_MS, is_running=True) is None
    assert rereads_of({"groups": {**groups(0), "last_turn_ms": 0}}, NOW_MS, is_running=True) is None


def test_status_tells_both() -> None:
    status, _ = seen(Case(BEHIND, TEN, {"groups": groups(4, moving=1)}))
    assert status.rereads == Rereads(4, "bound", 1, 0, NOW_MS - 3_000, {"g": 4}, True)
    assert status.loss_in_words() == (
        "would be lost now: 10 records, the oldest 7.0 s old; "
        "groups would read again: at least 4 records, by 1 group"
    )
    row = status.to_json()
    assert row["would_be_lost"] == {"records": 10, "age_s": 7.0, "truth": "exact"}
    json.dumps(row)
