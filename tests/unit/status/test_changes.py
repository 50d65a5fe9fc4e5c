"""Log lines about partitions that stop, lanes that are silent, and the end of both."""

from __future__ import annotations

import io
from dataclasses import replace

from heliostat.names import LaneId, LinkName
from heliostat.ops.events import Events
from heliostat.records.copier.lane import PartitionState
from heliostat.status.alarms import Alarm, Alarms
from heliostat.status.changes import (
    DELETED_WITHIN_MS,
    HELD_MS,
    LISTED_MAX,
    NUMBERS_MAX,
    SETTLES_WITHIN_MS,
    Changes,
)
from heliostat.status.values import PartitionProblem

NOW_MS = 1_700_000_000_000


def problem(
    number: int = 0, state: str = "gap", code: str = "SOURCE_OVERTOOK", topic: str = "t"
) -> PartitionProblem:
    is_stopped = PartitionState(state).is_stopped
    return PartitionProblem(topic, number, state, code, "gone", NOW_MS, 5, is_stopped)


class Told:
    """Changes, and the lines that came of each look."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self.changes = Changes(LinkName("l"), Events(lambda: NOW_MS, self._out))

    def look(self, *problems: PartitionProblem, after_ms: int = 0) -> list[str]:
        self.changes.look(problems, NOW_MS + after_ms)
        return self.lines()

    def consume(self, alarms: Alarms | None) -> list[str]:
        self.changes.consume(alarms)
        return self.lines()

    def lines(self) -> list[str]:
        found = [line.split(" ", 1)[1] for line in self._out.getvalue().splitlines()]
        self._out.seek(0)
        self._out.truncate()
        return found


def test_a_stop_is_one_line_and_its_end_another() -> None:
    told = Told()
    assert told.look() == []
    assert told.look(problem()) == ["WARN link l: t-0 is at a gap [SOURCE_OVERTOOK]: gone"]
    assert told.look(problem(), after_ms=60_000) == []
    over = told.look(after_ms=61_000)
    assert over == ["INFO link l: t-0 is no longer at a gap [SOURCE_OVERTOOK], after 61 s"]
    assert told.look(problem(), after_ms=62_000) != []


def test_another_reason_is_logged_again() -> None:
    told = Told()
    told.look(problem())
    assert told.look(problem(state="diverged", code="FOREIGN_TAIL")) == [
        "WARN link l: t-0 is diverged [FOREIGN_TAIL]: gone"
    ]


def test_retries_are_logged_when_they_last() -> None:
    """A leader that moves makes thousands of partitions retry, for less than a second."""
    told = Told()
    retried = problem(state="retrying", code="NOT_LEADER_OR_FOLLOWER")
    assert told.look(retried, after_ms=SETTLES_WITHIN_MS - 1) == []
    assert told.look() == []
    assert told.look(retried, after_ms=SETTLES_WITHIN_MS) == [
        "WARN link l: t-0 is retrying [NOT_LEADER_OR_FOLLOWER]: gone"
    ]
    assert told.look(retried, after_ms=9_000) == []
    assert told.look(after_ms=9_000 + HELD_MS - 1) == []
    assert told.look(after_ms=9_000 + HELD_MS) == [
        "INFO link l: t-0 is no longer retrying [NOT_LEADER_OR_FOLLOWER], after 9 s"
    ]


def test_a_stop_that_is_briefly_retried_is_not_over() -> None:
    told = Told()
    told.look(problem())
    assert told.look(problem(state="retrying")) == []
    assert told.look(problem()) == []


def test_partitions_of_a_topic_with_the_same_problem_share_a_line() -> None:
    told = Told()
    some = [problem(2), problem(0), problem(1, state="diverged"), problem(topic="u")]
    assert told.look(*some) == [
        "WARN link l: t-0, 2 are at a gap [SOURCE_OVERTOOK]: gone",
        "WARN link l: t-1 is diverged [SOURCE_OVERTOOK]: gone",
        "WARN link l: u-0 is at a gap [SOURCE_OVERTOOK]: gone",
    ]
    assert told.look(after_ms=3_000) == [
        "INFO link l: t-0, 2 are no longer at a gap [SOURCE_OVERTOOK], after 3 s",
        "INFO link l: t-1 is no longer diverged [SOURCE_OVERTOOK], after 3 s",
        "INFO link l: u-0 is no longer at a gap [SOURCE_OVERTOOK], after 3 s",
    ]


def test_what_is_retried_with_one_code_is_one_line_and_its_end_another() -> None:
    """A broker that is away is one fact, however many topics it leads and whenever they notice."""
    told = Told()
    topics = ["t", "t", "u", "v", "w", "x"]
    retried = [
        problem(number, "retrying", "NO_ANSWER", topic) for number, topic in enumerate(topics)
    ]
    assert told.look(*retried, after_ms=SETTLES_WITHIN_MS) == [
        "WARN link l: t-0, 1; u-2; v-3 and 2 more topics are retrying [NO_ANSWER]: gone"
    ]
    later = replace(retried[0], source="y", reason="[NO_ANSWER] in other words")
    assert told.look(*retried[3:], later, after_ms=5_000) == []
    assert told.look(later, after_ms=9_000) == []
    (over,) = told.look(after_ms=9_000 + HELD_MS)
    assert "and 3 more topics are no longer retrying [NO_ANSWER], after 9 s" in over


def test_a_deleted_topic_is_not_said_to_be_retried() -> None:
    """Given partitions that no broker knows / when a reconciliation drops them / then no line."""
    told = Told()
    gone = problem(state="retrying", code="UNKNOWN_TOPIC_OR_PARTITION")
    assert told.look(gone, after_ms=DELETED_WITHIN_MS - 1) == []
    assert told.look(after_ms=DELETED_WITHIN_MS) == []
    assert told.look(gone, after_ms=DELETED_WITHIN_MS) != []


def test_of_many_partitions_of_a_topic_the_first_are_named() -> None:
    lines = Told().look(*(problem(number) for number in range(NUMBERS_MAX + 3)))
    assert len(lines) == 1
    assert f", {NUMBERS_MAX - 1} and 3 more are at a gap" in lines[0]


def test_of_thousands_a_few_are_named_and_the_others_counted() -> None:
    told = Told()
    topics = [f"t{number}" for number in range(LISTED_MAX + 5)]
    lines = told.look(*(problem(number, topic=topic) for topic in topics for number in (0, 1)))
    assert len(lines) == LISTED_MAX + 1
    assert "10 more partitions are not copied as they should be" in lines[-1]
    lines = told.look()
    assert len(lines) == LISTED_MAX + 1
    assert "10 more partitions are copied again" in lines[-1]


def silent(seconds: int) -> Alarms:
    lane = LaneId(0)
    alarm = Alarm(f"lane 0 is silent for {seconds} s", "lane 0 reports", lane)
    return Alarms({"lane 0": alarm}, {lane})


def test_alarms_are_logged_once_and_when_they_are_over() -> None:
    told = Told()
    assert told.consume(silent(11)) == ["WARN link l: lane 0 is silent for 11 s"]
    assert told.consume(silent(12)) == []
    assert told.consume(Alarms({}, {LaneId(0)})) == ["INFO link l: lane 0 reports"]


def test_a_lane_that_is_gone_does_not_report_again() -> None:
    told = Told()
    told.consume(silent(11))
    (line,) = told.consume(Alarms({}, {LaneId(1)}))
    assert line.startswith("INFO link l: there is no lane 0 any more")


def test_nothing_is_over_while_a_link_does_not_run() -> None:
    """Given a silent lane / when its driver is silent too / then nothing, and no second line."""
    told = Told()
    told.consume(silent(11))
    assert told.consume(None) == []
    assert told.consume(silent(30)) == []
    assert told.consume(Alarms({}, {LaneId(0)})) == ["INFO link l: lane 0 reports"]


def test_a_stop_of_unknown_age_lasts_from_its_first_report() -> None:
    """Given a stop known from the state alone / when it is over / then as long as it was seen."""
    told = Told()
    told.look(replace(problem(), since_ms=0))
    assert told.look(after_ms=5_000)[0].endswith("after 5 s")


def test_what_is_stopped_waits_for_a_person_and_what_is_retried_does_not() -> None:
    problems = [problem(n, state) for n, state in enumerate(("gap", "retrying", "blocked"))]
    assert [item.is_stopped for item in problems] == [True, False, True]
