"""How far lanes have copied, by their reports."""

from __future__ import annotations

from typing import NamedTuple


class Landed(NamedTuple):
    """How far a partition is copied, as its lane reported last."""

    position: int
    """Source offset below which all has landed or is a hole (-1: not known)."""
    target_end: int = -1
    """Where the mirror's log ended then (-1: not known)."""


NOT_REPORTED = Landed(-1)
