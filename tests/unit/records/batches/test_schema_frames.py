"""Schema ids in fetched batches: those that a plain reader finds, and none that damage makes up.

All run with index checks as well, and with several kinds of bytes before and after the answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace

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

from heliostat.errors import BatchError
from heliostat.framed_ids import guid_number
from heliostat.records.batches import schema_frames
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.codecs import compress
from heliostat.records.batches.schema_frames import IDS_MAX, Framing, Known, UnknownIds
from heliostat.records.batches.varints import read_varint, varint

*_, checked = with_checked_indexes(
    "heliostat.clusters.wire.scan",
    "heliostat.records.batches.reencode",
    "heliostat.records.batches.schema_places",
    "heliostat.records.batches.schema_frames",
)
BOTH, KEYS, VALUES, HEADERS, ALL = (
    Framing(*(part in parts for part in "kvh")) for parts in ("kv", "k", "v", "h", "kvh")
)
NAMES = (KEY_HEADER, VALUE_HEADER)
BEFORE = 7
"""Bytes before the answer; `found` subtracts them from `upto`."""


def found(
    answer: bytes,
    known: Iterable[int] = (),
    framing: Framing = BOTH,
    *,
    others: Iterable[int] | None = None,
    behind: bytes = b"\0" * 100,
) -> UnknownIds:
    """What both copies find, whatever is before and behind the answer."""
    values = np.array(sorted(known), np.int64)
    ids = Known(values, values if others is None else np.array(sorted(others), np.int64))
    end = BEFORE + len(answer)
    results = set()
    for around in (behind, b"\xff" * 100, b""):
        view = memoryview(around[:BEFORE].ljust(BEFORE) + answer + around)
        results |= {
            each.unknown_ids(view, BEFORE, end, ids, framing) for each in (schema_frames, checked)
        }
    [result] = results
    assert BEFORE <= result.upto <= end
    return result._replace(upto=result.upto - BEFORE)


def id_in(payload: bytes | None) -> int:
    """The id that a plain reader finds in a key or value, -1: none."""
    if payload is None or len(payload) < 5 or payload[0]:
        return -1
    return max(-1, int.from_bytes(payload[1:5], "big", signed=True))


def in_header(content: bytes | None) -> int | None:
    """The id, or the number of the GUID, that a plain reader finds in a header."""
    if content and content[0] == 1 and len(content) >= 17:
        return -1 - (int.from_bytes(content[1:17], "big") >> 65)
    number = id_in(content)
    return None if number < 0 else number


def expected(
    whole: Sequence[ref.StoredBatch], known: Iterable[int], framing: Framing
) -> UnknownIds:
    """What aiokafka's reader of records finds, which shares no code with ours."""
    ids: set[int] = set()
    at, upto, first = 0, -1, -1
    has_headers = False
    for stored in whole:
        is_control = stored.more_attributes & ref.CONTROL
        in_batch: set[int] = set()
        for offset, record in [] if is_control else stored.seen:
            numbers = {in_header(content) for name, content in record.headers if name in NAMES}
            named = {name for name, content in record.headers if in_header(content) is not None}
            looked_at = {record.key} if framing.keys and KEY_HEADER not in named else set()
            looked_at |= {record.value} if framing.values and VALUE_HEADER not in named else set()
            new = {id_in(payload) for payload in looked_at} - {-1}
            new |= numbers - {None} if framing.headers else set()
            new -= set(known)
            if new and first < 0:
                upto, first = at, offset
            ids |= new
            in_batch |= numbers - {None}
        has_headers |= first < 0 and bool(in_batch)
        at += len(stored.encode())
    return UnknownIds(tuple(sorted(ids)), at if first < 0 else upto, first, has_headers)


IDS = [0, 1, 5, 255, 70_000, 2**31 - 1]
NUMBERS = [guid_number(each) for each in GUIDS]
ATTRIBUTES = [0, 0, 0, ref.CONTROL | ref.TRANSACTIONAL]


