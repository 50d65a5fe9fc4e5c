"""Loops log their failures, and the same one ever less often."""

from __future__ import annotations

import threading

from heliostat.clock import SystemClock
from heliostat.errors import ConnectionLost
from heliostat.link.loops import Loop, Loops
from heliostat.ops.events import Events
from heliostat.ops.loop_spec import LoopSpec

TURNS = 20
WITHIN_S = 30.0


def test_the_same_failure_is_logged_ever_less_often_and_another_at_once():
    told: list[str] = []
    done = threading.Event()
    turns = 0

    class CapturedEvents(Events):
        def warn(self, text):
            told.append(text)

    def turn():
        nonlocal turns
        turns += 1
        if turns == TURNS:
            done.set()
        raise ConnectionLost("gone" if turns <= 10 else "refused")

    loop = Loop(
        "l",
        0.001,
        turn,
        on_halt=lambda error: None,
        wall_ms=lambda: 0,
        events=CapturedEvents(lambda: 0, None),
    )
    loop.start()
    assert done.wait(WITHIN_S)
    assert loop.stop(WITHIN_S)
    gone = [text for text in told if "gone" in text]
    assert ["times in a row" in text for text in gone] == [False, True, True, True]
    assert [text.rpartition("(")[2] for text in gone[1:]] == [
        f"{n} times in a row)" for n in (2, 4, 8)
    ]
    refused = [text for text in told if "refused" in text]
    assert [text.rpartition("(")[2] for text in refused[:2]] == [
        "11 times in a row)",
        "16 times in a row)",
    ]
    assert loop.health.failures_in_a_row == turns


def test_a_loop_may_start_others_and_all_of_them_are_stopped() -> None:
    """Given a loop that starts another / when all are stopped / then no turn is taken any more."""
    turned = threading.Event()
    loops = Loops("l", lambda error: None, SystemClock(), Events(lambda: 0, None))

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
