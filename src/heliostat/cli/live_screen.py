"""The terminal's alternate screen while links run: drawn again and again, with keys to press."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live

from heliostat.cli import view
from heliostat.cli.live_view import Scene, ViewState, screen
from heliostat.status.catch_up import CatchUp

if TYPE_CHECKING:
    from heliostat.clock import Clock
    from heliostat.ops.events import Events
    from heliostat.status.values import LinkStatus

DRAW_EVERY_S = 0.5
LINES_LEFT = 12
"""Events that stay on the terminal when the screen has been left."""
SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b": "esc",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
}
"""What terminals send for keys that are no letters (xterm's control sequences)."""


class LiveScreen:
    """Shows links on the terminal until it is left; draws on a thread of its own.

    Parameters
    ----------
    directions
        Returns `summit → usdf`, by the link's name.
    statuses
        Returns the status of each link that has begun.
    events
        Whose last lines are shown.
    clock
        The clock.
    stop
        Called when the person at the screen wants the links to stop.
    """

    def __init__(
        self,
        directions: Callable[[], Mapping[str, str]],
        statuses: Callable[[], list[LinkStatus]],
        events: Events,
        clock: Clock,
        stop: Callable[[], None],
    ) -> None:
        self._directions = directions
        self._statuses = statuses
        self._events = events
        self._clock = clock
        self._stop = stop
        self._state = ViewState()
        self._paces: dict[str, CatchUp] = {}
        self._began_s = clock.monotonic_s()
        self._ended = threading.Event()
        self._console = Console()
        self._thread = threading.Thread(target=self._draw, name="live screen", daemon=True)

    def __enter__(self) -> Self:
        """Show the screen."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the screen, with the last figures and events below what was there before."""
        self._ended.set()
        self._thread.join()
        for status in self._statuses():
            self._console.print(view.headline(status))
            for line in view.problem_lines(status):
                self._console.print(line)
        for event in self._events.recent(LINES_LEFT):
            self._console.print(event, style="dim", highlight=False, markup=False)

    def _draw(self) -> None:
        with (
            pressed_keys() as keys,
            Live(console=self._console, auto_refresh=False, screen=True) as live,
        ):
            while not self._ended.is_set():
                size = self._console.size  # asked each time: it may have changed
                shown = screen(self._scene(), self._state, size.width, size.height)
                live.update(shown, refresh=True)
                for key in keys(DRAW_EVERY_S):
                    self._state.press(key)
                if self._state.wants_stop:
                    self._state.wants_stop = False
                    self._stop()

    def _scene(self) -> Scene:
        statuses = self._statuses()
        now_s = self._clock.monotonic_s()
        for status in statuses:
            pace = self._paces.setdefault(status.link, CatchUp())
            pace.observe(now_s, None if status.unknown else status.lag_records)
        waited_s = now_s - self._began_s
        return Scene(
            statuses=statuses,
            directions=self._directions(),
            level_in_s={name: pace.level_in_s() for name, pace in self._paces.items()},
            events=self._events.recent(self._console.size.height),
            now_ms=self._clock.wall_ms(),
            beginning="" if statuses else f"starting Spark and connecting, {waited_s:.0f} s",
        )


@contextmanager
def pressed_keys() -> Iterator[Callable[[float], list[str]]]:
    """Yield a function that waits so many seconds for keys, and returns their names.

    Keys are not echoed meanwhile. Without a terminal as input none is ever pressed.
    """
    if not sys.stdin.isatty():
        pause = threading.Event()

        def none(within_s: float) -> list[str]:
            pause.wait(within_s)
            return []

        yield none
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:

        def keys(within_s: float) -> list[str]:
            if not select.select([number], [], [], within_s)[0]:
                return []
            return keys_of(os.read(number, 64).decode(errors="ignore"))

        yield keys
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def keys_of(text: str) -> list[str]:
    """Return the names of the keys for which a terminal sends this text."""
    keys: list[str] = []
    while text:
        longest = next(
            (size for size in (4, 3, 1) if text[:size] in SEQUENCES and len(text) >= size), 0
        )
        keys.append(SEQUENCES[text[:longest]] if longest else text[0])
        text = text[longest or 1 :]
    return keys
