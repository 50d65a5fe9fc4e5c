"""Compressed batches that are joined as a round trip to the target is long (docs/adr/0038)."""

from __future__ import annotations

import pytest
from support import batches as ref
from support.converted_twice import batch_maker_checked, convert

from heliostat.records.batches import batch_maker
from heliostat.records.batches.converted import (
    BatchPlace,
    ConvertedBatch,
    ConvertOutcome,
    ConvertSettings,
)

CODECS = (1, 2, 3, 4)
NOW = 1_790_000_000_000


def limits_of(bytes_max: int) -> ConvertSettings:
    return ConvertSettings(5, bytes_max, bytes_max, is_target_far=True)


def bytes_of(batch: ConvertedBatch) -> bytes:
    return b"".join(bytes(part) for part in batch.parts)


def converted(outcome: ConvertOutcome) -> list[tuple[int, ref.Record]]:
    return [pair for item in outcome.batches for pair in ref.read(bytes_of(item), item.base_offset)]


@pytest.mark.parametrize("codec", CODECS)
def test_many_compressed_batches_are_joined_for_a_far_target(codec):
    """Given more batches than may be in flight / then few with the codec they came with."""
    stored = [
        ref.StoredBatch(n * 5, tuple(ref.Record(NOW, None, bytes(90)) for _ in range(5)), codec)
        for n in range(6)
    ]
    limits = limits_of(2**20)
    for count, batches in ((5, 5), (6, 1)):
        answer = ref.encode_all(stored[:count])
        outcome = convert(answer, 0, len(answer), BatchPlace.same(0), limits)
        assert len(outcome.batches) == batches
        assert {ref.header_of(bytes_of(item))["attributes"] for item in outcome.batches} == {codec}
        assert converted(outcome) == [pair for item in stored[:count] for pair in item.seen]


def joined_sizes(values: bytes, bytes_max: int) -> list[int]:
    """Return the sizes of batches joined from many, each with a record of one of these bytes."""
    stored = [
        ref.StoredBatch(n, (ref.Record(NOW, None, bytes([value]) * 900),), codec=4)
        for n, value in enumerate(values)
    ]
    limits = limits_of(bytes_max)
    answer = ref.encode_all(stored)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(0), limits)
    assert all(item.size <= bytes_max for item in outcome.batches)
    assert converted(outcome) == [pair for item in stored for pair in item.seen]
    return [item.size for item in outcome.batches]


def test_compressed_batches_are_joined_to_what_has_the_limits_size_compressed():
    """Given records that shrink to a tenth / then four times the limit is in a batch."""
    assert len(joined_sizes(bytes(40), 9000)) == 2


def test_batches_that_are_larger_together_than_the_limit_are_joined_to_smaller_ones(monkeypatch):
    """Given a codec that shrinks less than the producer's / then no batch is refused."""
    for module in (batch_maker, batch_maker_checked):
        monkeypatch.setattr(module, "compress", lambda codec, body: bytes(body))
    assert len(joined_sizes(bytes(40), 9000)) == 5
