"""The order in which log ends and offset maps are read by code that uses both: ends first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Generic, TypeVar

from heliostat.offsets.offset_map import MapReader

Ends = TypeVar("Ends")


class EndsThenMaps(Generic[Ends]):
    """Ends of mirrors' logs, and maps with every break below these ends.

    A break is durable before the first record above it is sent (I3), so maps that are read after an
    end cover it. Read before, they may lack the break that the last append needed, and unequal
    offsets would be taken for equal: groups skip records, copying begins at the wrong one.

    Parameters
    ----------
    read_ends
        Asks the target for log ends; called at once.
    read_maps
        Reads all maps of the link as they are durable then; called at their first use.

    Raises
    ------
    ConnectionLost, BrokerError
        What `read_ends` raises; at the first use of `maps`, what `read_maps` raises.
    """

    def __init__(self, read_ends: Callable[[], Ends], read_maps: Callable[[], MapReader]) -> None:
        self.ends = read_ends()
        self._read_maps = read_maps

    @cached_property
    def maps(self) -> MapReader:
        """The maps, read once: right up to a mirror's end; later breaks may still change."""
        return self._read_maps()
