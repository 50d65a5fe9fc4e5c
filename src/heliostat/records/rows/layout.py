"""The columns of a record's row, named as Spark's own Kafka source names them.

    topic string, partition int, offset long        where the record is at the source
    timestamp timestamp, timestamp_type int         UTC; 0 CreateTime, 1 LogAppendTime
    key binary, value binary                        null: none, a tombstone
    headers array<struct<key string, value binary>> empty: none

A row with a partition below 0 is no record. Its offset is the number of a chunk (the batches of one
partition in one answer), and it comes after all rows of that chunk: rows come in order, so a chunk
is complete when this mark arrives, however many of its records a filter has dropped.
"""

from __future__ import annotations

import pyarrow as pa

from heliostat.records.rows.row_names import NO_RECORD

HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER, nullable=False))
TIMESTAMP = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestamp_type", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)


def marks(chunk: int, count: int) -> pa.RecordBatch:
    """Return `count` rows that mark the end of a chunk: all that a batch needs to be passed on."""
    columns = [pa.nulls(count, field.type) for field in SCHEMA]
    columns[1] = pa.array([NO_RECORD] * count, pa.int32())
    columns[2] = pa.array([chunk] * count, pa.int64())
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
