"""Converts a partition's fetched batches into the batches that its mirror appends.

I1  Each batch carries the link's producer id and the target offset it expects as its sequence.
I3  The batch after a hole in the source offsets names the break (`ConvertedBatch.breaks`).
I5  Order, key, value, headers and the timestamps that readers see don't change.
I6  What can't be converted stops the walk with a reason; nothing is left out silently. Only what a
    reader of committed records never sees is passed over: transaction markers, records of aborted
    transactions, and batches that compaction has left empty.

A batch is converted in the cheapest of three ways that is possible:

- *raw*: its header is patched in place, its payload is not read, and its CRC is corrected by the
  difference between the headers (`crc`), so that the target broker finds damage on the way.
- *joined*: consecutive small batches become one (`joining`). The CRC of each is checked first,
  because the new CRC is computed over new bytes. Compressed ones are joined only if the link
  compresses anyway, or if the target is far: otherwise decompressing them would cost CPU for
  nothing.
- *rewritten*: where records must change. In LogAppendTime batches the timestamp that readers see is
  written into each record (the target uses CreateTime, and has no other way to show it). A batch
  that begins before the position loses its first records. The records left in a compacted batch
  become a batch without holes, as brokers accept no other. A batch that is too large is split. One
  that a pipeline has opened is compressed again. The formats before Kafka 0.11 (`legacy_format`)
  become v2 batches.

Speeds: `bench/convert_speed.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from heliostat.errors import BatchError
from heliostat.invariants import batch_continues
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
    check_crc,
    claimed_size,
    read_header,
)
from heliostat.records.batches.batch_maker import BatchMaker
from heliostat.records.batches.codecs import TooMuch
from heliostat.records.batches.converted import (
    BatchPlace,
    ConvertOutcome,
    ConvertSettings,
    RefusedRecord,
    Stop,
    StopReason,
)
from heliostat.records.batches.joining import JoinLimits, join_run
from heliostat.records.batches.legacy_format import OLD_MAGICS, read_old

SOURCE_BATCH_BYTES_MAX = 100 * 1024 * 1024
"""Default of a broker's `socket.request.max.bytes`: a batch that claims more is damaged."""
PACKED_RATIO_MAX = 4
"""So much larger than a joined batch may compressed records be before compression, whose size is
known only afterwards: more is memory of readers, and a poor guess."""
_ATTRIBUTES_LOW_AT = 22
_MAY_BE_PASSED = CONTROL_BIT | TRANSACTIONAL_BIT
_OFFSET = struct.Struct(">q")
_COUNTS = struct.Struct(">23xi30xi")
"""Two fields of a header: last offset delta and records count."""


def convert(  # noqa: PLR0917 - where, how, and of what
    buffer: bytearray | memoryview,
    start: int,
    end: int,
    place: BatchPlace,
    settings: ConvertSettings,
    aborted: Sequence[Aborted] = (),
    refused: RefusedRecord | None = None,
) -> ConvertOutcome:
    """Convert what a fetch returned for one partition into batches to append.

    Parameters
    ----------
    buffer, start, end
        The answer's batches are `buffer[start:end]`; headers in it are overwritten, and the new
        batches point into it. The last batch may be cut, the first may begin before `place`.
    place
        Source offset to continue from, and its target offset.
    settings
        Producer id, size limits, and what to join or compress.
    aborted
        Transactions that the answer lists as aborted.
    refused
        The record that the target has refused: convert up to it, then stop.

    Returns
    -------
    ConvertOutcome
        Batches with all records that readers see from `place` on. Bad input never raises: the valid
        batches before it are returned, and `stop` says what is wrong.
    """
    walk = _Walk(memoryview(buffer)[:end], start, place, settings, aborted)
    walk.refused = refused
    try:
        walk.go()
    except TooMuch as error:
        walk.batches.stop(StopReason.TOO_LARGE, f"its batch can't be rewritten: {error.text}")
    except BatchError as error:
        walk.batches.stop(StopReason.CORRUPT, error.text)
    return walk.outcome


