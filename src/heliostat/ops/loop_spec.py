"""What a loop of a link does and how often, so that its maker need not know who runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class LoopSpec(NamedTuple):
    """A loop to run: its name, the seconds between its turns, and one turn."""

    name: str
    interval_s: float
    turn: Callable[[], None]
