"""The compiled scan of a fetch answer, against the plain reader of `fetch`.

Each scan runs twice, the second time compiled with index checks.
"""

from __future__ import annotations

import struct
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.checked_indexes import with_checked_indexes

from heliostat.clusters.wire import fetch, scan
from heliostat.clusters.wire.primitives import compact_string, uvarint

(checked,) = with_checked_indexes("heliostat.clusters.wire.scan")
NUMBERS = (
    *(scan.PARTITION, scan.ERROR, scan.HIGH_WATERMARK, scan.LAST_STABLE_OFFSET),
    *(scan.START, scan.END),
)
HEAD = b"\x00" + struct.pack(">ihi", 0, 0, 0)
tags = st.sampled_from([b"\x00", b"\x01\x05\x02ab", b"\x02\x00\x00\x01\x03xyz"])
partitions = st.tuples(
    st.integers(0, 2**31 - 1),
    st.sampled_from([0, 1, 6, 100, -1]),
    st.integers(-1, 2**62),
    st.integers(0, 2),
    st.binary(max_size=300),
    tags,
)


def answer(topics: list, *, by_id: bool) -> bytes:
    out = HEAD + uvarint(len(topics) + 1)
    for number, (items, tag) in enumerate(topics):
        out += UUID(int=number).bytes if by_id else compact_string(f"t{number}")
        out += uvarint(len(items) + 1)
        for partition, error, high_watermark, aborted, records, more in items:
            out += struct.pack(">ihqqq", partition, error, high_watermark, high_watermark // 2, 0)
            out += uvarint(aborted + 1) + (bytes(16) + b"\x00") * aborted
            out += struct.pack(">i", -1) + uvarint(len(records) + 1) + records + more
        out += tag
    return out + b"\x00"


def scanned(data: bytes, by_id: bool, room: int) -> tuple[int, np.ndarray]:
    rows = np.zeros((room, scan.ROW_FIELDS), np.int64)
    array = np.frombuffer(bytearray(data), np.uint8) if data else np.empty(0, np.uint8)
    rows_checked = rows.copy()
    found = scan.scan_partitions(array, len(HEAD), by_id, rows)
    assert checked.scan_partitions(array, len(HEAD), by_id, rows_checked) == found
    assert (rows_checked == rows).all()
    return found, rows


@given(st.lists(st.tuples(st.lists(partitions, max_size=5), tags), max_size=5), st.booleans())
def test_each_partition_has_the_row_of_the_plain_reader(topics, by_id):
    data = answer(topics, by_id=by_id)
    expected = list(fetch.decode_fetch(13 if by_id else 12, bytearray(data), 0).partitions)
    found, rows = scanned(data, by_id, len(expected))
    assert found == len(expected)
    for row, seen in zip(rows.tolist(), expected, strict=True):
        assert [row[column] for column in NUMBERS] == [
            *(seen.partition, seen.error, seen.high_watermark, seen.last_stable_offset),
            *(seen.start, seen.end),
        ]
        topic_at, aborted_at = row[scan.TOPIC_AT], row[scan.ABORTED_AT]
        assert (aborted_at >= 0) == bool(seen.aborted)
        if seen.aborted:
            assert data[aborted_at] == len(seen.aborted) + 1
        name = seen.topic.bytes if by_id else seen.topic.encode()
        assert data[topic_at : topic_at + len(name)] == name
    if expected:
        assert scanned(data, by_id, len(expected) - 1)[0] == -1


@given(
    st.lists(st.tuples(st.lists(partitions, max_size=3), tags), min_size=1, max_size=3),
    st.booleans(),
    st.data(),
)
def test_truncated_and_damaged_answers_are_refused_or_read_within_bounds(topics, by_id, data):
    sound = answer(topics, by_id=by_id)
    cut = sound[: data.draw(st.integers(len(HEAD), len(sound) - 1))]
    assert scanned(cut[:-1] if len(cut) > len(HEAD) else cut, by_id, 20)[0] <= 20
    at = data.draw(st.integers(len(HEAD), len(sound) - 1))
    damaged = sound[:at] + bytes([data.draw(st.integers(0, 255))]) + sound[at + 1 :]
    found, rows = scanned(damaged, by_id, 20)
    assert all(0 <= row[scan.END] <= len(damaged) for row in rows[: max(0, found)].tolist())


def test_index_checks_are_on():
    with pytest.raises(IndexError):
        checked.number_at(np.empty(1, np.uint8), 0, 2)


@given(
    st.lists(st.tuples(st.lists(partitions, min_size=1, max_size=5), tags), min_size=1, max_size=4),
    st.booleans(),
    st.data(),
)
def test_news_are_what_differs_from_the_last_answer(topics, by_id, data):
    """Given an answer / when its partitions were seen before / then the plain reader's news."""
    sound = answer(topics, by_id=by_id)
    expected = list(fetch.decode_fetch(13 if by_id else 12, bytearray(sound), 0).partitions)
    watched = np.full((len(expected), scan.WATCHED_FIELDS), -9, np.int64)
    watched[:, scan.NUMBER] = [seen.partition for seen in expected]
    knows = data.draw(st.lists(st.booleans(), min_size=len(expected), max_size=len(expected)))
    ends = [
        seen.high_watermark if known else -2 for seen, known in zip(expected, knows, strict=True)
    ]
    watched[:, scan.KNOWN_END] = ends
    array = np.frombuffer(bytearray(sound), np.uint8)
    rows = np.zeros((len(expected), scan.ROW_FIELDS), np.int64)
    found = scan.scan_news(array, len(HEAD), by_id, rows, watched)
    assert watched[:found, scan.NEWS].tolist() == [
        place
        for place, (seen, end) in enumerate(zip(expected, ends, strict=True))
        if seen.error
        or seen.end > seen.start
        or seen.high_watermark != end
        or seen.last_stable_offset != seen.high_watermark
        or sound[seen.end] != scan.NO_TAGS
    ]
    place = data.draw(st.integers(0, len(expected) - 1))
    watched[place, scan.NUMBER] += 1
    assert scan.scan_news(array, len(HEAD), by_id, rows, watched) == -1, "not in this order"
