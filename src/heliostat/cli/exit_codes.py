"""Exit codes of all verbs, as `heliostat --help` lists them."""

from __future__ import annotations

IN_SYNC = 0
DIFFERENCE = 1
USAGE = 2
HALTED = 3
INTERRUPTED = 130
"""128 + SIGINT, as in shells."""
