"""The schema gate, by compiled code and by objects: only what has known ids is appended (I8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from support.batches import TRANSACTIONAL, Record, StoredBatch, header_of, is_crc_valid, read
from support.records import LZ4, NONE, ZSTD, Sample, encode
from unit.records.copier.test_plain_way import NOW, TARGET, Side, partition

from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.converted import RefusedRecord, Stop, StopReason
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.records.copier.lane import (
    NO_IDS,
    CopySettings,
    PartitionState,
    SchemaFrames,
    SchemaIds,
)
from heliostat.records.copier.network import Fetched, Want
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.copier.schema_gate import SchemaGate, waits
from heliostat.records.copier.transform import PipelineWay

BYTES_MAX = 1 << 20
KNOWN, FOREIGN, UNKNOWN = 7, 8, 9
IDS = SchemaIds(((1, KNOWN),), ((FOREIGN, FOREIGN),))
VALUES, KEYS, MAYBE = SchemaFrames.VALUES, SchemaFrames.KEYS, SchemaFrames.MAYBE_VALUES


def framed(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + b"payload"


def batch(base: int, *records: tuple[bytes | None, bytes | None], codec: int = NONE) -> bytes:
    """A batch as it is stored from an offset on."""
    return stored(base, [Sample(key, value, NOW) for key, value in records], codec)


def stored(base: int, samples: list[Sample], codec: int) -> bytes:
    data = encode(samples, codec)
    return base.to_bytes(8, "big") + data[8:12] + bytes(4) + data[16:]


def framing(frames: SchemaFrames) -> PartitionCopy:
    item = partition(0, 0, 0, CopySettings(), BYTES_MAX)
    item.spec = replace(item.spec, frames=frames)
    return item


def answer(item: PartitionCopy, data: bytes, end: int = 100) -> Fetched:
    want = Want(0, item.attempt, item.fetches.offset, BYTES_MAX)
    return Fetched(want, 0, end, bytearray(data), 0, len(data), end)


CASES = [
    (VALUES, b"k", framed(KNOWN), True),
    (VALUES, framed(UNKNOWN), framed(KNOWN), True),
    (VALUES, b"k", framed(UNKNOWN), False),
    (VALUES, b"k", framed(FOREIGN), False),
    (MAYBE, b"k", framed(FOREIGN), True),
    (MAYBE, b"k", framed(UNKNOWN), False),
    (VALUES | KEYS, framed(UNKNOWN), framed(KNOWN), False),
    (VALUES | KEYS, framed(KNOWN), framed(KNOWN), True),
    (MAYBE | KEYS, framed(UNKNOWN), None, False),
    (VALUES, None, None, True),
    (SchemaFrames(0), framed(UNKNOWN), framed(UNKNOWN), True),
    (KEYS, framed(KNOWN), framed(UNKNOWN), True),
    (KEYS, framed(UNKNOWN), b"v", False),
]


@pytest.mark.parametrize(("frames", "key", "value", "passes"), CASES)
def test_both_ways_let_the_same_records_pass(
    frames: SchemaFrames, key: bytes | None, value: bytes | None, *, passes: bool
) -> None:
    """Given one record / then objects and compiled code agree whether it may pass."""
    data = batch(0, (key, value))
    item = framing(frames)
    gate = SchemaGate()
    gate.learn(IDS, [item])
    gate.fetched(item, answer(item, data), 0.0, NOW)
    assert bool(item.appends.queue) is passes
    assert waits(item) is not passes
    side = side_of(frames)
    assert side.take(data, high_watermark=100) == ([] if passes else [0])


def side_of(frames: SchemaFrames, ids: SchemaIds = IDS) -> Side:
    side = Side(framing(frames))
    side.gate.learn(ids, [])
    return side


def test_compiled_code_leaves_compressed_batches_and_takes_several_that_pass() -> None:
    """Given compressed or several batches / then those that must be opened are left to objects."""
    packed = batch(0, (b"k", framed(KNOWN)), codec=LZ4)
    assert side_of(VALUES).take(packed, high_watermark=100) == [0]
    assert side_of(SchemaFrames(0)).take(packed, high_watermark=100) == []
    good = batch(0, (b"k", framed(KNOWN))) + batch(1, (b"k", framed(1)))
    assert side_of(VALUES).take(good, high_watermark=2) == []
    bad = batch(0, (b"k", framed(KNOWN))) + batch(1, (b"k", framed(UNKNOWN)))
    assert side_of(VALUES).take(bad, high_watermark=2) == [0]


def test_ids_that_are_learnt_pass_at_once_in_compiled_code() -> None:
    side = side_of(VALUES, NO_IDS)
    data = batch(0, (b"k", framed(KNOWN)))
    assert side.take(data, high_watermark=100) == [0]
    side.gate.learn(IDS, [])
    assert side.take(data, high_watermark=100) == []
    assert side.plain.leaders == {TARGET}


def test_batches_before_an_unknown_id_pass_and_the_rest_is_fetched_again() -> None:
    """Given batches of which a later one has an unknown id / then those before it are queued,

    the next fetch begins at it, after a pause that grows, and the reason names id and offset.
    """
    item, gate = framing(VALUES), SchemaGate()
    gate.learn(IDS, [item])
    good = batch(0, (b"k", framed(KNOWN)), (b"k", framed(KNOWN)))
    bad = batch(2, (b"k", framed(KNOWN)), (b"k", framed(UNKNOWN)))
    gate.fetched(item, answer(item, good + bad), 0.0, NOW)
    assert [each.records for each in item.appends.queue] == [2]
    assert item.fetches.offset == 2
    assert item.standing.reason.startswith("source offset 3: schema id 9 can't be read")
    assert item.standing.state is PartitionState.RETRYING
    assert gate.missed([item]) == (UNKNOWN,)
    assert item.want(0.0) is None
    pauses = _pauses(gate, item, bad)
    assert pauses == sorted({*pauses})
    assert item.progress.high_watermark == 100


def _pauses(gate: SchemaGate, item: PartitionCopy, data: bytes) -> list[float]:
    found: list[float] = []
    for now_s in (10.0, 20.0, 30.0):
        gate.fetched(item, answer(item, data), now_s, NOW)
        found.append(item.standing.not_before_s - now_s)
    assert len(item.appends.queue) == 1
    return found


def test_records_of_aborted_transactions_are_not_waited_for() -> None:
    """Given an unknown id that no reader sees / then it is passed; a committed one waits."""
    record = Record(NOW, b"k", framed(UNKNOWN))
    data = StoredBatch(0, (record,), more_attributes=TRANSACTIONAL, producer_id=5).encode()
    for aborted, position in (([Aborted(5, 0)], 1), ([], 0)):
        item, gate = framing(VALUES), SchemaGate()
        gate.learn(IDS, [item])
        gate.fetched(item, answer(item, data)._replace(aborted=aborted), 0.0, NOW)
        assert (item.fetches.offset, waits(item)) == (position, not aborted)
        assert not item.appends.queue


def test_what_waits_goes_on_when_its_id_is_learnt() -> None:
    """Given a partition that waits / when other ids, then its own are announced / then it is

    fetched at once, and passes; its trouble ends.
    """
    item, gate = framing(VALUES), SchemaGate()
    gate.learn(IDS, [item])
    data = batch(0, (b"k", framed(UNKNOWN)))
    gate.fetched(item, answer(item, data), 0.0, NOW)
    since_ms = item.standing.since_ms
    gate.fetched(item, answer(item, data), 1.0, NOW + 1000)
    assert item.standing.since_ms == since_ms
    assert not gate.learn(IDS, [item])
    assert gate.learn(SchemaIds(((1, UNKNOWN),)), [item])
    assert item.want(1.0) is not None
    gate.fetched(item, answer(item, data), 1.0, NOW + 1000)
    assert item.standing.state is PartitionState.COPYING
    assert len(item.appends.queue) == 1
    assert gate.missed([item]) == ()


def test_a_stopped_partition_keeps_its_reason() -> None:
    """Given a record that is too large before an unknown id / then the partition stops for it."""
    item, gate = partition(0, 0, 0, CopySettings(), 100), SchemaGate()
    item.spec = replace(item.spec, frames=VALUES)
    gate.learn(IDS, [item])
    large = batch(0, (b"k", framed(KNOWN) + bytes(200)))
    bad = batch(1, (b"k", framed(UNKNOWN)))
    gate.fetched(item, answer(item, large + bad), 0.0, NOW)
    assert item.phase is Phase.STOPPED
    assert item.standing.code == "TOO_LARGE"


def test_empty_answers_are_passed_on() -> None:
    item, gate = framing(VALUES), SchemaGate()
    gate.fetched(item, answer(item, b"", end=0), 0.0, NOW)
    assert item.progress.high_watermark == 0
    assert item.standing.state is not PartitionState.RETRYING


def test_partitions_without_frames_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("not to be looked at")

    item, gate = framing(SchemaFrames(0)), SchemaGate()
    monkeypatch.setattr("heliostat.records.copier.schema_gate.unknown_ids", refused)
    gate.fetched(item, answer(item, batch(0, (b"k", framed(UNKNOWN)))), 0.0, NOW)
    assert len(item.appends.queue) == 1


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_only_records_that_are_to_be_appended_are_looked_at(codec: int) -> None:
    """Given a batch with unknown ids / when an error policy has skipped those before the position,

    or gives up the one behind it / then those between are appended, and the partition stops there.
    """
    ids = [UNKNOWN, KNOWN, UNKNOWN, KNOWN]
    data = batch(0, *((b"k", framed(each)) for each in ids), codec=codec)
    item, gate = framing(VALUES), SchemaGate()
    gate.learn(IDS, [item])
    item.fetches.offset = 1
    gate.fetched(item, answer(item, data), 0.0, NOW)
    assert waits(item)
    assert not item.appends.queue
    item.standing.recovered(NOW, aligns=False)
    reason = StopReason.SCHEMA_UNREADABLE
    item.fetches.refusal = RefusedRecord(2, "given up", reason)
    for now_s in (10.0, 20.0):  # where a batch begins before the position is believed if said twice
        gate.fetched(item, answer(item, data), now_s, NOW)
    assert [each.records for each in item.appends.queue] == [1]
    assert item.fetches.stop == Stop(reason, 2, "given up")


MOVED = SchemaIds(((1, 3), (KNOWN, KNOWN)), ((FOREIGN, FOREIGN),), (0, 100))
REPLACED = SchemaFrames.REPLACED
REPLACING = [
    (VALUES, framed(KNOWN), framed(KNOWN), framed(KNOWN), framed(107)),
    (VALUES | KEYS, framed(KNOWN), framed(2), framed(107), framed(2)),
    (VALUES | KEYS, framed(2), framed(KNOWN), framed(2), framed(107)),
    (VALUES, b"k", None, b"k", None),
    (VALUES, framed(UNKNOWN), framed(3), framed(UNKNOWN), framed(3)),
    (MAYBE | KEYS, framed(KNOWN), b"plain", framed(107), b"plain"),
    (MAYBE | KEYS, framed(KNOWN), framed(FOREIGN), framed(107), framed(FOREIGN)),
    (KEYS, framed(KNOWN), framed(KNOWN), framed(107), framed(KNOWN)),
    (MAYBE, framed(KNOWN), framed(FOREIGN), framed(KNOWN), framed(FOREIGN)),
]


def queued(item: PartitionCopy) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of what waits to be appended."""
    return [(record.key, record.value) for record in queued_records(item)]


