"""Events of links as they were and as they come: which are chosen, in what order, who ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from sim.sim_clock import SimClock

from heliostat.errors import ConnectionLost, HeliostatError, ProtocolError
from heliostat.names import LinkName
from heliostat.operate.events import AGAIN_S, EventChoice, LinkEvent, events_from

AWAY = ConnectionLost("the target is away")


def event(text: str, at_ms: int = 0, link: str = "l", **more: Any) -> LinkEvent:
    about = {"level": "INFO", "topic": "", "partition": None, "code": ""} | more
    return LinkEvent(link=LinkName(link), at_ms=at_ms, text=text, **about)


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (EventChoice(), "abcd"),
        (EventChoice("WARN"), "b"),
        (EventChoice(topic="t.x"), "ac"),
        (EventChoice(topic="t.*"), "abc"),
        (EventChoice("WARN", "t.x"), ""),
        (EventChoice(topic="u"), ""),
    ],
)
def test_events_are_chosen_by_level_and_topic(choice: EventChoice, chosen: str) -> None:
    rows = {
        "a": event("t.x-0 is copied again", topic="t.x"),
        "b": event("t.y-0 is blocked", topic="t.y", level="WARN"),
        "c": event("t.x, t.y are paused: an operator wishes so"),
        "d": event("the link runs"),
    }
    assert "".join(name for name, row in rows.items() if choice.has(row)) == chosen


class Reader:
    """Stands for what reads one link: each call gives the next of its answers."""

    def __init__(self, link: str, *answers: list[LinkEvent] | HeliostatError) -> None:
        self.link = LinkName(link)
        self.asked: list[str] = []
        self._answers = iter(answers)

    def since(self, from_ms: int) -> list[LinkEvent]:
        return self._next(f"since {from_ms}")

    def after(self, wait_s: float) -> list[LinkEvent]:
        assert wait_s > 0
        return self._next("after")

    def _next(self, what: str) -> list[LinkEvent]:
        self.asked.append(what)
        answer = next(self._answers, [])
        if isinstance(answer, HeliostatError):
            raise answer
        return answer


def run(*readers: Reader, rounds: int) -> tuple[list[str], list[HeliostatError], SimClock]:
    """Follow for some rounds."""
    clock, told = SimClock(0), list[HeliostatError]()
    looks: Iterator[bool] = iter([False] * rounds + [True])
    found = events_from(
        cast("Any", readers), 7, lambda: next(looks), told.append, cast("Any", clock)
    )
    return [row.text for row in found], told, clock


def test_what_was_comes_first_in_the_order_of_time_then_what_comes() -> None:
    one = Reader("one", [event("a", 1), event("c", 3)], [event("e", 5)])
    two = Reader("two", [event("b", 2)], [event("d", 4)])
    texts, told, _ = run(one, two, rounds=3)
    assert texts == ["a", "b", "c", "d", "e"]
    assert not told
    assert one.asked == ["since 7", "after", "after"]


def test_a_target_that_is_away_is_told_once_and_read_from_where_it_was() -> None:
    """Given one of two that does not answer, at first and later / then the other goes on."""
    away = Reader("away", AWAY, AWAY, [event("a")], AWAY, [event("b")])
    there = Reader("there", [event("1")], [event("2")], [event("3")], [event("4")], [event("5")])
    texts, told, clock = run(away, there, rounds=5)
    assert texts == ["1", "2", "a", "3", "4", "b", "5"]
    assert told == [AWAY, AWAY], "once for each time that it was away"
    assert away.asked == ["since 7"] * 3 + ["after"] * 2
    assert clock.monotonic_s() >= 3 * AGAIN_S


def test_a_refusal_ends_it() -> None:
    with pytest.raises(ProtocolError):
        run(Reader("l", ProtocolError("an answer that makes no sense")), rounds=1)
