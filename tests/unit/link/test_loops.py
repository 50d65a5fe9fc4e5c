"""Loops tell of their failures, and of the same one ever less often."""

from __future__ import annotations

import threading

from heliostat.errors import ConnectionLost
from heliostat.link.loops import Loop
from heliostat.ops.events import Events

TURNS = 20
WITHIN_S = 30.0


def test_the_same_failure_is_told_ever_less_often_and_another_at_once():
    told: list[str] = []
    done = threading.Event()
    turns = 0

    class Told(Events):
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
        events=Told(lambda: 0, None),
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
