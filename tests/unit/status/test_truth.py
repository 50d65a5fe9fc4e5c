"""What is true of a link, and what status, view, log, exit code and plugin say, while it lasts.

A row is a fault as the reports tell it. In none of them may what is not known look like zero.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from heliostat.cli.view import plain_line, topic_rows
from heliostat.errors import ConnectionLost
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.ops.events import Events
from heliostat.records.copier.lane import PartitionReport, PartitionState, RoundReport
from heliostat.records.transport.progress_reports import encode_progress
from heliostat.status.board import StatusBoard, unreachable
from heliostat.status.changes import Changes
from heliostat.status.lag import BothEnds
from heliostat.status.nagios import Service, nagios_line, service_of
from heliostat.status.snapshot import DRIVER_SILENT_AFTER_S
from heliostat.status.values import LinkStatus
from heliostat.wishes.wish import Place, Wish, WishedState

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
P = TopicPartition(TopicName("t"), PartitionId(0))
DRIVER = {
    "state": "running",
    "at_ms": NOW_MS,
    "turns": 3,
    "generations": {"0": 1},
    "instance": "a",
    "owner": {"host": "summit", "pid": 7, "since_ms": NOW_MS - HOUR_MS},
    "partitions": 1,
}
LEVEL = PartitionReport(P, P, PartitionState.COPYING, 9, 9, 0, 0, -1, NOW_MS, NOW_MS, target_end=9)
LATE_S = DRIVER_SILENT_AFTER_S + 1


def partition(**changes: Any) -> PartitionReport:
    return replace(LEVEL, **changes)


def failed(lately: int, ago_s: float) -> dict[str, Any]:
    """The driver's report of a lane of which rounds have failed."""
    row = {"lane": 0, "rounds": 9, "failures_in_a_row": lately, "last_error": "boom"}
    told = {"failed_lately": lately, "failed_s_ago": ago_s, "why_failed": "boom"}
    return {"rounds": [{**row, **told}]}


@dataclass(frozen=True)
class Case:
    """One fault."""

    report: PartitionReport | None = field(default_factory=lambda: LEVEL)
    driver: dict[str, Any] | None = None
    """Changes of the driver's report; None: there is none."""
    lane_ago_s: float = 0.0
    """How long ago the lane reported."""
    now_ms: int = NOW_MS
    ends: BothEnds | None = None
    """What a status reads from both logs."""
    lag: int | None = 0
    age_s: float | None = 0.0
    unknown: int = 0
    state: str = "running"
    partition: str = "copying"
    line: str = "lag 0 rec, 0.0 s"
    why: str = ""
    log: str = ""
    service: Service = Service.OK


RETRYING, PAUSED = PartitionState.RETRYING, PartitionState.PAUSED


def wished(state: str) -> dict[str, Any]:
    wish = Wish(Place(), WishedState(state), "ops", NOW_MS - 60_000, "the disk is full")
    return {"link": wish.to_json(), "paused": [], "paused_count": 0}


