"""The status built from reports: rates, lag, problems, silence."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.cli.view import plain_line, problem_lines
from heliostat.errors import ConnectionLost
from heliostat.names import LaneId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.ops.request_times import SIDE_NUMBERS
from heliostat.records.copier.lane import LineUse, PartitionReport, PartitionState, RoundReport
from heliostat.records.transport.progress_reports import encode_progress
from heliostat.status.board import StatusBoard, unreachable
from heliostat.status.snapshot import SILENT_AFTER_S
from heliostat.wishes.reading import Remembered, report_of
from heliostat.wishes.restarts import Phase, RestartMemory
from heliostat.wishes.wish import Wishes

NOW_MS = 1_700_000_000_000


def row(position: int, end: int, *, size: int = 0, state: PartitionState, reason: str = ""):
    partition = TopicPartition(TopicName("t"), PartitionId(0))
    return PartitionReport(
        source=partition,
        target=partition,
        state=state,
        position=position,
        high_watermark=end,
        records=position,
        bytes=size,
        last_timestamp_ms=NOW_MS - 4_000,
        caught_up_ms=NOW_MS - 2_000,
        since_ms=NOW_MS,
        missing_ms=NOW_MS - 2_000,
        code="X" if reason else "",
        reason=reason,
    )


def consume(board: StatusBoard, at_ms: int, item: PartitionReport, round_number: int = 0) -> None:
    report = RoundReport(LaneId(0), 1, round_number, 0, 0, "", [item], [0, 3])
    report.lane_partitions, report.plan = 1, report.generation
    for record in encode_progress(report, [item], at_ms, is_whole=True):
        board.consume("lane/0", json.loads(record))


def test_rates_come_from_two_reports_and_lag_from_the_newest() -> None:
    """Given two reports five seconds apart / when asked / then rates, lag and its age."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS - 5_000, row(100, 100, size=1_000, state=PartitionState.COPYING))
    consume(board, NOW_MS, row(600, 700, size=51_000, state=PartitionState.COPYING))
    status = board.status(NOW_MS)
    assert (status.records_per_s, status.bytes_per_s) == (100.0, 10_000.0)
    assert (status.lag_records, status.lag_s) == (100, 2.0)
    assert status.state == "running"
    assert not status.is_in_sync(max_lag_s=1.0)


def test_requests_of_rounds_that_follow_each_other_add_up() -> None:
    """A round counts from zero; each report tells all that it has counted."""
    board, numbers = StatusBoard(LinkName("l")), 2 * SIDE_NUMBERS
    for round_number, count in ((0, 5), (0, 7), (1, 2), (1, 4)):
        report = RoundReport(LaneId(0), 1, round_number, 0, 0, "", [])
        report.requests = [count] * numbers
        for record in encode_progress(report, [], NOW_MS, is_whole=True):
            board.consume("lane/0", json.loads(record))
    assert board.totals().requests == [7 + 4] * numbers


def test_the_lines_of_all_lanes_that_report_are_one() -> None:
    """The farthest broker of any lane, and all bytes; not of lanes that are silent or stopped."""
    board = StatusBoard(LinkName("l"))
    assert board.status(NOW_MS).source_line is None
    for lane, at_ms, target_line in (
        (0, NOW_MS, LineUse(2, 300)),
        (1, NOW_MS, None),
        (2, NOW_MS - int(SILENT_AFTER_S * 1000) - 1, LineUse(900, 9)),
    ):
        report = RoundReport(LaneId(lane), 1, 0, 0, 0, "", [])
        report.source_line, report.target_line = LineUse(150 + lane, 1_000), target_line
        for record in encode_progress(report, [], at_ms, is_whole=True):
            board.consume(f"lane/{lane}", json.loads(record))
    status = board.status(NOW_MS)
    assert (status.source_line, status.target_line) == (LineUse(151, 2_000), LineUse(2, 300))
    assert "source 151 ms away, 2.0 kB on the line" in plain_line(status)
    assert status.to_json()["target_line"] == {"round_trip_ms": 2, "in_flight_bytes": 300}
    board.consume("driver", {"state": "ended", "at_ms": NOW_MS})
    assert board.status(NOW_MS).target_line is None


def test_a_link_that_has_just_stopped_has_no_rate() -> None:
    """Given reports of a moment ago / when the driver has stopped since / then rates are zero."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS - 5_000, row(100, 100, size=1_000, state=PartitionState.COPYING))
    consume(board, NOW_MS, row(600, 600, size=51_000, state=PartitionState.COPYING))
    board.consume("driver", {"state": "ended", "at_ms": NOW_MS})
    status = board.status(NOW_MS)
    assert (status.state, status.records_per_s, status.bytes_per_s) == ("no_owner", 0.0, 0.0)


def test_counters_that_restart_with_a_round_give_no_negative_rate() -> None:
    """Given a report of the next round / when asked / then no rate is below zero."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS - 5_000, row(100, 100, size=90_000, state=PartitionState.COPYING))
    consume(board, NOW_MS, row(110, 110, size=500, state=PartitionState.COPYING), round_number=1)
    status = board.status(NOW_MS)
    assert status.bytes_per_s == 100.0
    assert status.is_in_sync()


