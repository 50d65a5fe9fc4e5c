"""`convert` on batches that an independent codec made, and that this codec reads back.

Everything is converted twice, the second time with index checks in the compiled loops.
"""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import batches as ref
from support.converted_twice import batch_maker_checked, convert
from support.examples import examples

from heliostat.offsets.offset_map import Break
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.claimed_offsets import ClaimedOffsets
from heliostat.records.batches.converted import (
    BatchPlace,
    ConvertedBatch,
    ConvertOutcome,
    ConvertSettings,
    RefusedRecord,
    StopReason,
)
from heliostat.records.batches.plain_batch import plain_batch

PRODUCER = 2**40 + 5
NOW = 1_790_000_000_000
CODECS = [0, 1, 2, 3, 4]

NOISE = random.Random(0).randbytes(2**16)


# A record is four numbers: drawn field by field, the drawing took four times as long as the test.
def timestamp_of(number: int) -> int:
    kind, number = number % 3, number // 3
    return (number % 7 - 1, NOW + number, (2**40, 2**62)[number % 2])[kind]


def content_of(number: int) -> bytes | None:
    kind, at = number % 3, number // 3
    return (None, NOISE[at:][: at % 13], NOISE[at:][: 60 + at % 81])[kind]


def headers_of(number: int) -> tuple[tuple[str, bytes | None], ...]:
    count, number = number % 4, number // 4
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, size, number = number % 3, number // 3 % 11 - 1, number // 33
        found.append((("", "a", "trace")[name], None if size < 0 else NOISE[number:][:size]))
    return tuple(found)


def record_of(numbers: tuple[int, int, int, int]) -> ref.Record:
    time, key, value, headers = numbers
    return ref.Record(timestamp_of(time), content_of(key), content_of(value), headers_of(headers))


times = st.integers(0, 3 * 10**6)
contents = st.integers(0, 3 * 2**14)
records = st.tuples(times, contents, contents, st.integers(0, 4 * 33**3 - 1))
BATCHES = [
    (codec, is_appended, attributes)
    for codec in (0, 0, 0, *CODECS)
    for is_appended in (False, True)
    for attributes in (0, 0, 0, ref.DELETE_HORIZON, 0x1F80)
]


@st.composite
def stored_batches(draw, max_batches=8):
    base = draw(st.sampled_from([0, 1, 7, 2**31 - 9, 2**31, 2**33 + 1]))
    made = []
    for size in draw(st.lists(st.sampled_from([1, 1, 1, 2, 5]), min_size=1, max_size=max_batches)):
        codec, is_appended, attributes = draw(st.sampled_from(BATCHES))
        made.append(
            ref.StoredBatch(
                base,
                tuple(record_of(draw(records)) for _ in range(size)),
                codec=codec,
                append_time=max(0, timestamp_of(draw(times))) if is_appended else None,
                more_attributes=attributes,
            )
        )
        base += size
    return made


convert_settings = st.builds(
    ConvertSettings,
    producer_id=st.just(PRODUCER),
    batch_bytes_max=st.sampled_from([2000, 2**20, 2**20]),
    join_bytes_max=st.sampled_from([300, 1000, 2**20, 2**20]),
    join_below_bytes=st.sampled_from([0, 150, 2**14, 2**14]),
    compression=st.sampled_from([None, None, *Codec]),
    in_flight_max=st.sampled_from([1, 3]),
    is_target_far=st.booleans(),
)


def plain(**changes) -> ConvertSettings:
    return ConvertSettings(**{"producer_id": PRODUCER, "batch_bytes_max": 2**20} | changes)


def bytes_of(batch: ConvertedBatch) -> bytes:
    return b"".join(bytes(part) for part in batch.parts)


def converted(outcome: ConvertOutcome) -> list[tuple[int, ref.Record]]:
    return [pair for item in outcome.batches for pair in ref.read(bytes_of(item), item.base_offset)]


def assert_appendable(outcome: ConvertOutcome, position: int, limits: ConvertSettings) -> None:
    expected = position
    for item in outcome.batches:
        batch = bytes_of(item)
        header = ref.header_of(batch)
        assert item.base_offset == expected
        expected = item.next_offset
        assert len(batch) == item.size == header["length"] + 12 <= limits.batch_bytes_max
        assert header["attributes"] in CODECS
        assert (header["base_offset"], header["leader_epoch"], header["magic"]) == (0, -1, 2)
        assert (header["producer_id"], header["producer_epoch"]) == (PRODUCER, 0)
        assert header["base_sequence"] == item.base_offset % 2**31
        assert header["records_count"] == header["last_offset_delta"] + 1 == item.records
        assert ref.is_crc_valid(batch)
        assert header["max_timestamp"] == item.max_timestamp
        seen = ref.read(batch, item.base_offset)
        assert max(record.timestamp for _, record in seen) == item.max_timestamp
        if len(item.parts) == 2:
            assert header["base_timestamp"] == seen[0][1].timestamp
    assert outcome.next_offset == expected


