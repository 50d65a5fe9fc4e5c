"""Record batches as rows and back: nothing of a record changes, and holes stay where they are."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from support.batches import Record, StoredBatch, marker
from support.provoked import Provoked
from support.records import GZIP, LZ4, NONE, SNAPPY, ZSTD, Sample, encode, odd_records

from heliostat.errors import BatchError, TransformFailed
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.batches.batch import next_offset, read_header
from heliostat.records.rows.from_rows import batches_of
from heliostat.records.rows.layout import SCHEMA, marks
from heliostat.records.rows.row_names import BACK, CHANGEABLE
from heliostat.records.rows.to_rows import Chunk, rows_of, whole_batches

SOURCE = TopicPartition(TopicName("orders"), PartitionId(3))
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


def at_offset(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def seen(data: bytes) -> list[tuple[Any, ...]]:
    """What a reader sees, by another implementation than ours."""
    found: list[tuple[Any, ...]] = []
    at = 0
    while (header := read_header(data, at, len(data))) is not None:
        batch = DefaultRecordBatch(bytes(data[at : at + header.size]))
        assert batch.validate_crc()
        found += [
            (each.offset, each.timestamp, each.key, each.value, list(each.headers))
            for each in batch
        ]
        at += header.size
    assert at == len(data)
    return found


SMALL = Sample(b"k", b"v", 7)


def wanted(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """What a reader is to see of rows."""
    times = [int(each) // 1000 for each in rows.column("timestamp").cast(pa.int64()).to_pylist()]
    columns = [rows.column(name).to_pylist() for name in ("offset", "key", "value", "headers")]
    return [
        (offset, time, key, value, [(each["key"], each["value"]) for each in headers])
        for time, offset, key, value, headers in zip(times, *columns, strict=True)
    ]


def back(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(list(BACK))


def chunk_of(*batches: tuple[int, list[Sample]], codec: int = NONE, **more: int) -> Chunk:
    data = b"".join(at_offset(encode(samples, codec), offset) for offset, samples in batches)
    return Chunk(7, SOURCE, data, **more)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_all_that_readers_see_comes_back_the_same(codec: int) -> None:
    rng = random.Random(codec)
    for _ in range(20):
        sizes = [rng.randrange(1, 30) for _ in range(3)]
        offset, batches = 100, []
        for size in sizes:
            batches.append((offset, odd_records(rng, size)))
            offset += size + rng.randrange(2)
        chunk = chunk_of(*batches, codec=codec)
        rows = rows_of(chunk)
        assert rows.schema.equals(SCHEMA)
        rows.validate(full=True)
        assert rows.column("partition").to_pylist() == [3] * sum(sizes)
        # Spark hands them on in parts.
        cut = rng.randrange(rows.num_rows)
        parts = [back(rows.slice(0, cut)), back(rows.slice(cut))]
        assert seen(bytes(batches_of(chunk, parts))) == seen(bytes(chunk.data))


def test_a_filtered_record_is_a_hole_and_the_batch_keeps_its_offsets() -> None:
    samples = [Sample(b"k%d" % n, b"v%d" % n, 1000 + n, (("h", None),)) for n in range(10)]
    chunk = chunk_of((50, samples), (60, samples), (70, samples))
    rows = rows_of(chunk)
    keep = [n % 3 != 0 and not 10 <= n < 20 for n in range(30)]
    data = batches_of(chunk, [back(rows.filter(pa.array(keep)))])
    assert [row[0] for row in seen(bytes(data))] == [50 + n for n in range(30) if keep[n]]
    headers, at = [], 0
    while (header := read_header(data, at, len(data))) is not None:
        headers.append((header.base_offset, header.next_offset, header.records_count))
        at += header.size
    assert headers == [(50, 60, 6), (60, 70, 0), (70, 80, 7)]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("changed", [(), *((each,) for each in CHANGEABLE), CHANGEABLE[1:]])
def test_what_can_not_have_changed_is_as_it_was_and_all_else_as_it_came_back(
    codec: int, changed: tuple[str, ...]
) -> None:
    """Given records of which some come back with other columns / then so they are read."""
    rng = random.Random(codec + 10 * len(changed))
    for _ in range(10):
        batches = [(100, odd_records(rng, 12)), (112, odd_records(rng, 1)), (113, [SMALL] * 5)]
        chunk = chunk_of(*batches, codec=codec, first=rng.choice([0, 103]))
        given = rows_of(chunk)
        others = rows_of(chunk_of((100, odd_records(rng, 18)), first=chunk.first))
        new = [others.column(name) if name in changed else given.column(name) for name in BACK]
        kept = pa.array([rng.random() < 0.7 or row > 12 for row in range(given.num_rows)])
        rows = pa.RecordBatch.from_arrays(new, list(BACK)).filter(kept)
        out = batches_of(chunk, [rows.select(["partition", "offset", *changed])], changed)
        assert seen(bytes(out)) == wanted(rows)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_of_which_nothing_was_filtered_keeps_its_bytes(codec: int) -> None:
    batches = [(10 * number, [Sample(b"k", b"v", n) for n in range(10)]) for number in range(3)]
    chunk = chunk_of(*batches, codec=codec)
    rows = rows_of(chunk).select(["partition", "offset"])
    assert batches_of(chunk, [rows], ()) == chunk.data
    out = batches_of(chunk, [rows.slice(0, 9), rows.slice(10)], ())
    assert [row[0] for row in seen(bytes(out))] == [*range(9), *range(10, 30)]
    assert out.endswith(bytes(chunk.data)[len(chunk.data) // 3 :])


@pytest.mark.parametrize("changed", [(), ("value",)])
def test_a_row_of_a_record_that_was_copied_before_is_an_error(changed: tuple[str, ...]) -> None:
    chunk = chunk_of((0, [SMALL] * 3), first=1)
    rows = rows_of(chunk._replace(first=0)).select(["partition", "offset", *changed])
    assert batches_of(chunk, [rows.slice(1)], changed)
    with pytest.raises(TransformFailed, match="no record has"):
        batches_of(chunk, [rows], changed)


@pytest.mark.parametrize("changed", [(), ("key",), ("timestamp",)])
def test_times_of_the_log_s_append_are_kept(changed: tuple[str, ...]) -> None:
    """Given a topic with LogAppendTime / then records have that time, unless it is changed."""
    stored = StoredBatch(
        20, tuple(Record(5 + n, b"k", b"%d" % n) for n in range(4)), append_time=77
    )
    chunk = Chunk(7, SOURCE, bytes(stored.encode()))
    rows = rows_of(chunk).slice(1)
    out = batches_of(chunk, [rows.select(["partition", "offset", *changed])], changed)
    assert [row[1] for row in seen(bytes(out))] == [77] * 3


def test_a_row_of_a_hole_is_an_error_though_there_are_as_many_as_records() -> None:
    """Given a batch of offsets 0 and 2 / when 0 and 1 come back / then 1 is no record's."""
    three = chunk_of((0, [SMALL] * 3))
    rows = rows_of(three).select(["partition", "offset"])
    holes = Chunk(7, SOURCE, bytes(batches_of(three, [rows.take(pa.array([0, 2]))], ())))
    assert batches_of(holes, [rows.take(pa.array([0, 2]))], ())
    with pytest.raises(TransformFailed, match="no record has"):
        batches_of(holes, [rows.slice(0, 2)], ())


