"""Fields that are cut out of Avro records in batches' bytes, against the function for Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from support.header_steps import left, place_of, random_headers, random_steps
from support.records import Sample
from unit.records.avro.test_rewriting import (
    FIELDS,
    KNOWN,
    NEW_ID,
    ROW,
    SCHEMA,
    binary,
    decoded,
    encoded,
    text_of,
)
from unit.records.rows.test_rows import CODECS, SOURCE, chunk_of, seen

from heliostat.errors import PipelineRefused, TransformFailed
from heliostat.records.avro.cuts import check_names, cuts_of
from heliostat.records.avro.rewriter import Rewriter
from heliostat.records.avro.rewriting import rewriting_of
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.records.copier.pipeline_steps import Pipeline, Where
from heliostat.records.rows.header_steps import HasHeader, HasValue, InPlaceStep
from heliostat.records.rows.in_place import FailedRecord, InPlace
from heliostat.records.spark.pipeline import SparkRounds

OTHER_ID = 900
OTHER = {**SCHEMA, "fields": [FIELDS[5], {"name": "more", "type": "string"}, *FIELDS[:5]]}
OTHERS = AvroSchema(OTHER_ID, text_of(OTHER), text_of(OTHER), target_id=NEW_ID + 1)
TWIN = replace(KNOWN, schema_id=8)
BAD = AvroSchema(901, problem="it is no Avro schema, but PROTOBUF")
STEP = AvroFields(
    "value",
    masks=(("name", "it's hidden"), ("id", None)),
    renames=(("kind", "sort"),),
    drops=("path", "more"),
    flattens="_",
    schemas=(OTHERS, TWIN, KNOWN, BAD),
)


def value_of(rng: random.Random) -> bytes | None:
    """A record of one of both schemas, or null."""
    row = {
        **ROW,
        "id": rng.randrange(-(2**40), 2**40),
        "name": rng.choice([None, "", "n" * rng.randrange(300)]),
        "path": [ROW["at"]] * rng.randrange(4),
        "marks": {str(n): 1.0 for n in range(rng.randrange(3))},
        "more": "m" * rng.randrange(80),
    }
    if rng.random() < 0.2:
        return None
    return encoded(SCHEMA, row) if rng.random() < 0.5 else encoded(OTHER, row, OTHER_ID)


def by_spark(step: AvroFields, content: bytes | None) -> bytes | None:
    found: list[bytes | None] = Rewriter(step).rewrite(binary(content), None).to_pylist()
    return found[0]


def samples_of(rng: random.Random, count: int) -> list[Sample]:
    return [
        Sample(value_of(rng), value_of(rng), rng.randrange(10**12), random_headers(rng))
        for _ in range(count)
    ]


def expected_of(
    samples: Sequence[Sample],
    steps: Sequence[InPlaceStep],
    first: int,
    alone: Mapping[str, Callable[[bytes | None], bytes | None]],
) -> list[Any]:
    """What is seen of samples from offset 100 on, whose columns are each made by a function."""
    expected = []
    for offset, each in enumerate(samples, 100):
        headers = left(steps, each.headers, each.value, place_of(SOURCE, offset, each.timestamp_ms))
        if headers is None or offset < first:
            continue
        key = alone["key"](each.key) if "key" in alone else each.key
        value = alone["value"](each.value) if "value" in alone else each.value
        expected.append((offset, each.timestamp_ms, key, value, headers))
    return expected


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("columns", [("value",), ("key",), ("key", "value")], ids="-".join)
def test_what_is_cut_is_what_spark_would_make_of_it(codec: int, columns: tuple[str, ...]) -> None:
    """Given records of several schemas and random steps about headers / when fields of keys, values

    or both are cut / then each is what the function for Spark writes, and all else as without.
    """
    rng = random.Random(codec)
    steps = [replace(STEP, column=column) for column in columns]
    for _ in range(12):
        about_headers = random_steps(rng) if rng.random() < 0.7 else []
        samples = samples_of(rng, 20)
        chunk = chunk_of((100, samples), codec=codec, first=rng.choice([0, 103]))
        out, error = InPlace(about_headers, cuts_of(steps)).applied(chunk)
        assert error is None
        alone = dict.fromkeys(columns, partial(by_spark, STEP))
        assert seen(bytes(out)) == expected_of(samples, about_headers, chunk.first, alone)


def test_a_reader_of_the_new_schema_sees_the_fields_that_are_left() -> None:
    chunk = chunk_of((0, [Sample(b"k", encoded(SCHEMA, ROW), 5)]))
    out, _ = InPlace([], cuts_of([STEP])).applied(chunk)
    ((_, _, key, value, _),) = seen(bytes(out))
    assert key == b"k"
    assert value[:5] == b"\x00" + NEW_ID.to_bytes(4, "big")
    found = decoded(rewriting_of(STEP, KNOWN).text, value)
    assert (found["name"], found["id"], found["sort"]) == ("it's hidden", 0, ROW["kind"])
    assert (found["at_x"], "path" in found, found["price"]) == (1.5, False, ROW["price"])


def test_a_batch_of_nulls_keeps_its_bytes() -> None:
    chunk = chunk_of((0, [Sample(b"k", None, 5)] * 9), codec=CODECS["lz4"])
    out, error = InPlace([], cuts_of([STEP])).applied(chunk)
    assert (bytes(out), error) == (bytes(chunk.data), None)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\x00\x00",
        b"\x01" + encoded(SCHEMA, ROW)[1:],
        encoded(SCHEMA, ROW, 4),
        encoded(SCHEMA, ROW, OTHER_ID + 5),
        encoded(SCHEMA, ROW, BAD.schema_id),
        encoded(SCHEMA, ROW)[:-1],
        encoded(SCHEMA, ROW) + b"\x00",
    ],
)
def test_a_record_that_can_not_be_cut_is_named_and_those_before_it_are_cut(bad: bytes) -> None:
    """Given one that is no such record amid others / then those before it come out, and why is

    said in the words of the function for Spark; a record that is filtered out is not looked at.
    """
    rng = random.Random(3)
    step = replace(STEP, masks=(), drops=("id",))
    with pytest.raises(TransformFailed) as failure:
        by_spark(step, bad)
    skip = (("skip", None),)
    samples = [*samples_of(rng, 3), Sample(b"k", bad, 1, skip), *samples_of(rng, 2)]
    samples += [Sample(b"k", bad, 1), *samples_of(rng, 2)]
    steps = [HasHeader("skip", is_kept=False)]
    for size in (1, 4, len(samples)):
        batches = [(10 + at, samples[at : at + size]) for at in range(0, len(samples), size)]
        out, error = InPlace(steps, cuts_of([step])).applied(chunk_of(*batches))
        assert error == FailedRecord(16, failure.value.text)
        expected = [(n, by_spark(step, samples[n - 10].value)) for n in (10, 11, 12, 14, 15)]
        assert [(row[0], row[3]) for row in seen(bytes(out))] == expected


@pytest.mark.thorough
def test_damage_is_refused_by_both_or_by_none() -> None:
    rng, refused = random.Random(15), 0
    step = AvroFields("value", drops=("id",), schemas=(KNOWN, OTHERS))
    steps = InPlace([], cuts_of([step]))
    whole = encoded(SCHEMA, ROW)
    for _ in range(3_000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(5, len(data))] = rng.randrange(256)
        value = bytes(data[: rng.choice((len(data), rng.randrange(5, len(data))))])
        out, error = steps.applied(chunk_of((7, [Sample(b"k", value, 5)])))
        if error is None:
            assert [row[3] for row in seen(bytes(out))] == [by_spark(step, value)]
        else:
            assert isinstance(error, FailedRecord)
            refused += 1
            with pytest.raises(TransformFailed, match=error.why):
                by_spark(step, value)
    assert 1_000 < refused < 3_000


@pytest.mark.parametrize(
    "more",
    [
        {"where": "fields.id > 1"},
        {"columns": (("id", "fields.id + 1"),)},
        {"casts": (("id", "string"),)},
        {"key_fields": ("id",)},
    ],
)
def test_what_needs_a_fields_content_is_done_by_spark(more: dict[str, Any]) -> None:
    assert Pipeline("p", (HasValue(), STEP)).is_in_place
    assert not Pipeline("p", (HasValue(), replace(STEP, **more))).is_in_place
    assert not Pipeline("p", (STEP, Where("offset > 3"))).is_in_place


def test_a_name_that_no_schema_has_is_refused_once_there_are_schemas() -> None:
    wrong = replace(STEP, drops=("id", "secrets"))
    check_names(STEP)
    check_names(replace(wrong, schemas=()))
    check_names(replace(wrong, schemas=(BAD,)))
    with pytest.raises(PipelineRefused, match="no schema of its topics has a field secrets"):
        check_names(wrong)


def test_a_link_refuses_it_without_asking_spark() -> None:
    pipelines = {
        "good": Pipeline("good", (HasValue(), STEP)),
        "bad": Pipeline("bad", (replace(STEP, column="key", renames=(("secrets", "x"),)),)),
    }
    without_spark = object.__new__(SparkRounds)
    found = without_spark.refused(pipelines)
    assert found.keys() == {"bad"}
    assert "no schema of its topics has a field secrets" in found["bad"]