@given(stored_batches(), convert_settings, st.data())
@examples(600)
def test_readers_see_the_same_records_at_the_same_offsets(stored, limits, data):
    first, end = stored[0].base_offset, stored[-1].base_offset + len(stored[-1].records)
    position = data.draw(st.integers(first, end))
    cut = data.draw(st.sampled_from([0, 0, 1, 40]))
    before = data.draw(st.sampled_from([0, 3]))
    answer = bytearray(before) + ref.encode_all(stored) + bytearray(2)
    outcome = convert(answer, before, len(answer) - 2 - cut, BatchPlace.same(position), limits)

    assert_appendable(outcome, position, limits)
    whole = stored if not cut else stored[:-1]
    seen = [pair for item in whole for pair in item.seen if pair[0] >= position]
    assert converted(outcome) == [pair for pair in seen if pair[0] < outcome.next_offset]
    if outcome.stop is None:
        last = whole[-1].base_offset + len(whole[-1].records) if whole else first
        assert outcome.next_offset == max(position, last)
    else:
        assert outcome.stop.reason is StopReason.TOO_LARGE
        assert limits.batch_bytes_max == 2000
        assert outcome.stop.offset == outcome.next_offset


@given(stored_batches(5), convert_settings, st.data())
@examples(800)
def test_damage_never_raises_and_never_gets_a_valid_crc(stored, limits, data):
    """A batch with a valid CRC holds the source's records, whatever happened to the bytes."""
    answer = ref.encode_all(stored)
    position = stored[0].base_offset + data.draw(st.sampled_from([0, 0, 1, 2]))
    starts = [0]
    for item in stored[:-1]:
        starts.append(starts[-1] + len(item.encode()))
    for _ in range(data.draw(st.integers(1, 3))):
        # Base offsets are outside Kafka's CRC: damage to them is the next test's.
        batch = data.draw(st.sampled_from(starts))
        field = data.draw(st.integers(8, 70) | st.integers(8, 600))
        at = min(batch + field, len(answer) - 1)
        if not any(0 <= at - start < 8 for start in starts):
            answer[at] = data.draw(st.integers(0, 255))
    outcome = convert(answer, 0, len(answer), BatchPlace.same(position), limits)

    seen = dict(pair for item in stored for pair in item.seen)
    for item in outcome.batches:
        batch = bytes_of(item)
        if ref.is_crc_valid(batch):
            for offset, record in ref.read(batch, item.base_offset):
                assert seen[offset] == record
        else:
            assert len(item.parts) == 1
    assert outcome.next_offset == position + sum(item.records for item in outcome.batches)
    assert outcome.stop is None or outcome.stop.offset == outcome.next_offset


@given(stored_batches(4), st.data(), convert_settings)
@examples(300)
def test_any_bytes_give_an_outcome(stored, data, limits):
    answer = ref.encode_all(stored)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(answer) - 1))
        answer[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    position = data.draw(st.integers(0, 9) | st.just(stored[0].base_offset))
    outcome = convert(answer, 0, len(answer), BatchPlace.same(position), limits)
    records = sum(item.records for item in outcome.batches)
    assert outcome.next_offset >= position + records
    assert outcome.next_target_offset == position + records


@given(st.binary(max_size=300))
@examples(200)
def test_random_bytes_give_an_outcome(noise):
    assert convert(bytearray(noise), 0, len(noise), BatchPlace.same(0), plain()).next_offset >= 0


def one_record_batches(count: int, first: int = 0, codec: int = 0) -> list[ref.StoredBatch]:
    return [
        ref.StoredBatch(first + n, (ref.Record(NOW + n, b"key", b"value %d" % n),), codec=codec)
        for n in range(count)
    ]


def test_one_record_batches_become_one_batch():
    stored = one_record_batches(3000)
    answer = ref.encode_all(stored)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain())
    assert [item.records for item in outcome.batches] == [3000]
    assert_appendable(outcome, 0, plain())
    assert converted(outcome) == [pair for item in stored for pair in item.seen]


