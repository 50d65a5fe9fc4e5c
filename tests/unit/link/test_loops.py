"""Loops log their failures, and the same one ever less often."""

from __future__ import annotations

import threading

from typing_extensions import override

from heliostat.clock import SystemClock
from heliostat.errors import ConnectionLost
from heliostat.link.loops import Loop, Loops
from heliostat.link.troubles import Troubles
from heliostat.ops.events import NOTHING, Events, Subject
from heliostat.ops.loop_spec import LoopSpec
from heliostat.ops.scheduler import Scheduler

TURNS = 20
WITHIN_S = 30.0


def quiet() -> Troubles:
    return Troubles({}, SystemClock(), Events(lambda: 0, None))


def test_a_failure_is_told_once_with_its_part_and_counted_by_the_loop() -> None:
    lines: list[str] = []
    done = threading.Event()
    turns = 0

    class CapturedEvents(Events):
        @override
        def write(self, level: str, text: str, about: Subject = NOTHING) -> None:
            lines.append(f"{level} {text}")

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns == TURNS:
            done.set()
        raise ConnectionLost("gone" if turns <= 10 else "refused")

    loop = Loop(
        "l",
        LoopSpec("copies", 0.001, turn),
        Scheduler(),
        on_halt=lambda error: None,
        wall_ms=lambda: 0,
        troubles=Troubles({}, SystemClock(), CapturedEvents(lambda: 0, None)),
    )
    loop.start()
    assert done.wait(WITHIN_S)
    assert loop.stop(WITHIN_S)
    assert len(lines) == 1
    assert lines[0].startswith("WARN copies is tried again: [CONNECTION_LOST] gone")
    assert loop.health.failures_in_a_row == turns


def test_a_loop_may_start_others_and_all_of_them_are_stopped() -> None:
    """Given a loop that starts another / when all are stopped / then no turn is taken any more."""
    turned = threading.Event()
    loops = Loops("l", lambda error: None, SystemClock(), quiet())

    def begin() -> None:
        if len(loops.report(0)) == 1:
            loops.start(LoopSpec("later", 0.001, turned.set))

    (first,) = loops.start(LoopSpec("first", 0.001, begin))
    assert turned.wait(WITHIN_S)
    assert [row["name"] for row in loops.report(0)] == ["l first", "l later"]
    loops.end(first)
    assert [row["name"] for row in loops.report(0)] == ["l later"]
    loops.stop()
    turned.clear()
    assert not turned.wait(0.05)


def test_loops_are_replaced_by_name_and_another_interval_counts_at_once() -> None:
    """Given three loops / when one is ended and one paced / then the third has seen nothing."""
    loops = Loops("l", lambda _: None, SystemClock(), quiet())
    one, two, three = loops.start(*(LoopSpec(name, 60.0, lambda: None) for name in "abc"))
    loops.end_parts({"b", "what is not there"})
    loops.pace("c", 5.0)
    assert [loop.is_ending() for loop in (one, two, three)] == [False, True, False]
    assert [loop.health.interval_s for loop in (one, three)] == [60.0, 5.0]
    assert [row["name"] for row in loops.report(0)] == ["l a", "l c"]
    loops.stop()
    assert one.is_ending()
    assert three.is_ending()


def test_all_loops_are_stopped_though_one_of_them_ends_others() -> None:
    """Given a loop that replaces others while all are stopped / then none runs on."""
    began, made = threading.Event(), list[Loop]()
    loops = Loops("l", lambda _: None, SystemClock(), quiet())

    def replace() -> None:
        ready.wait(WITHIN_S)
        began.set()
        while not first.is_ending():  # `stop` waits for this turn
            threading.Event().wait(0.01)
        loops.end_parts({"b"})
        made.extend(loops.start(LoopSpec("b", 60.0, lambda: None)))

    ready = threading.Event()
    [first] = loops.start(LoopSpec("a", 60.0, replace))
    loops.start(LoopSpec("b", 60.0, lambda: None), LoopSpec("c", 60.0, lambda: None))
    ready.set()
    assert began.wait(WITHIN_S)
    loops.stop()
    assert len(made) == 1
    assert made[0].is_ending()
    assert all(row["name"] in {"l a", "l b", "l c"} for row in loops.report(0))


def test_no_loop_begins_a_turn_while_another_one_ends() -> None:
    """Given a slow turn / when all are stopped / then a second loop turns no more."""
    loops = Loops("l", lambda _: None, SystemClock(), quiet())
    known, slow, ready = threading.Event(), threading.Event(), threading.Event()
    turns: list[bool] = []

    def wait() -> None:
        known.wait(WITHIN_S)  # it may run before it has a name here
        slow.set()
        while not first.is_ending():
            threading.Event().wait(0.01)
        threading.Event().wait(0.1)
        ready.set()

    [first] = loops.start(LoopSpec("a", 60.0, wait))
    known.set()
    assert slow.wait(WITHIN_S)
    loops.start(LoopSpec("b", 0.001, lambda: turns.append(first.is_ending())))
    loops.stop()
    assert ready.is_set()
    assert turns.count(True) <= 1, "one that was under way may end"