def test_records_from_a_failing_one_on_are_left_out() -> None:
    samples = [Sample(None, b"v%d" % n, n) for n in range(10)]
    chunk = chunk_of((0, samples), (10, samples), before=14)
    rows = rows_of(chunk)
    assert rows.column("offset").to_pylist() == list(range(14))
    data = batches_of(chunk, [back(rows)])
    assert [row[0] for row in seen(bytes(data))] == list(range(14))
    last = read_header(data, len(encode(samples)), len(data))
    assert last is not None
    assert last.next_offset == 14


def timed(rows: pa.RecordBatch, time_ms: int) -> pa.RecordBatch:
    """Rows of which the last one has this timestamp, and others the least and greatest ones."""
    times_us = [1000 * each for each in (-1, 253_402_300_799_999, time_ms)]
    return rows.set_column(2, "timestamp", pa.array(times_us).cast(pa.timestamp("us", tz="UTC")))


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda rows: rows.take(pa.array([0, 2, 1])), "out of order"),
        (lambda rows: rows.take(pa.array([0, 1, 1])), "more than once"),
        (lambda rows: rows.set_column(1, "offset", pa.array([5, 6, 9])), "no record has"),
        (lambda rows: rows.set_column(1, "offset", pa.array([1, 5, 6])), "no record has"),
        (
            lambda rows: rows.set_column(
                2, "timestamp", pa.array([1, None, 3], pa.timestamp("us", tz="UTC"))
            ),
            "without a timestamp",
        ),
        (lambda rows: timed(rows, 253_402_300_800_000), "after the year 9999"),
        (lambda rows: timed(rows, -2), "before 1970"),
    ],
)
@pytest.mark.provokes("TRANSFORM_FAILED")
def test_other_rows_than_were_given_are_an_error(spoil: Any, what: str, provoked: Provoked) -> None:
    chunk = chunk_of((5, [Sample(None, b"v", 9)] * 3))
    rows = back(rows_of(chunk))
    with pytest.raises(TransformFailed, match=what) as caught:
        batches_of(chunk, [spoil(rows)])
    provoked("TRANSFORM_FAILED", caught.value)


