"""Steps that cut fields out of JSON, beside others, so that records are rows of Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support.spark_steps import after

from heliostat.records.copier.pipeline_steps import JsonFields, SetColumns, Where

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


def test_fields_are_cut_between_other_steps(spark: SparkSession) -> None:
    """Given steps about keys and values, one before and one behind / then each sees what the one

    before it left, null stays null, and what is no object fails with the reason.
    """
    steps = (
        Where("value IS NULL OR decode(value, 'UTF-8') LIKE '%secret%'"),
        JsonFields("value", drops=("secret",), masks=(("name", None),)),
        JsonFields("key", renames=(("id", "number"),)),
        SetColumns((("value", "encode(concat(decode(value, 'UTF-8'), '!'), 'UTF-8')"),)),
    )
    records = [
        (b'{"id":1.50}', b'{"secret":1, "name":"me", "n":1.50}'),
        (None, b'{"name":"me"}'),
        (b'{"id":1}', None),
        (b"{}", b"no secret object"),
    ]
    kept, filtered, tombstone, failed = after(spark, steps, *records)
    assert kept.after is not None
    assert (kept.after["key"], kept.after["value"]) == (
        b'{"number":1.50}',
        b'{"name":"", "n":1.50}!',
    )
    assert (filtered.after, filtered.error) == (None, "")
    assert tombstone.after is not None
    assert (tombstone.after["key"], tombstone.after["value"]) == (b'{"number":1}', None)
    assert "it is no JSON object: its byte 0 can't be there" in failed.error
