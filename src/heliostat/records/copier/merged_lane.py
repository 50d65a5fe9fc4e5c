"""What a lane is told of merged topics (docs/adr/0059)."""

from __future__ import annotations

from typing import NamedTuple

from heliostat.merge.own_end import OwnNote


class MergedLane(NamedTuple):
    """What a lane is told of merged topics besides what it is told of any."""

    producers_id: str
    """Id of the source's topic of links' producer ids ..."""
    producers_end: int
    """... and up to where it has been read."""
    notes: tuple[tuple[int, OwnNote], ...] = ()
    """(Index of the partition, what is noted); a missing one has its `PartitionSpec.merged_from`
    alone."""
