"""From what a fetch answered for a partition to the batches its mirror appends.

I1  Each batch carries the link's producer id and the target offset it expects as its sequence.
I3  Where source offsets have a hole, the batch behind it says so (`ConvertedBatch.breaks`).
I5  Order, key, value, headers and the timestamps that readers see stay what they are.
I6  What can't be carried stops the walk with a reason; nothing is left out in silence. Passed over
    is only what a reader of committed records never sees: transactions' markers, records of
    transactions that were aborted, and batches that compaction has left empty.

Three ways for a batch, the cheapest that fits:

- *raw*: its header is patched where it stands, its payload is not looked at, its CRC follows by
  the delta method (`crc`), so that damage on the way is found by the target broker.
- *joined*: small batches one behind the other become one (`joining`). The CRC of each is checked
  first, because the new one vouches for new bytes. Compressed ones are joined only where the link
  asks for compression anyway: else they would cost CPU that nobody asked for.
- *rewritten*: where records must change. LogAppendTime batches get the timestamp that readers see
  written into each record (the target keeps CreateTime, and has no other way to show it). A batch
  that begins before the position loses its head. Of one that compaction has thinned the rest moves
  together: brokers take only batches without holes. If a batch does not fit, it is split. What
  Kafka before 0.11 wrote (`old_format`) becomes a batch of today.

Speeds: `bench/convert_speed.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from heliostat.errors import BatchError
from heliostat.invariants import batch_continues, sequence_of
from heliostat.offsets.offset_map import Break
from heliostat.records.batches.aborted import Aborted, AbortedTransactions
from heliostat.records.batches.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    check_crc,
    claimed_size,
    pack_header,
    patch_header,
    read_header,
)
from heliostat.records.batches.codecs import DECOMPRESSED_BYTES_MAX, TooMuch, compress, decompress
from heliostat.records.batches.converted import (
    ConvertedBatch,
    ConvertOutcome,
    ConvertSettings,
    Place,
    Refusal,
    Stop,
    StopReason,
)
from heliostat.records.batches.crc import Buffer
from heliostat.records.batches.joining import (
    FarApart,
    JoinLimits,
    NewRecords,
    SourceRecords,
    encode_new,
    join_run,
)
from heliostat.records.batches.legacy_format import OLD_MAGICS, read_old

SOURCE_BATCH_BYTES_MAX = 100 * 1024 * 1024
"""A broker's `socket.request.max.bytes`: no producer can have sent more, so it is damage."""
_ATTRIBUTES_LOW_AT = 22
PLACE_BYTES = 144
"""In memory, of one of thousands of places where source offsets don't follow each other."""
_MAY_BE_PASSED = CONTROL_BIT | TRANSACTIONAL_BIT
_OFFSET = struct.Struct(">q")
_COUNTS = struct.Struct(">23xi30xi")
"""Of a header: last offset delta and records count."""


def convert(  # noqa: PLR0917 - where, how, and of what
    buffer: bytearray | memoryview,
    start: int,
    end: int,
    place: Place,
    settings: ConvertSettings,
    aborted: Sequence[Aborted] = (),
    refused: Refusal | None = None,
) -> ConvertOutcome:
    """Make batches to append from what a fetch answered for one partition.

    Parameters
    ----------
    buffer, start, end
        The answer's batches are `buffer[start:end]`; it is written to, and the batches point into
        it. The last batch may be cut, the first may begin before `place`.
    place
        Source offset to go on from, and the target offset that it gets.
    settings
        Producer, limits, and what is joined or compressed.
    aborted
        Transactions that the answer names as aborted.
    refused
        Where to stop.

    Returns
    -------
    ConvertOutcome
        Batches of all that readers see from `place` on. Bad input never raises: what was sound
        before it is returned, and `stop` says what is wrong.
    """
    walk = _Walk(memoryview(buffer)[:end], start, place, settings, aborted)
    walk.refused = refused
    try:
        walk.go()
    except TooMuch as error:
        walk.stop(StopReason.TOO_LARGE, f"its batch can't be rewritten: {error.text}")
    except BatchError as error:
        walk.stop(StopReason.CORRUPT, error.text)
    return walk.outcome


