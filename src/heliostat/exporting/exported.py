"""Records of a partition as they are exported, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from heliostat.names import Offset, TopicPartition
from heliostat.verify.stream import Batch

CREATE_TIME, LOG_APPEND_TIME = 0, 1
_TYPE_BIT = 3
"""Of a batch's attributes: who set the timestamps (KIP-32)."""
Headers = tuple[tuple[str, bytes | None], ...]


class ExportedRecord(NamedTuple):
    """A record with all that a consumer sees of it, and where it stands."""

    partition: TopicPartition
    offset: Offset
    timestamp_ms: int
    timestamp_type: int
    """`CREATE_TIME` or `LOG_APPEND_TIME`."""
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size(self) -> int:
        """Its bytes, without what frames them."""
        of_headers = sum(len(name) + len(content or b"") for name, content in self.headers)
        return len(self.key or b"") + len(self.value or b"") + of_headers


def exported(
    partition: TopicPartition, batches: Iterable[Batch], start: int, stop: int
) -> Iterator[ExportedRecord]:
    """Yield the records of batches with offsets in `[start, stop)`.

    Raises
    ------
    BatchError
        The records of a batch can't be decoded.
    """
    for batch in batches:
        timestamp_type = batch.meaning[0] >> _TYPE_BIT & 1
        for offset, timestamp_ms, key, value, headers in batch.rows(start, stop):
            yield ExportedRecord(
                *(partition, Offset(offset), timestamp_ms, timestamp_type),
                *(key, value, tuple(headers)),
            )