def queued_records(item: PartitionCopy) -> list[Record]:
    """Records of what waits to be appended."""
    found = []
    for each in item.appends.queue:
        data = b"".join(map(bytes, each.parts))
        assert is_crc_valid(data)
        found += [record for _, record in read(data, 0)]
    return found


@pytest.mark.parametrize(("frames", "key", "value", "new_key", "new_value"), REPLACING)
@pytest.mark.parametrize("codec", [NONE, LZ4, ZSTD])
def test_both_ways_put_in_the_ids_of_the_target(  # noqa: PLR0917 - a table
    frames: SchemaFrames,
    key: bytes | None,
    value: bytes | None,
    new_key: bytes | None,
    new_value: bytes | None,
    codec: int,
) -> None:
    """Given one record, then two batches of it / then objects and compiled code append the same."""
    one, two = batch(0, (key, value), codec=codec), batch(1, (key, value), codec=codec)
    for data, count in ((one, 1), (one + two, 2)):
        item, gate = framing(frames | REPLACED), SchemaGate()
        gate.learn(MOVED, [item])
        gate.fetched(item, answer(item, data), 0.0, NOW)
        assert queued(item) == [(new_key, new_value)] * count
        assert not waits(item)
        side = side_of(frames | REPLACED, MOVED)
        if side.take(data, high_watermark=count) == []:
            [sends] = side.sends()
            sent = b"".join(
                bytes(part) for send in sends.objects(with_bytes=True) for part in send.batch.parts
            )
            assert sent == b"".join(
                bytes(part) for each in item.appends.queue for part in each.parts
            )