def test_damage_is_found_before_a_row_is_made() -> None:
    batch = bytearray(encode([Sample(b"k", b"v", 1)] * 4))
    good = encode([Sample(b"k", b"v", 1)])
    assert whole_batches(memoryview(good + batch[:-1]), 0, 0 + len(good + batch) - 1) == (
        len(good),
        None,
    )
    batch[-1] ^= 1
    at, error = whole_batches(memoryview(good + batch), 0, len(good + batch))
    assert at == len(good)
    assert isinstance(error, BatchError)


def test_damaged_records_raise_and_never_read_beyond_their_end() -> None:
    rng = random.Random(5)
    for _ in range(300):
        data = bytearray(encode(odd_records(rng, 5)))
        whole = back(rows_of(Chunk(0, SOURCE, bytes(data))))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(61, len(data))] = rng.randrange(256)
        changed = rng.choice([(), ("key",), ("value", "headers"), CHANGEABLE])
        with suppress(BatchError, TransformFailed):
            batches_of(Chunk(0, SOURCE, bytes(data)), [whole.slice(1)], changed)
        try:
            rows = rows_of(Chunk(0, SOURCE, bytes(data)))
        except BatchError:
            continue
        assert rows.num_rows == 5


def test_marks_are_no_records() -> None:
    rows = marks(9, 3)
    assert rows.column("partition").to_pylist() == [-1] * 3
    assert rows.column("offset").to_pylist() == [9] * 3
    assert rows.column("value").null_count == 3


def test_nothing_comes_back_from_the_offset_to_stop_before_on() -> None:
    """Given a record that fails, a marker and records after it / then these stay to be fetched."""
    data = at_offset(encode([Sample(None, b"%d" % n, n) for n in range(4)]), 10)
    data += marker(14, 9, commits=True).encode()
    data += at_offset(encode([Sample(None, b"later", 5)]), 15)
    chunk = Chunk(7, SOURCE, data, before=12)
    out = batches_of(chunk, [back(rows_of(chunk))])
    assert [row[0] for row in seen(out)] == [10, 11]
    assert next_offset(out, 0, len(out)) == 12