UNKNOWN: dict[str, Any] = {"lag": None, "age_s": None, "unknown": 1, "line": "lag ? rec, ?"}
CASES = {
    "level": Case(driver={}),
    "old records just written": Case(
        partition(high_watermark=1_400_009, missing_ms=NOW_MS - HOUR_MS),
        driver={},
        lag=1_400_000,
        age_s=3600.0,
        line="lag 1,400,000 rec, 60 min",
        why="t lags by 1,400,000 records, 3,600.0 s",
        service=Service.WARNING,
    ),
    "an age that was not looked up": Case(
        partition(high_watermark=12),
        driver={},
        lag=3,
        age_s=None,
        line="lag 3 rec, ?",
        why="t lags by 3 records",
        service=Service.WARNING,
    ),
    "the source hangs": Case(
        partition(state=RETRYING, code="X", reason="b1 hangs", is_end_old=True),
        driver={},
        **UNKNOWN,
        partition="retrying",
        why="the lag of 1 partitions is unknown",
        log="t-0 is retrying [X]: b1 hangs",
        service=Service.WARNING,
    ),
    "the source hangs while some is missing": Case(
        partition(
            state=RETRYING,
            code="X",
            reason="b1 hangs",
            is_end_old=True,
            high_watermark=12,
            missing_ms=NOW_MS - 20_000,
        ),
        driver={},
        lag=3,
        age_s=20.0,
        unknown=1,
        line="lag ≥ 3 rec, ≥ 20.0 s",
        partition="retrying",
        why="t lags by 3 records, 20.0 s",
        log="b1 hangs",
        service=Service.WARNING,
    ),
    "paused": Case(
        partition(state=PAUSED, high_watermark=12, missing_ms=NOW_MS - 20_000),
        driver={"wishes": wished("paused")},
        lag=3,
        age_s=20.0,
        line="as ops wishes (the disk is full)",
        state="paused",
        partition="paused",
        why="the link is paused, as ops wishes, the disk is full\n3 records are missing",
        service=Service.WARNING,
    ),
    "limits and priorities": Case(
        driver={
            "wishes": {
                "limits": [
                    {"topic": None, "bytes_per_second": 20_000_000},
                    {"topic": "t", "bytes_per_second": 5_000},
                ],
                "preferences": [{"topics": "a.*", "priority": "high"}],
            }
        },
        line="limited to 20 MB/s, 1 topic limited, 1 priority",
    ),
    "one topic is paused, and level": Case(
        partition(state=PAUSED),
        driver={"wishes": {"link": None, "paused": [], "paused_count": 1}},
        line="1 paused by name",
        partition="paused",
    ),
    "stopped as wished, and both logs were read": Case(
        driver={"wishes": wished("stopped"), "generations": {}},
        ends=BothEnds(12, 9, NOW_MS - 20_000),
        lag=3,
        age_s=20.0,
        line="lag 3 rec, 20.0 s",
        state="stopped",
        partition="stopped",
        why="the link is stopped, as ops wishes",
        service=Service.WARNING,
    ),
    "paused, and its driver has ended": Case(
        driver={"wishes": wished("paused"), "state": "ended"},
        **UNKNOWN,
        state="no_owner",
        partition="stopped",
        why="the link has no owner: no driver runs it",
        service=Service.CRITICAL,
    ),
    "its driver has ended": Case(
        driver={"state": "ended"},
        **UNKNOWN,
        state="no_owner",
        partition="stopped",
        why="the link has no owner: no driver runs it",
        service=Service.CRITICAL,
    ),
    "stopped, and both logs were read": Case(
        driver={"state": "ended"},
        ends=BothEnds(27_009, 9, NOW_MS - 8 * 60_000),
        lag=27_000,
        age_s=480.0,
        line="lag 27,000 rec, 8 min",
        state="no_owner",
        partition="stopped",
        why="27000 records are missing, the oldest 480 s old",
        service=Service.CRITICAL,
    ),
    "stopped, and level by both logs": Case(
        driver={"state": "ended"},
        ends=BothEnds(9, 9),
        state="no_owner",
        partition="stopped",
        why="the link has no owner: no driver runs it",
        service=Service.CRITICAL,
    ),
    "the driver is dead": Case(
        driver={},
        now_ms=NOW_MS + int(LATE_S * 1000),
        **UNKNOWN,
        state="silent",
        partition="silent",
        why="the link is silent",
        service=Service.CRITICAL,
    ),
    "the driver is dead, and its lanes went on": Case(
        driver={},
        now_ms=NOW_MS + int(LATE_S * 1000),
        ends=BothEnds(109, 59),
        lag=50,
        age_s=None,
        line="lag 50 rec, ?",
        state="silent",
        partition="silent",
        why="50 records are missing",
        service=Service.CRITICAL,
    ),
    "the driver is dead, and offsets differ": Case(
        partition(target_end=5, breaks=1),
        driver={},
        now_ms=NOW_MS + int(LATE_S * 1000),
        ends=BothEnds(109, 59),
        **UNKNOWN,
        state="silent",
        partition="silent",
        why="the link is silent",
        service=Service.CRITICAL,
    ),
    "the source was recreated while stopped": Case(
        driver={"state": "ended"},
        ends=BothEnds(3, 9),
        **UNKNOWN,
        state="no_owner",
        partition="stopped",
        why="the link has no owner: no driver runs it",
        service=Service.CRITICAL,
    ),
    "never started": Case(
        None,
        lag=None,
        age_s=None,
        line="lag ? rec, ?",
        state="unknown",
        partition="",
        why="the link is unknown",
        service=Service.UNKNOWN,
    ),
    "nothing reported yet": Case(
        None,
        driver={},
        **UNKNOWN,
        partition="",
        why="the lag of 1 partitions is unknown",
        service=Service.WARNING,
    ),
    "each round fails after its first report": Case(
        driver=failed(4, 3.0),
        **UNKNOWN,
        partition="retrying",
        why="lane 0: 4 rounds within a minute failed: boom",
        log="lane 0: 4 rounds within a minute failed: boom",
        service=Service.CRITICAL,
    ),
    "a worker is killed again and again": Case(
        driver=failed(2, 5.5),
        **UNKNOWN,
        partition="retrying",
        why="lane 0: 2 rounds within a minute failed: boom",
        log="boom",
        service=Service.CRITICAL,
    ),
    "a round failed and none followed": Case(
        driver=failed(1, 1.0),
        lane_ago_s=2.0,
        **UNKNOWN,
        partition="retrying",
        why="lane 0: the last round failed: boom",
        log="boom",
        service=Service.CRITICAL,
    ),
    "a round failed once and the next copies": Case(driver=failed(1, 2.0)),
    "rounds failed and one has lasted": Case(driver=failed(2, 15.1)),
    "a lane is frozen": Case(
        driver={"at_ms": NOW_MS},
        lane_ago_s=12.0,
        **UNKNOWN,
        partition="silent",
        why="lane 0 has not reported for 12 s",
        log="lane 0 has not reported for 12 s",
        service=Service.CRITICAL,
    ),
    "a stopped partition": Case(
        partition(
            state=PartitionState.BLOCKED,
            code="X",
            reason="why",
            high_watermark=12,
            missing_ms=NOW_MS - 5_000,
        ),
        driver={},
        lag=3,
        age_s=5.0,
        line="lag 3 rec, 5.0 s",
        partition="blocked",
        why="1 partitions are not copied as they should be: 1 wait for a decision",
        log="t-0 is blocked [X]: why",
        service=Service.CRITICAL,
    ),
    "a loop of the driver fails": Case(
        driver={
            "loops": [
                {
                    "name": "refresh",
                    "failures_in_a_row": 2,
                    "last_error": "no leader",
                    "is_stale": False,
                    "last_good_s_ago": 9,
                }
            ]
        },
        why="refresh: no leader",
        service=Service.CRITICAL,
    ),
    "nothing is selected": Case(
        None,
        driver={"troubles": ["no topic is selected"], "partitions": 0, "generations": {}},
        lag=None,
        age_s=None,
        line="lag ? rec, ?",
        partition="",
        why="no topic is selected",
        service=Service.CRITICAL,
    ),
}


