"""Fields cut out of JSON objects, against Python's own reader of JSON."""

from __future__ import annotations

import random
from functools import partial

import pytest
from support.header_steps import random_headers, random_steps
from support.json_texts import Members, changed, random_changes, random_object, read
from support.records import Sample
from unit.records.rows.test_field_cuts import STEP, by_spark, expected_of, value_of
from unit.records.rows.test_rows import CODECS, chunk_of, seen

from heliostat.errors import TransformFailed
from heliostat.records.copier.pipeline_steps import JsonFields, Pipeline, Where
from heliostat.records.rows.field_cuts import FieldCuts
from heliostat.records.rows.header_steps import HasHeader, HasValue
from heliostat.records.rows.in_place import FailedRecord, InPlace
from heliostat.records.rows.json_changes import JsonChanges
from heliostat.records.rows.json_cuts import JsonCutter
from heliostat.records.rows.json_walk import DEPTH_MAX
from heliostat.records.spark.piped_in_place import in_place

HIDE = JsonChanges(
    masks=(("name", None), ("tel", "000"), ("paid", None), ("at", None)),
    renames=(("id", "number"),),
    drops=("secret",),
)


def cut(text: str | bytes, changes: JsonChanges = HIDE) -> bytes:
    return JsonCutter(changes).cut(text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # What is not named keeps its bytes: numbers, escapes, order, doubles.
        (
            '{"id":1,"n":123456789012345678901.50,"secret":{"a":[1]},"n":"\\u00e9"}',
            '{"number":1,"n":123456789012345678901.50,"n":"\\u00e9"}',
        ),
        (' { "b" : [ ] , "secret":2 , "secret":3 , "z":{ } } ', ' { "b" : [ ], "z":{ } } '),
        ('{"secret":1}', "{}"),
        ('{ "secret" : 1 , "b" : 2 }', '{ "b" : 2 }'),
        ('{"b":{"secret":1}}', '{"b":{"secret":1}}'),
        ('{"name":"x","tel":"12","paid":true}', '{"name":"","tel":"000","paid":false}'),
        ('{"name":12.5,"tel":12,"at":{"x":1}}', '{"name":0,"tel":"000","at":null}'),
        ('{"name":null,"tel":null}', '{"name":null,"tel":null}'),
        ('{"\\u0073ecret":1,"n\\u0061me":"x"}', '{"n\\u0061me":""}'),
        ("{}", "{}"),
    ],
)
def test_what_is_named_changes_and_the_rest_keeps_its_bytes(before: str, after: str) -> None:
    assert cut(before) == after.encode()


@pytest.mark.parametrize(
    ("instead", "value", "after"),
    [
        ("7", "1", "7"),
        ("7", '"1"', '"7"'),
        ("7", "true", '"7"'),
        ("false", "true", "false"),
        ("false", "1", '"false"'),
        ("007", "1", '"007"'),
        ("", "1", '""'),
        ("[]", "[1]", '"[]"'),
        ("null", "1", '"null"'),
        ('a"é', "{}", '"a\\"é"'),
    ],
)
def test_a_mask_is_a_number_or_boolean_where_one_was(instead: str, value: str, after: str) -> None:
    changes = JsonChanges(masks=(("a", instead),))
    assert cut(f'{{"a":{value}}}', changes) == f'{{"a":{after}}}'.encode()


def test_random_objects_are_changed_as_a_reader_would_change_them() -> None:
    rng, clashes, changes_seen = random.Random(4), 0, 0
    for _ in range(4_000):
        text, changes = random_object(rng), random_changes(rng)
        found = read(text)
        expected = changed(changes, found)
        if expected is None:
            clashes += 1
            with pytest.raises(TransformFailed, match="two of its fields would have the name"):
                cut(text, changes)
            continue
        out = cut(text, changes)
        assert read(out) == expected
        assert out == text.encode() or not _has_none(changes, found)
        changes_seen += expected != found
    assert clashes > 30
    assert changes_seen > 1_000


def _has_none(changes: JsonChanges, found: Members) -> bool:
    """Whether an object has no field that is named."""
    named = {name for name, _ in (*changes.masks, *changes.renames)} | set(changes.drops)
    return named.isdisjoint(name for name, _ in found)


def test_damage_is_refused_as_python_refuses_it() -> None:
    """Given texts damaged at random, and bytes that are no text / then what is taken is what

    Python's strict reader takes.
    """
    rng, refused = random.Random(9), 0
    for _ in range(6_000):
        data = bytearray(random_object(rng).encode())
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(data))
            kind = rng.randrange(3)
            some = rng.choice(b'{}[]",:\\u0123456789-+.eEtrufalsn \x00\xc3\xa9\xff\xed\xf0\x80')
            if kind == 0:
                data[place] = some
            elif kind == 1:
                data.insert(place, some)
            elif len(data) > 1:
                del data[place]
        text = bytes(data)
        try:
            is_object = isinstance(read(text), Members)
        except ValueError:
            is_object = False
        if is_object:
            cut(text, JsonChanges(drops=("none",)))
        else:
            refused += 1
            with pytest.raises(TransformFailed, match=r"it is no JSON object: its byte \d+"):
                cut(text, JsonChanges(drops=("none",)))
    assert 2_000 < refused < 6_000


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b'"a"',
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b'{"a":NaN}',
        b'{"a":"\xc1\xa1"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xf4\x90\x80\x80"}',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":' + b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1) + b"}",
    ],
)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(TransformFailed, match="it is no JSON object"):
        cut(text)


