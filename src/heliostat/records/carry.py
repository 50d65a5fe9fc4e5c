"""From what a fetch answered for a partition to the batches its mirror appends.

I1  Each batch carries the link's producer id and the target offset it expects as its sequence.
I5  Offsets, order, key, value, headers and the timestamps that readers see stay what they are.
I6  What can't be carried stops the walk with a reason; nothing is left out in silence.

Three ways for a batch, the cheapest that fits:

- *raw*: its header is patched where it stands, its payload is not looked at, its CRC follows by
  the delta method (`crc`), so that damage on the way is found by the target broker.
- *joined*: small batches one behind the other become one (`joining`). The CRC of each is checked
  first, because the new one vouches for new bytes. Compressed ones are joined only where the link
  asks for compression anyway: else they would cost CPU that nobody asked for.
- *rewritten*: where records must change. LogAppendTime batches get the timestamp that readers see
  written into each record (the target keeps CreateTime, and has no other way to show it). A batch
  that begins before the position loses its head. If it does not fit any more, it is split.

Speeds: `bench/carry_speed.py`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from heliostat.errors import BatchError
from heliostat.invariants import batch_continues, sequence_of
from heliostat.records.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_ENDS_AT,
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
from heliostat.records.codecs import DECOMPRESSED_BYTES_MAX, TooMuch, compress, decompress
from heliostat.records.crc import Buffer
from heliostat.records.joining import (
    FarApart,
    JoinLimits,
    NewRecords,
    SourceRecords,
    encode_anew,
    join_run,
)

JOIN_BYTES_MAX = 1024 * 1024
"""Default size of joined batches: 5,000 small records; larger ones gain nothing measurable."""
JOIN_BELOW_BYTES = 256 * 1024
"""Default: a broker appends larger batches about as fast as a joined one (docs/adr/0005)."""
SOURCE_BATCH_BYTES_MAX = 100 * 1024 * 1024
"""A broker's `socket.request.max.bytes`: no producer can have sent more, so it is damage."""
_ATTRIBUTES_LOW_AT = 22
_OFFSET = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class CarrySettings:
    """How the batches of one partition are made; sizes in bytes."""

    producer_id: int
    batch_bytes_max: int
    """The target topic's `max.message.bytes`."""
    join_bytes_max: int = JOIN_BYTES_MAX
    """Size of a joined batch before compression; never above `batch_bytes_max`."""
    join_below_bytes: int = JOIN_BELOW_BYTES
    """Batches smaller than this are joined; 0 joins none."""
    compression: Codec | None = None
    """Codec of joined batches; None leaves them uncompressed, as they came."""


@dataclass(slots=True)
class CarriedBatch:
    """One batch to append at the target."""

    base_offset: int
    """Where it belongs, at the source and at the target."""
    records: int
    parts: tuple[Buffer, ...]
    """Its bytes in order; they may point into the buffer they came in."""
    size: int
    """Bytes of all parts."""
    max_timestamp: int
    """Largest timestamp of its records (ms), by which a broker remembers the producer."""

    @property
    def next_offset(self) -> int:
        """First offset behind it."""
        return self.base_offset + self.records


class StopReason(Enum):
    """Why a partition can't be carried on."""

    HOLE_COMPACTED = "compacted"
    """A batch lacks records that compaction has removed."""
    HOLE_TRANSACTION = "transaction"
    """A batch belongs to a transaction, or marks the end of one."""
    HOLE_GAP = "gap"
    """Offsets are missing before the next batch."""
    OLD_FORMAT = "old format"
    CORRUPT = "corrupt"
    TOO_LARGE = "too large"


@dataclass(frozen=True, slots=True)
class Stop:
    """What stands in the way, for the operator."""

    reason: StopReason
    offset: int
    """First offset that could not be carried."""
    text: str


@dataclass(slots=True)
class CarryOutcome:
    """What became of a fetch's answer."""

    next_offset: int
    """Where the next fetch goes on; all below is in `batches` or was below the position."""
    batches: list[CarriedBatch] = field(default_factory=list)
    stop: Stop | None = None


def carry(
    buffer: bytearray | memoryview, start: int, end: int, position: int, settings: CarrySettings
) -> CarryOutcome:
    """Make batches to append from what a fetch answered for one partition.

    Parameters
    ----------
    buffer, start, end
        The answer's batches are `buffer[start:end]`; it is written to, and the batches point into
        it. The last batch may be cut, the first may begin before `position`.
    position
        First offset that is wanted.
    settings
        How.

    Returns
    -------
    CarryOutcome
        Batches without a hole from `position` on. Bad input never raises: what was sound before
        it is returned, and `stop` says what is wrong.
    """
    walk = _Walk(memoryview(buffer), start, end, position, settings)
    try:
        walk.go()
    except TooMuch as error:
        walk.stop(StopReason.TOO_LARGE, f"its batch can't be rewritten: {error.text}")
    except BatchError as error:
        old = end - walk.at > MAGIC_AT and walk.view[walk.at + MAGIC_AT] in (0, 1)
        walk.stop(StopReason.OLD_FORMAT if old else StopReason.CORRUPT, error.text)
    return walk.outcome


