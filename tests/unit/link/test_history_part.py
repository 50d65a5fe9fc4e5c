"""The loop that writes a link's history: a target that takes none holds up nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest
from sim.sim_clock import SimClock

from heliostat.errors import (
    ConnectionLost,
    HeliostatError,
    HistoryNotWritten,
    LinkTakenOver,
    ProtocolError,
    Verdict,
)
from heliostat.link.history_part import EVENTS_S, UNWRITTEN_MAX, HistoryPart, KeptEvents
from heliostat.link.owner_guard import OwnerGuard
from heliostat.names import LinkName
from heliostat.ops.events import Events, Subject
from heliostat.status.board import StatusBoard
from heliostat.status.history_minutes import EVENTS_MAX, Record
from heliostat.status.history_records import (
    EVENTS_KEY,
    LINK_KEY,
    LinkMinute,
    decode_events,
    decode_link,
)

MINUTE_S = 60.0
REFUSED = ProtocolError("an answer that makes no sense")


class Topic:
    """Stands for the history's topic: keeps what is appended, or fails."""

    topic = "heliostat.l.history"

    def __init__(self) -> None:
        self.error: HeliostatError | None = None
        self.records: list[Record] = []

    def append(self, records: Iterable[Record]) -> None:
        if self.error is not None:
            raise self.error
        self.records += records

    def minutes(self) -> list[LinkMinute]:
        return [decode_link(value) for key, value in self.records if key == LINK_KEY]


class History:
    """A part under test, with what it writes to and what happens."""

    def __init__(self) -> None:
        self.clock, self.topic = SimClock(1_700_000_000_000), Topic()
        self.events = KeptEvents(Events(self.clock.wall_ms, None), "l", self.clock.wall_ms)
        board = StatusBoard(LinkName("l"))
        self.part = HistoryPart(cast("Any", self.topic), board, self.clock, self.events)

    def turn(self) -> None:
        self.clock.sleep(MINUTE_S)
        self.part.turn()


def test_events_are_passed_on_and_written_at_once() -> None:
    history = History()
    history.turn()
    history.events.warn("link l: t-0 is\nblocked", Subject("l", "t", 0, "X"))
    assert history.events.recent(1)[0].endswith("t-0 is blocked")
    history.clock.sleep(EVENTS_S)
    history.part.turn()
    assert history.topic.minutes() == []
    (record,) = history.topic.records
    assert record[0] == EVENTS_KEY
    (event,) = decode_events(record[1])
    assert event[1:] == ("WARN", "t-0 is blocked", "t", 0, "X")
    history.turn()
    (minute,) = history.topic.minutes()
    assert minute.events == ()
    assert len(minute.fine) == 1, "a look for events takes no figures"


def test_events_of_a_target_that_takes_none_go_with_their_minute() -> None:
    history = History()
    history.turn()
    history.topic.error = ConnectionLost("away")
    history.events.info("one")
    for text in ("two", "three"):
        with pytest.raises(ConnectionLost):
            history.part.turn()
        history.events.info(text)
        history.clock.sleep(EVENTS_S)
    history.topic.error = None
    history.part.turn()
    history.turn()
    events = [e for key, v in history.topic.records if key == EVENTS_KEY for e in decode_events(v)]
    events += [event for minute in history.topic.minutes() for event in minute.events]
    assert [event.text for event in events] == ["one", "two", "three"]


def test_events_that_nobody_takes_are_bounded() -> None:
    history = History()
    for number in range(EVENTS_MAX + 5):
        history.events.info(f"event {number}")
    assert len(history.events.taken()) == EVENTS_MAX


@pytest.mark.parametrize(
    ("error", "told"), [(REFUSED, HistoryNotWritten), (ConnectionLost("away"), ConnectionLost)]
)
def test_what_is_not_taken_is_no_reason_to_halt_and_is_written_later(
    error: HeliostatError, told: type[HeliostatError]
) -> None:
    history = History()
    history.turn()
    history.topic.error = error
    for _ in range(3):
        with pytest.raises(told) as failed:
            history.turn()
        assert failed.value.verdict is Verdict.RETRY
    history.topic.error = None
    history.turn()
    assert len(history.topic.minutes()) == 4
    at_ms = [minute.whole.at_ms for minute in history.topic.minutes()]
    assert at_ms == sorted(set(at_ms))


def test_what_waits_is_bounded() -> None:
    history = History()
    history.turn()
    history.topic.error = REFUSED
    for _ in range(UNWRITTEN_MAX):
        with pytest.raises(HistoryNotWritten):
            history.turn()
    history.topic.error = None
    history.turn()
    assert len(history.topic.records) == UNWRITTEN_MAX


def test_a_deposed_owner_writes_nothing() -> None:
    history = History()

    class Deposed:
        def hold(self, _: float) -> None:
            raise LinkTakenOver("another instance has it")

    guard = OwnerGuard(cast("Any", Deposed()))
    spec = history.part.loop(guard.guarded)
    history.turn()
    history.clock.sleep(MINUTE_S)
    with pytest.raises(LinkTakenOver):
        spec.turn()
    assert not history.topic.records
    assert isinstance(guard.failure, LinkTakenOver)


def test_the_last_moment_tells_that_the_link_was_stopped() -> None:
    history = History()
    history.turn()
    history.part.end()
    assert history.topic.minutes()[-1].whole.state == "no_owner"


def test_a_stop_does_not_fail_with_its_last_minute() -> None:
    history = History()
    history.turn()
    history.topic.error = REFUSED
    history.part.end()
    assert not history.topic.records
