"""One partition's offset map while it is copied: where the next record goes, what must be written.

I3  `is_durable_for` holds a batch back until the breaks it needs are durable.

A round begins rows of its own: its first row replaces what an earlier one wrote ahead and never
reached. Rows grow, the same key again and again, so that compaction leaves one of each.
"""

from __future__ import annotations

from collections import deque

from heliostat.names import Offset, id_text
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import ROW_BREAKS_MAX, Break, OffsetMap, Row
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import PartitionSpec

NONE_DURABLE = Break(-1, -1)


class MirrorMap:
    """The map of one partition within one round.

    Parameters
    ----------
    spec
        The partition.
    stamp
        Of the round.
    """

    def __init__(self, spec: PartitionSpec, stamp: Stamp) -> None:
        self._spec = spec
        self._stamp = stamp
        self.source_offset = Offset(0)
        """Source offset of the next record, by the map at the target's end (I2)."""
        self.next_target = 0
        """Target offset of the next record that is fetched."""
        self.ahead: int | None = 0
        """Source offset less target offset there; None: the next batch must say it anew."""
        self.breaks = 0
        """How many the map has: with none both offsets are equal."""
        self.fills = False
        """Holes are filled at the target: its offsets are the source's, and "target" here is the
        number of our record."""
        self._again: tuple[int, Offset] | None = None
        self._row: list[Break] = []
        self._written_ahead: deque[Break] = deque()
        """Durable breaks behind the target's end, of an earlier round."""
        self._durable_to = NONE_DURABLE
        self._needed_to = NONE_DURABLE
        self._writing_to = NONE_DURABLE

    def begin(self, known: OffsetMap, end: int, *, fills: bool = False) -> None:
        """Go on from the target's log end with what is durable of the map."""
        self._stamp = self._stamp._replace(attempt=self._stamp.attempt + 1)
        self.fills = fills
        at = known.target_of(end) if fills else end
        self.source_offset = known.source_of(at)
        if known.is_identity and end < self._spec.start:
            self.source_offset = self._spec.start  # nothing was copied yet, and it can't be lifted
        self._written_ahead = deque(known.breaks(behind=at))
        self.next_target = at
        self.ahead = known.source_of(at) - at
        self.breaks = len(known)
        if self._again is not None and self._again[0] == end:
            self._read_again(self._again[1])
        self._row = []
        self._durable_to = self._needed_to = self._writing_to = NONE_DURABLE

    def read_again(self, end: int, source: Offset) -> None:
        """While the target ends there, trust no hole of the source's at `source` or behind it.

        It was written ahead by a round that read a log which the source has lost since.
        """
        self._again = (end, source)

    def _read_again(self, source: Offset) -> None:
        if source < self.source_offset:
            self.source_offset, self.ahead = source, None
            self._written_ahead.clear()

    def lands_at(self, batch: ConvertedBatch) -> int:
        """Target offset of a batch's first record, where it is appended behind what is before."""
        return batch.source_offset if self.fills else batch.base_offset

    def jump(self, source: int) -> Offset:
        """Go on at another source offset, behind a gap or anew; the next batch says it (I3)."""
        if source != self.source_offset:
            self.source_offset, self.ahead = Offset(source), None
        return self.source_offset

    def queued(self, batch: ConvertedBatch) -> None:
        """A batch was fetched; its breaks are to be written."""
        ahead_before = self.ahead
        self.next_target = batch.next_offset
        self.ahead = batch.source_ahead
        if self._written_ahead and not self._follow(batch, ahead_before):
            return
        if not batch.breaks:
            return
        if len(self._row) >= ROW_BREAKS_MAX and self._writing_to == NONE_DURABLE:
            self._row = [each for each in self._row if each > self._durable_to]
        self._row += batch.breaks
        self.breaks += len(batch.breaks)
        self._needed_to = batch.breaks[-1]

    def is_known_hole(self, place: Break) -> bool:
        """Whether an earlier round has written that no record stands before `place`.

        Said again otherwise, that row could arrive late, and replace what its successor relies on.
        """
        return bool(self._written_ahead) and (
            self._written_ahead[0].target == place.target
            and self._written_ahead[0].source >= place.source
        )

    def _follow(self, batch: ConvertedBatch, ahead: int | None) -> bool:
        """Compare with what was written ahead; whether a row must be written from now on.

        While both agree nothing is written: a late append of an earlier round may still land, and
        the map must be right for it, too. From the first difference on a row replaces the rest.
        """
        theirs: list[Break] = []
        end = batch.next_offset + bool(batch.fills and batch.breaks)  # they stand before its record
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
            # They have a break where we have none: say what stands there, so that theirs goes.
            at = theirs[agreed].target
            before = batch.breaks[agreed - 1] if agreed else None
            distance = (before.source - before.target) if before else (ahead or 0)
            rest.insert(0, Break(at, at + distance))
        self._written_ahead.clear()
        batch.breaks = tuple(rest)
        return True

    def is_durable_for(self, batch: ConvertedBatch) -> bool:
        """Whether the batch may be sent (I3)."""
        return not batch.breaks or batch.breaks[-1] <= self._durable_to

    @property
    def needs_write(self) -> bool:
        """Whether breaks wait to be made durable."""
        return self._needed_to > max(self._durable_to, self._writing_to)

    def row_to_write(self) -> Row | None:
        """What is to be made durable now; it then counts as under way."""
        if self._writing_to != NONE_DURABLE or not self.needs_write:
            return None
        self._writing_to = self._needed_to
        key = RowKey(
            self._spec.target,
            id_text(self._spec.target_topic_id),
            self._row[0].target,
            self._stamp,
        )
        return Row(key, tuple(self._row), self.fills)

    def not_written(self) -> None:
        """There was no room for its row: it is for the next request."""
        self._writing_to = NONE_DURABLE

    def written(self, row: Row) -> None:
        """A row is durable."""
        self._durable_to = row.breaks[-1]
        self._writing_to = NONE_DURABLE
