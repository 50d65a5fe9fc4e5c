"""Which batches of an answer belong to aborted transactions, however many there are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.batches import CONTROL, TRANSACTIONAL, Record, StoredBatch, marker

from heliostat.errors import BatchError
from heliostat.records.batches.aborted import Aborted, AbortedTransactions, forget_aborted
from heliostat.records.batches.batch import BatchHeader, check_crc, read_header

RECORDS_MAX = 4


def header(base_offset: int, records: int, producer_id: int) -> BatchHeader:
    return BatchHeader(
        *(base_offset, 100, 0, 2, 0, TRANSACTIONAL, records - 1, 0, 0, producer_id, 0, 0, records)
    )


def marker_header(base_offset: int, size: int, producer_id: int) -> BatchHeader:
    length = size - 12
    attributes = CONTROL | TRANSACTIONAL
    return BatchHeader(base_offset, length, 0, 2, 0, attributes, 0, 0, 0, producer_id, 0, -1, 1)


class Log:
    """Transactions of some producers, one batch or more each, mixed with one another."""

    def __init__(self, chance: random.Random, producers: int, transactions: int) -> None:
        self.aborted: list[Aborted] = []
        self.entries: list[tuple[BatchHeader, bytes | None, bool]] = []
        """Header, the bytes of a marker, and whether it is of an aborted transaction."""
        at = 0
        open_ones: dict[int, tuple[int, bool]] = {}
        begun = 0
        while begun < transactions or open_ones:
            producer = chance.randrange(producers)
            if producer not in open_ones and begun < transactions:
                begun += 1
                open_ones[producer] = at, chance.random() < 0.5
            if producer not in open_ones:
                continue
            first, is_aborted = open_ones[producer]
            if at > first and chance.random() < 0.6:
                data = marker(at, producer, commits=not is_aborted).encode()
                self.entries.append((marker_header(at, len(data), producer), data, False))
                if is_aborted:
                    self.aborted.append(Aborted(producer, first))
                del open_ones[producer]
                at += 1
            else:
                records = chance.randint(1, RECORDS_MAX)
                self.entries.append((header(at, records, producer), None, is_aborted))
                at += records
        chance.shuffle(self.aborted)


def told(log: Log, *, asks_twice: bool = False) -> list[bool]:
    transactions = AbortedTransactions(log.aborted)
    found = []
    for place, (each, data, _) in enumerate(log.entries):
        for _ in range(1 + asks_twice):
            if data is not None:
                transactions.take_marker(data, 0, each)
        if asks_twice and place:
            before, old, _ = log.entries[place - 1]
            if old is not None:
                transactions.take_marker(old, 0, before)
        found.append(data is None and transactions.has_aborted(each))
    return found


@pytest.mark.parametrize("asks_twice", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_batches_of_aborted_transactions_and_no_others(seed: int, *, asks_twice: bool) -> None:
    chance = random.Random(seed)
    log = Log(chance, producers=chance.randint(1, 4), transactions=40)
    assert told(log, asks_twice=asks_twice) == [is_aborted for _, _, is_aborted in log.entries]


def test_thousands_of_aborted_transactions_are_matched_quickly() -> None:
    """Each batch was compared with each aborted transaction and each marker: this took an hour."""
    log = Log(random.Random(1), producers=1, transactions=10_000)
    assert told(log) == [is_aborted for _, _, is_aborted in log.entries]


def test_batches_of_aborted_transactions_are_left_without_records() -> None:
    """Given an answer with aborted transactions / then their batches keep offsets and a valid

    checksum, and have no records; a damaged one stays damaged, and others are as they were.
    """
    batch = StoredBatch(
        0, (Record(5, b"k", b"v"),) * 3, more_attributes=TRANSACTIONAL, producer_id=1
    )
    others = [
        replace(batch, base_offset=3, producer_id=2),
        marker(6, 1, commits=False),
        replace(batch, base_offset=7),
    ]
    data = bytearray(batch.encode() + b"".join(each.encode() for each in others))
    before = bytes(data)
    forget_aborted(data, 0, len(data), [Aborted(1, 0)])
    size = len(batch.encode())
    assert data[size:] == before[size:]
    header = read_header(data, 0, len(data))
    assert header is not None
    assert (header.next_offset, header.records_count) == (3, 0)
    check_crc(data, 0, header)
    damaged = bytearray(before)
    damaged[size - 1] ^= 1
    forget_aborted(damaged, 0, len(damaged), [Aborted(1, 0)])
    header = read_header(damaged, 0, len(damaged))
    assert header is not None
    with pytest.raises(BatchError, match="checksum"):
        check_crc(damaged, 0, header)
