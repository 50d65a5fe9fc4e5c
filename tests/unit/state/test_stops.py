"""Stops in the state topic: what is written, when one is over, and how a status shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.invariants import first_generation
from heliostat.link.known import Known
from heliostat.names import LaneId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import (
    PartitionReport,
    PartitionSpec,
    PartitionState,
    RoundReport,
)
from heliostat.records.transport.progress_reports import encode_progress
from heliostat.state.stops import (
    Changed,
    StopBook,
    Stops,
    changed_stops,
    sound_stops_in,
    stop_key,
    stop_row,
)
from heliostat.status.board import StatusBoard

NOW_MS = 1_700_000_000_000
COPYING, GAP, RETRYING = PartitionState.COPYING, PartitionState.GAP, PartitionState.RETRYING
STARTING, ALIGNING = PartitionState.STARTING, PartitionState.ALIGNING
DIVERGED, BLOCKED = PartitionState.DIVERGED, PartitionState.BLOCKED


def at(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionId(number))


def report(
    state: PartitionState,
    number: int = 0,
    *,
    position: int = 5,
    end: int = -1,
    code: str = "",
    reason: str = "",
    since_ms: int = NOW_MS,
) -> PartitionReport:
    is_stopped = state.is_stopped
    return PartitionReport(
        source=at(number),
        target=at(number, "mirror/of.t"),
        state=state,
        position=position,
        high_watermark=end,
        records=0,
        bytes=0,
        last_timestamp_ms=-1,
        caught_up_ms=-1,
        since_ms=since_ms,
        code=code or ("CODE" if is_stopped else ""),
        reason=reason or ("why" if is_stopped else ""),
    )


def everywhere(_: TopicPartition) -> bool:
    return True


class Written:
    """A state topic."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.writes = 0

    def put(self, changed: Changed) -> None:
        self.writes += 1
        for source, stop in changed.items():
            self.rows.pop(stop_key(source), None)
            if stop is not None:
                self.rows[stop_key(source)] = json.loads(json.dumps(stop_row(stop)))


@pytest.mark.parametrize("state", [GAP, DIVERGED, BLOCKED])
def test_a_stop_is_written_once_and_read_back_as_it_was(state: PartitionState) -> None:
    """Given a stop that each round finds again / then one write, and the time of the first."""
    topic = Written()
    book = StopBook(topic.put)
    stop = report(state)
    book.keep([stop], everywhere)
    book.keep([replace(stop, since_ms=NOW_MS + 9_000)], everywhere)
    assert topic.writes == 1
    assert (
        sound_stops_in({**topic.rows, "producer": {"producer_id": 1}})
        == book.known
        == {at(0): stop}
    )


def test_another_stop_replaces_one() -> None:
    """Given another message, offset or state / then written; only the last restarts its age."""
    first = report(GAP)
    for changed in ({"reason": "other"}, {"position": 6}):
        now = replace(first, since_ms=NOW_MS + 1, **changed)
        assert changed_stops({at(0): first}, [now], everywhere) == {
            at(0): replace(now, since_ms=NOW_MS)
        }
    now = replace(first, state=DIVERGED, since_ms=NOW_MS + 1)
    assert changed_stops({at(0): first}, [now], everywhere) == {at(0): now}


@pytest.mark.parametrize(
    ("said", "is_over"),
    [
        (report(COPYING, end=9), True),
        (report(COPYING, position=0, end=0), True),
        (report(ALIGNING), True),
        (report(COPYING), False),  # its first fetch may find the gap again
        (report(COPYING, position=-1, end=9), False),
        (report(STARTING, position=-1), False),
        (report(RETRYING, end=9), False),
    ],
)
def test_a_stop_is_over_when_its_lane_has_passed_it(said: PartitionReport, is_over: bool) -> None:
    known: Stops = {at(0): report(GAP)}
    assert changed_stops(known, [said], everywhere) == ({at(0): None} if is_over else {})
    assert changed_stops({}, [said], everywhere) == {}


def test_stops_of_deselected_topics_are_forgotten_and_of_refused_ones_kept() -> None:
    """Given stops / when their topics are deselected, refused, or not observed yet / then so."""
    topic = Written()
    book = StopBook(topic.put)
    book.begin({at(0): report(GAP), at(1): report(GAP, 1), at(0, "u"): report(GAP)})
    known = Known({}, {})
    book.keep([], known.mirrored())
    assert len(book.known) == 3
    known.turns, known.refused = 1, {TopicName("u"): "made anew"}
    known.packing = {LaneId(3): (at(1), at(7))}
    book.keep([], known.mirrored())
    assert book.known.keys() == {at(1), at(0, "u")}


def test_a_recreated_state_gets_all_stops_and_nothing_without_any() -> None:
    topic = Written()
    book = StopBook(topic.put)
    book.restore()
    book.keep([report(COPYING, end=9)], everywhere)
    assert topic.writes == 0
    book.keep([report(GAP)], everywhere)
    topic.rows.clear()
    book.restore()
    assert sound_stops_in(topic.rows) == book.known != {}


