"""Schema ids replaced in fetched batches: as a plain reader would, and nothing else changes.

All run with index checks as well, and with several kinds of bytes before and after the answer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from support import batches as ref
from support.checked_indexes import with_checked_indexes
from support.examples import examples
from support.framed_batches import (
    CODECS,
    GUIDS,
    KEY_HEADER,
    LONG,
    NOW,
    VALUE_HEADER,
    answers,
    batch,
    by_guid,
    framed,
)

from heliostat.framed_ids import guid_number, id_in_header
from heliostat.records.batches import replaced_ids
from heliostat.records.batches.replaced_ids import IdMap
from heliostat.records.batches.schema_frames import Framing

*_, checked = with_checked_indexes(
    "heliostat.clusters.wire.scan",
    "heliostat.records.batches.compiled_bytes",
    "heliostat.records.batches.reencode",
    "heliostat.records.batches.schema_places",
    "heliostat.records.batches.schema_frames",
    "heliostat.records.batches.replaced_ids",
)
BOTH, KEYS, VALUES, HEADERS, ALL = (
    Framing(*(part in parts for part in "kvh")) for parts in ("kv", "k", "v", "h", "kvh")
)
BEFORE = 7
NEW_GUID = b"another one 1234"
MOVED_GUIDS = {GUIDS[0]: NEW_GUID, GUIDS[1]: GUIDS[1]}
"""The third is not known."""
MAP = {1: 2, 2: 1, 5: 5, 7: 2**31 - 1, 255: 256, 70_000: 3, 2**31 - 1: 0}


class Result(NamedTuple):
    data: bytes
    end: int
    trouble: str


def replaced(
    answer: bytes, ids: Mapping[int, int], framing: Framing = BOTH, *, behind: bytes = b"\0" * 100
) -> Result:
    """What both copies make of an answer, whatever is before and behind it."""
    numbers = {guid_number(GUIDS[0]): 1, guid_number(GUIDS[1]): guid_number(GUIDS[1]), **ids}
    known = sorted(numbers)
    arrays = IdMap(
        np.array(known, np.int64),
        np.array([numbers[each] for each in known], np.int64),
        np.frombuffer(b"unused bytes 123" + NEW_GUID, np.uint8),
    )
    results = set()
    for around in (behind, b"\xff" * 100, b""):
        for each in (replaced_ids, checked):
            whole = bytearray(around[:BEFORE].ljust(BEFORE) + answer + around)
            end = BEFORE + len(answer)
            got = each.replace_ids(whole, BEFORE, end, arrays, framing)
            assert bytes(whole[:BEFORE]) == around[:BEFORE].ljust(BEFORE)
            assert bytes(whole[end:]) == around
            data = bytes(memoryview(got.buffer)[got.start : got.end])
            results.add(Result(data, got.end - got.start, got.trouble))
    [result] = results
    return result


def with_map(payload: bytes | None, ids: Mapping[int, int], *, is_framed: bool) -> bytes | None:
    """What a plain reader and writer makes of a key or value."""
    if not is_framed or payload is None or len(payload) < 5 or payload[0]:
        return payload
    number = int.from_bytes(payload[1:5], "big", signed=True)
    return b"\0" + struct.pack(">i", ids.get(number, number)) + payload[5:]


def header_with_map(name: str, content: bytes | None, ids: Mapping[int, int]) -> bytes | None:
    """What a plain reader and writer makes of a header."""
    if name not in {KEY_HEADER, VALUE_HEADER} or content is None:
        return content
    if content[:1] == b"\1" and len(content) >= 17:
        return b"\1" + MOVED_GUIDS.get(content[1:17], content[1:17]) + content[17:]
    return with_map(content, ids, is_framed=True)


def expected(
    stored: ref.StoredBatch, ids: Mapping[int, int], framing: Framing
) -> list[tuple[int, ref.Record]]:
    return [
        (
            offset,
            replace(
                record,
                key=with_map(record.key, ids, is_framed=framing.keys and KEY_HEADER not in named),
                value=with_map(
                    record.value, ids, is_framed=framing.values and VALUE_HEADER not in named
                ),
                headers=tuple(
                    (name, header_with_map(name, content, ids) if framing.headers else content)
                    for name, content in record.headers
                ),
            ),
        )
        for offset, record in stored.seen
        for named in [{n for n, content in record.headers if id_in_header(content) is not None}]
    ]


def parts(answer: bytes) -> list[bytes]:
    """The whole batches of an answer."""
    found, at = [], 0
    while at + 12 <= len(answer):
        size = 12 + struct.unpack_from(">i", answer, at + 8)[0]
        if at + size > len(answer):
            break
        found.append(answer[at : at + size])
        at += size
    return found


ATTRIBUTES = [0, 0, ref.TRANSACTIONAL, ref.CONTROL | 16]


@given(
    answers([0, *MAP], 1, ATTRIBUTES),
    st.sampled_from([BOTH, KEYS, VALUES, HEADERS, ALL]),
    st.data(),
)
@examples(300)
def test_ids_become_what_a_plain_writer_makes_of_them(
    stored: Sequence[ref.StoredBatch], framing: Framing, data: st.DataObject
) -> None:
    """Given batches of all kinds, the last perhaps cut / then readers see the other ids, and all

    else of header and records is the same, to the byte where nothing is compressed.
    """
    encoded = [item.encode() for item in stored]
    cut = data.draw(st.sampled_from([0, 0, 1, 40]) | st.integers(0, len(encoded[-1])))
    answer = b"".join(encoded)
    answer, rest = answer[: len(answer) - cut], answer[len(answer) - cut :]
    result = replaced(answer, MAP, framing, behind=rest.ljust(100, b"\0"))
    whole = stored[:-1] if cut else stored
    assert result.trouble == ""
    assert result.end == len(result.data)
    found = parts(result.data)
    assert len(found) == len(whole)
    size = sum(map(len, found))
    assert result.data[size:] == answer[sum(map(len, encoded[: len(whole)])) :]
    for old, new, item in zip(encoded, found, whole, strict=False):
        _check(old, new, item, framing)


def _check(old: bytes, new: bytes, item: ref.StoredBatch, framing: Framing) -> None:
    assert ref.is_crc_valid(new)
    if item.more_attributes & ref.CONTROL:
        assert new == old
        return
    wanted = expected(item, MAP, framing)
    assert ref.read(new, item.base_offset) == wanted
    before, after = ref.header_of(old), ref.header_of(new)
    if item.codec == 0 or wanted == item.seen:
        assert len(new) == len(old)
        assert old == new or wanted != item.seen
    changed = {"crc", "length", "attributes"} if item.codec else {"crc"}
    assert {name for name in before if before[name] != after[name]} <= changed
    assert after["attributes"] in {before["attributes"], before["attributes"] & ~7}


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_compressed_stays_compressed_with_its_codec(codec: int) -> None:
    result = replaced(batch(1, 2, codec=codec), MAP)
    assert ref.header_of(result.data)["attributes"] & 7 == codec
    assert [record.value[:5] for _, record in ref.read(result.data, 0) if record.value] == [
        framed(2, b""),
        framed(1, b""),
    ]


def test_a_guid_whose_new_one_is_not_given_ends_the_answer() -> None:
    """Given a GUID that is another at the target, and no list of these / then nothing passes."""
    header = (VALUE_HEADER, by_guid(GUIDS[0]))
    whole = ref.StoredBatch(0, (ref.Record(NOW, None, LONG, (header,)),)).encode()
    number = np.array([guid_number(GUIDS[0])], np.int64)
    for place, guids in ((0, b""), (1, NEW_GUID), (-2, NEW_GUID), (0, NEW_GUID[1:])):
        ids = IdMap(number, np.array([place], np.int64), np.frombuffer(guids, np.uint8))
        for each in (replaced_ids, checked):
            got = each.replace_ids(bytearray(whole), 0, len(whole), ids, ALL)
            assert (got.end, bool(got.trouble)) == (0, True)
        got = replaced_ids.replace_ids(bytearray(whole), 0, len(whole), ids, BOTH)
        assert (bytes(got.buffer), got.trouble) == (whole, "")


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_whose_ids_stay_is_not_changed(codec: int) -> None:
    whole = batch(5, 9, codec=codec)
    assert replaced(whole, MAP) == Result(whole, len(whole), "")


def test_what_compression_makes_larger_is_stored_as_it_is() -> None:
    """Given a snappy batch of one tiny record / then it is not compressed any more."""
    plain = ref.StoredBatch(0, (ref.Record(NOW, None, framed(1, b"")),)).encode()
    body = plain[61:]
    stored = bytes([len(body), (len(body) - 1) << 2]) + body  # one literal
    packed = ref.changed(plain[:61] + stored, length=49 + len(stored), attributes=2)
    result = replaced(packed, MAP)
    assert ref.header_of(result.data)["attributes"] == 0
    [(_, record)] = ref.read(result.data, 0)
    assert record.value == framed(2, b"")


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_with_a_wrong_checksum_is_left_and_those_behind_it_are_changed(codec: int) -> None:
    """Given a flipped bit anywhere / then the target will find it: the batch is as it came."""
    whole, sound = batch(1, 2, codec=codec), batch(1, base=2)
    good = replaced(sound, MAP).data
    for place in range(17, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        result = replaced(bytes(damaged) + sound, MAP)
        assert (result.data, result.trouble) == (bytes(damaged) + good, ""), place


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_can_not_be_read_end_the_answer(codec: int) -> None:
    """Given damage with the right checksum / then nothing of that batch or behind it passes with

    an id that may be wrong, and the reason names it; or it reads as other records.
    """
    before = batch(1)
    good = replaced(before, MAP).data
    whole = batch(1, 2, base=1, codec=codec)
    refused = 0
    for place in range(61, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        result = replaced(before + ref.changed(damaged) + batch(1, base=3), MAP)
        assert result.data.startswith(good)
        if result.trouble:
            refused += 1
            assert result.data == good
            assert result.trouble.startswith("batch at source offset 1: ")
    assert refused > 5


@pytest.mark.parametrize("count", [1, 3, 2**31 - 1])
def test_counts_that_lie_end_the_answer(count: int) -> None:
    """Given two records and another count / then the batch is not sent half changed."""
    lying = ref.changed(batch(1, 1), records_count=count, last_offset_delta=count - 1)
    result = replaced(batch(1) + lying, MAP)
    assert (result.data, result.trouble != "") == (replaced(batch(1), MAP).data, True)


def test_messages_of_older_formats_end_the_answer() -> None:
    """Given a message of format v1 behind a batch / then what comes before it passes."""
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(1, NOW, framed(3), framed(1))
    result = replaced(batch(1) + bytes(builder.build()) + batch(1, base=2), MAP)
    assert result.data == replaced(batch(1), MAP).data
    assert result.trouble.startswith("batch at source offset 1: it is in a message format of Kafka")


@pytest.mark.parametrize("length", [0, -1, -12, -(2**31), 2**31 - 1, 3, 40])
def test_a_length_that_leads_nowhere_leaves_the_rest(length: int) -> None:
    """Given such a length / then `convert` gets all of the answer, to report it."""
    damaged = ref.changed(batch(1), length=length)
    result = replaced(batch(1) + damaged + batch(1), MAP)
    assert result.data[: len(batch(1))] == replaced(batch(1), MAP).data
    assert result.data[len(batch(1)) :] == damaged + batch(1)
    assert result.trouble == ""


@given(st.binary(max_size=60), st.integers(-1, 6), st.sampled_from([BOTH, ALL]))
@examples(300)
def test_arbitrary_records_stay_within_the_answer(
    body: bytes, count: int, framing: Framing
) -> None:
    odd = ref.changed(
        batch(1)[:61] + body,
        length=49 + len(body),
        records_count=count,
        last_offset_delta=max(0, count - 1),
    )
    result = replaced(odd + batch(1), MAP, framing)
    if not result.trouble:
        assert result.data[len(odd) :] == replaced(batch(1), MAP).data


def test_index_checks_are_on() -> None:
    none, bytes_ = np.empty(0, np.int64), np.zeros(5, np.uint8)
    with pytest.raises(IndexError):
        checked.put_ids(bytes_, 5, 63, 1, none, none, bytes_, *ALL)