def test_joined_batches_keep_to_their_limit():
    answer = ref.encode_all(one_record_batches(500))
    limits = plain(join_bytes_max=5000)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), limits)
    assert_appendable(outcome, 0, limits)
    assert 10 > len(outcome.batches) > 1
    assert all(item.size <= 5000 for item in outcome.batches)


def test_sequence_wraps_inside_and_between_batches():
    stored = one_record_batches(6, first=2**31 - 3)
    answer = ref.encode_all(stored)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(2**31 - 3), plain(join_below_bytes=0))
    sequences = [ref.header_of(bytes_of(item))["base_sequence"] for item in outcome.batches]
    assert sequences == [2**31 - 3, 2**31 - 2, 2**31 - 1, 0, 1, 2]


def test_a_large_batch_is_converted_in_its_own_buffer():
    record = ref.Record(NOW, None, bytes(20_000))
    answer = ref.encode_all([ref.StoredBatch(5, (record, record))])
    outcome = convert(answer, 0, len(answer), BatchPlace.same(5), plain())
    (part,) = outcome.batches[0].parts
    assert isinstance(part, memoryview)
    assert part.obj is answer


def test_a_flipped_payload_bit_leaves_a_wrong_crc():
    record = ref.Record(NOW, b"k", bytes(20_000))
    answer = ref.encode_all([ref.StoredBatch(0, (record,))])
    answer[9_000] ^= 4
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain())
    assert outcome.stop is None
    assert not ref.is_crc_valid(bytes_of(outcome.batches[0]))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_small_batches_are_joined_only_where_compression_is_asked_for(codec):
    stored = [
        ref.StoredBatch(n * 5, tuple(ref.Record(NOW, None, bytes(90)) for _ in range(5)), codec)
        for n in range(10)
    ]
    answer = ref.encode_all(stored)
    raw = convert(bytearray(answer), 0, len(answer), BatchPlace.same(0), plain())
    assert len(raw.batches) == 10
    joined = convert(
        bytearray(answer), 0, len(answer), BatchPlace.same(0), plain(compression=Codec.ZSTD)
    )
    assert [item.records for item in joined.batches] == [50]
    assert ref.header_of(bytes_of(joined.batches[0]))["attributes"] == 4
    assert converted(joined) == converted(raw)


def test_batches_that_compression_would_enlarge_stay_uncompressed():
    answer = ref.encode_all(one_record_batches(2))
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain(compression=Codec.GZIP))
    assert ref.header_of(bytes_of(outcome.batches[0]))["attributes"] == 0


def three_batches(**fields: int) -> bytearray:
    """Offsets 0, 1 and 2; the header of the second is changed."""
    first, second, third = (item.encode() for item in one_record_batches(3))
    return bytearray(first + ref.changed(second, **fields) + third)


@pytest.mark.parametrize("below_bytes", [0, 2**14])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"attributes": ref.CONTROL | ref.TRANSACTIONAL}, StopReason.CORRUPT),  # no marker in it
        ({"base_offset": 2}, StopReason.CORRUPT),
        ({"base_offset": 0}, StopReason.CORRUPT),
        ({"base_offset": -1}, StopReason.CORRUPT),
        ({"magic": 1}, StopReason.CORRUPT),
        ({"magic": 0}, StopReason.CORRUPT),
        ({"magic": 3}, StopReason.CORRUPT),
        ({"length": 48}, StopReason.CORRUPT),
        ({"length": -5}, StopReason.CORRUPT),
        ({"length": 2**31 - 1}, StopReason.CORRUPT),
        ({"records_count": 0, "crc": 1}, StopReason.CORRUPT),
        ({"records_count": -1}, StopReason.CORRUPT),
        ({"last_offset_delta": -1}, StopReason.CORRUPT),
        ({"records_count": 9}, StopReason.CORRUPT),
        ({"attributes": 5}, StopReason.CORRUPT),
        ({"last_offset_delta": 4, "crc": 1}, StopReason.CORRUPT),
    ],
)
def test_a_batch_that_cannot_be_converted_stops_after_those_that_can(fields, reason, below_bytes):
    answer = three_batches(**fields)
    outcome = convert(
        answer, 0, len(answer), BatchPlace.same(0), plain(join_below_bytes=below_bytes)
    )
    assert converted(outcome) == one_record_batches(1)[0].seen
    assert outcome.next_offset == 1
    assert outcome.stop is not None
    assert (outcome.stop.reason, outcome.stop.offset) == (reason, 1)
    assert outcome.stop.text.startswith("source offset 1 can't be copied: ")


