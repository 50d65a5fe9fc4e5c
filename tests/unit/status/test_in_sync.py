"""When a link is in sync: not while anything is missing for long, silent, or not known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from heliostat.cli.view import plain_line, sync_lines
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState, RoundReport
from heliostat.records.transport.progress_reports import encode_progress
from heliostat.status.alarms import Alarms
from heliostat.status.board import StatusBoard
from heliostat.status.lag import BothEnds
from heliostat.status.snapshot import FIRST_REPORT_WITHIN_S, SILENT_AFTER_S
from heliostat.status.values import WHY_MAX, LinkStatus

NOW_MS = 1_700_000_000_000
COPYING, GAP, STARTING = PartitionState.COPYING, PartitionState.GAP, PartitionState.STARTING


def row(
    position: int,
    end: int,
    *,
    topic: str = "t",
    state: PartitionState = COPYING,
    last_ms: int = -1,
    level_ms: int = -1,
    missing_ms: int = -1,
) -> PartitionReport:
    partition = TopicPartition(TopicName(topic), PartitionId(0))
    return PartitionReport(
        source=partition,
        target=partition,
        state=state,
        position=position,
        high_watermark=end,
        records=0,
        bytes=0,
        last_timestamp_ms=last_ms,
        caught_up_ms=level_ms,
        since_ms=NOW_MS,
        missing_ms=missing_ms,
    )


def texts(alarms: Alarms | None) -> dict[str, str]:
    """The lines about a link that runs."""
    assert alarms is not None
    return {key: alarm.text for key, alarm in alarms.by_key.items()}


class Link:
    """A board, fed by a driver and its only lane."""

    def __init__(self) -> None:
        self.board = StatusBoard(LinkName("l"))

    def lane(self, *rows: PartitionReport, at_ms: int = NOW_MS, its_round: int = 0) -> None:
        report = RoundReport(LaneId(0), 1, its_round, 0, 0, "", [], [])
        count = len(rows)
        report.lane_partitions, report.plan = count, report.generation
        for record in encode_progress(report, rows, at_ms, is_whole=True):
            self.board.consume("lane/0", json.loads(record))

    def driver(self, at_ms: int = NOW_MS, **more: Any) -> None:
        told = {"state": "running", "at_ms": at_ms, "turns": 3, "generations": {"0": 1}}
        self.board.consume("driver", {**told, "instance": "a", **more})

    def status(self, at_ms: int = NOW_MS) -> LinkStatus:
        return self.board.status(at_ms)

    def why(self, max_lag_s: float = 10.0, at_ms: int = NOW_MS) -> list[str]:
        return self.status(at_ms).why_not_in_sync(max_lag_s)


def test_a_busy_link_is_in_sync_within_the_allowed_lag() -> None:
    """Given records of the last seconds / then in sync by default, not with a smaller limit."""
    link = Link()
    link.driver()
    link.lane(row(100, 150, missing_ms=NOW_MS - 3_000))
    assert link.why() == []
    assert link.why(2.0) == ["t lags by 50 records, 3.0 s"]
    assert "in sync: at most 10.0 s behind" in sync_lines(link.status(), 10.0).plain
    assert "not in sync: t lags" in sync_lines(link.status(), 2.0).plain
    told = link.status().to_json(2.0)
    assert (told["in_sync"], told["why_not_in_sync"]) == (False, ["t lags by 50 records, 3.0 s"])


def test_offsets_of_groups_that_the_target_refuses_are_missing_there() -> None:
    link = Link()
    link.driver(groups={"groups": 2, "refused": 3})
    link.lane(row(9, 9))
    assert link.why() == ["the target refuses 3 offsets of groups (heliostat groups)"]
    link.driver(groups={"groups": 2, "refused": 0})
    assert link.why() == []


def test_an_unknown_lag_is_not_zero() -> None:
    """Given a start: nothing, then no position, then no age / when asked / then not in sync."""
    link = Link()
    link.driver(partitions=1)
    assert link.why() == ["the lag of 1 partitions is unknown"]
    for item in (row(-1, -1, state=STARTING), row(5, -1)):
        link.lane(item)
        status = link.status()
        assert (status.unknown, status.lag_records, status.lag_s) == (1, None, None)
        assert link.why()
        assert "lag ? rec, ?" in plain_line(status)
    link.lane(row(5, 9))  # its age was not looked up yet
    assert link.why() == ["t lags by 4 records"]
    assert "lag 4 rec, ?" in plain_line(link.status())
    link.lane(row(9, 9))
    assert (link.why(), link.status().unknown) == ([], 0)


def test_a_silent_lane_is_reported_though_its_driver_reports() -> None:
    """Given a frozen worker / when its driver still reports / then not in sync."""
    link = Link()
    link.driver()
    link.lane(row(9, 9))
    late_ms = NOW_MS + round(SILENT_AFTER_S * 1000) + 2_000
    link.driver(late_ms)
    status = link.status(late_ms)
    assert (status.state, status.states, status.unknown) == ("running", {"silent": 1}, 1)
    [trouble] = status.troubles
    assert trouble.startswith("lane 0 has not reported for 12 s")
    assert trouble in status.why_not_in_sync()
    assert texts(link.board.alarms(late_ms)) == {"lane 0": trouble}
    link.lane(row(9, 9), at_ms=late_ms)
    assert (link.why(at_ms=late_ms), texts(link.board.alarms(late_ms))) == ([], {})


def test_a_lane_that_never_reported_is_reported_after_a_while() -> None:
    """Given a lane that Spark has no room for / when nothing comes / then a problem; never in sync.

    A worker that compiles its code first is none.
    """
    link = Link()
    link.driver(partitions=1)
    late_ms = NOW_MS + round(FIRST_REPORT_WITHIN_S * 1000)
    link.driver(late_ms, partitions=1)
    assert link.status(late_ms).troubles == []
    assert link.why(at_ms=late_ms) == ["the lag of 1 partitions is unknown"]
    link.driver(late_ms + 1, partitions=1)
    [trouble] = link.status(late_ms + 1).troubles
    assert trouble.startswith("lane 0 has not begun after 30 s: Spark has no core for it")


def test_a_lane_that_waits_for_its_turn_says_so_at_once() -> None:
    """Given more lanes than places / then that is what the status says, and one line of the log."""
    link = Link()
    turns = {"waiting": {"0": "waits for its turn"}, "places": "Spark runs 2 lanes at once"}
    link.driver(partitions=1, **turns)
    assert link.status().troubles == ["lane 0 waits for its turn: Spark runs 2 lanes at once"]
    assert link.why()[0] == "lane 0 waits for its turn: Spark runs 2 lanes at once"


def test_lanes_of_the_previous_owner_do_not_count() -> None:
    """Given reports of a killed driver / when its successor's lanes have not reported / then so."""
    link = Link()
    link.lane(row(9, 9))
    claimed = {"claim": 2, "instance": "b", "generations": {"0": 2_000_000_001}}
    late_ms = NOW_MS + round(FIRST_REPORT_WITHIN_S * 1000) + 1
    link.driver(**claimed)
    link.driver(late_ms, **claimed)
    link.lane(row(9, 9), at_ms=late_ms)  # the old lane's last words
    assert len(link.status(late_ms).troubles) == 1