def test_a_stop_that_was_not_written_is_retried() -> None:
    """Given a target that does not answer / then the next check writes it."""
    put = Mock(side_effect=[OSError, None])
    book = StopBook(put)
    with pytest.raises(OSError):  # noqa: PT011  # its text says nothing
        book.keep([report(GAP)], everywhere)
    assert book.known == {}
    book.keep([report(GAP)], everywhere)
    assert put.call_count == 2


def spec(number: int, why: str) -> Any:
    made = Mock(spec=PartitionSpec)
    made.source, made.target, made.map_lost = at(number), at(number, "m"), why
    return made


def test_lost_maps_are_noted_in_advance_and_overwrite_nothing() -> None:
    """Given mirrors without their map / then blocked before their lane checks; once."""
    topic = Written()
    book = StopBook(topic.put)
    book.begin({at(2): report(GAP, 2)})
    for _ in range(2):
        book.foresee([spec(0, ""), spec(1, "rows are gone"), spec(2, "rows are gone")])
    assert topic.writes == 1
    assert book.known[at(2)].state is GAP
    lost = book.known[at(1)]
    assert (lost.state, lost.code, lost.reason) == (BLOCKED, "OFFSET_MAP_LOST", "rows are gone")
    assert at(0) not in book.known


class Board:
    """A status with a driver of claim 2, and stops in its state."""

    def __init__(self, stops: Iterable[PartitionReport] = ()) -> None:
        self.board = StatusBoard(LinkName("l"))
        self.board.know_stops({stop.source: stop for stop in stops})

    def driver(self, state: str = "running", claim: int = 2, **more: Any) -> None:
        told = {"state": state, "at_ms": NOW_MS, "turns": 1, "generations": {"0": 1}}
        told |= {"instance": str(claim), "claim": claim, "partitions": 1}
        self.board.consume("driver", told | more)

    def lane(self, *rows: PartitionReport, claim: int = 2) -> None:
        generation = first_generation(claim) + 1
        said = RoundReport(LaneId(0), generation, 0, 0, 0, "", [], [])
        said.lane_partitions, said.plan = 1, said.generation
        for record in encode_progress(said, rows, NOW_MS, is_whole=True):
            self.board.consume("lane/0", json.loads(record))

    def codes(self) -> list[str]:
        assert self.board.problems() == self.board.status(NOW_MS).problems
        return [problem.code for problem in self.board.status(NOW_MS).problems]


@pytest.mark.parametrize("state", ["running", "stopped", ""])
def test_stops_are_reported_without_a_lanes_report(state: str) -> None:
    """Given a stop in the state that no lane has reported, whatever the driver / then shown."""
    link = Board([report(GAP, code="X", reason="a hint")])
    if state:
        link.driver(state)
    status = link.board.status(NOW_MS)
    [problem] = status.problems
    assert (problem.state, problem.code, problem.reason) == ("gap", "X", "a hint")
    assert (status.states, status.partitions, status.unknown) == ({"gap": 1}, 1, 1)
    assert not status.is_in_sync()


def test_a_lane_that_checks_again_hides_no_stop_and_one_that_copies_does() -> None:
    link = Board([report(GAP, code="X")])
    link.driver()
    for said in (report(STARTING, position=-1), report(COPYING), report(RETRYING, reason="r")):
        link.lane(said)
        assert link.codes() == ["X"]
    link.lane(report(DIVERGED, code="Y"))
    assert link.codes() == ["Y"]
    link.lane(report(COPYING, position=9, end=9))
    assert link.codes() == []


def test_reports_of_the_previous_driver_do_not_count() -> None:
    """Given a lane of claim 1 that had all / when a driver of claim 2 runs / then not in sync."""
    link = Board()
    link.driver(claim=1)
    link.lane(report(COPYING, position=9, end=9), claim=1)
    assert link.board.status(NOW_MS).is_in_sync()
    link.driver(claim=2)
    status = link.board.status(NOW_MS)
    assert (status.states, status.unknown) == ({"starting": 1}, 1)
    assert not status.is_in_sync()
    link.lane(report(COPYING, position=9, end=9), claim=2)
    assert link.board.status(NOW_MS).is_in_sync()


def test_a_stop_of_the_previous_driver_stays_and_is_shown_once() -> None:
    """Given its row, with or without the state's / then one problem in either case."""
    for stops in ([], [report(GAP, code="X")]):
        link = Board(stops)
        link.driver(claim=1)
        link.lane(report(GAP, code="X"), claim=1)
        link.driver(claim=2)
        assert link.codes() == ["X"]
        assert link.board.status(NOW_MS).states == {"gap": 1}


def test_copying_by_the_previous_driver_hides_no_stop() -> None:
    link = Board([report(GAP, code="X")])
    link.lane(report(COPYING, position=9, end=9), claim=1)
    link.driver(claim=2)
    assert link.codes() == ["X"]
