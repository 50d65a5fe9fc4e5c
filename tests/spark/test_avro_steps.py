"""Steps for Avro fields as Spark runs them, without a lane: of keys and of values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.spark_steps import after
from unit.records.avro.test_rewriting import (
    ID,
    KNOWN,
    NEW_ID,
    ROW,
    VALUE,
    decoded,
    encoded,
    text_of,
    without,
)

from heliostat.errors import PipelineRefused
from heliostat.records.avro.rewriting import rewriting_of
from heliostat.records.avro.schema_text import AvroUnusable
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.spark.frames import refused, session_of_rows

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

KEY_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "id", "type": "int"}, {"name": "who", "type": "string"}],
}
KEYS = AvroSchema(8, text_of(KEY_SCHEMA), text_of(KEY_SCHEMA), target_id=99)


def key(number: int) -> bytes:
    return encoded(KEY_SCHEMA, {"id": number, "who": "me"}, 8)


def test_keys_and_values_are_changed_by_a_step_each(spark: SparkSession) -> None:
    """Given a step for keys and one for values / then each column is filtered and changed by its

    own, computed fields among them, and nulls stay null.
    """
    of_keys = AvroFields("key", where="fields.id < 3", drops=("who",), schemas=(KEYS,))
    of_values = AvroFields(
        "value",
        where="fields.at.x > 1 AND fields.day = DATE '2026-01-02'",
        columns=(("id", "fields.id + size(fields.path)"), ("at2", "fields.ts")),
        casts=(("at2", "timestamp"),),
        drops=("ts",),
        schemas=(KNOWN,),
    )
    records = [(key(1), VALUE), (key(3), VALUE), (None, VALUE), (key(2), None)]
    found = list(after(spark, (of_keys, of_values), *records))
    assert [each.error for each in found] == [""] * 4
    assert [each.after is None for each in found] == [False, True, False, False]
    first, _, no_key, tombstone = (each.after for each in found)
    assert first is not None
    assert no_key is not None
    assert tombstone is not None
    assert first["key"] == encoded(
        {**KEY_SCHEMA, "fields": KEY_SCHEMA["fields"][:1]}, {"id": 1}, 99
    )
    text = rewriting_of(of_values, KNOWN).text
    assert first["value"][:5] == b"\x00" + NEW_ID.to_bytes(4, "big")
    assert decoded(text, first["value"]) == {**without("ts"), "id": 7, "at2": ROW["ts"]}
    assert (no_key["key"], no_key["value"]) == (None, first["value"])
    assert tombstone["value"] is None


def test_a_filter_and_a_key_leave_the_value_alone(spark: SparkSession) -> None:
    step = AvroFields("value", where="fields.id = 5", key_fields=("id", "kind"), schemas=(KNOWN,))
    (found,) = after(spark, (step,), (b"k", VALUE))
    assert found.after is not None
    assert found.after["value"] == VALUE
    assert json.loads(found.after["key"]) == {"id": 5, "kind": "B"}


def test_fields_become_headers_before_they_are_left_out(spark: SparkSession) -> None:
    """Given a step that puts fields into headers, drops one and extracts one / then headers have

    what was there, as text, and tombstones get none.
    """
    step = AvroFields(
        "value",
        header_fields=(("id", "h"), ("at", "place"), ("day", "day"), ("ok", "ok")),
        drops=("ok",),
        extracts=("name",),
        schemas=(KNOWN,),
    )
    found, tombstone = after(spark, (step,), (b"k", VALUE), (b"k", None))
    assert (found.error, tombstone.error) == ("", "")
    assert found.after is not None
    assert tombstone.after is not None
    headers = {header["key"]: header["value"] for header in found.after["headers"]}
    assert json.loads(headers.pop("place")) == ROW["at"]
    assert headers == {"h": b"5", "day": b"2026-01-02", "ok": b"true"}
    assert decoded(rewriting_of(step, KNOWN).text, found.after["value"]) == ROW["name"]
    assert (tombstone.after["headers"], tombstone.after["value"]) == ([], None)


def test_without_a_schema_only_nulls_pass(spark: SparkSession) -> None:
    """Given a step that knows no schema / then records fail, with the reason; one that knows only

    schemas that are no good is refused.
    """
    nothing = AvroFields("value", drops=("id",))
    passed, failed = after(spark, (nothing,), (b"k", None), (b"k", b"{}"))
    assert passed.after is not None
    assert "it is no Avro record, or no schema of its topic is known" in failed.error
    unusable = AvroFields(
        "value", where="true", schemas=(AvroSchema(ID, problem="it's a \\ JSON"),)
    )
    with pytest.raises(PipelineRefused, match=r"it's a .* JSON"):
        list(after(spark, (unusable,), (b"k", VALUE)))


def test_fields_that_no_schema_has_are_refused(spark: SparkSession) -> None:
    for step in (
        AvroFields("value", where="fields.no_such > 1", schemas=(KNOWN,)),
        AvroFields("value", masks=(("no_such", None),), schemas=(KNOWN,)),
    ):
        with pytest.raises(PipelineRefused, match="no_such"):
            list(after(spark, (step,), (b"k", VALUE)))


NEVER = {
    "a text for a number": (("id", "'abc'"), "CAST_INVALID_INPUT"),
    "a kind for a number": (("id", "DATE '2026-01-02'"), "DATATYPE_MISMATCH"),
    "null for a number": (("id", "null"), "field id can't be null"),
    "no symbol": (("kind", "'Z'"), "field kind can't be that str"),
    "too short": (("hash", "X'00'"), "field hash can't be that bytes"),
    "a record": (("at", "fields.at"), "field at can't be set: it is record"),
}


def test_what_no_record_can_be_set_to_is_refused(spark: SparkSession) -> None:
    """Given fields set to what their types never take / when they are planned, or tried / then each

    is refused with the reason, and what fits, or may, is not.
    """
    session = session_of_rows(spark)
    steps = {
        name: AvroFields("value", columns=(column,), schemas=(read(column),))
        for name, (column, _) in NEVER.items()
    }
    fine = (("id", "7"), ("kind", "'A'"), ("name", "null"), ("hash", "X'000102'"), ("ok", "'yes'"))
    fine += (("id", "fields.id + 1"), ("day", "DATE '2026-01-02'"), ("uuid", "fields.name"))
    steps |= {str(each): AvroFields("value", columns=(each,), schemas=(KNOWN,)) for each in fine}
    why = refused(session, [Pipeline(name, (step,)) for name, step in steps.items()])
    assert why.keys() == NEVER.keys(), why
    for name, (_, reason) in NEVER.items():
        assert reason in why[name], why[name]


def read(column: tuple[str, str]) -> AvroSchema:
    """The schema as a link knows it for a step: with why it can't be changed, if it can't."""
    try:
        rewriting_of(AvroFields("value", columns=(column,)), KNOWN)
    except AvroUnusable as error:
        return replace(KNOWN, problem=str(error))
    return KNOWN
