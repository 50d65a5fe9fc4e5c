"""Thinned reports of thousands of partitions merged: rounds that overlap, plans that change."""

from __future__ import annotations

import dataclasses
import json

from unit.status.test_in_sync import texts

from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState, RoundReport
from heliostat.records.transport.progress_reports import Thinning, encode_progress
from heliostat.status.board import StatusBoard
from heliostat.status.reports import MOVED_WITHIN_S
from heliostat.status.sums import STARTING_UNSEEN_S

NOW_MS = 1_700_000_000_000


def row(
    number: int, position: int, copied: int = 0, state: PartitionState = PartitionState.COPYING
) -> PartitionReport:
    partition = TopicPartition(TopicName(f"t{number // 10}"), PartitionId(number % 10))
    return PartitionReport(
        source=partition,
        target=partition,
        state=state,
        position=position,
        high_watermark=position,
        records=copied,
        bytes=copied * 100,
        last_timestamp_ms=NOW_MS,
        caught_up_ms=NOW_MS,
        since_ms=NOW_MS,
    )


def consume(
    board: StatusBoard,
    at_ms: int,
    rows: list[PartitionReport],
    *,
    its_round: tuple[int, int] = (1, 0),
    whole: bool = False,
    lane: int = 0,
    plan: int | None = None,
    count: int | None = None,
    latency: tuple[int, ...] = (),
) -> None:
    report = RoundReport(LaneId(lane), *its_round, 0, 0, "", [], list(latency))
    total = len(rows) if count is None else count
    report.lane_partitions = total
    report.plan = report.generation if plan is None else plan
    for record in encode_progress(report, rows, at_ms, is_whole=whole):
        board.consume(f"lane/{lane}", json.loads(record))


def test_partitions_missing_from_a_report_keep_their_values() -> None:
    """Given a whole report and one of a single row / then all partitions are known."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS - 1_000, [row(n, 10) for n in range(30)], whole=True)
    consume(board, NOW_MS, [row(3, 60, 50)], count=30)
    status = board.status(NOW_MS)
    assert (status.partitions, len(status.topics)) == (30, 3)
    assert status.records_per_s == 50
    assert status.topics[0].source == "t0"
    assert board.is_complete()


def test_an_older_rounds_last_report_overwrites_nothing_but_counts() -> None:
    """Given the successor's report before the predecessor's last / then position and rate hold."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS - 2_000, [row(0, 100, 100)], its_round=(4, 4), whole=True, latency=(7,))
    consume(board, NOW_MS - 1_000, [row(0, 140, 10)], its_round=(5, 5), whole=True, latency=(1,))
    consume(board, NOW_MS, [row(0, 130, 130)], its_round=(4, 4), whole=True, latency=(10,))
    status = board.status(NOW_MS)
    assert status.records_per_s == 40 / 1.0  # 30 of the old round, 10 of the new one, in a second
    assert status.lag_records == 0
    assert status.lanes[0]["round"] == 5
    consume(board, NOW_MS, [row(0, 150, 20)], its_round=(5, 5))
    assert board.status(NOW_MS).lag_records == 0
    assert board.load()[TopicPartition(TopicName("t0"), PartitionId(0))] > 0