def told(case: Case) -> tuple[LinkStatus, StatusBoard]:
    """A board that was told of the case, and the status."""
    board = StatusBoard(LinkName("l"))
    if case.report is not None:
        report = RoundReport(LaneId(0), 1, 0, 0, 0, "", [], [])
        report.lane_partitions, report.plan = 1, report.generation
        at_ms = NOW_MS - int(case.lane_ago_s * 1000)
        for record in encode_progress(report, [case.report], at_ms, is_whole=True):
            board.consume("lane/0", json.loads(record))
    if case.driver is not None:
        early_ms = NOW_MS - int(case.lane_ago_s * 1000)
        board.consume("driver", {**DRIVER, "at_ms": early_ms})
        board.consume("driver", {**DRIVER, **case.driver})
    ends = {} if case.ends is None else {P: case.ends}
    return board.status(case.now_ms, ends), board


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_told_while_a_fault_lasts(case: Case) -> None:
    status, board = told(case)
    assert (status.state, status.lag_records, status.lag_s) == (case.state, case.lag, case.age_s)
    assert status.unknown == case.unknown
    assert status.states == ({case.partition: 1} if case.partition else {})
    assert case.line in plain_line(status)
    assert case.why in "\n".join(status.why_not_in_sync())
    assert status.is_in_sync() == (not case.why)  # the exit code
    assert service_of(status, 10.0) is case.service
    as_json = json.loads(json.dumps(status.to_json()))
    assert (as_json["lag_records"], as_json["in_sync"]) == (case.lag, not case.why)
    events = Events(lambda: NOW_MS, None)
    changes = Changes(LinkName("l"), events)
    changes.look(board.problems(), case.now_ms + 10_000)
    changes.consume(board.alarms(case.now_ms))
    assert case.log in "\n".join(events.recent(9))
    if not case.log:
        assert not events.recent(9)


