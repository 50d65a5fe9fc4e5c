"""Messages of formats v0 and v1, made by aiokafka's codec: copied, and read by `verify`."""

from __future__ import annotations

import struct
from zlib import crc32

import cramjam
import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from support import batches as ref
from support.records import Sample, encode

from heliostat.errors import BatchError
from heliostat.records.batches import legacy_format as old_format
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import BatchPlace, ConvertSettings
from heliostat.records.batches.legacy_format import read_old
from heliostat.verify.old_formats import old_batch

NOW = 1_790_000_000_000
NONE, GZIP, SNAPPY, LZ4 = range(4)
LOG_APPEND_TIME = 8
BASE = 5
"""Offset of the first message."""
CONTENTS = [(b"k", b"v" * 50), (None, b""), (b"", None), (b"\xff" * 300, b"0123456789" * 9_000)]


def resealed(message: bytes, **fields: int) -> bytes:
    """With another offset or other attributes, and the CRC that belongs to them."""
    made = bytearray(message)
    if "offset" in fields:
        struct.pack_into(">q", made, 0, fields["offset"])
    made[17] = fields.get("attributes", made[17])
    struct.pack_into(">I", made, 12, crc32(made[16:]))
    return bytes(made)


def plain(magic: int, first: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, NONE, 1 << 20)
    for number, (key, value) in enumerate(CONTENTS):
        builder.append(first + number, NOW + number if magic else None, key, value)
    return bytes(builder.build())


def wrapper(magic: int, codec: int, packed: bytes, last: int = BASE + len(CONTENTS) - 1) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, NONE, 1 << 20)
    builder.append(last, NOW + 99 if magic else None, None, packed)
    return resealed(bytes(builder.build()), offset=last, attributes=codec)


def packed(magic: int, codec: int) -> bytes:
    """A message that wraps the others: offsets within are from 0 on in v1, as they are in v0."""
    inner = plain(magic, 0 if magic else BASE)
    if codec == GZIP:
        data = bytes(cramjam.gzip.compress(inner))
    elif codec == SNAPPY:
        data = bytes(cramjam.snappy.compress_raw(inner))
    else:
        frame = cramjam.lz4.Compressor(level=0, content_checksum=False, block_linked=False)
        frame.compress(inner)
        made = bytearray(frame.finish())
        if magic == 0:
            made[6] ^= 0x55  # the checksum that Kafka computed over the wrong bytes
        data = bytes(made)
    return wrapper(magic, codec, data)


Row = tuple[int, int, bytes | None, bytes | None]


def copied(data: bytes, position: int = 0) -> list[Row]:
    """What `read_old` makes of messages, read back by another codec."""
    found = read_old(memoryview(data), 0, len(data), position)
    assert found.end == len(data)
    rows: list[Row] = []
    for run in found.runs:
        records = run.records
        head = ref.HEADER.pack(
            *(run.base_offset, len(records.body) + 49, -1, 2, 0, 0, run.deltas - 1),
            *(records.base_timestamp, 0, -1, -1, -1, records.count),
        )
        rows += [
            (offset, each.timestamp, each.key, each.value)
            for offset, each in ref.read(head + bytes(records.body), run.base_offset)
        ]
    assert found.next_offset == (rows[-1][0] + 1 if rows else position)
    return rows


def verified(data: bytes, magic: int) -> list[Row]:
    """What `verify` reads of one message."""
    return [row[:4] for row in old_batch(data, magic).rows(0, 1 << 40)]


def wanted(magic: int) -> list[Row]:
    return [
        (BASE + number, NOW + number if magic else -1, key, value)
        for number, (key, value) in enumerate(CONTENTS)
    ]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_messages_are_read_in_any_codec(magic: int, codec: int) -> None:
    data = packed(magic, codec)
    assert copied(data) == verified(data, magic) == wanted(magic)
    assert copied(data, BASE + 2) == wanted(magic)[2:]
    beside = copied(data + plain(magic, BASE + len(CONTENTS)))
    assert beside[: len(CONTENTS)] == wanted(magic)
    assert [row[2:] for row in beside[len(CONTENTS) :]] == CONTENTS


@pytest.mark.parametrize("magic", [0, 1])
def test_uncompressed_messages_are_read(magic: int) -> None:
    assert copied(plain(magic, BASE)) == wanted(magic)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_answer_cut_anywhere_in_a_message_ends_before_it(magic: int) -> None:
    """Given two messages / when the second is cut, also after its magic / then one is read."""
    first, second = plain(magic, 0), plain(magic, 1)
    one = read_old(memoryview(first), 0, len(first), 0).next_offset
    for size in range(60):  # within its first message
        data = first + second[:size]
        settings = ConvertSettings(producer_id=7, batch_bytes_max=1 << 20)
        outcome = convert(bytearray(data), 0, len(data), BatchPlace.same(0), settings)
        assert outcome.stop is None
        assert outcome.next_offset == one