@given(
    answers(IDS, 9, ATTRIBUTES),
    st.sets(st.sampled_from(IDS + NUMBERS)),
    st.sampled_from([BOTH, KEYS, VALUES, HEADERS, ALL]),
    st.data(),
)
@examples(300)
def test_unknown_ids_are_those_that_a_plain_reader_finds(stored, known, framing, data):
    """Given batches of all kinds, the last perhaps cut / when asked / then as by aiokafka."""
    encoded = [item.encode() for item in stored]
    cut = data.draw(st.sampled_from([0, 0, 1, 40]) | st.integers(0, len(encoded[-1])))
    answer = b"".join(encoded)
    whole = stored[:-1] if cut else stored
    behind = answer[len(answer) - cut :].ljust(100, b"\0")
    result = found(answer[: len(answer) - cut], known, framing, behind=behind)
    assert result == expected(whole, known, framing)


@pytest.mark.parametrize("codec", CODECS)
def test_batches_before_the_first_unknown_id_may_pass(codec):
    """Given ids 1 and 2 known / when 3 and 4 come later / then both, and up to the batch of 3."""
    parts = [
        batch(1, 2, codec=codec),
        batch(1, 1, 3, base=2, codec=codec),
        batch(2, base=5, codec=codec),
        batch(4, 3, base=6, codec=codec),
    ]
    answer = b"".join(parts)
    assert found(answer, (1, 2)) == UnknownIds((3, 4), len(parts[0]), 4)
    assert found(answer, (1, 2, 3)) == UnknownIds((4,), len(answer) - len(parts[3]), 6)
    assert found(answer, (1, 2, 3, 4)) == UnknownIds((), len(answer), -1)


@pytest.mark.parametrize(
    ("framing", "ids"),
    [(KEYS, (1,)), (VALUES, (2,)), (BOTH, (1, 2)), (HEADERS, ()), (ALL, (1, 2))],
)
@pytest.mark.parametrize("codec", CODECS)
def test_only_what_is_framed_is_looked_at(framing, ids, codec):
    """Given id 1 in the key and 2 in the value / when asked for either / then that alone."""
    record = ref.Record(NOW, framed(1), framed(2), (("h", framed(3)),))
    answer = ref.StoredBatch(8, (record,), codec=codec).encode()
    assert found(answer, framing=framing).ids == ids
    assert found(answer, ids, framing) == UnknownIds((), len(answer), -1)


@pytest.mark.parametrize(
    ("payload", "ids"),
    [
        (None, ()),
        (b"", ()),
        (b"\0\0\0\1", ()),
        (b"\0\0\0\0\1", (1,)),
        (b"\0\0\0\0\0", (0,)),
        (b"\0\1\2\3\4", (0x01020304,)),
        (b"\0\x7f\xff\xff\xff", (2**31 - 1,)),
        (b"\0\x80\0\0\0x", ()),
        (b"\0\xff\xff\xff\xffx", ()),
        (b"\1\0\0\0\1x", ()),
    ],
)
def test_a_frame_is_a_zero_byte_and_an_id_that_is_not_negative(payload, ids):
    """Given a key, then a value / then five bytes are enough, and four or a negative id are not."""
    for record in (ref.Record(NOW, payload, b"v"), ref.Record(NOW, None, payload)):
        answer = ref.StoredBatch(3, (record,)).encode()
        result = found(answer)
        assert result == UnknownIds(ids, 0 if ids else len(answer), 3 if ids else -1)


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_header_says_counts_instead_of_what_is_in_front(codec):
    """Given ids in headers / then a key or value with one has none in front of it, whoever asks."""
    guid = GUIDS[1]
    cases = [
        ((), (1, 2), False),
        (((VALUE_HEADER, framed(3, b"")),), (1, 3), True),
        (((KEY_HEADER, framed(3, b"")),), (2, 3), True),
        (((KEY_HEADER, framed(3, b"")), (VALUE_HEADER, framed(4, b""))), (3, 4), True),
        (((VALUE_HEADER, framed(3, b"")), (VALUE_HEADER, framed(4, b""))), (1, 3, 4), True),
        (((VALUE_HEADER, by_guid(guid)),), (guid_number(guid), 1), True),
        (((VALUE_HEADER, by_guid(guid, b"\0")),), (guid_number(guid), 1), True),
        (((VALUE_HEADER, by_guid(guid[1:])),), (1, 2), False),
        (((VALUE_HEADER, None),), (1, 2), False),
        (((VALUE_HEADER, b"\2" + guid),), (1, 2), False),
    ]
    for headers, ids, has in cases:
        record = ref.Record(NOW, framed(1), framed(2), headers)
        answer = ref.StoredBatch(8, (record,), codec=codec).encode()
        assert found(answer, framing=ALL).ids == ids, headers
        assert found(answer, ids, ALL) == UnknownIds((), len(answer), -1, has)
        named = {name for name, _ in headers} if has else set()
        in_front = [n for n, name in ((1, KEY_HEADER), (2, VALUE_HEADER)) if name not in named]
        assert found(answer, framing=BOTH).ids == tuple(in_front), headers