def test_arrays_within_each_other_are_read_up_to_a_depth() -> None:
    text = b'{"a":' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b',"secret":1}'
    assert cut(text) == text.replace(b',"secret":1', b"")


def test_any_number_of_fields_is_changed() -> None:
    text = "{" + ",".join(['"tel":"x","secret":1,"id":5'] * 300) + "}"
    assert cut(text) == ("{" + ",".join(['"tel":"000","number":5'] * 300) + "}").encode()
    out, error = InPlace([], FieldCuts(None, HIDE)).applied(
        chunk_of((0, [Sample(b"k", text.encode(), 5)]))
    )
    assert (error, [row[3] for row in seen(bytes(out))]) == (None, [cut(text)])


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("columns", [("value",), ("key",), ("key", "value")], ids="-".join)
def test_batches_are_changed_as_single_objects_are(codec: int, columns: tuple[str, ...]) -> None:
    """Given random objects as keys and values, and steps about headers / when fields of either are

    cut in a batch's bytes / then each is what it is alone, and all else as without.
    """
    rng = random.Random(codec)
    steps = tuple(JsonFields(column, drops=HIDE.drops, masks=HIDE.masks) for column in columns)
    for _ in range(12):
        about_headers = random_steps(rng) if rng.random() < 0.7 else []
        samples = [
            Sample(_content(rng), _content(rng), rng.randrange(10**12), random_headers(rng))
            for _ in range(20)
        ]
        chunk = chunk_of((100, samples), codec=codec, first=rng.choice([0, 103]))
        out, error = in_place(Pipeline("p", (*about_headers, *steps))).applied(chunk)
        assert error is None
        alone = dict.fromkeys(columns, partial(_alone, steps[0]))
        assert seen(bytes(out)) == expected_of(samples, about_headers, chunk.first, alone)


def _content(rng: random.Random) -> bytes | None:
    return None if rng.random() < 0.2 else random_object(rng).encode()


def _alone(step: JsonFields, content: bytes | None) -> bytes | None:
    return None if content is None else cut(content, step.cut)


def test_json_keys_are_cut_beside_avro_values() -> None:
    rng = random.Random(8)
    samples = [Sample(_content(rng), value_of(rng), 5) for _ in range(40)]
    step = JsonFields("key", drops=("secret", "name"))
    out, error = in_place(Pipeline("p", (step, STEP))).applied(chunk_of((0, samples)))
    assert error is None
    expected = [(_alone(step, each.key), by_spark(STEP, each.value)) for each in samples]
    assert [(row[2], row[3]) for row in seen(bytes(out))] == expected


def test_a_batch_without_such_fields_keeps_its_bytes() -> None:
    chunk = chunk_of((0, [Sample(b"k", b'{"a":1}', 5), Sample(b"k", None, 6)]), codec=CODECS["lz4"])
    out, error = InPlace([], FieldCuts(None, HIDE)).applied(chunk)
    assert (bytes(out), error) == (bytes(chunk.data), None)


def test_a_record_that_is_no_object_is_named_and_those_before_it_are_cut() -> None:
    """Given one that is no object amid others / then those before it come out, and why is said;

    a record that is filtered out is not looked at.
    """
    good = [b'{"secret":1,"n":%d}' % n for n in range(6)]
    skip = (("skip", None),)
    samples = [Sample(b"k", each, 1) for each in good]
    samples.insert(2, Sample(b"k", b"no object", 1, skip))
    samples.insert(5, Sample(b"k", b'{"n":1', 1))
    steps = InPlace([HasHeader("skip", is_kept=False)], FieldCuts(None, HIDE))
    for size in (1, 4, len(samples)):
        batches = [(10 + at, samples[at : at + size]) for at in range(0, len(samples), size)]
        out, error = steps.applied(chunk_of(*batches))
        assert error == FailedRecord(15, "it is no JSON object: its byte 6 can't be there")
        expected = [(10, b'{"n":0}'), (11, b'{"n":1}'), (13, b'{"n":2}'), (14, b'{"n":3}')]
        assert [(row[0], row[3]) for row in seen(bytes(out))] == expected


def test_what_decodes_fields_is_done_by_spark() -> None:
    step = JsonFields("value", drops=("a",))
    assert Pipeline("p", (HasValue(), step)).is_in_place
    assert not Pipeline("p", (HasValue(), JsonFields("value", schema="a int"))).is_in_place
    assert not Pipeline("p", (step, Where("offset > 3"))).is_in_place
