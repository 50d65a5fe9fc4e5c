"""The live screen on a terminal of its own: a pseudo terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

ALTERNATE, BACK = b"\x1b[?1049h", b"\x1b[?1049l"
PROGRAM = """
import sys, threading
from heliostat.cli.live_screen import LiveScreen
from heliostat.clock import SystemClock
from heliostat.ops.events import Events

clock, stop = SystemClock(), threading.Event()
events = Events(clock.wall_ms, None)
events.warn("link a: base does not answer")
with LiveScreen(dict, list, events, clock, stop.set):
    stop.wait(30)
print("stopped" if stop.is_set() else "not stopped")
"""


def _read_until(terminal: int, words: bytes, within_s: float = 20.0) -> bytes:
    text = b""
    until_s = time.monotonic() + within_s
    while words not in text and time.monotonic() < until_s:
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 65536)
    assert words in text, text[-2000:]
    return text


def test_the_screen_is_left_as_it_was_by_a_key() -> None:
    """Given a screen / when its clock shows and q is pressed / then it stops, and events stay."""
    ours, theirs = pty.openpty()
    source = Path(__file__).parents[3] / "src"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(source), "TERM": "xterm-256color", "COLUMNS": "100"},
    )
    try:
        shown = _read_until(ours, b"UTC")
        assert ALTERNATE in shown
        assert b"starting Spark and connecting" in shown
        os.write(ours, b"q")
        left = _read_until(ours, b"stopped")
        assert BACK in left
        assert b"base does not answer" in left[left.index(BACK) :]
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
