"""A batch in the place of one of the source's, of which a pipeline has left some records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliostat.records.batches.batch import (
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    sealed,
)
from heliostat.records.batches.codecs import compress


def thinned_batch(
    like: BatchHeader, written: Any, records: int, before: int, times: tuple[int, int]
) -> Sequence[Any]:
    """Return a batch's header and records; it keeps the other's offsets, also where it has none.

    Parameters
    ----------
    like
        The other batch's header, whose offset, producer, transaction and compression it has.
    written, records
        Its records, uncompressed, behind room for a header (uint8); and how many they are.
    before
        Offset at which it ends, if that is not behind the other batch.
    times
        Timestamp that its deltas count from, and its latest one; ms.
    """
    codec, body = like.codec, written[HEADER_BYTES:].data
    if not records:
        codec, body, times = Codec.NONE, memoryview(b""), (like.max_timestamp,) * 2
    elif codec is not Codec.NONE:
        body = compress(codec, body)
    base_timestamp, max_timestamp = times
    fields = like._replace(
        attributes=like.attributes & TRANSACTIONAL_BIT | codec.value,
        last_offset_delta=min(like.next_offset, before) - 1 - like.base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=records,
    )
    return [sealed(fields, body), body]
