"""The compiled loop over records: never outside its arrays, whatever the bytes are.

All run twice, the second time compiled with index checks.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import batches as ref
from support import converted_twice
from support.converted_twice import convert
from support.examples import examples

from heliostat.records.batches import compiled_bytes, reencode
from heliostat.records.batches.converted import BatchPlace, ConvertSettings
from heliostat.records.batches.crc import crc32c
from heliostat.records.batches.varints import varint

BOTH_BYTES = (compiled_bytes, converted_twice.compiled_bytes)
BOTH = (reencode, converted_twice.reencode)
SETTINGS = ConvertSettings(producer_id=7, batch_bytes_max=2**20)


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), np.uint8) if data else np.empty(0, np.uint8)


@given(st.binary(max_size=70), st.integers(0, 9), st.integers(0, 9))
def test_both_crc_implementations_equal_the_librarys(data, skip_front, skip_back):
    at, end = min(skip_front, len(data)), max(min(skip_front, len(data)), len(data) - skip_back)
    expected = crc32c(data[at:end])
    for each in BOTH_BYTES:
        assert each.crc32c_compiled(array(data), at, end) == expected
        assert each.crc32c_by_tables(array(data), at, end) == expected


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_equal_those_of_the_plain_code(value):
    for each in BOTH:
        out = np.full(12, 0xAA, np.uint8)
        end = each.write_varint(out, 1, value)
        assert bytes(out[1:end]) == varint(value)
        assert end == 1 + each.varint_bytes(value)
        assert each.read_varint_compiled(out, 1, end) == (value, end)
        assert each.read_varint_compiled(out, 1, end - 1)[1] == -1


@given(st.binary(min_size=10, max_size=12))
def test_a_varint_of_more_than_64_bits_is_rejected(data):
    long = array(bytes(byte | 0x80 for byte in data[:9]) + b"\x02" + data)
    for each in BOTH:
        assert each.read_varint_compiled(long, 0, len(long))[1] == -1


byte_soup = st.lists(
    st.sampled_from(
        [b"\x0c\0\0\0\1\1\0", b"\x0c\0\0\2\1\1\0", b"\xff", b"\x80\x01", b"\x0e", b"\0"]
    )
    | st.binary(max_size=4),
    max_size=12,
).map(b"".join)


@examples(400)
@given(
    byte_soup,
    st.integers(1, 4),
    st.integers(0, 2**63 - 1),
    st.booleans(),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_arbitrary_records_are_encoded_or_refused(  # noqa: PLR0917 - as drawn
    body, count, timestamp, is_appended, hole, thinned
):
    """Their CRC is valid, so that nothing but the loop itself detects what is wrong."""
    sound = ref.StoredBatch(0, (ref.Record(5, None, b"v", ()),)).encode()
    odd = ref.changed(
        sound[:61] + body,
        length=49 + len(body),
        records_count=count,
        last_offset_delta=count - 1 + thinned,
        base_offset=1 + hole,
        base_timestamp=timestamp,
        attributes=ref.LOG_APPEND_TIME if is_appended else 0,
    )
    answer = bytearray(sound + odd)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), SETTINGS)
    behind = 1 + hole + count + thinned
    assert outcome.next_offset in (1, behind)
    assert (outcome.stop is None) == (outcome.next_offset == behind)
    taken = sum(batch.records for batch in outcome.batches)
    assert taken == (1 if outcome.stop else 1 + count)


def test_index_checks_are_on():
    with pytest.raises(IndexError):
        converted_twice.reencode.write_varint(np.empty(1, np.uint8), 1, 5)
