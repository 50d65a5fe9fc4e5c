"""Progress of one partition's copy."""

from __future__ import annotations

from heliostat.names import Offset
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.cells import (
    BYTES,
    CAUGHT_UP,
    COPIED_END,
    COPIED_TO,
    HIGH_WATERMARK,
    LAST_STABLE,
    LAST_TIMESTAMP,
    MISSING,
    POSITION,
    RECORDS,
    Cell,
    Cells,
)
from heliostat.records.copier.partition_standing import Standing

NO_PLACE = (-1, -1)


class PartitionProgress:
    """Offsets at both ends of one partition, and what was copied in this round.

    Parameters
    ----------
    cells
        The partition's numbers.
    """

    position = Cell(POSITION)
    """Source offset below which everything is a hole or at the target (acknowledged, or by its log
    end)."""
    copied_to = Cell(COPIED_TO)
    """Source offset below which the link knows that all is at the target (-1: not known)."""
    copied_end = Cell(COPIED_END)
    """Log end offset of the target at that time (-1: not known)."""
    high_watermark = Cell(HIGH_WATERMARK)
    last_stable_offset = Cell(LAST_STABLE)
    """From here on transactions are open: nothing is copied from there before they end."""
    records = Cell(RECORDS)
    bytes = Cell(BYTES)
    last_timestamp_ms = Cell(LAST_TIMESTAMP)
    caught_up_ms = Cell(CAUGHT_UP)
    """Wall clock when the target last held all that the source had."""
    missing_ms = Cell(MISSING)
    """Timestamp of the oldest missing record, or, while more batches are under way, of the one
    before it; where it was yet to come, the time when it was seen (-1: not known)."""

    def __init__(self, cells: Cells | None = None) -> None:
        self.cells = cells or Cells()
        self._found_end = -1
        """Log end offset of the target when last read (-1: not in this round)."""
        self.lost: tuple[int, int] | None = None
        """Source offsets that the target has lost since the last report, see `RoundReport.lost`."""
        self.looked_up_at = -1
        """The position whose record's timestamp was looked up (-1: none)."""
        self._place = NO_PLACE
        """Position and log end offset of the target when copying was interrupted last."""
        self.is_end_old = False
        """Whether the source's end could not be asked for since something failed."""
        self._reported: tuple[object, ...] | None = None

    @property
    def target_end(self) -> int:
        """Log end offset of the target, as far as this round knows (-1: not read yet)."""
        return -1 if self._found_end < 0 else max(self._found_end, self.copied_end)

    @property
    def is_level(self) -> bool:
        """Whether the target has all that the source had when it was last asked."""
        return 0 <= self.high_watermark <= self.position

    @property
    def must_be_looked_up(self) -> bool:
        """Whether the timestamp at the position was not looked up."""
        return self.missing_ms < 0 or self.looked_up_at != self.position

    @property
    def has_no_age(self) -> bool:
        """Whether records are missing, and nothing of them was seen yet."""
        return self.missing_ms < 0 and 0 <= self.position < self.last_stable_offset

    def pass_last_hole(self, end: int) -> None:
        """Move the position past a hole of the source that came after the mirror's last record.

        The map has no row of it, and the source may no longer have those offsets.
        """
        for position, known_end in ((self.copied_to, self.copied_end), self._place):
            if known_end == end:
                self.position = max(self.position, position)

    def keep_place(self, doubted_from: int | None) -> int:
        """Remember holes passed since the last record, as the target's end is read again.

        Else they are asked for again, and what retention has deleted of them looks like a loss.

        Parameters
        ----------
        doubted_from
            Source offset from which on the source may have others now; None: there is no doubt.

        Returns
        -------
        The position.
        """
        is_known = doubted_from is None and self._found_end >= 0
        self._place = (self.position, self.target_end) if is_known else NO_PLACE
        return self.position

    def take_place(self, before: PartitionProgress, doubted_from: int | None) -> None:
        """Take over what another copy of the partition knew."""
        self.copied_to, self.copied_end = before.copied_to, before.copied_end
        before.keep_place(doubted_from)
        self._place = before._place

    def found_end(self, end: int, *, copies: bool) -> None:
        """Note the target's log end, and which acknowledged records it has lost (I2).

        Reports, one a second, would not show the loss: it is copied again within milliseconds.
        """
        self._found_end = end
        if copies and end < self.copied_end:
            before = self.lost or (self.position, self.copied_to)
            self.lost = min(before[0], self.position), max(before[1], self.copied_to)
            self.copied_to, self.copied_end = self.position, end

    def is_unknown(self) -> None:
        """Forget where both ends stand: they are read again."""
        self.position = self.high_watermark = self.last_stable_offset = self._found_end = -1
        self.missing_ms = self.looked_up_at = -1
        self._place = NO_PLACE

    def has_news(self, standing: Standing) -> bool:
        """Return whether anything changed since the last call."""
        at = (self.position, self.high_watermark, self.last_stable_offset, self.missing_ms)
        now = (*at, self.is_end_old, standing.state, standing.code)
        before, self._reported = self._reported, now
        return now != before

    def take_lost(self) -> tuple[int, int] | None:
        """Return what the target has lost since the last call."""
        lost, self.lost = self.lost, None
        return lost

    def source_ends(self, high_watermark: int, last_stable_offset: int) -> None:
        """Note where the source ends; -1: the last stable offset is the high watermark."""
        self.is_end_old = False
        self.high_watermark = high_watermark
        self.last_stable_offset = high_watermark if last_stable_offset < 0 else last_stable_offset

    def note_level(self, now_ms: int) -> None:
        """Note the time if everything that can be copied is."""
        if self.position >= self.last_stable_offset:
            self.caught_up_ms, self.missing_ms = now_ms, -1

    def filled_to(self, position: Offset, now_ms: int) -> None:
        """Note that markers stand for all up to a source offset."""
        self.position = position
        self.note_level(now_ms)

    def is_behind_from(self, written_ms: int, now_ms: int) -> None:
        """Note the timestamp of the oldest missing record; a time to come counts from now on."""
        if written_ms >= 0:
            self.missing_ms = min(written_ms, now_ms)


def count_landed(progress: PartitionProgress, batch: ConvertedBatch, now_ms: int) -> None:
    """Count what was appended; by its largest timestamp is known how old the next record is."""
    progress.records += batch.records
    progress.bytes += batch.size
    progress.last_timestamp_ms = max(progress.last_timestamp_ms, batch.max_timestamp)
    progress.is_behind_from(batch.max_timestamp, now_ms)
    progress.note_level(now_ms)
