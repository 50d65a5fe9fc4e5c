"""The 61-byte header of v2 record batches: read, checked, rewritten in place.

Layout: KIP-98, `org.apache.kafka.common.record.DefaultRecordBatch`. The CRC covers bytes 21 to
the end; base offset, length, leader epoch, magic and the CRC itself may change without it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from heliostat.errors import BatchError
from heliostat.records.batches.crc import Buffer, crc32c, shifted

HEADER = struct.Struct(">qiibIhiqqqhii")
"""The whole header, in the order of `BatchHeader`'s fields."""
HEADER_BYTES = 61
LENGTH_ENDS_AT = 12
"""`length` counts the bytes after itself."""
LENGTH_MIN = HEADER_BYTES - LENGTH_ENDS_AT
"""`length` of a batch without records."""
RECORD_BYTES_MIN = 7
"""The smallest record: seven fields of one byte each."""
MAGIC_AT = 16
CRC_FROM = 21
MAGIC = 2

CODEC_BITS = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
OFFSET_MAX = 2**63 - 1

_LENGTH = struct.Struct(">8xi")
_OFFSET_TO_MAGIC = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_CRC_AT = 17
_COUNT = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43


class Codec(Enum):
    """How a batch's records are compressed; the number is the one in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODECS = tuple(Codec)
"""The codecs by their number in the attributes."""


class BatchHeader(NamedTuple):
    """A batch's header as stored; timestamps in ms.

    A named tuple, because one is created for each batch: 1 us less than a frozen dataclass.
    """

    base_offset: int
    length: int
    """Bytes after this field."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """What timestamp deltas count from; with the delete-horizon bit, not a record's timestamp."""
    max_timestamp: int
    """Largest timestamp; with LogAppendTime, that of every record."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_ENDS_AT + self.length

    @property
    def last_offset(self) -> int:
        """Offset of its last record, even if compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """First offset after it."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """The codec that its records are compressed with."""
        return CODECS[self.attributes & CODEC_BITS]

    @property
    def is_log_append_time(self) -> bool:
        """Whether readers see `max_timestamp` for each record."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether its records are part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction marker and no records for readers."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_dense(self) -> bool:
        """Whether every offset from the first to the last has a record."""
        return self.records_count == self.last_offset_delta + 1


def first_timestamp(header: bytes | bytearray | memoryview) -> int:
    """Return the timestamp (ms) of the first record of a batch that begins so, by its header.

    With a delete horizon only the largest timestamp is known without its records.
    """
    attributes = int.from_bytes(header[CRC_FROM : CRC_FROM + 2], "big")
    position = 35 if attributes & (LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT) else 27
    return int.from_bytes(header[position : position + 8], "big", signed=True)


def claimed_size(buffer: Buffer, position: int, end: int) -> int | None:
    """Return the size that the batch at `position` claims; None if its length field is cut off."""
    if end - position < LENGTH_ENDS_AT:
        return None
    length: int = _LENGTH.unpack_from(buffer, position)[0]
    return LENGTH_ENDS_AT + length


def read_header(buffer: Buffer, position: int, end: int) -> BatchHeader | None:
    """Read the header of the batch that begins at `position`.

    Parameters
    ----------
    buffer, position, end
        The batch is within `buffer[position:end]`.

    Returns
    -------
    BatchHeader | None
        None if `end` cuts the batch off, which is usual at the end of a fetch answer.

    Raises
    ------
    BatchError
        The bytes are not a v2 batch, or its header contradicts itself. The CRC is not checked.
    """
    if end - position <= MAGIC_AT:
        return None
    magic = buffer[position + MAGIC_AT]
    if magic in (0, 1):
        raise BatchError(
            "the batch is in the message format of Kafka before 0.11, which is not copied",
            magic=magic,
        )
    if magic != MAGIC:
        raise BatchError("the bytes are not a record batch of a known format", magic=magic)
    length = _LENGTH.unpack_from(buffer, position)[0]
    if length < LENGTH_MIN:
        raise BatchError("a batch claims to be shorter than its header", length=length)
    if position + LENGTH_ENDS_AT + length > end:
        return None
    header = BatchHeader._make(HEADER.unpack_from(buffer, position))
    count, last = header.records_count, header.last_offset_delta
    if count < 0 or last < 0 or count > last + 1:
        raise BatchError("a batch's counts contradict each other", records=count, last_delta=last)
    if not 0 <= header.base_offset <= OFFSET_MAX - 1 - last:
        raise BatchError("a batch's offsets are out of range", base_offset=header.base_offset)
    codec = header.attributes & CODEC_BITS
    if codec >= len(CODECS):
        raise BatchError("a batch's codec is not known", attributes=header.attributes)
    if not codec and count * RECORD_BYTES_MIN > length - LENGTH_MIN:
        raise BatchError("a batch is too short for its records", length=length, records=count)
    return header


