"""Batches and rows of one side of a partition."""

from __future__ import annotations

from dataclasses import dataclass

from aiokafka.errors import KafkaError as CodecError
from aiokafka.record.default_records import DefaultRecordBatch
from typing_extensions import override

from heliostat.errors import BatchError

ConsumedRecord = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""One record as consumers see it: offset, timestamp (ms), key, value, headers."""

HEADER_BYTES = 61  # of a v2 batch (KIP-98)


@dataclass(frozen=True, slots=True)
class Batch:
    """One whole record batch with a valid CRC, not decoded yet."""

    base_offset: int
    next_offset: int
    records: int
    meaning: tuple[int, int, int]
    """Codec and timestamp type, base and max timestamp: with the body, all that a reader sees."""
    data: bytes

    def rows(self, start: int, end: int) -> list[ConsumedRecord]:
        """Decode the rows with an offset in `[start, end)`.

        Raises
        ------
        BatchError
            The records cannot be decoded.
        """
        try:
            rows = [
                (r.offset, r.timestamp, r.key, r.value, r.headers)
                for r in DefaultRecordBatch(self.data)
            ]
        except (CodecError, ValueError, IndexError, RuntimeError, MemoryError) as error:
            raise BatchError(
                f"records cannot be decoded: {error}", base_offset=self.base_offset
            ) from error
        if self.base_offset < start or self.next_offset > end:
            return [row for row in rows if start <= row[0] < end]
        return rows

    def same_as(self, other: Batch) -> bool:
        """Return whether both must decode to the same rows: same header fields, same body."""
        return (
            self.base_offset == other.base_offset
            and self.next_offset == other.next_offset
            and self.records == other.records
            and self.meaning == other.meaning
            and memoryview(self.data)[HEADER_BYTES:] == memoryview(other.data)[HEADER_BYTES:]
        )


@dataclass(frozen=True, slots=True)
class DecodedBatch(Batch):
    """A batch whose rows were made when it was read: its bytes are not theirs."""

    decoded: tuple[ConsumedRecord, ...] = ()

    @override
    def rows(self, start: int, end: int) -> list[ConsumedRecord]:
        """Return the rows with an offset in `[start, end)`."""
        return [row for row in self.decoded if start <= row[0] < end]

    @override
    def same_as(self, other: Batch) -> bool:
        """Return False: only rows can be compared."""
        return False
