"""Filler records that align the start of an empty target partition with its source's.

If a source begins at offset S > 0, its mirror still gets equal offsets: S records without content
are appended, a million a batch, and deleted again before anybody copies or reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from heliostat.errors import BatchError
from heliostat.invariants import sequence_of
from heliostat.records.batches.batch import HEADER_BYTES, Codec, pack_header
from heliostat.records.batches.codecs import compress
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.batches.varints import LAST, MORE, PAIR_BITS, varint

PADDING_RECORDS_MAX = 1_000_000
"""Records of one batch: 9.9 MB for the broker to validate."""
_BODIES_KEPT = 8
_DELTAS_A_PAIR = 1 << PAIR_BITS - 1
"""Offset deltas that share all but the first two bytes of their varints."""


def padding_batches(
    producer_id: int,
    base_offset: int,
    count: int,
    timestamp_ms: int,
    batch_bytes_max: int,
    *,
    null_key: bool,
) -> Iterator[ConvertedBatch]:
    """Yield batches of empty records for target offsets `[base_offset, base_offset + count)`.

    Parameters
    ----------
    producer_id
        The link's producer id.
    timestamp_ms
        Timestamp of all records: now, so that the broker remembers the producer.
    batch_bytes_max
        The target topic's `max.message.bytes`.
    null_key
        Whether the key is null; otherwise it is empty, as compacted topics need a key.

    Raises
    ------
    BatchError
        The target topic does not accept even one record.
    """
    most = PADDING_RECORDS_MAX
    while (records := min(count, most)) > 0:
        body = padding_body(records, null_key)
        if HEADER_BYTES + len(body) > batch_bytes_max:
            if records == 1:
                raise BatchError("the target topic takes no records", bytes_max=batch_bytes_max)
            most = (records + 1) // 2
            continue
        header = pack_header(
            body,
            records=records,
            codec=Codec.ZSTD,
            base_timestamp=timestamp_ms,
            max_timestamp=timestamp_ms,
            producer_id=producer_id,
            base_sequence=sequence_of(base_offset),
        )
        parts = (header, body)
        yield ConvertedBatch(base_offset, records, parts, sum(map(len, parts)), timestamp_ms)
        base_offset += records
        count -= records


@lru_cache(maxsize=_BODIES_KEPT)
def padding_body(records: int, null_key: bool) -> bytes:
    """Return the compressed records: only deltas, so equal for all offsets and timestamps."""
    tail = varint(-1 if null_key else 0) + varint(-1) + varint(0)
    singly = min(records, _DELTAS_A_PAIR)
    pieces = [_record(LAST[delta << 1], tail) for delta in range(singly)]
    # From here on deltas have three bytes, the last of which is the same for all of a run.
    starts = [_record(MORE[delta << 1], tail, 1)[: -len(tail)] for delta in range(_DELTAS_A_PAIR)]
    for first in range(_DELTAS_A_PAIR, records, _DELTAS_A_PAIR):
        ending = LAST[first << 1 >> PAIR_BITS] + tail
        some = starts[: records - first]
        pieces.append(ending.join(some) + ending)
    return compress(Codec.ZSTD, b"".join(pieces))


def _record(delta: bytes, tail: bytes, more_bytes: int = 0) -> bytes:
    """Return a record that ends with `tail`; `more_bytes` of its delta are inserted later."""
    rest = b"\0\0" + delta + tail
    return varint(len(rest) + more_bytes) + rest
