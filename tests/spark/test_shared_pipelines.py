"""Pipelines that share a stage of Spark: each record goes through its own, as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from heliostat.records.copier.pipeline_steps import Pipeline, SetColumns, Where
from heliostat.records.rows.header_steps import DropHeaders, HasValue, InsertHeaders
from heliostat.records.rows.layout import SCHEMA, marks
from heliostat.records.rows.row_names import MEMBER
from heliostat.records.spark.frames import on_lane, session_of_rows

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

MEMBERS = (
    Pipeline("filters", (Where("length(value) < 3"), Where("key != X'00'"))),
    Pipeline("null is dropped", (Where("value = X'61'"), SetColumns((("key", "null"),)))),
    Pipeline("fails at others", (Where("cast(decode(value, 'UTF-8') as int) < 5"),)),
    Pipeline(
        "sets",
        (
            HasValue(),
            DropHeaders(("a",)),
            InsertHeaders((("b", "1"),)),
            SetColumns((("key", "value"), ("value", "concat(hex(key), size(headers))"))),
        ),
    ),
    Pipeline("other times", (SetColumns((("timestamp", "date'2020-01-01'"),)),)),
)
HEADERS = [{"key": "a", "value": b"x"}]
VALUES = {2: [b"1", b"7", b"4"]}
OTHERS = [b"a", None, b"abcd"]


def rows(number: int, *, is_shared: bool) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """Records of one of the pipelines, or of all."""
    numbers = range(len(MEMBERS)) if is_shared else [number]

    def given(_: Any) -> Iterator[pa.RecordBatch]:
        for member in numbers:
            found = [
                {
                    "topic": "t",
                    "partition": 0,
                    "offset": member * 10 + offset,
                    "timestamp": offset * 1_000_000,
                    "timestamp_type": 0,
                    "key": b"k",
                    "value": value,
                    "headers": HEADERS,
                }
                for offset, value in enumerate(VALUES.get(member, OTHERS))
            ]
            batch = pa.RecordBatch.from_pylist(found, schema=SCHEMA)
            batch = pa.concat_batches([batch, marks(member, 2)])
            if is_shared:
                column = pa.array([member] * batch.num_rows, pa.int32())
                batch = batch.append_column(MEMBER, column)
            yield batch

    return given


def test_each_record_goes_through_its_own_pipeline_as_if_it_were_alone(
    spark: SparkSession,
) -> None:
    """Given five pipelines, one of which fails at the others' records / when they share a stage /

    then what comes back is what each makes of its own records, with all marks, in order.
    """
    assert all(each.may_share for each in MEMBERS)
    session = session_of_rows(spark)
    shared = on_lane(session, rows(0, is_shared=True), Pipeline("5 pipelines", (), members=MEMBERS))
    assert MEMBER not in shared.reads
    found = [row.asDict() for row in shared.frame.collect()]
    wanted: list[dict[str, Any]] = []
    for number, pipeline in enumerate(MEMBERS):
        alone = on_lane(session, rows(number, is_shared=False), pipeline)
        came = {row["offset"]: row for row in _came(number)}
        for row in alone.frame.collect():
            own = row.asDict()
            kept = came.get(own["offset"], {}) if own["partition"] >= 0 else {}
            wanted.append({name: own.get(name, kept.get(name)) for name in shared.frame.columns})
    assert [_plain(row) for row in found] == [_plain(row) for row in wanted]


def _came(number: int) -> list[dict[str, Any]]:
    (batch,) = rows(number, is_shared=False)(None)
    return [row for row in batch.to_pylist() if row["partition"] >= 0]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with bytes and times as Python compares them."""
    found = dict(row)
    for name in ("key", "value"):
        found[name] = None if row[name] is None else bytes(row[name])
    if row["timestamp"] is not None:
        found["timestamp"] = row["timestamp"].replace(tzinfo=None)
    if row["headers"] is not None:
        pairs = [each if isinstance(each, dict) else each.asDict() for each in row["headers"]]
        found["headers"] = [(each["key"], bytes(each["value"])) for each in pairs]
    return found
