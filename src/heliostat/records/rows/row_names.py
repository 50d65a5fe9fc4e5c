"""Names of a row's columns, for those who make a pipeline but never see a row. See `layout`."""

from __future__ import annotations

NO_RECORD = -1
"""Partition of rows that mark the end of a chunk."""
TYPES = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestamp_type": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
}
"""Types of the columns in Spark's DDL, in their order."""
MEMBER = "pipeline"
"""Where pipelines share a lane one more column, an int: through which of them a record goes."""
CHANGEABLE = ("timestamp", "key", "value", "headers")
"""Columns that a pipeline may change."""
BACK = ("partition", "offset", *CHANGEABLE)
"""Columns that a pipeline must keep."""
