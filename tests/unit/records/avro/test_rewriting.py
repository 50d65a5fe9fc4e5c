"""Avro records that are decoded to columns, and written anew: what is not named stays as it was."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID as UUID_TYPE

import fastavro
import pyarrow as pa
import pytest

from heliostat.errors import TransformFailed
from heliostat.records.avro.columns import Decoder
from heliostat.records.avro.rewriter import Rewriter
from heliostat.records.avro.rewriting import rewriting_of
from heliostat.records.avro.schema_text import AvroUnusable, read_schema, write_schema
from heliostat.records.copier.avro_step import AvroFields, AvroSchema

ID, NEW_ID = 3, 77
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"], "default": None, "doc": "who"},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {
        "name": "at",
        "type": {
            "type": "record",
            "name": "Point",
            "fields": [{"name": "x", "type": "double"}, {"name": "kind", "type": "Kind"}],
        },
    },
    {"name": "path", "type": {"type": "array", "items": "Point"}},
    {"name": "marks", "type": {"type": "map", "values": "float"}},
    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    {
        "name": "price",
        "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    },
    {"name": "either", "type": ["null", "int", "string", "Point"]},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
    {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "ok", "type": "boolean"},
]
SCHEMA = {"type": "record", "name": "lsst.sal.Order", "doc": "d", "fields": FIELDS}
POINT = {"x": 1.5, "kind": "B"}
UUID = "3d2d9d1e-1111-4111-8111-111111111111"
ROW: dict[str, Any] = {
    "id": 5,
    "name": "n",
    "kind": "B",
    "at": POINT,
    "path": [POINT, POINT],
    "marks": {"k": 1.0},
    "ts": datetime(2026, 1, 2, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "price": Decimal("1.25"),
    "either": "z",
    "hash": b"abc",
    "uuid": UUID,
    "ok": True,
}


def text_of(schema: dict[str, Any]) -> str:
    return write_schema(read_schema(json.dumps(schema)))


def encoded(schema: dict[str, Any], row: dict[str, Any], number: int = ID) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return b"\x00" + number.to_bytes(4, "big") + out.getvalue()


def decoded(text: str, value: bytes) -> Any:
    return _with_texts(fastavro.schemaless_reader(io.BytesIO(value[5:]), json.loads(text), None))


def _with_texts(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _with_texts(own) for name, own in content.items()}
    return str(content) if isinstance(content, UUID_TYPE) else content


def binary(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary())


KNOWN = AvroSchema(ID, text_of(SCHEMA), text_of(SCHEMA), target_id=NEW_ID)
VALUE = encoded(SCHEMA, ROW)


def rewritten(made: Any = None, schema: AvroSchema = KNOWN, **step: Any) -> Any:
    """What the step makes of the record, as a reader of the new schema sees it."""
    found = AvroFields("value", schemas=(schema,), **step)
    values = binary(None, VALUE).slice(1, 1)
    (value,) = Rewriter(found).rewrite(values, made).to_pylist()
    assert value[:5] == b"\x00" + NEW_ID.to_bytes(4, "big")
    return decoded(rewriting_of(found, schema).text, value)


def without(*names: str) -> dict[str, Any]:
    return {name: each for name, each in ROW.items() if name not in names}


def test_records_become_columns() -> None:
    """Given all types, nulls and a slice / then each is the value that Spark takes for it; a union

    of several types has no column.
    """
    found = Decoder((KNOWN,)).decode(binary(b"no record", None, VALUE, VALUE).slice(1, 2))
    assert found.to_pylist() == [None, {**without("either"), "marks": [("k", 1.0)]}]


def test_the_readers_schema_says_what_the_columns_are() -> None:
    """Given a reader with another name, fewer fields, a default and a wider type / then Avro's

    resolution gives its fields, for each writer.
    """
    older = {**SCHEMA, "fields": [{"name": "id", "type": "int"}]}
    reader = {
        "type": "record",
        "name": "any",
        "fields": [
            {"name": "id", "type": "double"},
            {"name": "more", "type": "string", "default": "-"},
        ],
    }
    schemas = (
        AvroSchema(ID, text_of(SCHEMA), text_of(reader)),
        AvroSchema(4, text_of(older), text_of(reader)),
    )
    found = Decoder(schemas).decode(binary(VALUE, encoded(older, {"id": 9}, 4)))
    assert found.to_pylist() == [{"id": 5.0, "more": "-"}, {"id": 9.0, "more": "-"}]


def test_readers_that_disagree_need_a_schema() -> None:
    other = {**SCHEMA, "fields": [{"name": "id", "type": "string"}]}
    schemas = (KNOWN, AvroSchema(4, text_of(other), text_of(other)))
    with pytest.raises(AvroUnusable, match="field id is bigint for schema id 3 and string for 4"):
        Decoder(schemas)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\x01" + VALUE[1:], "does not begin with a schema id, but with 0x0100000003"),
        (VALUE[:4], "does not begin with a schema id"),
        (encoded(SCHEMA, ROW, 9), "schema id 9: it is not known"),
        (VALUE[:-1], "it is no record of schema id 3"),
        (VALUE + b"\x00", "it is no record of schema id 3"),
    ],
)
def test_what_is_no_record_fails(value: bytes, why: str) -> None:
    step = AvroFields("value", drops=("id",), schemas=(KNOWN,))
    with pytest.raises(TransformFailed, match=why):
        Decoder((KNOWN,)).decode(binary(None, value))
    with pytest.raises(TransformFailed, match=why):
        Rewriter(step).rewrite(binary(None, value), None)


def test_damage_is_an_error_of_ours() -> None:
    """Given any damaged bytes / then they are decoded or refused; both ways agree."""
    rng, refused = random.Random(15), 0
    decoder = Decoder((KNOWN,))
    rewriter = Rewriter(AvroFields("value", drops=("id",), schemas=(KNOWN,)))
    for _ in range(3_000):
        data = bytearray(VALUE)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(5, len(data))] = rng.randrange(256)
        values = binary(bytes(data[: rng.choice((len(data), rng.randrange(5, len(data))))]))
        try:
            rewriter.rewrite(values, None)
        except TransformFailed:
            refused += 1
            with pytest.raises(TransformFailed):
                decoder.decode(values)
    assert 1_000 < refused < 3_000


@pytest.mark.parametrize("name", ROW)
def test_a_dropped_field_leaves_all_others_as_they_were(name: str) -> None:
    """Given types that are defined in the field and used after it / then they are defined there."""
    assert rewritten(drops=(name,)) == without(name)


def test_masks_fit_their_types() -> None:
    found = rewritten(masks=tuple((name, None) for name in ROW if name not in ("kind", "at")))
    assert found == {
        "id": 0,
        "name": "",
        "kind": "B",
        "at": POINT,
        "path": [],
        "marks": {},
        "ts": datetime(1970, 1, 1, tzinfo=UTC),
        "day": None,
        "price": Decimal("0.00"),
        "either": None,
        "hash": bytes(3),
        "uuid": "00000000-0000-0000-0000-000000000000",
        "ok": False,
    }
    texts = (("id", "-7"), ("name", "***"), ("kind", "A"), ("ok", "true"))
    left = without("id", "name", "kind", "ok")
    assert rewritten(masks=texts) == left | {"id": -7, "name": "***", "kind": "A", "ok": True}


def test_fields_are_renamed_and_flattened_without_a_look_at_their_bytes() -> None:
    found = rewritten(renames=(("id", "number"),), flattens="_")
    assert found == {"number": 5, "at_x": 1.5, "at_kind": "B", **without("id", "at")}
    step = AvroFields("value", renames=(("id", "number"),), flattens="_", schemas=(KNOWN,))
    (value,) = Rewriter(step).rewrite(binary(VALUE), None).to_pylist()
    assert value[5:] == VALUE[5:]


@pytest.mark.parametrize("name", ["id", "name", "kind", "at", "path", "price", "hash"])
def test_a_field_becomes_the_whole_content_with_its_own_type(name: str) -> None:
    """Given a field of any type / when it is extracted / then its bytes and its type are left."""
    assert rewritten(extracts=(name,)) == ROW[name]
    assert rewritten(renames=((name, "new"),), extracts=("new",)) == ROW[name]


def test_a_record_is_put_into_another_without_a_look_at_its_bytes() -> None:
    assert rewritten(hoists="line") == {"line": ROW}
    step = AvroFields("value", drops=("ok",), hoists="line", schemas=(KNOWN,))
    (value,) = Rewriter(step).rewrite(binary(VALUE), None).to_pylist()
    assert value[5:] == VALUE[5:-1]
    once = AvroSchema(ID, rewriting_of(step, KNOWN).text, KNOWN.text, target_id=NEW_ID)
    again = rewriting_of(AvroFields("value", hoists="more"), once)
    assert again.schema.fields[0]["type"] == "io.confluent.connect.avro.ConnectDefault"


def test_what_can_not_be_extracted_is_told() -> None:
    for changes, why in (
        ({"extracts": ("none",)}, "it has no field none"),
        ({"flattens": "_", "extracts": ("at_x",)}, "at_x can't be extracted"),
        ({"flattens": "_", "extracts": ("at_kind",)}, "at_kind can't be extracted"),
    ):
        with pytest.raises(AvroUnusable, match=why):
            rewriting_of(AvroFields("value", **changes), KNOWN)
    assert rewritten(flattens="_", extracts=("id",)) == 5


def test_computed_fields_keep_their_types_or_get_those_they_are_cast_to() -> None:
    types = {
        "id": pa.int64(),
        "ts": pa.timestamp("us", tz="UTC"),
        "day": pa.date32(),
        "price": pa.decimal128(6, 2),
        "twice": pa.decimal128(5, 1),
        "none": pa.string(),
    }
    content = {
        "id": -4,
        "ts": datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        "day": None,
        "price": Decimal("-2.50"),
        "twice": Decimal("1.5"),
        "none": None,
    }
    made = pa.array([content], pa.struct(list(types.items())))
    columns = tuple((name, "any expression") for name in types)
    found = rewritten(made, columns=columns, casts=(("twice", "decimal(5,1)"), ("none", "string")))
    assert found == {**ROW, **content}


def test_contents_stay_out_of_errors() -> None:
    """Given a value that does not fit, and text that is no UTF-8 / then no error shows them."""
    schema = {**SCHEMA, "fields": [{"name": "kind", "type": FIELDS[2]["type"]}]}
    known = AvroSchema(ID, text_of(schema), text_of(schema), target_id=NEW_ID)
    step = AvroFields("value", columns=(("kind", "..."),), schemas=(known,))
    made = pa.array([{"kind": "hidden"}], pa.struct([("kind", pa.string())]))
    with pytest.raises(TransformFailed, match="field kind can't be that str") as refused:
        Rewriter(step).rewrite(binary(encoded(schema, {"kind": "A"})), made)
    assert "hidden" not in str(refused.value)
    as_bytes = {**SCHEMA, "fields": [{"name": "name", "type": "bytes"}]}
    as_text = {**SCHEMA, "fields": [{"name": "name", "type": "string"}]}
    known = AvroSchema(ID, text_of(as_text), text_of(as_text))
    with pytest.raises(TransformFailed, match="UnicodeDecodeError") as refused:
        Decoder((known,)).decode(binary(encoded(as_bytes, {"name": b"hidden\xff"})))
    assert "hidden" not in str(refused.value)


def test_columns_of_other_widths_and_without_rows() -> None:
    decoder = Decoder((KNOWN,))
    assert decoder.decode(pa.array([], pa.binary())).to_pylist() == []
    assert decoder.decode(pa.array([VALUE], pa.large_binary()))[0]["id"].as_py() == 5


def test_null_can_not_become_a_field_without_it() -> None:
    made = pa.array([{"id": None}], pa.struct([("id", pa.int64())]))
    with pytest.raises(TransformFailed, match="field id can't be null"):
        rewritten(made, columns=(("id", "null"),))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"masks": (("kind", "C"),)}, "no symbol"),
        ({"masks": (("id", "x"),)}, "by 'x': it is long"),
        ({"masks": (("at", None),)}, "can't be masked"),
        ({"columns": (("new", "1"),)}, "name its type under cast"),
        ({"columns": (("path", "1"),)}, "can't be set: it is array"),
        ({"casts": (("new", "array<int>"),)}, "no type for a field"),
        ({"renames": (("id", "name"),)}, "two fields would have the name name"),
    ],
)
def test_what_does_not_fit_a_schema_is_refused(step: dict[str, Any], why: str) -> None:
    with pytest.raises(AvroUnusable, match=why):
        rewriting_of(AvroFields("value", **step), KNOWN)


def test_records_within_themselves_are_only_filtered() -> None:
    nested = {"name": "next", "type": ["null", "lsst.sal.Order"]}
    text = text_of({**SCHEMA, "fields": [FIELDS[0], nested]})
    known = AvroSchema(ID, text, text)
    value = encoded(json.loads(text), {"id": 1, "next": {"id": 2, "next": None}})
    assert Decoder((known,)).decode(binary(value)).to_pylist() == [{"id": 1}]
    with pytest.raises(AvroUnusable, match="contains itself"):
        rewriting_of(AvroFields("value", drops=("id",)), known)


def test_types_of_other_subjects_become_part_of_a_schema() -> None:
    point = {"type": "record", "name": "a.Point", "fields": [{"name": "x", "type": "int"}]}
    both = {
        "type": "record",
        "name": "a.Both",
        "fields": [{"name": "one", "type": "Point"}, {"name": "two", "type": ["null", "a.Point"]}],
    }
    with pytest.raises(AvroUnusable, match="Point"):
        read_schema(json.dumps(both))
    text = write_schema(read_schema(json.dumps(both), [json.dumps(point)]))
    assert fastavro.parse_schema(json.loads(text))
    assert [each["name"] for each in read_schema(text).fields] == ["one", "two"]


def test_bytes_can_not_claim_what_would_take_for_ever() -> None:
    """Given 2^40 nulls in an array, and records nested deeply / then both are refused at once."""
    many = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}],
    }
    known = AvroSchema(ID, text_of(many), text_of(many), target_id=NEW_ID)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", 1 << 40)
    value = b"\x00" + ID.to_bytes(4, "big") + out.getvalue() + b"\x00"
    step = AvroFields("value", renames=(("a", "b"),), schemas=(known,))
    with pytest.raises(TransformFailed):
        Rewriter(step).rewrite(binary(value), None)
    deep = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}
    known = AvroSchema(
        ID, text_of(deep), text_of({**many, "fields": [{"name": "n", "type": "int", "default": 1}]})
    )
    value = b"\x00" + ID.to_bytes(4, "big") + b"\x02" * 100_000 + b"\x00"
    with pytest.raises(TransformFailed, match="no record"):
        Decoder((known,)).decode(binary(value))
