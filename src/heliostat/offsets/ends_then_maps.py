"""The order in which ends of logs and offset maps are read by who uses both: ends first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Generic, TypeVar

from heliostat.offsets.offset_map import MapReader

Ends = TypeVar("Ends")


class EndsThenMaps(Generic[Ends]):
    """Ends of mirrors' logs, and maps that hold every break below these ends.

    A break is durable before the first record above it is sent (I3), so maps that are read after an
    end cover it. Read before, they may lack the break that the last append needed, and unequal
    offsets would be taken for equal: groups skip records, copying begins at the wrong one.

    Parameters
    ----------
    read_ends
        Asks the target where logs end; called here.
    read_maps
        Reads all maps of the link as they are durable then; called when they are first needed.

    Raises
    ------
    ConnectionLost, BrokerError
        What `read_ends` raises, and at the first `maps` what `read_maps` does.
    """

    def __init__(self, read_ends: Callable[[], Ends], read_maps: Callable[[], MapReader]) -> None:
        self.ends = read_ends()
        self._read_maps = read_maps

    @cached_property
    def maps(self) -> MapReader:
        """Read once. Of a mirror they are right up to its end, what comes above may still move."""
        return self._read_maps()
