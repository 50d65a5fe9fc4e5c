"""Records and batches of the load, read back by an independent codec."""

import random

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from heliostat.errors import SandboxError
from heliostat.names import TopicName
from heliostat_sandbox.shapes import (
    CODECS,
    GenericShape,
    Timestamps,
    TopicLoad,
    encode_batch,
    with_producer,
)

NOW_MS = 1_800_000_000_000


def read(batch: bytes) -> DefaultRecordBatch:
    found = DefaultRecordBatch(bytes(batch))
    assert found.validate_crc()
    return found


def made(shape: GenericShape, count: int = 400, seed: int = 1) -> list:
    chance = random.Random(seed)
    return [shape.record(chance, number, NOW_MS) for number in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_batches_read_back_as_written(codec):
    headers = (("trace", b"1"), ("trace", None), ("", b""))
    records = made(GenericShape(300, 3, headers, tombstones=0.2, empties=0.2), 50)
    batch = encode_batch(records, codec)
    found = read(batch)
    assert found.compression_type == CODECS[codec]
    assert [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in found] == [
        (stamp, key, value, tuple(own)) for stamp, key, value, own in records
    ]


def test_the_same_seed_gives_the_same_records_and_another_seed_others():
    shape = {"value_bytes": 80, "keys": 5, "tombstones": 0.1, "empties": 0.1}
    assert made(GenericShape(**shape)) == made(GenericShape(**shape))
    assert made(GenericShape(**shape)) != made(GenericShape(**shape), seed=2)


def test_null_and_empty_differ():
    assert {key for _, key, _, _ in made(GenericShape())} == {None}
    assert {key for _, key, _, _ in made(GenericShape(keys=0))} == {b""}
    assert len({key for _, key, _, _ in made(GenericShape(keys=7))}) == 7
    values = [value for _, _, value, _ in made(GenericShape(tombstones=0.3, empties=0.3))]
    assert 60 < values.count(None) < 180
    assert 60 < values.count(b"") < 180


def test_timestamps():
    def stamps(kind: Timestamps) -> list[int]:
        return [row[0] for row in made(GenericShape(timestamps=kind, age_ms=5_000))]

    assert set(stamps(Timestamps.NOW)) == {NOW_MS}
    assert set(stamps(Timestamps.AGED)) == {NOW_MS - 5_000}
    anywhere = stamps(Timestamps.RANDOM)
    assert NOW_MS - 5_000 <= min(anywhere) < max(anywhere) <= NOW_MS
    assert anywhere != sorted(anywhere)


@given(st.integers(0, 3_000), st.floats(0, 1), st.integers(0, 10**15))
def test_values_have_the_size_asked_for(size, entropy, number):
    shape = GenericShape(size, entropy=entropy)
    _, _, value, _ = shape.record(random.Random(1), number, NOW_MS)
    assert value is not None
    assert len(value) == size


def test_values_of_usual_size_never_repeat():
    values = [value for _, _, value, _ in made(GenericShape(64), 2_000)]
    assert len(set(values)) == 2_000


def test_producer_fields_are_set_and_the_checksum_follows():
    batch = encode_batch(made(GenericShape(), 3))
    found = read(with_producer(batch, 77, 2**31 + 5))
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (77, 0, 5)
    assert read(batch).producer_id == -1
    assert [r.value for r in found] == [r.value for r in read(batch)]


@pytest.mark.parametrize(
    "wrong", [{"codec": "brotli"}, {"partitions": 0}, {"batch_records": 0}, {"rate_hz": -1}]
)
def test_an_invalid_load_is_refused(wrong):
    with pytest.raises(SandboxError):
        TopicLoad(TopicName("t"), **wrong)