def test_a_partition_that_left_the_plan_does_not_come_back() -> None:
    """Given a plan without a partition / when the old round's last report has it / then gone."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS - 2_000, [row(0, 1), row(1, 1)], its_round=(1, 0), whole=True)
    consume(board, NOW_MS - 1_000, [row(0, 1)], its_round=(2, 1), whole=True)
    assert board.status(NOW_MS).partitions == 2  # another lane may have taken it
    consume(board, NOW_MS, [row(0, 1), row(1, 1)], its_round=(1, 0), whole=True)
    driver = {"state": "running", "generations": {"0": 2}}
    for passed_s, expected in ((MOVED_WITHIN_S - 1.1, 2), (MOVED_WITHIN_S, 1)):
        board.consume("driver", {**driver, "at_ms": NOW_MS + round(passed_s * 1000)})
        assert board.status(NOW_MS).partitions == expected


def test_a_partition_goes_at_once_where_all_others_have_reported() -> None:
    """Given a partition that its lane gave up, and one of a lane that ended / when the driver tells

    how many there are, and as many others have reported / then they have not moved, and are gone.
    """
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS, [row(0, 1)], its_round=(1, 0), whole=True)
    consume(board, NOW_MS, [row(1, 1), row(2, 1)], its_round=(2, 0), whole=True, lane=1)
    driver = {"state": "running", "at_ms": NOW_MS}
    board.consume("driver", {**driver, "generations": {"0": 1, "1": 2}, "partitions": 3})
    board.consume("driver", {**driver, "generations": {"1": 2}, "partitions": 3})
    assert board.status(NOW_MS).partitions == 3, "it may have moved"
    changes = board.changes
    board.consume("driver", {**driver, "generations": {"1": 2}, "partitions": 2})
    assert (board.status(NOW_MS).partitions, board.changes) == (2, changes + 1)
    board.consume("driver", {**driver, "generations": {"1": 3}, "partitions": 1})
    consume(board, NOW_MS, [row(1, 1)], its_round=(3, 1), whole=True, lane=1)
    assert (board.status(NOW_MS).partitions, board.changes) == (1, changes + 2)


def test_a_partition_that_moved_is_counted_once() -> None:
    """Given two lanes, and a partition that moves / then it belongs to the new lane only."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS - 3_000, [row(0, 1), row(1, 1)], its_round=(1, 0), whole=True)
    consume(board, NOW_MS - 3_000, [row(2, 1)], its_round=(2, 0), whole=True, lane=1)
    consume(board, NOW_MS - 2_000, [row(1, 2), row(2, 1)], its_round=(4, 1), whole=True, lane=1)
    consume(board, NOW_MS - 1_000, [row(0, 1)], its_round=(3, 1), whole=True)
    status = board.status(NOW_MS)
    assert status.partitions == 3
    assert [lane["partitions"] for lane in status.lanes] == [1, 2]