class _Walk:
    """One walk over an answer: `at` in the buffer, `outcome.next_offset` in the log."""

    def __init__(
        self, view: memoryview, start: int, end: int, position: int, settings: CarrySettings
    ) -> None:
        self.view = view
        self.at = start
        self.end = end
        self.outcome = CarryOutcome(position)
        self._settings = settings

    def go(self) -> None:
        """Walk to the end, or to what stops it."""
        while self.at < self.end and self.outcome.stop is None:
            if self._join():
                continue
            header = read_header(self.view, self.at, self.end)
            if header is None:
                self._look_at_cut()
                return
            expected = self.outcome.next_offset
            if header.next_offset <= expected and not self.outcome.batches:
                self.at += header.size
                continue
            if self._is_stopped_by(header):
                return
            if header.base_offset < expected or header.is_log_append_time:
                self._rewrite(header)
            else:
                self._patch(header)
            self.at += header.size

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
        largest = self._settings.batch_bytes_max
        if size > SOURCE_BATCH_BYTES_MAX:
            self.stop(StopReason.CORRUPT, f"its batch claims to have {size} bytes")
        elif size > largest and base_offset >= self.outcome.next_offset:
            self._stop_too_large(size)

    def _stop_too_large(self, size: int) -> None:
        largest = self._settings.batch_bytes_max
        self.stop(
            StopReason.TOO_LARGE,
            f"its batch has {size} bytes, the target topic takes {largest} (max.message.bytes)",
        )

    def _is_stopped_by(self, header: BatchHeader) -> bool:
        """Whether this batch can't be carried; its CRC is checked before its header is believed."""
        expected = self.outcome.next_offset
        if (
            header.base_offset == expected
            and not header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)
            and header.records_count == header.last_offset_delta + 1
            and header.length <= self._settings.batch_bytes_max - LENGTH_ENDS_AT
        ):
            return False  # nearly all
        first, last = header.base_offset, header.last_offset
        is_first = not self.outcome.batches
        if not batch_continues(expected, first) and not (is_first and first < expected):
            if first < expected:
                raise BatchError(f"its batch claims offsets {first} to {last} out of order")
            self._trust(header)
            why = f"the source has no records from there to {first - 1}"
            self.stop(StopReason.HOLE_GAP, why)
        elif header.is_transactional or header.is_control:
            self._trust(header)
            kind = "a transaction's marker" if header.is_control else "part of a transaction"
            self.stop(StopReason.HOLE_TRANSACTION, f"its batch is {kind}")
        elif not header.is_dense:
            self._trust(header)
            gone = header.last_offset_delta + 1 - header.records_count
            why = f"compaction removed {gone} of the records {first} to {last}"
            self.stop(StopReason.HOLE_COMPACTED, why)
        elif (
            header.size > self._settings.batch_bytes_max
            and first == expected
            and not header.is_log_append_time
        ):
            self._trust(header)
            self._stop_too_large(header.size)
        return self.outcome.stop is not None

    def _trust(self, header: BatchHeader) -> None:
        check_crc(self.view, self.at, header)

    def _patch(self, header: BatchHeader) -> None:
        """The raw way."""
        base_offset = header.base_offset
        patch_header(
            self.view,
            self.at,
            header,
            producer_id=self._settings.producer_id,
            base_sequence=sequence_of(base_offset),
        )
        self._add(
            CarriedBatch(
                base_offset,
                header.records_count,
                (self.view[self.at : self.at + header.size],),
                header.size,
                header.max_timestamp,
            )
        )

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
        )
        data = np.frombuffer(self.view, np.uint8)
        run = join_run(data, self.at, self.end, self.outcome.next_offset, limits)
        if run.trouble is None and run.batches <= 1:
            return False
        if run.batches:
            self._add_new(run.new, settings.compression or Codec.NONE)
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
        return not is_compressed or self._settings.compression is not None

    def _add_new(self, new: NewRecords, codec: Codec) -> None:
        """Add a batch of records encoded by us; compressed only if that makes it smaller."""
        base_offset = self.outcome.next_offset
        body: Buffer = new.body
        if codec is not Codec.NONE:
            packed = compress(codec, body)
            if len(packed) < len(body):
                body = packed
            else:
                codec = Codec.NONE
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
        self._add(CarriedBatch(base_offset, new.records, (header, body), size, new.max_timestamp))

    def _add(self, batch: CarriedBatch) -> None:
        self.outcome.batches.append(batch)
        self.outcome.next_offset = batch.next_offset

    def _rewrite(self, header: BatchHeader) -> None:
        """Encode the records from the next offset on anew, as few batches as fit."""
        check_crc(self.view, self.at, header)
        packed = self.view[self.at + HEADER_BYTES : self.at + header.size]
        body = decompress(header.codec, packed, DECOMPRESSED_BYTES_MAX)
        append_time = header.max_timestamp if header.is_log_append_time else None
        records = SourceRecords(body, header.records_count, header.base_timestamp, append_time)
        first = self.outcome.next_offset - header.base_offset
        ranges = [(first, header.records_count)]
        while ranges and self.outcome.stop is None:
            start, stop = ranges.pop()
            if not self._rewrite_range(records, header.codec, start, stop):
                middle = (start + stop) // 2
                ranges += [(middle, stop), (start, middle)]

    def _rewrite_range(self, records: SourceRecords, codec: Codec, start: int, stop: int) -> bool:
        """Add one batch of the records `[start, stop)`; False if they must be split."""
        try:
            new = encode_anew(records, start, stop)
        except FarApart:
            return False
        before = self.outcome.next_offset
        self._add_new(new, codec)
        size = self.outcome.batches[-1].size
        if size <= self._settings.batch_bytes_max:
            return True
        self.outcome.batches.pop()
        self.outcome.next_offset = before
        if stop - start > 1:
            return False
        self._stop_too_large(size)
        return True