def each_header(buffer: Buffer, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield where whole batches in `buffer[position:end]` begin, and their headers (`read_header`).

    Raises
    ------
    BatchError
        As `read_header`, when its turn comes.
    """
    while (header := read_header(buffer, position, end)) is not None:
        yield position, header
        position += header.size


def next_offset(buffer: Buffer, position: int, end: int) -> int | None:
    """Return the offset after the last whole batch in `buffer[position:end]`; None: there is none.

    Compaction may have left that batch empty.

    Raises
    ------
    BatchError
        As `read_header`.
    """
    offset = None
    for _, header in each_header(buffer, position, end):
        offset = header.next_offset
    return offset


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Compare the batch's CRC with its bytes.

    Raises
    ------
    BatchError
        The CRC does not match the bytes.
    """
    checksum = crc32c(memoryview(buffer)[position + CRC_FROM : position + header.size])
    if checksum != header.crc:
        raise BatchError(
            "a batch's checksum does not match its bytes",
            base_offset=header.base_offset,
            stored=header.crc,
            computed=checksum,
        )


def patch_header(
    buffer: bytearray | memoryview,
    position: int,
    header: BatchHeader,
    *,
    producer_id: int,
    base_sequence: int,
) -> None:
    """Make a stored batch one that a producer may send, in place, without reading its payload.

    Base offset 0 (brokers require it of clients), no leader epoch, our producer, epoch 0, and of
    the attributes only the codec: no transaction, no delete horizon (the target's cleaner sets
    its own; deltas still count from the base timestamp), no undefined bits. The CRC is corrected
    by the difference between the two headers, so for a damaged payload it stays wrong.

    Parameters
    ----------
    buffer, position, header
        The batch, and its header as `read_header` returned it. It must not be LogAppendTime:
        clearing that bit would change its records' timestamps.
    producer_id, base_sequence
        The producer to send it as, and the sequence of its first record.
    """
    changing = memoryview(buffer)[position + CRC_FROM : position + HEADER_BYTES]
    difference = crc32c(changing)
    _OFFSET_TO_MAGIC.pack_into(buffer, position, 0, header.length, -1)
    _ATTRIBUTES.pack_into(buffer, position + CRC_FROM, header.attributes & CODEC_BITS)
    _PRODUCER.pack_into(buffer, position + _PRODUCER_AT, producer_id, 0, base_sequence)
    difference ^= crc32c(changing)
    _correct_crc(buffer, position, header, difference)


def _correct_crc(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, difference: int
) -> None:
    """Correct a batch's CRC by the difference between the CRCs of its two headers."""
    crc = header.crc ^ shifted(difference, header.length - LENGTH_MIN)
    _CRC.pack_into(buffer, position + _CRC_AT, crc)


def forget_records(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Make the batch at `position` one without records, as compaction leaves one; its bytes stay.

    Its CRC is corrected by the difference: for a damaged payload it stays wrong.
    """
    changing = memoryview(buffer)[position + CRC_FROM : position + HEADER_BYTES]
    difference = crc32c(changing)
    _COUNT.pack_into(buffer, position + HEADER_BYTES - _COUNT.size, 0)
    difference ^= crc32c(changing)
    _correct_crc(buffer, position, header, difference)


def pack_header(
    body: Buffer,
    *,
    records: int,
    codec: Codec,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    base_sequence: int,
) -> bytes:
    """Return the header of a new dense CreateTime batch with this `body`, already compressed."""
    epoch = 0 if producer_id >= 0 else -1
    fields = (codec.value, records - 1, base_timestamp, max_timestamp)
    return sealed(
        BatchHeader(0, 0, -1, MAGIC, 0, *fields, producer_id, epoch, base_sequence, records), body
    )


def sealed(fields: BatchHeader, body: Buffer) -> bytes:
    """Return the header with these fields; its length and checksum are those for this `body`."""
    header = bytearray(HEADER.pack(*fields._replace(length=LENGTH_MIN + len(body))))
    _CRC.pack_into(header, _CRC_AT, crc32c(body, crc32c(bytes(header[CRC_FROM:]))))
    return bytes(header)