def test_lanes_get_rates_that_outlast_a_round() -> None:
    """Given 10 records a second over four rounds / when asked / then about that many."""
    board = StatusBoard(LinkName("l"))
    for second in range(120):
        item = row(10 * (second % 30), 900, state=PartitionState.COPYING)
        consume(board, NOW_MS + second * 1000, item, round_number=second // 30)
    partition = TopicPartition(TopicName("t"), PartitionId(0))
    specs: list[Any] = [SimpleNamespace(source=partition)]
    [(place, rate)] = board.rates(specs)
    assert place == 0
    assert 8.0 < rate < 11.0
    specs[0] = SimpleNamespace(source=TopicPartition(TopicName("other"), PartitionId(0)))
    assert board.rates(specs) == ()


def test_a_stopped_partition_is_a_problem_with_its_reason() -> None:
    """Given a blocked partition / when asked / then it is named and the link not in sync."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS, row(5, 9, state=PartitionState.BLOCKED, reason="a hole"))
    status = board.status(NOW_MS)
    [problem] = status.problems
    assert (problem.state, problem.reason, problem.position) == ("blocked", "a hole", 5)
    assert problem.is_stopped
    assert not status.is_in_sync()


def test_a_retried_partition_is_a_problem_that_needs_nobody() -> None:
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS, row(5, 9, state=PartitionState.RETRYING, reason="no leader"))
    [problem] = board.status(NOW_MS).problems
    assert not problem.is_stopped


def test_silence_is_reported() -> None:
    """Given no report for long / when asked / then silent, and its rates are not shown."""
    board = StatusBoard(LinkName("l"))
    assert board.status(NOW_MS).state == "unknown"
    consume(board, NOW_MS - 5_000, row(0, 9, state=PartitionState.COPYING))
    consume(board, NOW_MS, row(9, 9, size=900, state=PartitionState.COPYING))
    late_ms = NOW_MS + int(SILENT_AFTER_S * 1000) + 1
    status = board.status(late_ms)
    assert (status.state, status.records_per_s) == ("silent", 0)


def test_a_stopped_driver_is_reported() -> None:
    """Given the driver's last report / when asked / then stopped."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS, row(9, 9, state=PartitionState.COPYING))
    drift = {"count": 1, "mirrors": 1}
    report = {"state": "ended", "at_ms": NOW_MS, "refused": {"x": "why"}, "drift": drift}
    board.consume("driver", report)
    assert board.status(NOW_MS).drift == drift
    status = board.status(NOW_MS)
    assert (status.state, status.refused) == ("no_owner", {"x": "why"})


def test_a_heartbeat_ages_while_the_driver_is_silent() -> None:
    board = StatusBoard(LinkName("l"))
    board.consume("driver", {"state": "running", "at_ms": NOW_MS})
    assert board.status(NOW_MS).heartbeat_age_s is None
    for beat_ms, age_s in ((None, None), (NOW_MS - 400, 5.4)):
        beat = {"heartbeat": {"timestamp_ms": beat_ms}}
        board.consume("driver", {"state": "running", "at_ms": NOW_MS, "interchange": beat})
        assert board.status(NOW_MS + 5000).heartbeat_age_s == age_s


def test_open_transactions_are_reported_apart_from_the_lag() -> None:
    """Given a mapped partition with an open transaction / when asked / then each by itself."""
    board = StatusBoard(LinkName("l"))
    item = row(600, 700, state=PartitionState.COPYING)
    item.open_records, item.breaks = 90, 3
    consume(board, NOW_MS, item)
    status = board.status(NOW_MS)
    assert (status.lag_records, status.open_records, status.mapped) == (10, 90, 1)
    assert "1 mapped" in plain_line(status)
    assert "90 rec in open transactions" in plain_line(status)


def driver(**loop: Any) -> dict[str, Any]:
    found = {
        "name": "l refresh",
        "last_good_s_ago": 41.2,
        "failures_in_a_row": 0,
        "last_error": "",
        "is_stale": False,
        **loop,
    }
    return {"state": "running", "at_ms": NOW_MS, "turns": 3, "loops": [found]}


@pytest.mark.parametrize(
    ("loop", "troubles"),
    [
        ({}, []),
        ({"failures_in_a_row": 1, "last_error": "gone"}, ["l refresh: gone"]),
        ({"is_stale": True}, ["l refresh: no turn was completed for 41 s"]),
        (
            {"failures_in_a_row": 2, "last_error": "gone", "is_stale": True},
            ["l refresh: gone"],
        ),
    ],
)
def test_a_loop_that_fails_or_hangs_is_a_problem_of_the_link(
    loop: dict[str, Any], troubles: list[str]
) -> None:
    """Given a link in sync / when a loop of the driver fails or hangs / then not in sync."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS, row(100, 100, state=PartitionState.COPYING))
    board.consume("driver", driver(**loop))
    status = board.status(NOW_MS)
    assert status.troubles == troubles
    assert status.is_in_sync() is not bool(troubles)
    assert [line.plain for line in problem_lines(status)] == troubles


def test_loops_of_a_stopped_driver_are_no_problem() -> None:
    board = StatusBoard(LinkName("l"))
    board.consume("driver", {**driver(is_stale=True), "state": "ended"})
    assert board.status(NOW_MS).troubles == []


def test_an_unanswering_target_is_not_in_sync() -> None:
    status = unreachable(LinkName("l"), NOW_MS, ConnectionLost("gone"))
    assert (status.state, status.is_in_sync()) == ("unreachable", False)
    assert "gone" in status.troubles[0]


def test_what_is_steered_is_counted_and_figures_are_not() -> None:
    """Given reports of a driver / when only figures are others / then nothing has changed."""
    board = StatusBoard(LinkName("l"))
    order = {"id": "a", "stage": "begun"}
    reports: tuple[tuple[dict[str, Any], int], ...] = (
        ({"instance": "a"}, 1),
        ({"instance": "a", "at_ms": NOW_MS, "turns": 9}, 1),
        ({"instance": "a", "wishes": {"answered": 1, "orders": [order]}}, 2),
        ({"instance": "a", "wishes": {"answered": 1, "orders": [{**order, "stage": "done"}]}}, 3),
        ({"instance": "b", "wishes": {"answered": 1, "orders": [{**order, "stage": "done"}]}}, 4),
    )
    for report, changes in reports:
        board.consume("driver", {"state": "running", **report})
        assert board.changes == changes, report


SAID = {"by": "ann", "at_ms": 5, "why": "so"}
WISHED: dict[str, Any] = {
    "link": {"state": "paused", **SAID},
    "paused": [{"place": "t-0", "state": "paused", **SAID}],
    "paused_count": 1,
    "limits": [{"topic": None, "bytes_per_second": 5_000, **SAID}],
    "preferences": [{"topics": "t", "priority": "high", **SAID}],
}


def remember(board: StatusBoard, end: int = 9, **wishes: Any) -> None:
    board.know_remembered(Remembered(None, None, {**NONE_WISHED, **wishes}, Offset(end)))


NONE_WISHED = report_of(Wishes())


@pytest.mark.parametrize("driver", [None, {"state": "ended"}, {"state": "running", "at_ms": 1}])
def test_wishes_of_a_link_without_a_driver_are_shown_as_waiting(driver: Any) -> None:
    """Given no driver, or one that ended or is silent / when its link is paused, limited and so on

    then all of it is shown with the reason why it waits; once it reports, its word counts.
    """
    board = StatusBoard(LinkName("l"))
    if driver is not None:
        board.consume("driver", {**driver, "wishes": {"answered": 4, **NONE_WISHED}})
    changes = board.changes
    assert board.status(NOW_MS).wish_waits == ""
    remember(board, **WISHED)
    status = board.status(NOW_MS)
    assert status.state in {"unknown", "no_owner", "silent"}
    assert (status.wish, status.paused, status.paused_count) == (
        WISHED["link"],
        WISHED["paused"],
        1,
    )
    assert status.limits == [{**WISHED["limits"][0], "used_bytes_per_second": 0, "throttled_s": 0}]
    assert status.preferences == WISHED["preferences"]
    reason = "does not report" if status.state == "silent" else "no owner now"
    assert reason in status.wish_waits
    assert f"paused, as ann wishes (so), waits: {status.wish_waits}" in plain_line(status)
    assert board.changes == changes + 1
    running = {"state": "running", "at_ms": NOW_MS, "wishes": {"answered": 9, **WISHED}}
    board.consume("driver", running)
    assert (board.status(NOW_MS).state, board.status(NOW_MS).wish_waits) == ("paused", "")


def test_what_a_former_driver_carried_out_does_not_wait() -> None:
    """Given a link that was paused by its driver, which then ended / then no wish waits;

    one to go on does, and what was remembered before the driver's last report does not count.
    """
    board = StatusBoard(LinkName("l"))
    board.consume("driver", {"state": "ended", "wishes": {"answered": 6, **WISHED}})
    remember(board, end=7, **WISHED)
    assert board.status(NOW_MS).wish_waits == ""
    remember(board, end=8)
    status = board.status(NOW_MS)
    assert (status.wish, status.paused_count) == (None, 0)
    assert "what is wished waits: the link has no owner" in plain_line(status)
    remember(board, end=6)
    assert board.status(NOW_MS).wish == WISHED["link"]


def test_a_wish_for_a_link_that_has_halted_waits_for_its_restart() -> None:
    board = StatusBoard(LinkName("l"))
    memory = RestartMemory(Phase.GAVE_UP, reason="x")
    board.know_remembered(Remembered(memory, None, {**NONE_WISHED, **WISHED}, Offset(3)))
    status = board.status(NOW_MS)
    assert (status.state, status.wish) == ("halted", WISHED["link"])
    assert "once it begins again" in status.wish_waits