def test_values_may_begin_with_other_ids_than_keys_and_headers_have():
    """Given two lists of known ids / then that of the others does not count for values."""
    record = ref.Record(NOW, framed(1), framed(2))
    answer = ref.StoredBatch(8, (record,)).encode()
    assert found(answer, (1,), others=(2,)).ids == (1, 2)
    assert found(answer, (2,), others=(1,)).ids == ()
    named = ref.Record(NOW, None, LONG, ((VALUE_HEADER, framed(3, b"")),))
    answer = ref.StoredBatch(8, (named,)).encode()
    assert found(answer, (3,), ALL, others=()).ids == (3,)
    assert found(answer, (), ALL, others=(3,)).ids == ()


def test_a_records_headers_with_any_byte_changed_hide_no_id_in_front():
    """Given damage in headers, with the right checksum / then the value's id still counts."""
    headers = (("a", b"x"), (KEY_HEADER, framed(3, b"")), (KEY_HEADER, by_guid(GUIDS[0])))
    record = ref.Record(NOW, None, framed(7), headers)
    whole = ref.StoredBatch(0, (record,)).encode()
    for place in range(whole.index(b"\2a\2x") - 1, len(whole)):
        for mask in MASKS:
            damaged = bytearray(whole)
            damaged[place] ^= mask
            assert {7, 9} <= set(found(ref.changed(damaged) + SOUND, framing=ALL).ids), place


def test_markers_and_older_formats_have_no_ids():
    """Given a control batch and a v1 message that look framed / then only what follows counts."""
    control = ref.StoredBatch(0, (ref.Record(NOW, framed(1), framed(2)),), more_attributes=32)
    packed = replace(control, codec=1)
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(2, NOW, framed(3), framed(4))
    before = control.encode() + packed.encode() + bytes(builder.build())
    assert found(before) == UnknownIds((), len(before), -1)
    assert found(before + batch(5, base=3)) == UnknownIds((5,), len(before), 3)


def test_an_empty_answer_or_one_that_is_cut_at_once_has_none():
    nothing = Known(np.empty(0, np.int64), np.empty(0, np.int64))
    view = memoryview(b"")
    assert schema_frames.unknown_ids(view, 0, 0, nothing, BOTH) == UnknownIds((), 0, -1)
    whole = batch(1)
    for size in (0, 1, 11, 12, 16, 17, 60, 61, len(whole) - 1):
        assert found(whole[:size], behind=whole[size:].ljust(100)) == UnknownIds((), 0, -1)


def test_keys_and_values_with_ids_of_their_own_are_each_remembered():
    """Given two known ids in turns / when one differs / then it is found, not taken for another."""
    content = [ref.Record(NOW, framed(1), framed(2)) for _ in range(5)]
    for place in range(5):
        for odd in (ref.Record(NOW, framed(3), framed(2)), ref.Record(NOW, framed(1), framed(3))):
            changed = (*content[:place], odd, *content[place + 1 :])
            answer = ref.StoredBatch(10, changed).encode()
            assert found(answer, (1, 2)) == UnknownIds((3,), 0, 10 + place)


