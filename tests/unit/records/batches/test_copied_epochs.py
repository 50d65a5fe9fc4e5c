"""The leader epoch of copied records: of the newest whole batch, once it is at the target."""

from __future__ import annotations

import struct

import pytest
from support.records import GZIP, NONE, Sample, encode

from heliostat.records.batches.claimed_offsets import last_batches
from heliostat.records.batches.copied_epochs import CopiedEpochs, CopiedTo, last_epoch

NO = CopiedTo(-1, -1)


def batch(base_offset: int, records: int, epoch: int, codec: int = NONE) -> bytes:
    data = bytearray(encode([Sample(b"k", b"v%d" % n, 5) for n in range(records)], codec))
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 12, epoch)
    return bytes(data)


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_the_last_whole_batch_counts(codec: int) -> None:
    whole = batch(10, 3, 4, codec) + batch(13, 2, 5, codec)
    answer = bytearray(b"..." + whole + batch(15, 9, 6, codec)[:-1])
    for end in (len(answer), 3 + len(whole)):
        last, before = last_batches(answer, 3, end)
        assert (before, last) == (3, 3 + len(batch(10, 3, 4, codec)))
        assert last_epoch(answer, last, end) == CopiedTo(15, 5)


def test_incomplete_batches_and_old_formats_give_no_epoch() -> None:
    one = batch(10, 3, 4)
    for answer in (bytearray(one)[:20], bytearray(), bytearray(64)):
        last, _ = last_batches(answer, 0, len(answer))
        assert last_epoch(answer, last, len(answer)) == NO
    old = bytearray(one)
    old[16] = 1
    assert last_batches(old, 0, len(old)) == (0, -1)
    assert last_epoch(old, 0, len(old)) == NO


def test_only_epochs_of_acknowledged_batches_are_reported() -> None:
    epochs = CopiedEpochs()
    epochs.fetched(CopiedTo(15, 5), 15)
    epochs.fetched(CopiedTo(20, 6), 20)
    assert epochs.copied(14) == NO
    assert epochs.copied(15) == CopiedTo(15, 5)
    assert epochs.copied(19) == CopiedTo(15, 5)
    epochs.drop(19)  # the end is read again: what was fetched after it comes again
    assert epochs.copied(30) == CopiedTo(15, 5)


def test_an_answer_that_was_not_converted_to_its_end_is_not_counted() -> None:
    epochs = CopiedEpochs()
    epochs.fetched(CopiedTo(20, 6), 18)
    epochs.fetched(NO, 18)
    assert epochs.copied(100) == NO


def test_a_fetch_names_the_epoch_of_what_was_read_before() -> None:
    epochs = CopiedEpochs(CopiedTo(100, 3))
    assert epochs.before(99) == 3  # holes, or what the target lost, are read again
    assert epochs.before(100) == 3
    epochs.fetched(CopiedTo(120, 4), 120)
    assert epochs.before(120) == 4


@pytest.mark.parametrize(
    ("epoch", "end", "is_compacted", "is_so"),
    [
        (3, 99, False, True),
        (2, 500, False, True),
        (3, 100, False, False),
        (3, 110, False, False),
        (3, 99, True, True),
        (2, 99, True, True),
        (2, 500, True, False),  # compaction may have left no batch of epoch 3
    ],
)
def test_an_epoch_that_only_ended_is_no_truncation(
    epoch: int, end: int, is_compacted: bool, is_so: bool
) -> None:
    epochs = CopiedEpochs(CopiedTo(100, 3))  # the round before went on to 120, in epoch 4
    assert epochs.has_diverged(epoch, end, is_compacted=is_compacted) is is_so
    if not is_so:
        assert epochs.before(120) == -1
        epochs.fetched(CopiedTo(125, 4), 125)
        assert epochs.before(125) == 4


def test_the_first_epoch_stays_where_none_is_known_and_what_was_fetched_is_dropped() -> None:
    """Given an append that may have landed / then its epoch is named, and proves no end."""
    epochs = CopiedEpochs()
    epochs.fetched(CopiedTo(5, 3), 5)
    epochs.fetched(CopiedTo(9, 4), 9)
    epochs.drop(0)
    assert (epochs.before(0), epochs.before(5)) == (-1, 3)
    assert not epochs.has_diverged(3, 0, is_compacted=False)
    epochs = CopiedEpochs(CopiedTo(2, 1))
    epochs.fetched(CopiedTo(5, 3), 5)
    epochs.drop(2)
    assert epochs.before(2) == 1