def test_compiled_code_takes_what_it_replaces() -> None:
    """Given plain framed values / then no object is needed; what only seems framed is left."""
    data = batch(0, (b"k", framed(KNOWN)))
    assert side_of(VALUES | REPLACED, MOVED).take(data, high_watermark=1) == []
    assert side_of(MAYBE | REPLACED, MOVED).take(data, high_watermark=1) == [0]
    plain = batch(0, (b"k", b"plain"))
    assert side_of(MAYBE | REPLACED, MOVED).take(plain, high_watermark=1) == []


def test_a_value_that_only_seems_to_have_an_id_waits_where_ids_are_replaced() -> None:
    """Given no subject named after the topic / then the value waits, known as its id is, until it

    is clear whether it has one.
    """
    item, gate = framing(MAYBE | REPLACED), SchemaGate()
    gate.learn(MOVED, [item])
    data = batch(0, (b"k", framed(KNOWN)))
    gate.fetched(item, answer(item, data), 0.0, NOW)
    assert waits(item)
    assert item.standing.reason == (
        "source offset 0: schema id 7 would be replaced, and no subject named after the topic is "
        "known: say with schemas.framed or schemas.plain whether its values begin with ids"
    )
    assert gate.missed([item]) == (KNOWN,)
    item.spec = replace(item.spec, frames=VALUES | REPLACED)
    gate.fetched(item, answer(item, data), 10.0, NOW)
    assert queued(item) == [(b"k", framed(107))]


