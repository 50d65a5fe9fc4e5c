"""Messages of format v0 and v1, as brokers older than 0.11 wrote them and 3.x may still hold them.

A message stands alone or wraps compressed ones (KIP-31, KIP-32); aiokafka's codec reads both.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from aiokafka.errors import KafkaError as CodecError
from aiokafka.record.legacy_records import LegacyRecordBatch
from typing_extensions import override

from heliostat.errors import BatchError
from heliostat.verify.stream_values import Batch, Row

NO_TIMESTAMP_MS = -1
"""What readers see of v0, which has none (`RecordBatch.NO_TIMESTAMP`)."""
_CRC_AT, _CRC_FROM = 12, 16
_NO_MEANING = (-1, -1, -1)


@dataclass(frozen=True, slots=True)
class OldBatch(Batch):
    """One message, or what it wraps, decoded at once."""

    decoded: tuple[Row, ...] = ()

    @override
    def rows(self, start: int, end: int) -> list[Row]:
        """Rows with an offset in `[start, end)`."""
        return [row for row in self.decoded if start <= row[0] < end]

    @override
    def same_as(self, other: Batch) -> bool:
        """Never: nobody can append these formats to a target."""
        return False


def old_batch(data: bytes, magic: int) -> OldBatch:
    """Read one message of format v0 or v1.

    Raises
    ------
    BatchError
        Its CRC does not hold, or it cannot be decoded.
    """
    crc = int.from_bytes(data[_CRC_AT:_CRC_FROM], "big")
    if crc32(data[_CRC_FROM:]) != crc:  # before decoding: the codec trusts the lengths within
        raise BatchError("CRC does not hold", magic=magic)
    try:
        rows: tuple[Row, ...] = tuple(
            (
                record.offset,
                NO_TIMESTAMP_MS if record.timestamp is None else record.timestamp,
                record.key,
                record.value,
                [],
            )
            for record in LegacyRecordBatch(data, magic)
        )
    except (CodecError, ValueError, IndexError, RuntimeError, MemoryError) as error:
        raise BatchError(f"messages cannot be decoded: {error}", magic=magic) from error
    last = int.from_bytes(data[:8], "big")
    first = rows[0][0] if rows else last
    return OldBatch(first, last + 1, len(rows), _NO_MEANING, data, rows)