class _Walk:
    """One walk over an answer; it is at `at` in the buffer, at `outcome.next_offset` in the log."""

    def __init__(
        self,
        view: memoryview,
        start: int,
        place: BatchPlace,
        settings: ConvertSettings,
        aborted: Sequence[Aborted],
    ) -> None:
        self.view = view
        self.at = start
        self.end = len(view)
        self.batches = BatchMaker(place, settings)
        self.outcome = self.batches.outcome
        self._settings = settings
        self._transactions = AbortedTransactions(aborted)
        self._opens_many = False
        """Whether compressed batches are joined as many have come for a far target."""
        self._is_first = True
        self.refused: RefusedRecord | None = None
        """A record that the target has refused, not yet reached."""

    def go(self) -> None:
        """Convert batch after batch, to the end of the answer or to what stops it."""
        self._opens_many = self._are_many()
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

    def _is_old(self, position: int) -> bool:
        """Return whether a message of a format before v2 begins at `position`."""
        return self.end - position > MAGIC_AT and self.view[position + MAGIC_AT] in OLD_MAGICS

    def _take(self, header: BatchHeader) -> None:
        """Convert one batch by itself."""
        expected, codec = self.outcome.next_offset, header.codec
        if (
            header.length <= self._settings.batch_bytes_max - LENGTH_ENDS_AT
            and header.base_offset >= expected
            and header.records_count == header.last_offset_delta + 1
            and not header.attributes & LOG_APPEND_TIME_BIT
            and self._settings.codec_of(codec) is codec
        ):
            if not batch_continues(expected, header.base_offset):
                check_crc(self.view, self.at, header)
                self._check_place(header, self.at, expected)
            self.batches.patch(self.view, self.at, header)
        else:
            self._check_place(header, self.at, expected)
            self.batches.rewrite(self.view, self.at, header)

    def _take_up_to(self, refused: RefusedRecord, header: BatchHeader) -> None:
        """Convert the records before one that the target refuses, then stop."""
        self.refused = None
        if refused.offset < header.base_offset:
            self._take(header)  # compaction has removed that record since
            return
        self._check_place(header, self.at, self.outcome.next_offset)
        self.batches.rewrite(self.view, self.at, header, refused.offset - header.base_offset)
        if self.outcome.stop is None:
            self.outcome.next_offset = refused.offset
            self.outcome.stop = Stop(refused.reason, refused.offset, refused.text)

    def _check_place(self, header: BatchHeader, position: int, expected: int) -> None:
        """Believe a hole before the batch at `position` unless the batch after it contradicts.

        No checksum covers base offsets; see also `claimed_offsets`.
        """
        claim = f"its batch claims offsets {header.base_offset} to {header.last_offset}"
        if header.base_offset < expected and not self._is_first:
            raise BatchError(f"{claim} out of order")
        position += header.size
        if header.base_offset <= expected or self.end - position < HEADER_BYTES:
            return
        following = _OFFSET.unpack_from(self.view, position)[0]
        if following < header.next_offset:
            raise BatchError(f"{claim}, the next one {following}")

    def _pass_over(self, position: int, expected: int) -> int | None:
        """Return the source offset after the batch at `position` if readers see nothing of it."""
        if self._is_old(position):
            return None
        header = read_header(self.view, position, self.end)
        if header is None or not self._holds_nothing(header, position):
            return None
        self._is_first = False  # batches precede it
        self._check_place(header, position, expected)
        return header.next_offset

    def _holds_nothing(self, header: BatchHeader, position: int) -> bool:
        is_void = header.records_count == 0 or header.is_control
        if not is_void and not self._transactions.has_aborted(header):
            return False
        check_crc(self.view, position, header)
        if header.is_control and header.records_count:  # a cleaner may have removed the marker
            self._transactions.take_marker(self.view, position, header)
        return True

    def _look_at_cut(self) -> None:
        """Stop if the cut batch claims an impossible size; else the next fetch returns it whole."""
        size = claimed_size(self.view, self.at, self.end)
        if size is None:
            return
        base_offset = _OFFSET.unpack_from(self.view, self.at)[0]
        if size > SOURCE_BATCH_BYTES_MAX and base_offset >= self.outcome.next_offset:
            self.batches.stop(StopReason.CORRUPT, f"its batch claims to have {size} bytes")

    def _join(self) -> bool:
        """Join the batch at `self.at` with those that follow; return whether that was possible."""
        if not self._is_small(self.at):
            return False
        size = claimed_size(self.view, self.at, self.end) or 0
        if not self._is_small(self.at + size):
            return False
        if _OFFSET.unpack_from(self.view, self.at)[0] < self.outcome.next_offset:
            return False
        bytes_max = min(self._settings.join_bytes_max, self._settings.batch_bytes_max)
        is_compressed = bool(self.view[self.at + _ATTRIBUTES_LOW_AT] & CODEC_BITS)
        if is_compressed and self._opens_many:
            end = min(self.end, self.at + bytes_max)  # compressed again, it has about this size
            is_joined = self._join_to(end, PACKED_RATIO_MAX * bytes_max)
            if is_joined is not None:
                return is_joined
        return self._join_to(self.end, bytes_max) or False

    def _join_to(self, end: int, bytes_max: int) -> bool | None:
        """Join the batch at `self.at` with those before `end` to one of `bytes_max` uncompressed.

        Returns whether that was possible; None: nothing is joined, as the target would refuse it.
        """
        settings = self._settings
        limits = JoinLimits(
            settings.join_below_bytes,
            bytes_max,
            compressed=self._opens_many or settings.compression is not None,
            transactional=self._transactions.none_aborted,
            dense=settings.ends_at_holes,
        )
        data = np.frombuffer(self.view, np.uint8)
        first = _OFFSET.unpack_from(self.view, self.at)[0]
        run = join_run(data, self.at, end, first, limits, self._pass_over)
        if run.trouble is None and run.batches <= 1:
            return False
        if run.batches:
            codec = settings.codec_of(settings.compression or run.codec)
            size = self.batches.add_new(run.new, codec, run.new.places, run.next_offset)
            if size > settings.batch_bytes_max:
                return None
            self.at = run.end
        if run.trouble is not None:
            raise run.trouble
        return True

    def _are_many(self) -> bool:
        """Return whether so many compressed batches came that they are joined for a far target."""
        left, position = self._settings.in_flight_max, self.at
        if not self._settings.is_target_far:
            return False
        while left and (size := claimed_size(self.view, position, self.end)) is not None:
            if size <= HEADER_BYTES or position + size >= self.end:
                return False
            left -= bool(self.view[position + _ATTRIBUTES_LOW_AT] & CODEC_BITS)
            position += size
        return not left

    def _is_small(self, position: int) -> bool:
        """Return whether, at a quick look, a whole batch to join begins at `position`."""
        size = claimed_size(self.view, position, self.end)
        if size is None or not HEADER_BYTES < size < self._settings.join_below_bytes:
            return False
        if position + size > self.end:
            return False
        is_compressed = self.view[position + _ATTRIBUTES_LOW_AT] & CODEC_BITS
        if not is_compressed or self._opens_many or self._settings.compression is not None:
            return True
        last_delta, count = _COUNTS.unpack_from(self.view, position)
        return bool(count != last_delta + 1)

    def _rewrite_old(self) -> None:
        """Re-encode the messages here that are in the formats of Kafka before 0.11."""
        expected = self.outcome.next_offset
        last = -1 if self._is_first else expected - 1
        messages = read_old(self.view, self.at, self.end, expected, last)
        self.at = messages.end
        self._is_first = False
        for run in messages.runs:
            self.batches.split(run.records, run.codec, run.base_offset, 0, run.deltas)
        self.outcome.next_offset = max(self.outcome.next_offset, messages.next_offset)