def test_keys_and_values_that_wait_are_both_reported() -> None:
    """Given an unknown key behind a value that seems framed, then before it / then both are asked

    for, and what comes before the first passes.
    """
    value, key = (b"k", framed(1)), (framed(UNKNOWN), None)
    for ahead, behind in ((value, key), (key, value)):
        item, gate = framing(MAYBE | KEYS | REPLACED), SchemaGate()
        gate.learn(MOVED, [item])
        data = batch(0, (framed(KNOWN), b"v")) + batch(1, ahead) + batch(2, behind)
        gate.fetched(item, answer(item, data), 0.0, NOW)
        assert gate.missed([item]) == (1, UNKNOWN)
        assert queued(item) == [(framed(107), b"v")]
        assert item.standing.reason.startswith("source offset 1: schema id 1, 9 ")


def test_the_same_ids_at_the_target_are_not_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("nothing is to be replaced")

    monkeypatch.setattr("heliostat.records.copier.schema_gate.replace_ids", refused)
    item, gate = framing(VALUES | REPLACED), SchemaGate()
    gate.learn(IDS, [item])
    gate.fetched(item, answer(item, batch(0, (b"k", framed(KNOWN)))), 0.0, NOW)
    assert queued(item) == [(b"k", framed(KNOWN))]


def test_messages_of_old_formats_wait_and_what_comes_before_them_passes() -> None:
    """Given a v1 message in a topic whose ids are replaced / then it waits, and says why."""
    item, gate = framing(VALUES | REPLACED), SchemaGate()
    gate.learn(MOVED, [item])
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(1, NOW, b"k", framed(KNOWN))
    old = bytes(builder.build())
    gate.fetched(item, answer(item, batch(0, (b"k", framed(KNOWN))) + old), 0.0, NOW)
    assert queued(item) == [(b"k", framed(107))]
    assert waits(item)
    assert "a message format of Kafka before 0.11" in item.standing.reason
    gate.fetched(item, answer(item, old), 10.0, NOW)
    assert len(item.appends.queue) == 1
    assert item.progress.high_watermark == 100


def test_what_was_compressed_again_counts_as_memory_of_its_own() -> None:
    """Given a compressed batch / then its new bytes are counted, as no answer holds them."""
    item, gate = framing(VALUES | REPLACED), SchemaGate()
    gate.learn(MOVED, [item])
    gate.fetched(item, answer(item, batch(0, (b"k", framed(KNOWN)), codec=ZSTD)), 0.0, NOW)
    [each] = item.appends.queue
    assert not each.is_view
    assert each.own_bytes == each.size
    assert header_of(b"".join(map(bytes, each.parts)))["producer_id"] > 0


def piped(frames: SchemaFrames, **step: Any) -> tuple[PartitionCopy, SchemaGate]:
    """A partition whose pipeline can decode one id, and its lane's gate."""
    item = framing(frames)
    item.spec = replace(item.spec, pipeline="p")
    fields = AvroFields(schemas=(AvroSchema(KNOWN),), **{"column": "value", **step})
    return item, SchemaGate(Pipeline("p", (fields,)))


