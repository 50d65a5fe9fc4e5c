"""Steps of a pipeline as Spark runs them, without a lane."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from heliostat.records.copier.pipeline_steps import Pipeline, Step
from heliostat.records.rows.layout import SCHEMA as ROWS
from heliostat.records.spark.frames import session_of_rows
from heliostat.records.spark.trial import tried
from heliostat.records.spark.tried_record import TriedRecord

AT = datetime(2026, 1, 2, tzinfo=UTC)


def after(
    session: SparkSession, steps: tuple[Step, ...], *records: tuple[bytes | None, ...]
) -> Iterator[TriedRecord]:
    """What a pipeline makes of keys and values."""
    rows: list[dict[str, Any]] = [
        {
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "timestamp": AT,
            "timestamp_type": 0,
            "key": own,
            "value": value,
            "headers": [],
        }
        for offset, (own, value) in enumerate(records)
    ]
    table = pa.Table.from_pylist(rows, ROWS)
    return tried(session_of_rows(session), Pipeline("p", steps), table)
