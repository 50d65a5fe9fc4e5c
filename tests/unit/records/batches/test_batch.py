"""Headers and CRCs against an independent codec."""

from __future__ import annotations

import pytest
from aiokafka.record._crecords.cutil import crc32c_cython
from hypothesis import given
from hypothesis import strategies as st
from support import batches as ref
from support.examples import examples

from heliostat.errors import BatchError
from heliostat.records.batches.batch import Codec, check_crc, patch_header, read_header
from heliostat.records.batches.crc import shifted
from heliostat.records.batches.varints import read_varint, varint

RECORD = ref.Record(1_790_000_000_000, b"key", b"value" * 30, (("h", None), ("h", b"x")))


def stored(**more) -> bytes:
    return ref.StoredBatch(40, (RECORD, RECORD), **more).encode()


def test_a_header_is_read_as_stored():
    batch = stored(codec=4, append_time=77, more_attributes=ref.TRANSACTIONAL | ref.DELETE_HORIZON)
    header = read_header(b"xx" + batch + b"yy", 2, len(batch) + 4)
    assert header is not None
    expected = ref.header_of(batch)
    assert {name: getattr(header, name) for name in expected} == expected
    assert (header.size, header.last_offset, header.next_offset) == (len(batch), 41, 42)
    assert header.codec is Codec(expected["attributes"] & 7) is Codec.ZSTD
    assert header.is_log_append_time
    assert header.is_transactional
    assert not header.is_control
    assert header.is_dense


def test_a_batch_truncated_anywhere_is_none():
    batch = stored()
    assert all(read_header(batch[:end], 0, end) is None for end in range(len(batch)))


@pytest.mark.parametrize(
    "fields",
    [
        {"magic": 0},
        {"magic": 1},
        {"magic": -2},
        {"length": 48},
        {"records_count": -1},
        {"records_count": 3},
        {"last_offset_delta": -1},
        {"base_offset": -1},
        {"base_offset": 2**63 - 1},
        {"attributes": 6},
        {"last_offset_delta": 2**30, "records_count": 2**30},
    ],
)
def test_an_invalid_header_is_refused(fields):
    batch = ref.changed(stored(), **fields)
    with pytest.raises(BatchError):
        read_header(batch, 0, len(batch))


def test_a_wrong_crc_is_detected():
    batch = bytearray(stored())
    header = read_header(batch, 0, len(batch))
    assert header is not None
    check_crc(batch, 0, header)
    batch[-1] ^= 1
    with pytest.raises(BatchError, match="checksum"):
        check_crc(batch, 0, header)


@given(st.integers(0, 2**62), st.integers(0, 2**31 - 1), st.sampled_from([0, 0x10, 0x40, 0x1F90]))
@examples(60)
def test_a_patched_header_has_the_crc_of_a_rehash(producer_id, base_sequence, more):
    before = stored(codec=2, more_attributes=more)
    buffer = bytearray(b"??" + before)
    header = read_header(buffer, 2, len(buffer))
    assert header is not None
    patch_header(
        memoryview(buffer), 2, header, producer_id=producer_id, base_sequence=base_sequence
    )
    assert bytes(buffer[2:]) == ref.changed(
        before,
        base_offset=0,
        leader_epoch=-1,
        attributes=header.attributes & 7,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=base_sequence,
    )


@given(st.binary(min_size=40, max_size=40), st.binary(min_size=40, max_size=40), st.data())
@examples(100)
def test_the_crc_of_a_changed_header_needs_no_payload(old, new, data):
    tail = bytes(data.draw(st.binary(max_size=50))) * data.draw(st.sampled_from([1, 3, 2000, 6000]))
    difference = shifted(crc32c_cython(old) ^ crc32c_cython(new), len(tail))
    assert crc32c_cython(old + tail) ^ difference == crc32c_cython(new + tail)


def test_the_crc_of_a_changed_header_holds_for_the_longest_payloads():
    tail = bytes(range(256)) * 65_537  # 16 MiB and a bit: every digit of the length counts
    old, new = bytes(40), bytes(range(40))
    difference = shifted(crc32c_cython(old) ^ crc32c_cython(new), len(tail))
    assert crc32c_cython(old + tail) ^ difference == crc32c_cython(new + tail)


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-20_000, 20_000))
@examples(200)
def test_varints_are_those_of_kafka(value):
    assert read_varint(b"x" + varint(value), 1) == (value, 1 + len(varint(value)))
    written = bytearray()
    from aiokafka.record._crecords.cutil import encode_varint_cython

    if -(2**62) < value < 2**62:
        encode_varint_cython(value, written.append)
        assert bytes(written) == varint(value)


@pytest.mark.parametrize("body", [b"\xff" * 10, b"\xff" * 9 + b"\x02"])
def test_a_varint_of_more_than_64_bits_is_refused(body):
    with pytest.raises(BatchError):
        read_varint(body + b"\0", 0)
