"""Steps that cut fields out of JSON, beside others, so that records are rows of Spark."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from support.records import Sample, encode
from support.spark_steps import AT, after

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.pipeline_steps import JsonFields, Pipeline, SetColumns, Where
from heliostat.records.rows.header_steps import DropHeaders, Origin
from heliostat.records.rows.to_rows import Chunk
from heliostat.records.spark.piped_in_place import tried_in_place

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


def test_objects_of_no_schema_are_the_same_as_rows_and_in_place(spark: SparkSession) -> None:
    """Given steps for such objects / when they are done to rows of Spark and in place / then

    records are the same, and so is what fails.
    """
    steps = (
        JsonFields("value", header_fields=(("a", "from"),), only=("a", "b", "in")),
        DropHeaders(("none",)),
        JsonFields("value", casts=(("a", "string"),), places=(("at", Origin.TIMESTAMP),)),
        JsonFields("value", flattens="_", key_fields=("a", "in_x"), inserts=(("s", "ü"),)),
        JsonFields("key", extracts=("in_x",)),
        JsonFields("value", hoists="line"),
    )
    values = (b'{"a":1.50,"in":{"x":[1]}}', None, b'{"b":null,"c":1}', b"[]", b'{"a":{}}')
    records = [(b'{"in_x":0}', value) for value in values]
    rows = list(after(spark, steps, *records))
    at_ms = int(AT.timestamp() * 1000)
    batch = encode([Sample(own, value, at_ms) for own, value in records])
    chunk = Chunk(0, TopicPartition(TopicName("t"), PartitionId(0)), batch)
    tried = list(tried_in_place(Pipeline("p", steps), chunk))
    assert [one.after for one in rows] == [one.after for one in tried]
    assert tried[0].after is not None
    expected = b'{"line":{"a":"1.50","in_x":[1],"at":%d,"s":"\xc3\xbc"}}' % at_ms
    assert (tried[0].after["value"], tried[0].after["key"]) == (expected, b"[1]")
    for by_row, own in zip(rows, tried, strict=True):
        assert own.error in by_row.error
    assert [bool(one.error) for one in tried] == [False, False, False, True, True]


WHOLE = b' {"id":3,"x":1e30,"s":"a","xs":[0.5,null],"in":{"y":1}} '
NO_OBJECTS = (
    b"",
    b" \n",
    b"null",
    b'{"id":3}{"id":4}',
    b"{'id':3}",
    b'{"id":3,}',
    b'{"s":"\xff"}',
    b'{"x":NaN}',
    b"\xef\xbb\xbf{}",
)
TOO_LARGE = (
    b'{"x":1e400}',
    b'{"xs":[1,1e39]}',
    b'{"in":{"y":1e400}}',
)
OTHER_TYPES = (b'{"id":1.5}', b'{"id":"a"}', b'{"x":"NaN"}', b'{"id":9223372036854775808}')


def test_what_is_no_object_of_the_schema_fails_and_is_nothing_else(spark: SparkSession) -> None:
    """Given a schema / when contents are no JSON object by RFC 8259, have numbers that no field can

    hold, or are of other types / then each fails, as in place; null stays null, and an object is
    written with the schema's fields.
    """
    schema = "id bigint, x double, s string, xs array<float>, in struct<y: double>"
    step = JsonFields("value", schema=schema)
    wrong = (*NO_OBJECTS, *TOO_LARGE, *OTHER_TYPES)
    records = [(None, each) for each in (WHOLE, b"{}", None, *wrong)]
    whole, empty, null, *failed = after(spark, (step,), *records)
    assert whole.after is not None
    assert json.loads(whole.after["value"]) == json.loads(WHOLE)
    assert empty.after is not None
    assert set(json.loads(empty.after["value"]).values()) == {None}
    assert null.after is not None
    assert null.after["value"] is None
    for content, each in zip(wrong, failed, strict=True):
        assert each.after is None, content
        assert each.error, content
    assert "it is no JSON object: its byte 0 can't be there" in failed[0].error
    assert "too large for its field" in failed[len(NO_OBJECTS)].error
