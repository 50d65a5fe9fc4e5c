"""The numbers of one partition that both ways of copying change: objects here, compiled code there.

They lie in a row of integers. A partition begins with a row of its own; `PlainWay` moves it into
the lane's table, which compiled code gets whole (docs/adr/0020). Objects read and write them as
attributes (`Cell`), so there is one state and no copy of it.
"""

from __future__ import annotations

from array import array
from typing import Any, Protocol

(
    IS_PLAIN,
    ATTEMPT,
    FETCH_OFFSET,
    NEXT_TARGET,
    EPOCH,
    RAN_TO,
    IN_FLIGHT,
    QUEUED_BYTES,
    POSITION,
    COPIED_TO,
    COPIED_END,
    HIGH_WATERMARK,
    LAST_STABLE,
    RECORDS,
    BYTES,
    LAST_TIMESTAMP,
    CAUGHT_UP,
    BATCH_BYTES_MAX,
    LEADER,
    IN_REQUEST,
    FRAMES,
    MISSING,
) = range(22)
"""Columns. Those that only compiled code reads are written by `PlainWay` when a partition becomes
plain: `IS_PLAIN` itself (whether compiled code may copy it), attempt, leader epoch of its last
batch, largest batch, leader at the target, and where its records have schema ids (`SchemaFrames`).
`IN_REQUEST` is the number of the last produce
request with a batch of it, as a request may hold one. `RAN_TO` is the source offset up to which
compiled code has read batches of that epoch, 0: none since `PartitionFetches.epochs` was last
asked. `MISSING` is the timestamp of the oldest record that is missing (wall ms, -1: not known)."""
CELLS = 22
NOT_KNOWN = (POSITION, COPIED_TO, COPIED_END, HIGH_WATERMARK, LAST_STABLE, FETCH_OFFSET)


class Cells:
    """One partition's row: `at[column]` is an integer."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: Any = memoryview(array("q", bytes(8 * CELLS)))
        for column in (*NOT_KNOWN, LAST_TIMESTAMP, CAUGHT_UP, MISSING):
            self.at[column] = -1

    def move_to(self, row: memoryview) -> None:
        """Continue in another row, which takes over the numbers."""
        row[:] = self.at
        self.at = row

    def leave_plain(self) -> None:
        """Hand the partition back to its objects: something about it is not plain."""
        self.at[IS_PLAIN] = 0


class HasCells(Protocol):
    """An object whose numbers lie in cells."""

    cells: Cells


class Cell:
    """An attribute that lies in a cell.

    Parameters
    ----------
    column
        Its column.
    """

    __slots__ = ("_column",)

    def __init__(self, column: int) -> None:
        self._column = column

    def __get__(self, owner: HasCells, _kind: type | None = None) -> int:
        found: int = owner.cells.at[self._column]
        return found

    def __set__(self, owner: HasCells, value: int) -> None:
        owner.cells.at[self._column] = value
