"""Steps about headers and tombstones on batches' bytes, against the same in plain Python."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import pytest
from support.batches import Record, StoredBatch, marker
from support.header_steps import left, place_of, random_headers, random_steps
from support.records import Sample, encode, odd_records
from unit.records.rows.test_rows import CODECS, SOURCE, at_offset, chunk_of, seen

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.batches.batch import Codec, each_header, next_offset, read_header
from heliostat.records.rows import in_place
from heliostat.records.rows.header_steps import (
    DropHeaders,
    HasHeader,
    HasValue,
    InPlaceStep,
    InsertHeaders,
    InsertOrigin,
    Origin,
    RenameHeaders,
)
from heliostat.records.rows.in_place import InPlace
from heliostat.records.rows.to_rows import Chunk

SMALL = Sample(b"k", b"v", 7, (("h", b"1"),))


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_records_are_what_the_steps_say_and_where_they_were(codec: int) -> None:
    rng = random.Random(codec)
    for _ in range(60):
        offset, batches, expected = 100, [], []
        steps = random_steps(rng)
        first, before = rng.choice([(0, 1 << 62), (102, 1 << 62), (0, 110)])
        for _ in range(3):
            samples = [
                replace(each, headers=random_headers(rng))
                for each in odd_records(rng, rng.randrange(1, 9))
            ]
            batches.append((offset, samples))
            for number, each in enumerate(samples, offset):
                place = place_of(SOURCE, number, each.timestamp_ms)
                headers = left(steps, each.headers, each.value, place)
                if headers is not None and first <= number < before:
                    expected.append((number, each.timestamp_ms, each.key, each.value, headers))
            offset += len(samples) + rng.randrange(2)
        chunk = chunk_of(*batches, codec=codec, first=first, before=before)
        out, error = InPlace(steps).applied(chunk)
        assert error is None
        assert seen(bytes(out)) == expected
        ends = [begin + len(some) for begin, some in batches if begin < before]
        assert next_offset(out, 0, len(out)) == min(ends[-1], before)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_batch_that_no_step_concerns_keeps_its_bytes(codec: int) -> None:
    batches = [(10 * number, [SMALL] * 10) for number in range(2)]
    with_skip = [*[SMALL] * 9, replace(SMALL, headers=(("skip", None),))]
    chunk = chunk_of(*batches, (20, with_skip), codec=codec)
    steps = InPlace([HasHeader("skip", is_kept=False), DropHeaders(("x",)), HasValue()])
    out, _ = steps.applied(chunk)
    kept = len(bytes(chunk_of(*batches, codec=codec).data))
    assert out[:kept] == bytes(chunk.data)[:kept]
    last = read_header(out, kept, len(out))
    assert last is not None
    # It has to be encoded anew in any case, and is compressed then.
    assert (last.records_count, last.next_offset, last.codec) == (9, 30, Codec.NONE)
    assert steps.opened.value == codec


@pytest.mark.parametrize("codec", list(CODECS.values())[1:], ids=list(CODECS)[1:])
def test_only_so_much_is_left_open(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given batches that lose a record each / when there are more than memory is given for / then

    the others are compressed again; and so is each that loses none.
    """
    samples = [*[Sample(b"k", bytes(500), 7)] * 9, replace(SMALL, headers=(("skip", None),))]
    steps = InPlace([HasHeader("skip", is_kept=False), InsertHeaders((("x", "y"),))])
    monkeypatch.setattr(in_place, "OPENED_BYTES_MAX", 10_000)
    chunk = chunk_of(*((10 * n, samples) for n in range(3)), (30, samples[:9]), codec=codec)
    out, error = steps.applied(chunk)
    assert error is None
    codecs = [header.codec.value for _, header in each_header(out, 0, len(out))]
    assert codecs == [0, 0, codec, codec]
    assert len(seen(bytes(out))) == 36