@pytest.mark.parametrize("per_batch", [1, 7, 2 * IDS_MAX])
def test_no_more_ids_are_looked_for_than_may_be_asked_for(per_batch):
    """Given hundreds of ids / then enough of them, and the others once those are known."""
    count = 2 * IDS_MAX
    cuts = range(0, count, per_batch)
    answer = b"".join(batch(*range(n, min(n + per_batch, count)), base=n) for n in cuts)
    known: set[int] = set()
    for _ in range(3):
        result = found(answer, known)
        assert result.first_offset == (len(known) if len(known) < count else -1)
        assert list(result.ids) == sorted(set(result.ids) - known)
        assert len(result.ids) >= min(IDS_MAX, count - len(known))
        assert len(result.ids) < IDS_MAX + per_batch
        known |= set(result.ids)
    assert known == set(range(count))


SOUND = batch(9, base=4)
MASKS = (0x01, 0x80, 0xFF)


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bits_give_no_ids_and_hide_none_behind_them(codec):
    """Given a batch with a byte changed / then it is left to `convert`, as its CRC is wrong."""
    whole = batch(5, 6, 7, codec=codec)
    for place in range(17, len(whole)):
        for mask in MASKS:
            damaged = bytearray(whole)
            damaged[place] ^= mask
            assert found(bytes(damaged) + SOUND) == UnknownIds((9,), len(whole), 4), place


@pytest.mark.parametrize("codec", CODECS)
def test_headers_with_any_byte_changed_are_read_within_the_answer(codec):
    """Given damage that no CRC covers / then ids of the batches or none, within the answer."""
    answer = batch(5, 6, codec=codec) + SOUND
    seen = set()
    for place in range(17):
        for mask in MASKS:
            damaged = bytearray(answer)
            damaged[place] ^= mask
            result = found(bytes(damaged))
            seen.add(result.ids)
            assert (result.first_offset >= 0) == bool(result.ids)
            if place not in range(8, 12):  # in its length
                assert result.upto == (0 if 5 in result.ids else len(answer) - len(SOUND)), place
    assert seen == {(), (9,), (5, 6, 9)}


@pytest.mark.parametrize("codec", CODECS)
def test_damage_with_the_right_crc_stays_within_the_answer(codec):
    """Given what a broken producer may have sent / then the batch behind it is still found."""
    whole = batch(5, 6, 7, codec=codec)
    for place in range(21, len(whole)):
        for mask in MASKS:
            damaged = bytearray(whole)
            damaged[place] ^= mask
            result = found(ref.changed(damaged) + SOUND)
            assert 9 in result.ids, place
            assert result.upto in {0, len(whole)}, place


