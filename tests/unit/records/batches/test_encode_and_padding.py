"""Batches that we create ourselves: state records and padding."""

from __future__ import annotations

from collections import deque

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st
from support import batches as ref
from support.examples import examples

from heliostat.errors import BatchError
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.encode import decode_batches, encode_batch
from heliostat.records.batches.padding import PADDING_RECORDS_MAX, padding_batches

NOW = 1_790_000_000_000
small = st.none() | st.binary(max_size=100)


@given(
    st.lists(st.tuples(small, small, st.integers(-1, NOW)), min_size=1, max_size=5),
    st.sampled_from(Codec),
)
@examples(150)
def test_state_records_are_read_back_by_us_and_by_others(records, codec):
    batch = encode_batch(records, codec=codec)
    assert ref.is_crc_valid(batch)
    header = ref.header_of(batch)
    assert (header["producer_id"], header["producer_epoch"], header["base_sequence"]) == (-1,) * 3
    theirs = [(record.key, record.value, record.timestamp) for _, record in ref.read(batch, 0)]
    assert theirs == records
    stored = ref.changed(batch, base_offset=70)
    ours = [(70 + n, time, key, value) for n, (key, value, time) in enumerate(records)]
    assert list(decode_batches(stored + stored[:-1])) == ours


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_batches_of_other_producers_are_read_and_markers_left_out(codec):
    record = ref.Record(NOW, b"k" * 50, b"v" * 50, (("h", b"x"),))
    marker = ref.StoredBatch(2, (record,), more_attributes=ref.CONTROL | ref.TRANSACTIONAL)
    stored = ref.StoredBatch(0, (record, record), codec=codec, append_time=NOW + 5)
    answer = stored.encode() + marker.encode()
    expected = [(n, NOW + 5, record.key, record.value) for n in (0, 1)]
    assert list(decode_batches(memoryview(answer))) == expected


def test_a_damaged_state_record_is_refused():
    batch = bytearray(encode_batch([(b"k", b"v", NOW)]))
    short = ref.changed(batch[:-3] + b"\x70\0\0")
    batch[-2] ^= 1
    for bad in (bytes(batch), short):
        with pytest.raises(BatchError):
            list(decode_batches(bad))


@pytest.mark.parametrize("null_key", [False, True])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 8191, 8192, 8193, 16_384, 20_000])
def test_padding_is_one_empty_record_per_offset(count, null_key):
    (batch,) = padding_batches(9, 2**31 - 5, count, NOW, 2**20, null_key=null_key)
    encoded = b"".join(bytes(part) for part in batch.parts)
    assert (batch.records, batch.size, batch.max_timestamp) == (count, len(encoded), NOW)
    assert ref.is_crc_valid(encoded)
    header = ref.header_of(encoded)
    assert (header["producer_id"], header["base_sequence"]) == (9, 2**31 - 5)
    assert (header["last_offset_delta"], header["records_count"]) == (count - 1, count)
    record = ref.Record(NOW, None if null_key else b"", None)
    assert ref.read(encoded, 5) == [(5 + n, record) for n in range(count)]


def test_padding_covers_its_range_in_large_batches():
    count = 2 * PADDING_RECORDS_MAX + 77
    made = list(padding_batches(9, 2**31 - 10, count, NOW, 2**20 + 12, null_key=True))
    assert [item.records for item in made] == [PADDING_RECORDS_MAX, PADDING_RECORDS_MAX, 77]
    assert [item.base_offset for item in made] == [
        2**31 - 10 + n * PADDING_RECORDS_MAX for n in range(3)
    ]
    first, second = (b"".join(bytes(part) for part in item.parts) for item in made[:2])
    assert ref.header_of(second)["base_sequence"] == PADDING_RECORDS_MAX - 10
    assert made[0].parts[1] is made[1].parts[1]
    (last,) = deque(DefaultRecordBatch(first), maxlen=1)
    assert (last.offset, last.timestamp) == (PADDING_RECORDS_MAX - 1, NOW)
    assert (last.key, last.value, list(last.headers)) == (None, None, [])


def test_padding_keeps_to_the_targets_limit():
    made = list(padding_batches(9, 0, 50_000, NOW, 3000, null_key=True))
    assert sum(item.records for item in made) == 50_000
    assert all(item.size <= 3000 for item in made)
    with pytest.raises(BatchError, match="takes no records"):
        list(padding_batches(9, 0, 5, NOW, 60, null_key=True))
