"""`convert` where the source has holes: what stays, and its offsets by the offset map."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import batches as ref
from support.examples import examples

from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.batches.aborted import Aborted
from heliostat.records.batches.batch import CONTROL_BIT, Codec
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import (
    BatchPlace,
    ConvertedBatch,
    ConvertOutcome,
    ConvertSettings,
)
from heliostat.records.batches.plain_batch import plain_batch

PRODUCER = 2**40 + 5
NOW = 1_790_000_000_000


def plain(**changes) -> ConvertSettings:
    return ConvertSettings(**{"producer_id": PRODUCER, "batch_bytes_max": 2**20} | changes)


def bytes_of(batch: ConvertedBatch) -> bytes:
    return b"".join(bytes(part) for part in batch.parts)


def appended(outcome: ConvertOutcome, known: OffsetMap) -> list[tuple[int, ref.Record]]:
    """(source offset by the map, record) of what is to be appended, checked as a broker does."""
    target = outcome.next_target_offset - sum(item.records for item in outcome.batches)
    for item in outcome.batches:
        header = ref.header_of(bytes_of(item))
        assert item.base_offset == target
        assert ref.is_crc_valid(bytes_of(item))
        assert header["records_count"] == header["last_offset_delta"] + 1 == item.records
        assert header["base_sequence"] == target % 2**31
        assert not header["attributes"] & (ref.TRANSACTIONAL | ref.CONTROL)
        for each in item.breaks:
            assert target <= each.target < item.next_offset
            known.add(each)
        target = item.next_offset
    pairs = [
        pair for item in outcome.batches for pair in ref.read(bytes_of(item), item.base_offset)
    ]
    for item in outcome.batches:
        assert known.source_of(item.next_offset - 1) + 1 == item.next_source_offset
    for offset, _ in pairs:
        assert known.target_of(known.source_of(offset)) == offset
    return [(known.source_of(offset), record) for offset, record in pairs]


@st.composite
def logs(draw):
    """A source's log with holes of all kinds, its aborted transactions, what readers see of it."""
    at = draw(st.sampled_from([0, 5, 2**31 - 3]))
    stored, aborted, seen, open_since = [], [], [], {}
    for number in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["plain", "plain", "sparse", "gap", "empty", "txn", "end"]))
        if kind == "gap":
            at += draw(st.integers(1, 3))
            continue
        producer = draw(st.sampled_from([7, 8]))
        if kind == "end":
            if producer in open_since:
                commits = open_since.pop(producer) is not None
                batch = ref.marker(at, producer, commits=commits)
                stored.append(batch)
                at = batch.next_offset
            continue
        size = draw(st.integers(1, 4))
        records = tuple(
            ref.Record(NOW + n, b"k%d" % number, b"v" * draw(st.sampled_from([1, 200])))
            for n in range(size)
        )
        codec = draw(st.sampled_from([0, 0, 1, 4]))
        if kind == "sparse":
            deltas = tuple(sorted(draw(st.sets(st.integers(0, 9), min_size=size, max_size=size))))
            last = draw(st.sampled_from([None, 11]))
            append_time = draw(st.sampled_from([None, NOW + 50]))
            batch = ref.StoredBatch(at, records, codec, append_time, deltas=deltas, last_delta=last)
            seen += batch.seen
        elif kind == "empty":
            whole = ref.StoredBatch(at, records).encode()[:61]
            batch = ref.StoredBatch(at, records)
            batch = _Empty(at, ref.changed(whole, length=49, records_count=0), size)
        elif kind == "txn":
            if producer not in open_since:
                commits = draw(st.booleans())
                open_since[producer] = True if commits else None
                if not commits:
                    aborted.append(Aborted(producer, at))
            bits = ref.TRANSACTIONAL
            batch = ref.StoredBatch(at, records, codec, more_attributes=bits, producer_id=producer)
            if open_since[producer]:
                seen += batch.seen
        else:
            batch = ref.StoredBatch(at, records, codec)
            seen += batch.seen
        stored.append(batch)
        at = batch.next_offset
    return stored, aborted, seen


class _Empty:
    """A batch that compaction has left without records."""

    def __init__(self, base_offset: int, encoded: bytes, size: int) -> None:
        self.base_offset, self._encoded, self.next_offset = base_offset, encoded, base_offset + size

    def encode(self) -> bytes:
        return self._encoded


