"""Builds the batches that a mirror appends, each with the breaks of the offset map in it (I3).

There are three ways: patch a header in place, add records that were joined, or re-encode the
records of one batch, split if they are too large for one. `convert` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliostat.invariants import sequence_of
from heliostat.offsets.offset_map import Break
from heliostat.records.batches.batch import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    check_crc,
    pack_header,
    patch_header,
)
from heliostat.records.batches.codecs import DECOMPRESSED_BYTES_MAX, compress, decompress
from heliostat.records.batches.converted import (
    BatchPlace,
    ConvertedBatch,
    ConvertOutcome,
    ConvertSettings,
    Stop,
    StopReason,
)
from heliostat.records.batches.crc import Buffer
from heliostat.records.batches.joining import FarApart, NewRecords, SourceRecords, encode_new

PLACE_BYTES = 144
"""Memory for each place in a batch where source offsets don't follow one another."""


class BatchMaker:
    """Adds batches to `outcome`, each after the one before.

    Parameters
    ----------
    place
        Source and target offset of the first batch.
    settings
        Producer id, size limits and compression.
    """

    def __init__(self, place: BatchPlace, settings: ConvertSettings) -> None:
        self.outcome = ConvertOutcome(place.source, place.target)
        self._ahead = place.ahead
        self._settings = settings

    def stop(self, reason: StopReason, why: str) -> None:
        """Note that conversion stops at the next source offset, and why."""
        offset = self.outcome.next_offset
        self.outcome.stop = Stop(reason, offset, f"source offset {offset} can't be copied: {why}")

    def patch(self, view: memoryview, position: int, header: BatchHeader) -> None:
        """Add the batch at `position`, its header patched in place."""
        target = self.outcome.next_target_offset
        patch_header(
            view,
            position,
            header,
            producer_id=self._settings.producer_id,
            base_sequence=sequence_of(target),
        )
        batch = ConvertedBatch(
            target,
            header.records_count,
            (view[position : position + header.size],),
            header.size,
            header.max_timestamp,
        )
        self._add(batch, ((0, header.base_offset),), header.next_offset)

    def add_new(
        self,
        new: NewRecords,
        codec: Codec,
        places: Sequence[tuple[int, int]],
        next_offset: int,
    ) -> int:
        """Add a batch of newly encoded records; it is compressed only if that makes it smaller.

        Returns its size; if that is more than the target's topic accepts, it is not added.
        """
        base_offset = self.outcome.next_target_offset
        body: Buffer = new.body
        if codec is not Codec.NONE:
            packed = compress(codec, body)
            if len(packed) < len(body):
                body = packed
            else:
                codec = Codec.NONE
        own_bytes = len(body)
        if body is new.body and 2 * own_bytes < new.room_bytes:
            body = bytes(body)  # else each part of a split batch would keep a buffer for the whole
        elif body is new.body:
            own_bytes = new.room_bytes
        header = pack_header(
            body,
            records=new.records,
            codec=codec,
            base_timestamp=new.base_timestamp,
            max_timestamp=new.max_timestamp,
            producer_id=self._settings.producer_id,
            base_sequence=sequence_of(base_offset),
        )
        size = len(header) + len(body)
        if size > self._settings.batch_bytes_max:
            return size
        batch = ConvertedBatch(base_offset, new.records, (header, body), size, new.max_timestamp)
        batch.own_bytes = own_bytes
        self._add(batch, places, next_offset)
        return size

    def _add(
        self, batch: ConvertedBatch, places: Sequence[tuple[int, int]], next_offset: int
    ) -> None:
        """Add a batch with its breaks: where source offset less target offset changes (I3).

        `places` are pairs (number of a record in the batch, its source offset).
        """
        breaks: list[Break] = []
        for number, source in places:
            target = batch.base_offset + number
            if source - target != self._ahead:
                self._ahead = source - target
                breaks.append(Break(target, source))
        batch.breaks = tuple(breaks)
        batch.source_ahead = self._ahead or 0
        batch.places = places
        if len(places) > 1:
            batch.own_bytes += PLACE_BYTES * (len(places) + len(breaks))
        self.outcome.batches.append(batch)
        self.outcome.next_offset = next_offset
        self.outcome.next_target_offset = batch.next_offset

    def rewrite(
        self, view: memoryview, position: int, header: BatchHeader, end: int | None = None
    ) -> None:
        """Re-encode the batch's records from the next offset on, in as few batches as possible.

        Records whose offset delta is `end` or more are left out.
        """
        check_crc(view, position, header)
        packed = view[position + HEADER_BYTES : position + header.size]
        body = decompress(header.codec, packed, DECOMPRESSED_BYTES_MAX)
        append_time = header.max_timestamp if header.is_log_append_time else None
        records = SourceRecords(
            body,
            header.records_count,
            header.base_timestamp,
            append_time,
            is_sparse=not header.is_dense,
        )
        first = max(0, self.outcome.next_offset - header.base_offset)
        end = header.last_offset_delta + 1 if end is None else end
        if first < end:
            codec = self._settings.codec_of(header.codec)
            self.split(records, codec, header.base_offset, first, end)

    def split(
        self, records: SourceRecords, codec: Codec, base_offset: int, first: int, end: int
    ) -> None:
        """Add the records with offset deltas `[first, end)` in as few batches as possible."""
        ranges = [(first, end)]
        while ranges and self.outcome.stop is None:
            start, stop = ranges.pop()
            ranges += self._rewrite_range(records, codec, base_offset, start, stop)

    def _rewrite_range(
        self, records: SourceRecords, codec: Codec, base_offset: int, start: int, stop: int
    ) -> Sequence[tuple[int, int]]:
        """Add the records `[start, stop)` as one batch, or return the ranges to split it into.

        The last range comes first.
        """
        next_offset = base_offset + stop
        halves = ((start + stop) // 2, stop), (start, (start + stop) // 2)
        try:
            new = encode_new(records, start, stop)
        except FarApart:
            return halves
        if not new.records:
            self.outcome.next_offset = next_offset
            return ()
        if self._settings.ends_at_holes and len(new.places) > 1:
            begins = [delta for _, delta in new.places]
            return list(zip(begins, [*begins[1:], stop], strict=True))[::-1]
        places = [(number, base_offset + delta) for number, delta in new.places]
        size = self.add_new(new, codec, places, next_offset)
        if size <= self._settings.batch_bytes_max:
            return ()
        if new.records > 1:
            return halves
        self.outcome.next_offset = places[0][1]
        self._stop_too_large(size)
        return ()

    def _stop_too_large(self, size: int) -> None:
        largest = self._settings.batch_bytes_max
        self.stop(
            StopReason.TOO_LARGE,
            f"it needs a batch of {size} bytes, the target topic accepts {largest} "
            "(max.message.bytes)",
        )