def test_a_pipeline_gets_batches_that_it_can_decode() -> None:
    """Given ids that the pipeline knows or not / then batches before the first unknown one go in,

    and the rest waits, whatever is known of ids at the target; keys are none of its business.
    """
    item, gate = piped(VALUES)
    first = batch(0, (framed(UNKNOWN), framed(KNOWN)), (b"", None), (b"", b"\x01 garbage"))
    data = first + batch(3, (b"", framed(FOREIGN)), codec=LZ4)
    gate.learn(IDS, [item])
    found = gate.before_pipeline(item, answer(item, data), 0.0, NOW)
    assert found == answer(item, data)._replace(end=len(first))
    assert gate.before_pipeline(item, answer(item, first), 0.0, NOW) == answer(item, first)
    assert not waits(item)
    rest = batch(0, (b"", framed(FOREIGN)))
    assert gate.before_pipeline(item, answer(item, rest), 0.0, NOW) is None
    assert waits(item)
    assert gate.missed([item]) == (FOREIGN,)
    assert "is not known to the pipeline yet" in item.standing.reason


@pytest.mark.parametrize("first", ["key", "value"])
def test_a_pipeline_of_keys_and_values_gets_what_it_can_decode_of_both(first: str) -> None:
    """Given a pipeline that decodes both / when one has an unknown id earlier than the other / then

    only batches before the earlier one go in.
    """
    item = framing(VALUES | SchemaFrames.KEYS)
    item.spec = replace(item.spec, pipeline="p")
    steps = [AvroFields(schemas=(AvroSchema(KNOWN),), column=each) for each in ("key", "value")]
    gate = SchemaGate(Pipeline("p", tuple(steps)))
    gate.learn(IDS, [item])
    good = batch(0, (framed(KNOWN), framed(KNOWN)))
    bad_key, bad_value = (framed(FOREIGN), framed(KNOWN)), (framed(KNOWN), framed(FOREIGN))
    both = [bad_key, bad_value] if first == "key" else [bad_value, bad_key]
    data = good + batch(1, both[0]) + batch(2, both[1])
    found = gate.before_pipeline(item, answer(item, data), 0.0, NOW)
    assert found == answer(item, data)._replace(end=len(good))


class Taken:
    """A pipeline that takes answers."""

    def __init__(self) -> None:
        self.has: list[Fetched] = []

    def put(self, fetched: Fetched) -> None:
        self.has.append(fetched)


def test_what_a_pipeline_can_not_decode_stays_out_of_it() -> None:
    """Given an answer of two batches / then the pipeline gets the one that it knows, and nothing

    is under way when it knows none, so that the partition is fetched again.
    """
    item, gate = piped(VALUES)
    taken, first = Taken(), batch(0, (b"k", framed(KNOWN)))
    way = PipelineWay([item], taken, gate)
    unknown = batch(1, (b"k", framed(UNKNOWN)))
    assert way.takes(answer(item, unknown), 0.0, NOW)
    assert taken.has == []
    assert item.fetches.under_way is None
    assert item.progress.high_watermark == 100
    assert way.takes(answer(item, first + unknown), 0.0, NOW)
    assert taken.has == [answer(item, first + unknown)._replace(end=len(first))]
    assert item.fetches.under_way is not None


@pytest.mark.parametrize(
    ("step", "passes"), [({}, False), ({"drops": ("a",)}, True), ({"where": "true"}, False)]
)
def test_records_that_were_written_anew_are_not_compared_with_ids_of_the_source(
    step: dict[str, Any], *, passes: bool
) -> None:
    """Given records that came back / then only those that a step writes anew have ids of the

    target, which were readable there before; others are held until theirs are.
    """
    item, gate = piped(VALUES, **step)
    gate.fetched(item, answer(item, batch(0, (b"k", framed(UNKNOWN)))), 0.0, NOW)
    assert bool(item.appends.queue) is passes


def test_keys_are_still_compared_where_values_were_written_anew() -> None:
    item, gate = piped(VALUES | KEYS, drops=("a",))
    gate.fetched(item, answer(item, batch(0, (framed(UNKNOWN), framed(UNKNOWN)))), 0.0, NOW)
    assert waits(item)
    item, gate = piped(VALUES | KEYS, drops=("a",), column="key")
    gate.fetched(item, answer(item, batch(0, (framed(UNKNOWN), framed(UNKNOWN)))), 0.0, NOW)
    assert waits(item)
