"""What a loop of a link does and how often; who runs it need not be known where it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class LoopSpec(NamedTuple):
    """A loop that is to be run: its name, the seconds between its turns, and one turn."""

    name: str
    interval_s: float
    turn: Callable[[], None]
