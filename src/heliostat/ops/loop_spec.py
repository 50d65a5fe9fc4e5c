"""What a loop of a link does and how often, so that its maker need not know who runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple


class LoopSpec(NamedTuple):
    """A loop to run: its name, the seconds between its turns, one turn, and what ends a pause."""

    name: str
    interval_s: float
    turn: Callable[[], None]
    wake: threading.Event | None = None
