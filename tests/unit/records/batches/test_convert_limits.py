"""What a batch may have in bytes: the target's limit itself, and not one more."""

from __future__ import annotations

import pytest
from support import batches as ref

from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import (
    BatchPlace,
    ConvertOutcome,
    ConvertSettings,
    StopReason,
)

NOW = 1_790_000_000_000
LARGE = 1 << 20


def converted(limit: int, *batches: ref.StoredBatch, join_bytes_max: int = 0) -> ConvertOutcome:
    data = bytearray(b"".join(batch.encode() for batch in batches))
    join_below = LARGE if join_bytes_max else 0
    settings = ConvertSettings(5, limit, join_bytes_max or limit, join_below)
    return convert(data, 0, len(data), BatchPlace.same(0), settings)


def records(count: int) -> tuple[ref.Record, ...]:
    return tuple(ref.Record(NOW + n, b"k%d" % n, b"v" * 50) for n in range(count))


@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_exactly_as_large_as_the_limit_is_copied_whole(codec: int) -> None:
    """Given a batch of max.message.bytes / then its records are the very bytes that were read."""
    stored = ref.StoredBatch(0, records(9), codec=codec)
    data = stored.encode()
    [batch] = converted(len(data), stored).batches
    assert (batch.size, len(batch.parts)) == (len(data), 1)
    assert bytes(batch.parts[0])[ref.HEADER_BYTES :] == data[ref.HEADER_BYTES :]


def test_a_batch_one_byte_larger_is_split() -> None:
    stored = ref.StoredBatch(0, records(9))
    limit = len(stored.encode()) - 1
    outcome = converted(limit, stored)
    assert outcome.stop is None
    assert sum(batch.records for batch in outcome.batches) == 9
    assert all(batch.size <= limit for batch in outcome.batches)


def test_a_reencoded_record_may_take_the_limit_and_no_byte_more() -> None:
    """Given a LogAppendTime record / when it fits exactly / then copied, else named TOO_LARGE."""
    stored = ref.StoredBatch(0, records(1), append_time=NOW)
    [batch] = converted(LARGE, stored).batches
    exact = converted(batch.size, stored)
    assert [each.size for each in exact.batches] == [batch.size]
    assert (exact.stop, exact.next_offset) == (None, 1)
    outcome = converted(batch.size - 1, stored)
    assert outcome.batches == []
    assert outcome.stop is not None
    assert (outcome.stop.reason, outcome.stop.offset) == (StopReason.TOO_LARGE, 0)


def test_joined_batches_keep_to_the_limit_whatever_it_is() -> None:
    stored = [ref.StoredBatch(n, records(1)) for n in range(40)]
    largest = 0
    for limit in range(400, 500):
        outcome = converted(limit, *stored, join_bytes_max=limit)
        assert sum(batch.records for batch in outcome.batches) == 40
        assert all(batch.size <= limit for batch in outcome.batches)
        largest = max(largest, *(batch.size - limit for batch in outcome.batches))
    assert largest > -20, "none came near its limit"
