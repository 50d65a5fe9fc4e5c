"""One partition's offset map while it is copied: where the next record goes, what to write.

I3  `is_durable_for` holds a batch back until the breaks it needs are durable.

Each round begins its own rows: the first one replaces what an earlier round wrote ahead and never
reached. A row grows and is written again under its key, so that compaction leaves one per key.
"""

from __future__ import annotations

from collections import deque

from heliostat.names import Offset, id_text
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import ROW_BREAKS_MAX, Break, MapRow, OffsetMap
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.cells import NEXT_TARGET, Cell, Cells
from heliostat.records.copier.lane import PartitionSpec

NONE_DURABLE = Break(-1, -1)
MERGED_ROW_BREAKS = 64
"""Of a merged topic, where most fetches bring some: a row is written again with each of them."""


class MirrorMap:
    """The map of one partition within one round.

    Parameters
    ----------
    spec
        Partition to copy.
    stamp
        Stamp of the round, for its rows.
    cells
        The partition's numbers.
    """

    next_target = Cell(NEXT_TARGET)
    """Target offset of the next fetched record."""

    def __init__(self, spec: PartitionSpec, stamp: Stamp, cells: Cells | None = None) -> None:
        self.cells = cells or Cells()
        self._spec = spec
        is_merged = spec.merged_from is not None
        self._row_breaks_max = MERGED_ROW_BREAKS if is_merged else ROW_BREAKS_MAX
        self._stamp = stamp
        self.source_offset = Offset(0)
        """Source offset of the next record, by the map at the target's end (I2)."""
        self.ahead: int | None = 0
        """Source offset less target offset there; None: the next batch has the break."""
        self.breaks = 0
        """Number of breaks in the map: with none both offsets are equal."""
        self.fills = False
        """Whether holes are filled at the target: its offsets then equal the source's, and "target"
        in this class means the number of our record."""
        self._again: tuple[int, Offset] | None = None
        self._row: list[Break] = []
        self._written_ahead: deque[Break] = deque()
        """Durable breaks after the target's end, of an earlier round."""
        self._durable_to = NONE_DURABLE
        self._needed_to = NONE_DURABLE
        self._writing_to = NONE_DURABLE

    def begin(self, known: OffsetMap, end: int, *, fills: bool = False) -> None:
        """Begin at the target's log end with the durable part of the map."""
        self._stamp = self._stamp._replace(attempt=self._stamp.attempt + 1)
        self.fills = fills
        at = known.target_of(end) if fills else end
        self.source_offset = known.source_of(at)
        if known.is_identity and end < self._spec.start:
            self.source_offset = self._spec.start  # nothing copied yet, no alignment
        self._written_ahead = deque(known.breaks(after=at))
        self.next_target = at
        self.ahead = known.source_of(at) - at
        self.breaks = len(known)
        if self._again is not None and self._again[0] == end:
            self._read_again(self._again[1])
        self._row = []
        self._durable_to = self._needed_to = self._writing_to = NONE_DURABLE

    def read_again(self, end: int, source: Offset) -> None:
        """While the target ends at `end`, trust no hole of the source at `source` or after it.

        The round that wrote it ahead read a part of the log that the source has lost since.
        """
        self._again = (end, source)

    def _read_again(self, source: Offset) -> None:
        if source < self.source_offset:
            self.source_offset, self.ahead = source, None
            self._written_ahead.clear()

    def lands_at(self, batch: ConvertedBatch) -> int:
        """Return the target offset that a batch's first record must get."""
        return batch.source_offset if self.fills else batch.base_offset

    def jump(self, source: int) -> Offset:
        """Continue at another source offset, as after a gap; the next batch has the break (I3)."""
        if source != self.source_offset:
            self.source_offset, self.ahead = Offset(source), None
        return self.source_offset

    def queued(self, batch: ConvertedBatch) -> None:
        """Note a fetched batch and its breaks, which must be written."""
        ahead_before = self.ahead
        self.next_target = batch.next_offset
        self.ahead = batch.source_ahead
        if self._written_ahead and not self._follow(batch, ahead_before):
            return
        if not batch.breaks:
            return
        if len(self._row) >= self._row_breaks_max and self._writing_to == NONE_DURABLE:
            self._row = [each for each in self._row if each > self._durable_to]
        self._row += batch.breaks
        self.breaks += len(batch.breaks)
        self._needed_to = batch.breaks[-1]

    def is_known_hole(self, place: Break) -> bool:
        """Return whether an earlier round's row already says that the hole reaches to `place`.

        A new row in its stead could arrive late, and replace what a later round relies on.
        """
        return bool(self._written_ahead) and (
            self._written_ahead[0].target == place.target
            and self._written_ahead[0].source >= place.source
        )

    def _follow(self, batch: ConvertedBatch, ahead: int | None) -> bool:
        """Compare with what was written ahead; return whether a row must be written from now on.

        While both agree nothing is written: a late append of an earlier round may still land, and
        the map must fit it, too. From the first difference on, a row replaces the rest.
        """
        theirs: list[Break] = []
        end = batch.next_offset + bool(batch.fills and batch.breaks)  # breaks before its record
        while self._written_ahead and self._written_ahead[0].target < end:
            theirs.append(self._written_ahead.popleft())
        agreed = 0
        for one, other in zip(batch.breaks, theirs, strict=False):
            if one != other:
                break
            agreed += 1
        if agreed == len(theirs) == len(batch.breaks):
            if theirs:
                self._durable_to = theirs[-1]
            return False
        rest = list(batch.breaks[agreed:])
        if agreed < len(theirs) and (not rest or theirs[agreed].target < rest[0].target):
            # They have a break where we have none: write one at that place to replace theirs.
            at = theirs[agreed].target
            before = batch.breaks[agreed - 1] if agreed else None
            distance = (before.source - before.target) if before else (ahead or 0)
            rest.insert(0, Break(at, at + distance))
        self._written_ahead.clear()
        batch.breaks = tuple(rest)
        return True

    def is_durable_for(self, batch: ConvertedBatch) -> bool:
        """Return whether the batch may be sent because its breaks are durable (I3)."""
        return not batch.breaks or batch.breaks[-1] <= self._durable_to

    def goes_on_at(self, source: int) -> bool:
        """Return whether a record at this source offset needs no break and no marker before it."""
        is_open = self._written_ahead or self.needs_write or self.fills
        return not is_open and self.ahead == source - self.next_target

    @property
    def needs_write(self) -> bool:
        """Whether breaks wait to be written durably."""
        return self._needed_to > max(self._durable_to, self._writing_to)

    def row_to_write(self) -> MapRow | None:
        """Return the row to write now, if any; it then counts as in flight."""
        if self._writing_to != NONE_DURABLE or not self.needs_write:
            return None
        self._writing_to = self._needed_to
        key = RowKey(
            self._spec.target,
            id_text(self._spec.target_topic_id),
            self._row[0].target,
            self._stamp,
        )
        return MapRow(key, tuple(self._row), self.fills)

    def not_written(self) -> None:
        """Leave the row to the next request: this one had no room."""
        self._writing_to = NONE_DURABLE

    def written(self, row: MapRow) -> None:
        """Note that a row is durable."""
        self._durable_to = row.breaks[-1]
        self._writing_to = NONE_DURABLE
