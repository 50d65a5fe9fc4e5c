"""JSON objects of no schema, changed one by one and in batches."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.records import Sample
from unit.records.rows.test_rows import CODECS, chunk_of, seen

from heliostat.errors import BatchError, TransformFailed
from heliostat.records.copier.pipeline_steps import JsonFields, Pipeline, Step
from heliostat.records.rows.header_steps import DropHeaders, InsertHeaders, Origin
from heliostat.records.rows.json_changes import ObjectChanges, TimeChange
from heliostat.records.rows.json_objects import Changed, JsonObjects
from heliostat.records.spark.piped_in_place import in_place

ODD = b' { "n" : 1.50e+0 , "t\\u0065xt":"\\u00fc" , "in" : {"x" : [ 1 ]}, "z":null } '
PLACES = {Origin.TOPIC: "t", Origin.PARTITION: 3, Origin.OFFSET: 7, Origin.TIMESTAMP: -1}


def changed(content: bytes | None, **changes: Any) -> Changed:
    return JsonObjects(ObjectChanges(**changes)).changed(content, PLACES)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"inserts": (("a", 'ü"'),), "places": (("n", Origin.TOPIC), ("o", Origin.OFFSET))},
            '{"n":"t","t\\u0065xt":"\\u00fc","in":{"x" : [ 1 ]},"z":null,"a":"ü\\"","o":7}',
        ),
        (
            {"casts": (("n", "string"), ("text", "string"), ("z", "int"))},
            '{"n":"1.50e+0","t\\u0065xt":"\\u00fc","in":{"x" : [ 1 ]},"z":null}',
        ),
        ({"only": ("text", "n")}, '{"n":1.50e+0,"t\\u0065xt":"\\u00fc"}'),
        ({"extracts": ("in", "x")}, "[ 1 ]"),
        ({"hoists": "h"}, '{"h":' + ODD.decode().strip() + "}"),
        ({"extracts": ("text",), "hoists": "h"}, '{"h":"\\u00fc"}'),
        ({"flattens": "."}, '{"n":1.50e+0,"t\\u0065xt":"\\u00fc","in.x":[ 1 ],"z":null}'),
    ],
)
def test_what_is_not_named_keeps_its_bytes(changes: dict[str, Any], expected: str) -> None:
    found = changed(ODD, **changes)
    assert found == Changed(expected.encode())


def test_what_is_read_alone_keeps_all_bytes() -> None:
    """Given fields that become key and headers / then the object stays byte for byte."""
    found = changed(ODD, key_fields=("n", "no"), headers=(("text", "h"), ("in", "i"), ("z", "z")))
    headers = (("h", "ü".encode()), ("i", b'{"x" : [ 1 ]}'), ("z", None))
    assert found == Changed(ODD, b'{"n":1.50e+0,"no":null}', headers)


@pytest.mark.parametrize(
    ("content", "changes", "why"),
    [
        (b'{"a":"secret"}', {"casts": (("a", "int"),)}, "field a, which is text, can't be cast"),
        (b'{"a":300}', {"casts": (("a", "tinyint"),)}, "a number, can't be cast to tinyint"),
        (b'{"a":1e999}', {"casts": (("a", "double"),)}, "can't be cast to double"),
        (b'{"a":[1]}', {"casts": (("a", "string"),)}, "an array, can't be cast"),
        (b'{"a":{"b":1},"a.b":2}', {"flattens": "."}, "two of its fields would have the name a.b"),
        (b'{"a":1', {"hoists": "h"}, "no JSON value: its byte 6"),
        (b"[]", {"flattens": "."}, "no JSON object: its byte 0"),
        (b'{"a":1}x', {"only": ("a",)}, "no JSON object: its byte 7"),
        (b'{"a":"\xff"}', {"key_fields": ("b",)}, "no JSON object: its byte 6"),
        (b'{"a":"x"}', {"times": (TimeChange("a", "yyyy", 1, is_text=False),)}, "is no time"),
        (b'{"a":9e9}', {"times": (TimeChange("a", "yyyy", 1, is_text=True),)}, "whole number"),
        (b'{"a":%d}' % 10**19, {"times": (TimeChange("a", "y", 10**6, is_text=True),)}, "year"),
    ],
)
def test_what_a_change_can_not_do_fails_and_tells_no_value(
    content: bytes, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(TransformFailed) as caught:
        changed(content, **changes)
    assert why in caught.value.text
    assert "secret" not in caught.value.text


def test_null_stays_null_and_what_is_not_there_is_null() -> None:
    assert changed(None, hoists="h", inserts=(("a", "b"),)) == Changed(None)
    assert changed(b'{"a":null}', extracts=("a", "b")) == Changed(None)
    assert changed(b"{}", extracts=("a",)) == Changed(None)


def test_many_members_have_room() -> None:
    many = {f"f{number}": number for number in range(500)}
    found = changed(json.dumps(many).encode(), only=("f499",))
    assert found.content == b'{"f499":499}'


# -- batches ------------------------------------------------------------------------------------


def done(steps: tuple[Step, ...], *values: bytes | None, codec: int = 0) -> tuple[list[Any], Any]:
    half = (len(values) + 1) // 2
    samples = [Sample(b'{"d":0}', value, 7 + n, (("h", b"1"),)) for n, value in enumerate(values)]
    chunk = chunk_of((10, samples[:half]), (20, samples[half:]), codec=codec)
    out, error = in_place(Pipeline("p", steps)).applied(chunk)
    return seen(bytes(out)), error


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_steps_are_done_in_turn(codec: int) -> None:
    """Given steps about headers and objects in any order / then each sees what the ones before it

    have left, and offsets and times stay.
    """
    steps = (
        JsonFields("value", header_fields=(("a", "from"),), drops=("a",)),
        DropHeaders(("h",)),
        JsonFields("value", renames=(("b", "c"),)),
        JsonFields("value", renames=(("c", "d"),)),
        InsertHeaders((("last", "x"),)),
        JsonFields("value", places=(("at", Origin.TIMESTAMP),), key_fields=("d",)),
        JsonFields("key", extracts=("d",)),
    )
    records, error = done(steps, b'{"a":1,"b":2}', None, b'{"b":3}', codec=codec)
    assert error is None
    last = ("last", b"x")
    assert records == [
        (10, 7, b"2", b'{"d":2,"at":7}', [("from", b"1"), last]),
        (11, 8, b"0", None, [last]),
        (20, 9, b"3", b'{"d":3,"at":9}', [("from", None), last]),
    ]


def test_the_first_record_that_fails_at_any_step_ends_the_others() -> None:
    steps = (JsonFields("value", only=("a",)), JsonFields("value", casts=(("a", "int"),)))
    good, bad_number, bad_text = b'{"a":1.5}', b'{"a":"x"}', b"{"
    records, error = done(steps, good, good, bad_number, bad_text)
    assert [record[0] for record in records] == [10, 11]
    assert (error.offset, error.why) == (20, "its field a, which is text, can't be cast to int")
    records, error = done(steps, good, bad_text, bad_number)
    assert [record[3] for record in records] == [b'{"a":1}']
    assert (error.offset, error.why[:20]) == (11, "it is no JSON object")
    assert done(steps, bad_text)[0] == []


def test_what_is_before_a_damaged_batch_is_done() -> None:
    """Given a batch behind another whose bytes are no compressed records / then the first one is

    changed, and the second told.
    """
    sample = Sample(None, b'{"a":1,"b":2}', 7)
    chunk = chunk_of((10, [sample]), (20, [sample]), codec=1)
    data = bytearray(chunk.data)
    data[-20:] = bytes(20)
    steps = in_place(Pipeline("p", (JsonFields("value", only=("a",)),)))
    out, error = steps.applied(chunk._replace(data=bytes(data)))
    assert [record[3] for record in seen(bytes(out))] == [b'{"a":1}']
    assert isinstance(error, BatchError)


def test_records_that_were_copied_before_are_left_out() -> None:
    """Given a chunk that begins within a batch / then what is before it doesn't come out, whether

    a step changes anything or not.
    """
    samples = [Sample(None, b'{"a":1,"b":2}', 7)] * 3
    for name, expected in (("a", b'{"a":1}'), ("none", b"{}")):
        chunk = chunk_of((10, samples), first=11)
        steps = in_place(Pipeline("p", (JsonFields("value", only=(name,)),)))
        out, _ = steps.applied(chunk)
        assert [record[::3][:2] for record in seen(bytes(out))] == [(11, expected), (12, expected)]
    steps = in_place(Pipeline("p", (JsonFields("value", key_fields=("a",)),)))
    tombstones = chunk_of((10, [Sample(None, None, 7)] * 3), first=11)
    assert [record[0] for record in seen(bytes(steps.applied(tombstones)[0]))] == [11, 12]


def test_what_no_step_changes_keeps_its_bytes() -> None:
    chunk = chunk_of((10, [Sample(b"k", None, 7), Sample(None, b'{"b":1}', 8)]), codec=1)
    steps = in_place(Pipeline("p", (JsonFields("value", only=("b",)),)))
    out, error = steps.applied(chunk)
    assert (bytes(out), error) == (bytes(chunk.data), None)
