"""Equal or not, and from which offset on, whatever the batch borders."""

import random
from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.planted import Record, batch_bytes

from heliostat.errors import BatchError, BrokerError
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.verify.compare import Compared, _first_difference, compare
from heliostat.verify.reader import FetchedPart
from heliostat.verify.stream import Batch, PartitionStream

PARTITION = TopicPartition(TopicName("t"), PartitionId(0))
COUNT = 60


def records(count: int = COUNT) -> list[Record]:
    chance = random.Random(2)
    return [(1_000 + n, b"k%d" % n, chance.randbytes(9), []) for n in range(count)]


def log(rows: list[Record], borders: list[int], codec: str = "none") -> bytes:
    """A partition's bytes: batches that end at the given offsets, base offsets as a broker does."""
    data = b""
    begin = 0
    for end in [*sorted(set(borders)), len(rows)]:
        if end > begin:
            batch = batch_bytes(rows[begin:end], codec)
            data += begin.to_bytes(8, "big") + batch[8:]
            begin = end
    return data


class OneLog:
    """A reader that holds one partition; answers are cut where a broker's limit would."""

    def __init__(
        self, data: bytes, limit: int = 1 << 20, aborted: tuple[tuple[int, int], ...] = ()
    ) -> None:
        self.data, self.limit, self.aborted = data, limit, aborted
        self.high_watermark = 1 << 40

    def fetch_alone(self, _: TopicPartition, position: int) -> FetchedPart:
        at = 0
        while at < len(self.data):
            base = int.from_bytes(self.data[at : at + 8], "big")
            size = 12 + int.from_bytes(self.data[at + 8 : at + 12], "big")
            if base + int.from_bytes(self.data[at + 23 : at + 27], "big") >= position:
                cut = self.data[at : at + max(size, self.limit)]
                return FetchedPart(position, cut, self.aborted, self.high_watermark)
            at += size
        return FetchedPart(position, b"", (), self.high_watermark)


def stream(data: bytes, start: int = 0, end: int = COUNT, **options: int) -> PartitionStream:
    reader: Any = OneLog(data, **options)
    return PartitionStream(reader, PARTITION, start, end)


BORDERS = st.lists(st.integers(0, COUNT), max_size=12)


@examples(200)
@given(BORDERS, BORDERS, st.integers(0, COUNT), st.integers(0, COUNT), st.integers(1, 2_000))
def test_equal_records_are_equal_across_any_batch_borders(
    one: list[int], two: list[int], start: int, end: int, limit: int
) -> None:
    start, end = min(start, end), max(start, end)
    rows = records()
    left = stream(log(rows, one), start, end, limit=limit)
    right = stream(log(rows, two, "gzip"), start, end)
    found = compare(left, right, start, end)
    assert (found.records, found.differs_at) == (end - start, None)
    assert left.holes == right.holes == 0


@examples(200)
@given(BORDERS, BORDERS, st.integers(0, COUNT - 1), st.sampled_from(["alter", "drop"]))
def test_the_first_difference_is_found_at_its_offset(
    one: list[int], two: list[int], place: int, kind: str
) -> None:
    rows = records()
    target = list(rows)
    if kind == "alter":
        target[place] = (*target[place][:2], b"altered", [])
    else:
        del target[place]
    found = compare(stream(log(rows, one)), stream(log(target, two), end=len(target)), 0, COUNT)
    assert found.differs_at == place
    assert found.records == place


def test_whole_batches_are_compared_byte_by_byte_unless_asked_to_decode() -> None:
    data = log(records(), [20, 40], "lz4")
    assert compare(stream(data), stream(data), 0, COUNT) == Compared(COUNT, None, 3)
    decoded = compare(stream(data), stream(data), 0, COUNT, decode_all=True)
    assert decoded == Compared(COUNT, None, 0)
    clipped = compare(stream(data, 5, 50), stream(data, 5, 50), 5, 50)
    assert clipped == Compared(45, None, 1)