@given(
    logs(),
    st.builds(
        plain,
        batch_bytes_max=st.sampled_from([400, 2**20, 2**20]),
        join_bytes_max=st.sampled_from([300, 2**20, 2**20]),
        join_below_bytes=st.sampled_from([0, 2**14, 2**14]),
        compression=st.sampled_from([None, None, *Codec]),
        in_flight_max=st.sampled_from([1, 3]),
        is_target_far=st.booleans(),
    ),
    st.data(),
)
@examples(300)
def test_readers_of_both_sides_see_the_same_in_the_same_order(log, limits, data):
    stored, aborted, seen = log
    if not stored:
        return
    first = stored[0].base_offset
    ahead = data.draw(st.sampled_from([0, 0, 3]))
    first_target = first - min(first, ahead)
    answer = bytearray(b"".join(item.encode() for item in stored))
    known = OffsetMap()
    if first != first_target:
        known.add(Break(first_target, first))
    place = BatchPlace(
        first, first_target, data.draw(st.sampled_from([first - first_target, None]))
    )
    outcome = convert(answer, 0, len(answer), place, limits, aborted)
    assert outcome.stop is None
    assert outcome.next_offset == stored[-1].next_offset
    if place.ahead is None and outcome.batches:
        assert outcome.batches[0].breaks[0].target == first_target
    assert appended(outcome, known) == seen


def ended_at(stored, transaction):
    """Offset of the transaction's marker: brokers name it up to there (`collectAbortedTxns`)."""
    markers = (item for item in stored if getattr(item, "more_attributes", 0) & CONTROL_BIT)
    offsets = (item.base_offset for item in markers if item.producer_id == transaction.producer_id)
    return next((offset for offset in offsets if offset > transaction.first_offset), 2**63)


@given(logs(), st.data())
@examples(100)
def test_converting_continues_at_any_batch_as_without_a_stop(log, data):
    """Fetched in two answers, the map and the records are those of one."""
    stored, aborted, seen = log
    if len(stored) < 2:
        return
    cut = data.draw(st.integers(1, len(stored) - 1))
    known, got = OffsetMap(), []
    place = BatchPlace.same(stored[0].base_offset)
    for part in (stored[:cut], stored[cut:]):
        answer = bytearray(b"".join(item.encode() for item in part))
        named = [
            item
            for item in aborted
            if item.first_offset < part[-1].next_offset
            and ended_at(stored, item) >= part[0].base_offset
        ]
        outcome = convert(answer, 0, len(answer), place, plain(), named)
        assert outcome.stop is None
        got += appended(outcome, known)
        end = outcome.next_target_offset
        place = BatchPlace(outcome.next_offset, end, known.source_of(end) - end)
    assert got == seen


def test_the_same_producers_next_transaction_is_judged_by_itself():
    def batch(at: int) -> ref.StoredBatch:
        return ref.StoredBatch(
            at,
            (ref.Record(NOW, None, b"%d" % at),),
            more_attributes=ref.TRANSACTIONAL,
            producer_id=7,
        )

    stored = [
        batch(0),
        ref.marker(1, 7, commits=False),
        batch(2),
        ref.marker(3, 7, commits=True),
        batch(4),
        ref.marker(5, 7, commits=False),
    ]
    answer = bytearray(b"".join(item.encode() for item in stored))
    aborted = [Aborted(7, 0), Aborted(7, 4)]
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain(), aborted)
    assert [record.value for _, record in appended(outcome, OffsetMap())] == [b"2"]
    assert outcome.next_offset == 6
    assert outcome.batches[0].breaks == (Break(0, 2),)


