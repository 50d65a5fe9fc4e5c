"""Pipelines of links between sites that write one topic: which records they leave, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sim.witness import Content

from heliostat.records.copier.pipeline_steps import SetColumns, Step, Where

NAME_BYTES = 7
"""What of a value says which record it is: its site, and its number there."""


class Piped(NamedTuple):
    """A pipeline: which records it leaves, how it changes these, and what stands for it."""

    leaves: Callable[[int], bool]
    columns: tuple[str, ...]
    step: Step

    def made(self, content: Content) -> Content | None:
        """Return what it makes of a record; None: it leaves it out."""
        time_ms, key, value, headers = content
        assert value is not None
        assert len(value) == NAME_BYTES, f"{value!r} has been through a pipeline before"
        if not self.leaves(int(value[1:])):
            return None
        if "value" in self.columns:
            value += b"!"
        if "headers" in self.columns:
            headers = (*headers, ("made", value))
        return time_ms + ("timestamp" in self.columns), key, value, headers

    def value_of(self, value: bytes) -> bytes | None:
        """Return what it makes of a record's value; None: it leaves it out."""
        found = self.made((0, None, value, ()))
        return None if found is None else found[2]


PIPES = (
    Piped(lambda number: number % 3 != 1, (), Where("...")),
    Piped(lambda number: number % 5 != 1, ("value",), SetColumns((("value", "..."),))),
    Piped(
        lambda number: number // 4 % 3 != 1,
        ("timestamp", "headers"),
        SetColumns((("timestamp", "..."), ("headers", "..."))),
    ),
)
"""Of each site's number: kept as they are, with other values, and with other times."""