def test_an_empty_side_differs_from_its_first_offset_on() -> None:
    data = log(records(), [])
    assert compare(stream(data), [], 0, COUNT).differs_at == 0
    assert compare([], stream(data), 0, COUNT).differs_at == 0
    assert compare([], [], 0, COUNT).differs_at is None


@pytest.mark.parametrize("at", [17, 30, 70, -1])
def test_a_flipped_bit_is_no_batch(at: int) -> None:
    data = bytearray(log(records(), []))
    data[at] ^= 4
    with pytest.raises(BatchError, match="CRC"):
        list(stream(bytes(data)))


@pytest.mark.parametrize(("magic", "said"), [(3, "v2"), (1, "CRC"), (0, "CRC")])
def test_another_magic_is_no_batch(magic: int, said: str) -> None:
    data = bytearray(log(records(), []))
    data[16] = magic
    with pytest.raises(BatchError, match=said):
        list(stream(bytes(data)))


def old_message(magic: int, codec: int, base: int, rows: list[Record]) -> bytes:
    """Messages as brokers before 0.11 stored them, written by aiokafka."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for place, (timestamp, key, value, _) in enumerate(rows):
        # Behind a wrapper of v1 offsets are relative, otherwise absolute (KIP-31).
        offset = place if magic == 1 and codec else base + place
        builder.append(offset, timestamp=timestamp if magic else None, key=key, value=value)
    data = bytearray(builder.build())
    if codec:
        data[:8] = (base + len(rows) - 1).to_bytes(8, "big")
    return bytes(data)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 3)])
def test_old_messages_are_the_records_they_hold(magic: int, codec: int) -> None:
    rows = records(20)
    seen = [(row if magic else (-1, *row[1:])) for row in rows]
    left = old_message(magic, codec, 0, rows[:12]) + old_message(magic, codec, 12, rows[12:])
    one, two = stream(left, end=20), stream(log(seen, [7]), end=20)
    assert compare(one, two, 0, 20) == Compared(20, None, 0)
    assert one.holes == 0
    part = compare(stream(left, 5, 15), stream(log(seen, [7]), 5, 15), 5, 15)
    assert part == Compared(10, None, 0)
    seen[13] = (*seen[13][:2], b"altered", [])
    assert compare(stream(left, end=20), stream(log(seen, [7]), end=20), 0, 20).differs_at == 13


def test_offsets_without_a_record_are_named() -> None:
    rows = records()
    first, last = log(rows[:10], []), batch_bytes(rows[10:20])
    read = stream(first + (30).to_bytes(8, "big") + last[8:], end=45)
    assert [batch.base_offset for batch in read] == [0, 30]
    assert (read.holes, read.hole_ranges) == (25, [(10, 30), (40, 45)])


def test_a_log_that_shrank_is_reported() -> None:
    log_reader = OneLog(log(records(10), []))
    log_reader.high_watermark = 10
    with pytest.raises(BrokerError, match="now ends before"):
        list(PartitionStream(log_reader, PARTITION, 0, 20))  # type: ignore[arg-type]  # a stand-in


def test_a_batch_hash_covers_only_what_readers_see() -> None:
    """Producer id, epoch, sequence and leader epoch are no part of a record."""
    data = bytearray(log(records(), []))
    [before] = stream(bytes(data))
    data[43:57] = bytes(14)
    altered = Batch(
        before.base_offset, before.next_offset, before.records, before.meaning, bytes(data)
    )
    assert before.same_as(altered)
    data[-1] ^= 1
    assert not before.same_as(
        Batch(before.base_offset, before.next_offset, before.records, before.meaning, bytes(data))
    )


def test_if_one_side_lacks_a_record_the_others_is_the_first_difference() -> None:
    """Given rows that differ at 3 and 4 / when located / then at 3, so that it is explained."""
    whole = [(offset, 0, None, b"%d" % offset, []) for offset in range(6)]
    lacking = [each for each in whole if each[0] != 3]
    assert _first_difference(whole, lacking) == _first_difference(lacking, whole) == (3, 3)