@pytest.mark.parametrize("codec", CODECS)
def test_records_before_a_cut_count_and_the_others_do_not(codec):
    """Given a batch that ends early, by its own length / then its whole records, if any."""
    whole = batch(5, 6, 7, codec=codec)
    record_bytes = (len(batch(5, 6, 7)) - 61) // 3
    for size in range(61, len(whole)):
        cut = ref.changed(whole[:size], length=size - 12)
        result = found(cut + SOUND)
        if codec == 0:
            assert result.ids == (*(5, 6, 7)[: (size - 61) // record_bytes], 9)
        else:
            assert set(result.ids) <= {5, 6, 7, 9}
        assert result.upto == (0 if len(result.ids) > 1 else size)


def test_counts_that_lie():
    """Given other counts than there are records / then those that both agree on."""
    whole = batch(5, 6, 7)
    for count, ids in ((1, (5,)), (2, (5, 6)), (4, (5, 6, 7)), (9, (5, 6, 7)), (-1, ()), (0, ())):
        lying = ref.changed(whole, records_count=count, last_offset_delta=max(count - 1, 0))
        assert found(lying + SOUND).ids == (*ids, 9), count
    impossible = ref.changed(whole, records_count=2**31 - 1, last_offset_delta=2**31 - 1)
    assert found(impossible + SOUND) == UnknownIds((9,), len(whole), 4)


@pytest.mark.parametrize("bits", range(1, 8))
def test_what_can_not_be_decompressed_is_left(bits):
    whole = ref.changed(batch(5), attributes=bits)
    assert found(whole + SOUND) == UnknownIds((9,), len(whole), 4)


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_what_decompresses_to_nothing_has_none(codec):
    body = compress(codec, b"")
    empty = ref.changed(SOUND[:61] + body, length=49 + len(body), attributes=codec.value)
    assert found(empty + SOUND) == UnknownIds((9,), len(empty), 4)


@pytest.mark.parametrize("length", [0, -1, -12, -(2**31)])
def test_a_length_that_leads_nowhere_leaves_the_rest_of_the_answer(length):
    """Given such a length / then all of the answer may be converted, so that it is reported."""
    damaged = ref.changed(batch(5), length=length)
    answer = batch(1) + damaged + SOUND
    assert found(answer, (1,)) == UnknownIds((), len(answer), -1)
    assert found(answer) == UnknownIds((1,), 0, 0)


@pytest.mark.parametrize("length", range(1, 50))
def test_what_is_shorter_than_a_header_has_none(length):
    """Given a batch without records, or less / then nothing behind it is taken for its header."""
    short = bytearray(batch(5)[: 12 + length])
    struct.pack_into(">i", short, 8, length)
    assert found(bytes(short)) == UnknownIds((), len(short), -1)


def encoded(delta: int, key: bytes, value: bytes, since: bytes = b"\0") -> bytes:
    body = b"\0" + since + varint(delta) + key + value + varint(0)
    return varint(len(body)) + body


def sized(payload: bytes) -> bytes:
    return varint(len(payload)) + payload


NULL = varint(-1)
pieces = st.sampled_from(
    [
        encoded(0, NULL, sized(framed(1, b""))),
        encoded(0, sized(framed(2, b"x")), NULL),
        encoded(-1, sized(framed(3)), NULL),
        encoded(1, varint(6) + framed(4, b""), b""),
        encoded(2, varint(2**40), NULL),
        encoded(3, varint(-(2**63)), sized(framed(5, b""))),
        encoded(4, NULL, varint(100) + framed(6)),
        encoded(5, sized(framed(7, b"")), NULL, varint(-(2**63))),
        encoded(6, sized(framed(8, b"")), NULL, b"\xff" * 9 + b"\x02"),
        encoded(7, sized(framed(8, b"")), NULL, b"\xff" * 10 + b"\0"),
        b"\x0a\0\0\0\1\1",  # its headers are missing
        b"\x0e\0\xff\xff\1\0\1\xff",  # the size of its value reaches over its end
        *(b"\xff", b"\x80\x01", b"\x0c", b"\0", b"\x02"),
    ]
)


def ids_in(body: bytes, count: int) -> set[int]:
    """What a plain walk over the records finds, up to the first that is damaged."""
    ids: set[int] = set()
    at = 0
    for _ in range(count):
        try:
            length, at = read_varint(body, at)
            if not 6 <= length <= len(body) - at:
                break
            one, at = body[at : at + length], at + length
            _, place = read_varint(one, 1)
            delta, place = read_varint(one, place)
            of_record = []
            for _ in ("key", "value"):
                size, place = read_varint(one, place)
                if delta < 0 or size > len(one) - place:
                    return ids - {-1}
                of_record.append(id_in(one[place : place + max(0, size)]))
                place += max(0, size)
            ids |= set(of_record)
        except (IndexError, BatchError):
            break
    return ids - {-1}


@examples(500)
@given(st.lists(pieces | st.binary(max_size=4), max_size=10).map(b"".join), st.integers(1, 6))
def test_arbitrary_records_are_read_up_to_the_damage(body, count):
    """Given bytes with a valid CRC / then as a plain walk, and the next batch as ever."""
    odd = ref.changed(
        SOUND[:61] + body,
        length=49 + len(body),
        records_count=count,
        last_offset_delta=count - 1,
        base_offset=0,
    )
    ids = ids_in(body, count) if count * 7 <= len(body) else set()
    result = found(odd + SOUND)
    assert set(result.ids) == ids | {9}
    assert result.upto == (0 if ids else len(odd))


def test_index_checks_are_on():
    none = np.empty(0, np.int64)
    with pytest.raises(IndexError):
        checked.to_look_at(np.zeros(60, np.uint8), 50, 63, none, none, *ALL, (0, 9))