@pytest.mark.parametrize("codec", list(CODECS.values())[1:], ids=list(CODECS)[1:])
def test_changed_batches_are_left_open_to_be_joined(codec: int) -> None:
    """Given batches that are changed, and lose no record / then they are left open if they may be

    joined with others: not one that is alone, and none that is large.
    """
    few, many = [Sample(b"k", bytes(500), 7)] * 10, [Sample(b"k", bytes(5000), 7)] * 60
    for batches, expected in (
        ([few, few], [0, 0]),
        ([few], [codec]),
        ([few, many, few], [0, codec, 0]),
    ):
        begins = [sum(map(len, batches[:n])) for n in range(len(batches))]
        steps = InPlace([InsertHeaders((("x", "y"),))])
        out, error = steps.applied(chunk_of(*zip(begins, batches, strict=True), codec=codec))
        assert error is None
        codecs = [header.codec.value for _, header in each_header(out, 0, len(out))]
        assert codecs == expected
        assert steps.opened.value == codec
        assert len(seen(bytes(out))) == sum(map(len, batches))


def test_what_is_filtered_out_wholly_leaves_its_offsets_and_markers_stay() -> None:
    data = bytes(at_offset(encode([SMALL] * 4), 10)) + marker(14, 9, commits=True).encode()
    out, _ = InPlace([HasHeader("no", is_kept=True)]).applied(Chunk(7, SOURCE, data, before=12))
    header = read_header(out, 0, len(out))
    assert header is not None
    assert (header.base_offset, header.next_offset, header.records_count) == (10, 12, 0)
    assert header.size == len(out)
    whole, _ = InPlace([HasHeader("no", is_kept=True)]).applied(Chunk(7, SOURCE, data))
    assert next_offset(whole, 0, len(whole)) == 15


def test_times_of_the_log_s_append_are_kept() -> None:
    records = tuple(Record(5 + n, b"k", b"%d" % n) for n in range(4))
    stored = StoredBatch(20, records, append_time=77)
    out, _ = InPlace([InsertHeaders((("a", "b"),))]).applied(Chunk(7, SOURCE, stored.encode()))
    assert [row[1] for row in seen(bytes(out))] == [77] * 4


def test_the_origin_of_each_record_is_text_and_of_its_own_partition() -> None:
    """Given one lane's steps, and partitions with names of all lengths / then each record says its

    own place, also with numbers that are as long as they get, and times before 1970.
    """
    steps = InPlace([InsertOrigin(tuple((each.name, each) for each in Origin), "k" * 70)])
    times = [-(2**62), -10, -1, 0, 9, 10, 99, 2**62]
    for topic, number, offset in (("t", 0, 0), ("long" * 60, 2**31 - 1, 2**62), ("t", 9, 99)):
        source = TopicPartition(TopicName(topic), PartitionId(number))
        samples = [Sample(b"k", None, each) for each in times]
        data = b"".join(
            at_offset(encode([each]), offset + place) for place, each in enumerate(samples)
        )
        out, error = steps.applied(Chunk(7, source, data))
        assert error is None
        for place, row in enumerate(seen(bytes(out))):
            assert row[1] == times[place]
            said = [text.decode() for _, text in row[4]]
            assert said == ["k" * 70, topic, f"{number}", f"{offset + place}", f"{times[place]}"]


@pytest.mark.parametrize(
    "step",
    [
        InsertHeaders((("origin", "summit " * 40),)),
        RenameHeaders((("h", "longer than before " * 9),)),
    ],
)
def test_room_is_made_for_longer_headers_once_not_twice_as_much_each_time(
    step: InPlaceStep,
) -> None:
    """Given headers longer than records / when they are in batch after batch / then none needs

    more than the one before: what was twice as much each time ended the lane.
    """
    steps = InPlace([step])
    chunk = chunk_of(*((10 * number, [SMALL] * 10) for number in range(60)))
    tracemalloc.start()
    try:
        out, error = steps.applied(chunk)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error is None
    assert len(seen(bytes(out))) == 600
    assert most < 10 * len(out)


def test_damaged_records_are_named_and_what_is_before_them_is_kept() -> None:
    rng = random.Random(5)
    good = encode(odd_records(rng, 3))
    named = 0
    for _ in range(300):
        data = bytearray(at_offset(encode(odd_records(rng, 5)), 3))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(61, len(data))] = rng.randrange(256)
        out, error = InPlace(random_steps(rng)).applied(Chunk(0, SOURCE, good + bytes(data)))
        if error is not None:
            assert error.context["base_offset"] == 3
            assert next_offset(out, 0, len(out)) == 3
            named += 1
    assert named > 100