def test_a_wrong_checksum_ends_a_run():
    answer = three_batches(crc=1)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain())
    assert outcome.stop is not None
    assert outcome.stop.reason is StopReason.CORRUPT
    assert converted(outcome) == one_record_batches(1)[0].seen


@pytest.mark.parametrize(
    "body",
    [
        b"\x0e\0\0\0\1\1\0",  # record longer than the batch
        b"\x0c\0\0\2\1\1\0",  # offset delta 1
        b"\x0a\0\0\0\1\1\0",  # a byte too many
        b"\x0c\0" + b"\xff" * 5,  # a timestamp that does not end
        b"\x0c\0\xfe" + b"\xff" * 8 + b"\x01\0",  # ... and one that leaves the record
        b"\x0c\0\0\0",
        b"",
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_records_that_contradict_their_header_are_corrupt(body, last):
    first, second, third = (item.encode() for item in one_record_batches(3))
    bad = ref.changed(second[:61] + body, length=49 + len(body))
    # Alone at the end of an answer only LogAppendTime forces a look inside.
    if last:
        bad = ref.changed(bad, attributes=ref.LOG_APPEND_TIME)
    answer = bytearray(first + bad + (b"" if last else third))
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain())
    assert outcome.stop is not None
    assert (outcome.stop.reason, outcome.stop.offset) == (StopReason.CORRUPT, 1)
    assert converted(outcome) == one_record_batches(1)[0].seen


@given(stored_batches(), convert_settings, st.data())
@examples(300)
def test_only_records_before_a_refused_one_are_converted(stored, limits, data):
    first, end = stored[0].base_offset, stored[-1].base_offset + len(stored[-1].records)
    position = data.draw(st.integers(first, end - 1))
    at = data.draw(st.integers(position, end - 1))
    answer = ref.encode_all(stored)
    outcome = convert(
        answer, 0, len(answer), BatchPlace.same(position), limits, (), RefusedRecord(at, "no key")
    )
    assert_appendable(outcome, position, limits)
    seen = [pair for item in stored for pair in item.seen if pair[0] >= position]
    assert converted(outcome) == [pair for pair in seen if pair[0] < outcome.next_offset]
    assert outcome.stop is not None
    if outcome.stop.reason is StopReason.RECORD_REFUSED:
        assert (outcome.stop.offset, outcome.next_offset, outcome.stop.text) == (at, at, "no key")
    else:
        assert outcome.stop.reason is StopReason.TOO_LARGE
        assert outcome.next_offset <= at


def test_a_refused_record_that_compaction_took_meanwhile_is_not_waited_for():
    """Given a hole where the refused record was / when read again / then all is converted."""
    first, _, third = (item.encode() for item in one_record_batches(3))
    answer = bytearray(first + third)
    outcome = convert(
        answer, 0, len(answer), BatchPlace.same(0), plain(), (), RefusedRecord(1, "it was refused")
    )
    assert outcome.stop is None
    assert outcome.next_offset == 3
    assert sum(batch.records for batch in outcome.batches) == 2


def test_a_record_larger_than_the_targets_limit_stops():
    big = ref.StoredBatch(1, (ref.Record(NOW, None, bytes(5000)),))
    answer = ref.encode_all([*one_record_batches(1), big])
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain(batch_bytes_max=4000))
    assert outcome.stop is not None
    assert (outcome.stop.reason, outcome.stop.offset) == (StopReason.TOO_LARGE, 1)
    assert "4000" in outcome.stop.text
    assert outcome.next_offset == 1


def test_a_decompression_bomb_stops_without_exhausting_memory(monkeypatch):
    monkeypatch.setattr("heliostat.records.batches.batch_maker.DECOMPRESSED_BYTES_MAX", 10_000)
    monkeypatch.setattr(batch_maker_checked, "DECOMPRESSED_BYTES_MAX", 10_000)
    bomb = ref.StoredBatch(0, (ref.Record(NOW, None, bytes(50_000)),), codec=4, append_time=NOW)
    answer = ref.encode_all([bomb])
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain())
    assert outcome.stop is not None
    assert outcome.stop.reason is StopReason.TOO_LARGE


