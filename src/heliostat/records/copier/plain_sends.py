"""Appends of compiled code, a row of integers each; as objects only once something goes wrong."""

from __future__ import annotations

from typing import Any

from heliostat.records.batches.converted import ConvertedBatch

(
    INDEX,
    SENT_ATTEMPT,
    BASE_OFFSET,
    SOURCE_OFFSET,
    COUNT,
    SIZE,
    MAX_TIMESTAMP,
    AT,
    SENT_TO,
    LANDED_AT,
    BUCKET,
) = range(11)
"""Columns: partition and attempt, target and source offset of the first record, number of records,
bytes, largest timestamp (ms), where its bytes begin in the common buffer, broker, the offset that
the broker answered (-1: none yet), and the bucket of its latency (-1: it does not count)."""
SENT_FIELDS = 11


def batch_of(row: Any, data: Any = None) -> ConvertedBatch:
    """Return the batch of a row as an object, with its bytes if `data` has them."""
    at, size = int(row[AT]), int(row[SIZE])
    parts = () if data is None else (bytes(data[at : at + size]),)
    base, source = int(row[BASE_OFFSET]), int(row[SOURCE_OFFSET])
    batch = ConvertedBatch(base, int(row[COUNT]), parts, size, int(row[MAX_TIMESTAMP]))
    batch.source_ahead = source - base
    batch.places = ((0, source),)
    return batch