def test_rows_of_a_removed_lane_are_shown_until_another_reports() -> None:
    """Given a lane that is removed / when another reports one of its two partitions / then that."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS, [row(0, 1), row(1, 1)], its_round=(1, 0), whole=True)
    consume(board, NOW_MS, [row(2, 1)], its_round=(2, 0), whole=True, lane=1)
    driver = {"state": "running", "generations": {"1": 4}}
    board.consume("driver", {**driver, "at_ms": NOW_MS})
    assert board.status(NOW_MS).partitions == 3
    consume(board, NOW_MS + 1_000, [row(1, 2), row(2, 1)], its_round=(4, 1), whole=True, lane=1)
    board.consume("driver", {**driver, "at_ms": NOW_MS + 1_000})
    assert board.status(NOW_MS + 1_000).partitions == 3
    later_ms = NOW_MS + round(MOVED_WITHIN_S * 1000)
    board.consume("driver", {**driver, "at_ms": later_ms})
    assert board.status(later_ms).partitions == 2


def test_a_partition_that_no_lane_copies_has_none() -> None:
    """Given a lane that goes, then a driver that stops or ends / then no lane is named for it."""
    board = StatusBoard(LinkName("l"))
    driver = {"state": "running", "generations": {"0": 1, "1": 1}, "instance": "a", "claim": 1}
    board.consume("driver", {**driver, "at_ms": NOW_MS})
    first = 1 << 32
    consume(board, NOW_MS, [row(0, 1)], its_round=(first, 0), whole=True)
    consume(board, NOW_MS, [row(1, 1)], its_round=(first, 0), whole=True, lane=1)

    def lanes() -> list[int]:
        assert len(board.partitions(NOW_MS)) == 2
        return [each.lane for each in board.partitions(NOW_MS)]

    assert lanes() == [0, 1]
    board.consume("driver", {**driver, "at_ms": NOW_MS, "generations": {"1": 1}})
    assert lanes() == [-1, 1]
    wish = {"state": "stopped", "by": "me", "why": "", "at_ms": NOW_MS}
    board.consume("driver", {**driver, "at_ms": NOW_MS, "wishes": {"link": wish}})
    assert (lanes(), board.status(NOW_MS).lanes) == ([-1, -1], [])
    board.consume("driver", {**driver, "at_ms": NOW_MS})
    assert lanes() == [0, 1]
    board.consume("driver", {**driver, "at_ms": NOW_MS, "state": "ended"})
    assert (lanes(), board.status(NOW_MS).lanes) == ([-1, -1], [])


def test_rows_of_another_drivers_lanes_do_not_count() -> None:
    """Given a driver's lanes / when another one has observed all topics, and has none / then none.

    Until it has, the last report is shown, and the link is not called in sync.
    """
    board = StatusBoard(LinkName("l"))
    driver = {"state": "running", "generations": {"0": 1}, "instance": "a", "turns": 9}
    board.consume("driver", {**driver, "at_ms": NOW_MS})
    consume(board, NOW_MS, [row(0, 1)], its_round=(1, 0), whole=True)
    other = {**driver, "generations": {}, "instance": "b"}
    board.consume("driver", {**other, "at_ms": NOW_MS + 500, "turns": 0})
    status = board.status(NOW_MS + 500)
    assert (status.partitions, status.is_in_sync()) == (1, False)
    board.consume("driver", {**other, "at_ms": NOW_MS + 1_000, "turns": 1})
    status = board.status(NOW_MS + 1_000)
    assert (status.partitions, status.is_in_sync()) == (0, True)


def test_lanes_of_the_driver_before_are_not_silent_until_the_next_has_lanes() -> None:
    """Given a standby that takes over / when it has not looked at topics yet / then no alarm."""
    board = StatusBoard(LinkName("l"))
    driver = {"state": "running", "generations": {"0": 1}, "instance": "a", "turns": 9, "claim": 1}
    board.consume("driver", {**driver, "at_ms": NOW_MS - 40_000})
    consume(board, NOW_MS - 20_000, [row(0, 1)], its_round=(1, 0), whole=True)
    other = {**driver, "instance": "b", "turns": 0, "claim": 2, "generations": {}}
    board.consume("driver", {**other, "at_ms": NOW_MS})
    assert texts(board.alarms(NOW_MS)) == {}
    board.consume("driver", {**other, "at_ms": NOW_MS, "turns": 1, "generations": {"0": 1}})
    assert board.alarms(NOW_MS + 29_000) is None  # its driver is silent
    board.consume(
        "driver", {**other, "at_ms": NOW_MS + 31_000, "turns": 2, "generations": {"0": 1}}
    )
    assert list(texts(board.alarms(NOW_MS + 31_000))) == ["lane 0"]


def test_figures_stay_while_a_new_round_finds_its_positions_but_not_for_long() -> None:
    """Given rows of a new round that know nothing yet / then the old figures, later `starting`."""
    looking = row(0, -1, state=PartitionState.STARTING)
    # It has its position, and no answer of the source yet: seen with brokers under load.
    before_first_answer = dataclasses.replace(row(0, 10), high_watermark=-1)
    late_ms = NOW_MS + int(STARTING_UNSEEN_S * 1000) + 1
    for item in (looking, before_first_answer):
        board = StatusBoard(LinkName("l"))
        consume(board, NOW_MS - 1_000, [row(0, 10)], whole=True)
        consume(board, NOW_MS, [item], its_round=(1, 1), whole=True)
        status = board.status(NOW_MS)
        assert (status.states, status.unknown) == ({"copying": 1}, 0)
        status = board.status(late_ms)
        assert (status.states, status.unknown) == ({"starting": 1}, 1)


def test_generations_that_started_over_count_after_a_while() -> None:
    """Given a state that was lost / when lower generations report for long / then they count."""
    board = StatusBoard(LinkName("l"))
    consume(board, NOW_MS - 120_000, [row(0, 10)], its_round=(9, 9), whole=True)
    consume(board, NOW_MS, [row(0, 30)], its_round=(1, 0), whole=True)
    assert board.status(NOW_MS).lanes[0]["generation"] == 1
    consume(board, NOW_MS, [row(0, 40, 10)], its_round=(1, 0))
    [lane] = board.status(NOW_MS).lanes
    assert lane["heard_s_ago"] == 0


def test_a_reader_that_begins_late_knows_ten_thousand_partitions_after_half_a_minute() -> None:
    """Given two idle lanes of 5,000 / when read from 35 s back / then complete, at small cost."""
    lanes = [[row(lane * 5_000 + n, 10) for n in range(5_000)] for lane in range(2)]
    thinnings = [Thinning(), Thinning()]
    written: list[tuple[int, int, bytes]] = []
    for second in range(60):
        for lane, (thinning, rows) in enumerate(zip(thinnings, lanes, strict=True)):
            chosen = thinning.choose(rows, float(second), whole=second == 0, pause=lambda: None)
            report = RoundReport(LaneId(lane), 1, 0, 0, 0, "", [], [])
            report.lane_partitions, report.plan = 5_000, 1
            at_ms = NOW_MS + second * 1000
            written += [
                (second, lane, record)
                for record in encode_progress(report, chosen, at_ms, is_whole=second == 0)
            ]
    board = StatusBoard(LinkName("l"))
    late = [(lane, record) for second, lane, record in written if second >= 25]
    for lane, record in late:
        board.consume(f"lane/{lane}", json.loads(record))
    assert board.is_complete()
    status = board.status(NOW_MS + 59_000)
    assert (status.partitions, len(status.topics), status.is_in_sync()) == (10_000, 1_000, True)
    assert sum(len(record) for _, record in late) < 2_000_000  # whole ones: 35 MB


def test_only_reports_that_know_what_is_wanted_count_for_decisions() -> None:
    """Given a plan that treats a partition otherwise / until that has a position / then nothing.

    Reports of others, which the plan does not change, are as true as before.
    """
    board, starting = StatusBoard(LinkName("l")), PartitionState.STARTING
    one, other = row(1, 150, state=PartitionState.GAP), row(2, 7)
    consume(board, NOW_MS, [one, other], its_round=(1, 3), whole=True)
    known = {one.source: 1, other.source: 1}
    assert [r.position for r in board.reports_since(known)] == [150, 7]
    later = {one.source: 2, other.source: 1}
    assert [r.position for r in board.reports_since(later)] == [7]
    looking = row(1, -1, state=starting)
    consume(board, NOW_MS, [looking, other], its_round=(1, 3), plan=2, whole=True)
    assert [r.position for r in board.reports_since(later)] == [7]
    consume(board, NOW_MS, [one], its_round=(1, 2))
    assert [r.position for r in board.reports_since(later)] == [7]
    consume(board, NOW_MS, [row(1, 100)], its_round=(1, 3), plan=2)
    assert [r.position for r in board.reports_since(later)] == [100, 7]
    assert board.reports_since({}) == []


def test_what_a_lane_reports_is_passed_on_with_the_drivers_signs_of_life() -> None:
    board = StatusBoard(LinkName("l"))
    heard: list[RoundReport | None] = []
    board.listener = heard.append
    consume(board, NOW_MS, [row(1, 150)], its_round=(4, 3), plan=6)
    board.consume("driver", {"state": "running", "at_ms": NOW_MS})
    assert heard[1:] == [None]
    assert heard[0] is not None
    assert (heard[0].generation, heard[0].plan) == (4, 6)