def test_small_batches_of_many_transactions_are_joined():
    stored = []
    for at in range(0, 40, 2):
        record = (ref.Record(NOW, None, b"x"),)
        stored.append(ref.StoredBatch(at, record, more_attributes=ref.TRANSACTIONAL, producer_id=7))
        stored.append(ref.marker(at + 1, 7, commits=True))
    answer = bytearray(b"".join(item.encode() for item in stored))
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain())
    (only,) = outcome.batches
    assert only.records == 20
    assert only.breaks == tuple(Break(n, 2 * n) for n in range(1, 20))
    assert outcome.next_offset == 40


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_batches_that_a_pipeline_has_opened_are_compressed_again(codec):
    """Given uncompressed batches, with holes or without / when they are joined, or one is alone /

    then with the codec that they had.
    """
    records = tuple(ref.Record(NOW, b"k", bytes(200)) for _ in range(20))
    odd = tuple(range(1, 40, 2))
    thinned = [ref.StoredBatch(40 * n, records, deltas=odd, last_delta=39) for n in range(4)]
    whole_ones = [ref.StoredBatch(20 * n, records) for n in range(4)]
    whole = whole_ones[0]
    for stored, limits, expected in (
        (thinned, {}, [codec]),
        (thinned[:1], {}, [codec]),
        (thinned, {"join_below_bytes": 0}, [codec] * 4),
        ([whole], {}, [codec]),
        (whole_ones, {}, [codec]),
        (whole_ones, {"join_below_bytes": 0}, [codec] * 4),
    ):
        answer = bytearray(b"".join(item.encode() for item in stored))
        made = plain(opened=codec, **limits)
        outcome = convert(answer, 0, len(answer), BatchPlace.same(0), made)
        found = [ref.header_of(bytes_of(each))["attributes"] for each in outcome.batches]
        assert found == [each.value for each in expected]
        pairs = appended(outcome, OffsetMap())
        assert pairs == [pair for item in stored for pair in item.seen]


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_a_pipeline_has_opened_takes_the_general_way(codec):
    record = ref.Record(NOW, b"k", bytes(100), ())
    answer = ref.encode_all([ref.StoredBatch(7, (record,) * 2, codec=codec)])
    before, opened = bytes(answer), plain(opened=Codec.LZ4)
    found = plain_batch(memoryview(answer), 0, len(answer), BatchPlace(7, 7, 0), opened)
    assert (found is None) == (codec == 0), "one that is compressed was not opened"
    assert (answer == before) == (codec == 0)


def test_thinned_compressed_batches_are_joined_and_stay_compressed():
    stored = [
        ref.StoredBatch(
            at, (ref.Record(NOW, b"k", bytes(300)),), codec=4, deltas=(3,), last_delta=9
        )
        for at in range(0, 200, 10)
    ]
    answer = bytearray(b"".join(item.encode() for item in stored))
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain())
    (only,) = outcome.batches
    assert ref.header_of(bytes_of(only))["attributes"] == 4
    known = OffsetMap()
    assert [source for source, _ in appended(outcome, known)] == list(range(3, 200, 10))


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_converted(magic, codec):
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

    def message_set(offsets: list[int], packed: int) -> bytes:
        builder = LegacyRecordBatchBuilder(magic=magic, compression_type=packed, batch_size=9999)
        for number, offset in enumerate(offsets):
            builder.append(
                number if packed and magic else offset, NOW + offset, b"k", b"%d" % offset
            )
        made = bytearray(builder.build())
        if packed:
            made[:8] = offsets[-1].to_bytes(8, "big")
        return bytes(made)

    answer = bytearray(message_set([0, 1, 2], codec) + message_set([3, 4], 0))
    answer += ref.StoredBatch(5, (ref.Record(NOW, None, b"5"),)).encode()
    outcome = convert(answer, 0, len(answer), BatchPlace.same(1), plain())
    assert outcome.stop is None, outcome.stop
    got = appended(outcome, OffsetMap())
    assert [source for source, _ in got] == [1, 2, 3, 4, 5]
    assert [record.value for _, record in got] == [b"1", b"2", b"3", b"4", b"5"]
    expected = NOW + 2 if magic else -1
    assert got[1][1].timestamp == expected
    assert got[0][1].key == b"k"


def test_a_batch_too_large_is_split_and_offsets_stay():
    records = tuple(ref.Record(NOW, None, bytes([n]) * 100) for n in range(50))
    stored = ref.StoredBatch(3, records)
    answer = bytearray(stored.encode())
    outcome = convert(answer, 0, len(answer), BatchPlace.same(3), plain(batch_bytes_max=1500))
    assert len(outcome.batches) > 3
    assert all(item.size <= 1500 and not item.breaks for item in outcome.batches)
    assert appended(outcome, OffsetMap()) == stored.seen