def test_rewritten_batches_that_grow_are_split():
    """Noise in a batch that claims gzip can't be repacked smaller than the limit."""
    noise = tuple(ref.Record(NOW + n, None, struct.pack(">q", n) * 20) for n in range(200))
    stored = ref.StoredBatch(0, noise, codec=1, append_time=NOW)
    answer = ref.encode_all([stored])
    limits = plain(batch_bytes_max=600)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), limits)
    assert_appendable(outcome, 0, limits)
    assert len(outcome.batches) > 1
    assert converted(outcome) == stored.seen


def test_timestamps_too_far_apart_for_one_batch_are_split():
    ends = [ref.Record(-1, b"a", None), ref.Record(2**63 - 1, b"b", None)]
    stored = [ref.StoredBatch(n, (record,)) for n, record in enumerate(ends)]
    answer = ref.encode_all(stored)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), plain())
    assert converted(outcome) == [pair for item in stored for pair in item.seen]
    assert len(outcome.batches) == 2


def test_a_base_timestamp_of_no_record_keeps_the_timestamps():
    """As the cleaner leaves them: a delete horizon as base, deltas counting from it."""
    (item,) = one_record_batches(1)
    stored = item.encode()
    body = stored[61:63] + b"\x0f" + stored[64:]  # timestamp delta -8
    horizon = ref.changed(
        stored[:61] + body,
        length=49 + len(body),
        attributes=ref.DELETE_HORIZON,
        base_timestamp=NOW + 8,
    )
    expected = ref.read(horizon, 0)
    assert expected[0][1].timestamp == NOW
    second = ref.changed(horizon, base_offset=1)
    for answer in (horizon, horizon + second):
        outcome = convert(bytearray(answer), 0, len(answer), BatchPlace.same(0), plain())
        assert converted(outcome)[0] == expected[0]
        assert [ref.header_of(bytes_of(i))["attributes"] for i in outcome.batches] == [0]


@given(stored_batches(2), convert_settings, st.data())
@examples(600)
def test_the_quick_way_for_one_plain_batch_gives_what_the_general_one_gives(stored, limits, data):
    """Given an answer, damaged or not / then both ways agree, or the quick one leaves it alone."""
    answer = bytearray(3) + ref.encode_all(stored)
    for _ in range(data.draw(st.sampled_from([0, 0, 1]))):
        at = data.draw(st.integers(3, min(3 + 70, len(answer) - 1)))
        answer[at] = data.draw(st.integers(0, 255))
    end = len(answer) - data.draw(st.sampled_from([0, 0, 0, 1, 40]))
    source = stored[0].base_offset + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    ahead = data.draw(st.sampled_from([0, 0, min(source, 3), None]))
    place = BatchPlace(source, source - data.draw(st.sampled_from([ahead or 0, 0])), ahead)
    before = bytes(answer)
    quick = plain_batch(memoryview(answer), 3, end, place, limits)
    if quick is None:
        assert answer == before
        return
    general = bytearray(before)
    believed = ClaimedOffsets().believed(memoryview(general)[3:end], source, 2**62)
    outcome = convert(general, 3, 3 + believed.end, place, limits)
    assert (believed.stop, outcome.stop) == (None, None)
    assert answer == general
    assert (quick.answer, quick.outcome) == (believed, outcome)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_continues_the_copy_takes_the_quick_way(codec):
    record = ref.Record(NOW, b"k", bytes(100), ())
    answer = ref.encode_all([ref.StoredBatch(7, (record,) * 2, codec=codec)])
    view = memoryview(answer)
    breaks = plain_batch(memoryview(answer[:]), 0, len(answer), BatchPlace(7, 5, 1), plain())
    assert breaks is not None
    assert breaks.outcome.batches[0].breaks == (Break(5, 7),), "the general way's, too"
    found = plain_batch(view, 0, len(answer), BatchPlace(7, 5, 2), plain())
    assert found is not None
    [batch] = found.outcome.batches
    assert (batch.base_offset, batch.next_source_offset, batch.breaks) == (5, 9, ())


def test_a_batch_with_a_hole_takes_the_general_way():
    record = ref.Record(NOW, b"k", bytes(100), ())
    answer = ref.encode_all([ref.StoredBatch(7, (record,) * 2)])
    struct.pack_into(">i", answer, 23, 2)  # last offset delta: a record is gone from it
    before = bytes(answer)
    assert plain_batch(memoryview(answer), 0, len(answer), BatchPlace(7, 7, 0), plain()) is None
    assert answer == before