@pytest.mark.parametrize(
    ("reports", "age_s"),
    [
        pytest.param([(4_000, 9)], 0.02, id="on its way when it was reported"),
        pytest.param([(6_000, 8), (4_000, 9)], 0.02, id="another one on its way"),
        pytest.param([(4_000, 9), (0, None)], 0.02, id="arrived, not yet reported"),
        pytest.param([(5_000, 9), (0, None)], 5.02, id="still so when it would be reported again"),
        pytest.param([(6_000, 9), (1_000, 9)], 6.02, id="still so in the next report"),
    ],
)
def test_a_record_on_its_way_grows_no_older_by_waiting_for_a_report(
    reports: list[tuple[int, int | None]], age_s: float
) -> None:
    """Given many partitions, reported in turn / then the age is a record's, not a reading's.

    A report is how long ago it was made (ms), and the position; None: only others are in it. The
    record was written 20 ms before the first report in which it is missing.
    """
    board = StatusBoard(LinkName("l"))
    written: dict[int, int] = {}
    for number, (ago_ms, position) in enumerate(reports):
        report = RoundReport(LaneId(0), 1, 0, 0, 0, "", [], [])
        report.lane_partitions, report.plan, report.number = 1, 1, number
        rows = []
        if position is not None:
            missing_ms = written.setdefault(position, NOW_MS - ago_ms - 20)
            rows = [partition(position=position, high_watermark=10, missing_ms=missing_ms)]
        for record in encode_progress(report, rows, NOW_MS - ago_ms, is_whole=not number):
            board.consume("lane/0", json.loads(record))
    board.consume("driver", {**DRIVER, "at_ms": NOW_MS - 7_000})
    board.consume("driver", DRIVER)
    status = board.status(NOW_MS, {})
    assert status.lag_s == pytest.approx(age_s)
    assert [row.lag_s for row in board.partitions(NOW_MS)] == [status.lag_s]


def test_a_target_that_does_not_answer_has_no_lag() -> None:
    status = unreachable(LinkName("l"), NOW_MS, ConnectionLost("gone"))
    assert (status.lag_records, status.lag_s) == (None, None)
    assert "lag ? rec, ?" in plain_line(status)
    assert service_of(status, 10.0) is Service.UNKNOWN


def test_the_owner_is_named() -> None:
    assert "  on summit" in plain_line(told(CASES["level"])[0])


def test_a_topic_of_which_one_partition_is_not_known_lags_by_at_least_the_rest() -> None:
    case = CASES["old records just written"]
    status, board = told(replace(case, driver={"partitions": 2}))
    assert (status.lag_records, status.lag_s, status.unknown) == (1_400_000, 3600.0, 1)
    assert "lag ≥ 1,400,000 rec, ≥ 60 min" in plain_line(status)
    assert topic_rows(status, 9)[1][4:6] == ["1,400,000", "60 min"]
    assert topic_rows(status, 0)[1][0] == "… 1 more"
    assert len(board.to_read(NOW_MS)) == 0


def test_a_plugins_line_has_the_worst_state_and_performance_data() -> None:
    level, stopped = told(CASES["level"])[0], told(CASES["its driver has ended"])[0]
    stopped.link = "m"
    service, line = nagios_line([level, stopped], 10.0)
    assert service is Service.CRITICAL
    assert line.startswith(
        "HELIOSTAT CRITICAL - m: the link has no owner: no driver runs it | 'l_lag_records'=0;;;0"
    )
    assert "'l_lag_seconds'=0.0s;10;;0" in line
    assert "'m_lag_records'=U;;;0" in line
    assert "\n" not in line
    assert nagios_line([level], 10.0)[1].startswith("HELIOSTAT OK - 1 links in sync | ")
    assert nagios_line([], 10.0) == (Service.UNKNOWN, "HELIOSTAT UNKNOWN - 0 links in sync")
