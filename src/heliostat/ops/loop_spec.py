"""What a loop of a link does and how often, so that its maker need not know who runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from typing_extensions import override


class Wake(threading.Event):
    """An event that ends a loop's pause, also if it was set before the loop began."""

    def __init__(self) -> None:
        super().__init__()
        self.listener: Callable[[], None] = lambda: None
        """Called each time it is set; the loop's."""

    @override
    def set(self) -> None:
        """Have the next run at once."""
        super().set()
        self.listener()


class LoopSpec(NamedTuple):
    """A loop to run: its name, the seconds between its turns, one turn, and what ends a pause.

    An urgent one waits for no thread.
    """

    name: str
    interval_s: float
    turn: Callable[[], None]
    wake: Wake | None = None
    is_urgent: bool = False