class _Walk:
    """One walk over an answer: `at` in the buffer, `outcome.next_offset` in the source's log."""

    def __init__(
        self,
        view: memoryview,
        start: int,
        place: Place,
        settings: ConvertSettings,
        aborted: Sequence[Aborted],
    ) -> None:
        self.view = view
        self.at = start
        self.end = len(view)
        self.outcome = ConvertOutcome(place.source, place.target)
        self._ahead = place.ahead
        self._settings = settings
        self._transactions = AbortedTransactions(aborted)
        self._is_first = True
        self.refused: Refusal | None = None
        """Where to stop."""

    def go(self) -> None:
        """Walk to the end, or to what stops it."""
        while self.at < self.end and self.outcome.stop is None:
            if self.refused is None and self._join():
                self._is_first = False
                continue
            if self._is_old(self.at):
                self._rewrite_old()
                continue
            header = read_header(self.view, self.at, self.end)
            if header is None:
                self._look_at_cut()
                return
            if header.next_offset <= self.outcome.next_offset and self._is_first:
                self.at += header.size
                continue
            is_plain = header.records_count and not header.attributes & _MAY_BE_PASSED
            if not is_plain and self._holds_nothing(header, self.at):
                self._check_place(header, self.at, self.outcome.next_offset)
                self.outcome.next_offset = max(header.next_offset, self.outcome.next_offset)
            elif self.refused is not None and self.refused.offset < header.next_offset:
                self._take_up_to(self.refused, header)
            else:
                self._take(header)
            self._is_first = False
            self.at += header.size

    def _is_old(self, at: int) -> bool:
        """Whether a message of a format before v2 stands there."""
        return self.end - at > MAGIC_AT and self.view[at + MAGIC_AT] in OLD_MAGICS

    def _take(self, header: BatchHeader) -> None:
        """Carry one batch by itself."""
        expected = self.outcome.next_offset
        if (
            header.length <= self._settings.batch_bytes_max - LENGTH_ENDS_AT
            and header.base_offset >= expected
            and header.records_count == header.last_offset_delta + 1
            and not header.attributes & LOG_APPEND_TIME_BIT
        ):
            if not batch_continues(expected, header.base_offset):
                check_crc(self.view, self.at, header)
                self._check_place(header, self.at, expected)
            self._patch(header)
        else:
            self._check_place(header, self.at, expected)
            self._rewrite(header)

    def _take_up_to(self, refused: Refusal, header: BatchHeader) -> None:
        """Carry what stands before a record that the target refuses."""
        self.refused = None
        if refused.offset < header.base_offset:
            self._take(header)  # compaction has taken that record since
            return
        self._check_place(header, self.at, self.outcome.next_offset)
        self._rewrite(header, refused.offset - header.base_offset)
        if self.outcome.stop is None:
            self.outcome.next_offset = refused.offset
            self.outcome.stop = Stop(StopReason.RECORD_REFUSED, refused.offset, refused.text)

    def _check_place(self, header: BatchHeader, at: int, expected: int) -> None:
        """A hole before the batch at `at` is believed if the one behind it does not contradict.

        Base offsets are outside of a batch's checksum; see also `claimed_offsets`.
        """
        claim = f"its batch claims offsets {header.base_offset} to {header.last_offset}"
        if header.base_offset < expected and not self._is_first:
            raise BatchError(f"{claim} out of order")
        at += header.size
        if header.base_offset <= expected or self.end - at < HEADER_BYTES:
            return
        following = _OFFSET.unpack_from(self.view, at)[0]
        if following < header.next_offset:
            raise BatchError(f"{claim}, the next one {following}")

    def _pass_over(self, at: int, expected: int) -> int | None:
        """Source offset behind the batch at `at` if it holds nothing that readers see."""
        if self._is_old(at):
            return None
        header = read_header(self.view, at, self.end)
        if header is None or not self._holds_nothing(header, at):
            return None
        self._is_first = False  # something stands before it
        self._check_place(header, at, expected)
        return header.next_offset

    def _holds_nothing(self, header: BatchHeader, at: int) -> bool:
        is_void = header.records_count == 0 or header.is_control
        if not is_void and not self._transactions.has_aborted(header):
            return False
        check_crc(self.view, at, header)
        if header.is_control and header.records_count:  # a cleaner may have taken the marker
            self._transactions.take_marker(self.view, at, header)
        return True

    def stop(self, reason: StopReason, why: str) -> None:
        """Go no further than the next offset."""
        offset = self.outcome.next_offset
        self.outcome.stop = Stop(reason, offset, f"source offset {offset} can't be copied: {why}")

    def _look_at_cut(self) -> None:
        """A cut batch comes whole with the next fetch, unless it is one that never can."""
        size = claimed_size(self.view, self.at, self.end)
        if size is None:
            return
        base_offset = _OFFSET.unpack_from(self.view, self.at)[0]
        if size > SOURCE_BATCH_BYTES_MAX and base_offset >= self.outcome.next_offset:
            self.stop(StopReason.CORRUPT, f"its batch claims to have {size} bytes")

    def _patch(self, header: BatchHeader) -> None:
        """The raw way."""
        target = self.outcome.next_target_offset
        patch_header(
            self.view,
            self.at,
            header,
            producer_id=self._settings.producer_id,
            base_sequence=sequence_of(target),
        )
        batch = ConvertedBatch(
            target,
            header.records_count,
            (self.view[self.at : self.at + header.size],),
            header.size,
            header.max_timestamp,
        )
        self._add(batch, ((0, header.base_offset),), header.next_offset)

    def _join(self) -> bool:
        """Join what stands here with what follows; whether that was possible."""
        if not self._is_small(self.at):
            return False
        size = claimed_size(self.view, self.at, self.end) or 0
        if not self._is_small(self.at + size):
            return False
        settings = self._settings
        limits = JoinLimits(
            settings.join_below_bytes,
            min(settings.join_bytes_max, settings.batch_bytes_max),
            compressed=settings.compression is not None,
            transactional=self._transactions.none_aborted,
            dense=settings.ends_at_holes,
        )
        data = np.frombuffer(self.view, np.uint8)
        first = _OFFSET.unpack_from(self.view, self.at)[0]
        if first < self.outcome.next_offset:
            return False
        run = join_run(data, self.at, self.end, first, limits, self._pass_over)
        if run.trouble is None and run.batches <= 1:
            return False
        if run.batches:
            self._add_new(
                run.new, settings.compression or run.codec, run.new.places, run.next_offset
            )
            self.at = run.end
        if run.trouble is not None:
            raise run.trouble
        return True

    def _is_small(self, at: int) -> bool:
        """Whether a whole batch for joining seems to stand at `at`; a quick look."""
        size = claimed_size(self.view, at, self.end)
        if size is None or not HEADER_BYTES < size < self._settings.join_below_bytes:
            return False
        if at + size > self.end:
            return False
        is_compressed = self.view[at + _ATTRIBUTES_LOW_AT] & CODEC_BITS
        if not is_compressed or self._settings.compression is not None:
            return True
        last_delta, count = _COUNTS.unpack_from(self.view, at)
        return bool(count != last_delta + 1)

    def _add_new(
        self,
        new: NewRecords,
        codec: Codec,
        places: Sequence[tuple[int, int]],
        next_offset: int,
    ) -> None:
        """Add a batch of records encoded by us; compressed only if that makes it smaller."""
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
            body = bytes(body)  # each part of a split batch would keep room for the whole of it
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
        batch = ConvertedBatch(base_offset, new.records, (header, body), size, new.max_timestamp)
        batch.own_bytes = own_bytes
        self._add(batch, places, next_offset)

    def _add(
        self, batch: ConvertedBatch, places: Sequence[tuple[int, int]], next_offset: int
    ) -> None:
        """Add a batch; where source offsets move away from the target's, say so in it (I3).

        `places` are (number of a record in the batch, its source offset).
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

    def _rewrite(self, header: BatchHeader, end: int | None = None) -> None:
        """Encode the records from the next offset on anew, as few batches as fit.

        Those with an offset delta from `end` on are left out.
        """
        check_crc(self.view, self.at, header)
        packed = self.view[self.at + HEADER_BYTES : self.at + header.size]
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
            self._split(records, header.codec, header.base_offset, first, end)

    def _split(
        self, records: SourceRecords, codec: Codec, base_offset: int, first: int, end: int
    ) -> None:
        """Add the records with offset deltas `[first, end)` in as few batches as fit."""
        ranges = [(first, end)]
        while ranges and self.outcome.stop is None:
            start, stop = ranges.pop()
            ranges += self._rewrite_range(records, codec, base_offset, start, stop)

    def _rewrite_range(
        self, records: SourceRecords, codec: Codec, base_offset: int, start: int, stop: int
    ) -> Sequence[tuple[int, int]]:
        """Add one batch of the records `[start, stop)`, or say how to split them, last first."""
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
        before = self._ahead, self.outcome.next_offset, self.outcome.next_target_offset
        places = [(number, base_offset + delta) for number, delta in new.places]
        self._add_new(new, codec, places, next_offset)
        size = self.outcome.batches[-1].size
        if size <= self._settings.batch_bytes_max:
            return ()
        self.outcome.batches.pop()
        self._ahead, self.outcome.next_offset, self.outcome.next_target_offset = before
        if new.records > 1:
            return halves
        self.outcome.next_offset = places[0][1]
        self._stop_too_large(size)
        return ()

    def _stop_too_large(self, size: int) -> None:
        largest = self._settings.batch_bytes_max
        self.stop(
            StopReason.TOO_LARGE,
            f"it takes a batch of {size} bytes, the target topic takes {largest} "
            "(max.message.bytes)",
        )

    def _rewrite_old(self) -> None:
        """Encode anew what stands here in the formats of Kafka before 0.11."""
        expected = self.outcome.next_offset
        last = -1 if self._is_first else expected - 1
        found = read_old(self.view, self.at, self.end, expected, last)
        self.at = found.end
        self._is_first = False
        for run in found.runs:
            self._split(run.records, run.codec, run.base_offset, 0, run.deltas)
        self.outcome.next_offset = max(self.outcome.next_offset, found.next_offset)