def test_offsets_left_by_the_cleaner_count_back_from_the_wrappers() -> None:
    kept = [
        resealed(plain(1, 0)[at : at + size], offset=offset)
        for offset, (at, size) in enumerate(places(plain(1, 0)))
        if offset in {0, 3}
    ]
    data = wrapper(1, GZIP, bytes(cramjam.gzip.compress(b"".join(kept))))
    rows = [wanted(1)[0], wanted(1)[3]]
    assert copied(data) == verified(data, 1) == rows


def places(messages: bytes) -> list[tuple[int, int]]:
    found, at = [], 0
    while at < len(messages):
        size = 12 + struct.unpack_from(">i", messages, at + 8)[0]
        found.append((at, size))
        at += size
    return found


def test_the_time_of_the_wrapper_holds_where_the_broker_stamps() -> None:
    data = resealed(packed(1, GZIP), attributes=GZIP | LOG_APPEND_TIME)
    assert {row[1] for row in copied(data)} == {row[1] for row in verified(data, 1)} == {NOW + 99}


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_damage_is_reported_and_nothing_else_is_raised(magic: int, codec: int) -> None:
    """Given a wrapper with a valid checksum / when its messages are damaged / then reported."""
    data = packed(magic, codec)
    broken = data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(BatchError, match="checksum"):
        copied(broken)
    with pytest.raises(BatchError, match="CRC"):
        verified(broken, magic)
    told = 0
    for at in [*range(18, 60), *range(len(data) - 60, len(data))]:
        made = bytearray(data)
        made[at] ^= 0xFF
        try:
            copied(resealed(bytes(made)))
        except BatchError:
            told += 1
    assert told > 20
    for cut in (data[-20:], b"\x04\x22"):
        with pytest.raises(BatchError):
            copied(wrapper(magic, codec, cut))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("claimed", [0, BASE + 1, 1 << 40])
def test_a_damaged_offset_hides_no_message(magic: int, claimed: int) -> None:
    """Given messages of which the second has a wrong offset / then reported: no checksum covers it.

    One that is far too large would make later ones look as if they had been read already.
    """
    data = plain(magic, BASE)
    first = 12 + struct.unpack_from(">i", data, 8)[0]
    moved = bytearray(data)
    struct.pack_into(">q", moved, first, claimed)
    if claimed == BASE + 1:  # as it is
        assert len(copied(bytes(moved))) == len(CONTENTS)
        return
    with pytest.raises(BatchError, match="claims offset"):
        copied(bytes(moved))
    settings = ConvertSettings(producer_id=1, batch_bytes_max=1 << 20)
    outcome = convert(bytearray(moved), 0, len(moved), BatchPlace(BASE, BASE, 0), settings, ())
    assert outcome.stop is not None
    assert (outcome.batches, outcome.next_offset) == ([], BASE)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("claimed", [BASE + 3, 1 << 40])
def test_the_next_batch_contradicts_the_last_messages_offset(magic: int, claimed: int) -> None:
    """Given a damaged offset before a v2 batch / then reported; all between would be lost."""
    data = plain(magic, BASE)
    last = places(data)[-1][0]
    moved = bytearray(data)
    struct.pack_into(">q", moved, last, claimed)
    today = bytearray(encode([Sample(b"k", b"v", NOW)]))
    struct.pack_into(">q", today, 0, BASE + len(CONTENTS))
    answer = moved + today
    settings = ConvertSettings(producer_id=1, batch_bytes_max=1 << 20)
    outcome = convert(bytearray(answer), 0, len(answer), BatchPlace.same(BASE), settings, ())
    is_sound = claimed == BASE + len(CONTENTS) - 1
    assert (outcome.stop is None) == is_sound
    assert outcome.next_offset == (BASE + len(CONTENTS) + 1 if is_sound else BASE)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_messages_that_follow_small_batches_are_read(magic: int, count: int) -> None:
    """Given batches to join, then messages of old formats / then all; it was CORRUPT."""
    answer = bytearray()
    for number in range(count):
        today = bytearray(encode([Sample(b"k", b"v", NOW)]))
        struct.pack_into(">q", today, 0, number)
        answer += today
    answer += plain(magic, count)
    settings = ConvertSettings(producer_id=1, batch_bytes_max=1 << 20)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), settings, ())
    assert outcome.stop is None
    assert outcome.next_offset == count + len(CONTENTS)
    assert sum(batch.records for batch in outcome.batches) == count + len(CONTENTS)


def test_short_hashes_are_those_of_lz4() -> None:
    """Known values of XXH32, seed 0."""
    assert old_format._short_xxh32(b"") == 0x02CC5D05
    assert old_format._short_xxh32(b"abc") == 0x32D153FF
    frame = cramjam.lz4.Compressor(level=0, content_checksum=False, block_linked=False)
    frame.compress(b"abc" * 50)
    sound = bytes(frame.finish())
    assert old_format._with_right_checksum(sound) == sound