def test_what_a_former_driver_copied_says_nothing_of_this_ones_partitions() -> None:
    """Given another selection of as many partitions / then not in sync until a lane has reported.

    What the former driver's lanes said of other topics is level, as both logs' ends show.
    """
    link, ends = Link(), {row(9, 9).source: BothEnds(9, 9)}
    link.lane(replace(row(9, 9), target_end=9))
    claimed = {"claim": 2, "instance": "b", "generations": {"0": 2_000_000_001}}
    link.driver(**claimed, partitions=1)
    status = link.board.status(NOW_MS, ends)
    assert status.topics[0].lag_records == 0
    assert status.why_not_in_sync() == ["the lag of 1 partitions is unknown"]
    assert status.would_be_lost.truth == "not_known"
    link.driver(**{**claimed, "state": "ended"}, partitions=1)
    assert link.board.status(NOW_MS, ends).lag_records == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"troubles": ["no topic is selected"]}, ["no topic is selected"]),
        ({"refused": {"x": "why"}}, ["1 topics are refused"]),
        ({"turns": 0}, ["the driver has not looked at the topics yet"]),
        ({"state": "ended"}, ["the link has no owner: no driver runs it"]),
    ],
)
def test_the_drivers_report_counts(more: dict[str, Any], why: list[str]) -> None:
    link = Link()
    link.driver(**more)
    link.lane(row(9, 9))
    assert link.why() == why


def test_a_hanging_transaction_is_not_in_sync_and_is_named() -> None:
    held = {
        "source": "t",
        "partition": 0,
        "first": 5,
        "records": 25,
        "producer_id": 77,
        "transactional_id": "writer",
        "since_ms": NOW_MS - 42_000,
    }
    link = Link()
    link.driver(held_back=[held])
    link.lane(row(9, 9))
    words = (
        "t-0: a transaction of producer 77 (writer) is open since offset 5, 42 s, and holds back "
        "25 records"
    )
    assert link.why() == [words]
    assert list(texts(link.board.alarms(NOW_MS)).values()) == [words]
    assert link.why(60.0) == []


def test_age_is_that_of_the_oldest_missing_record() -> None:
    """Given what becomes known in turn / when asked / then never less than the true age."""
    link = Link()
    link.driver()
    link.lane(row(5, 9, level_ms=NOW_MS, last_ms=NOW_MS, missing_ms=NOW_MS - 3_600_000))
    assert link.status().lag_s == 3600.0  # not since when this round has seen it
    link.lane(row(-1, -1, state=STARTING), its_round=1)
    assert link.status().lag_s == 3600.0  # of the round before
    link.lane(row(6, 9, state=GAP, last_ms=NOW_MS - 3_000, missing_ms=NOW_MS - 8_000), its_round=1)
    assert link.status().lag_s == 8.0
    link.lane(row(2, 9, last_ms=NOW_MS - 3_000), its_round=1)
    assert link.status().lag_s is None


def test_of_thousands_of_topics_a_few_are_named() -> None:
    link = Link()
    link.driver()
    link.lane(*(row(1, 9, topic=f"t{n:03}", last_ms=1) for n in range(WHY_MAX + 7)))
    why = link.why()
    assert len(why) == WHY_MAX + 1
    assert why[-1] == "and 7 more topics lag"
