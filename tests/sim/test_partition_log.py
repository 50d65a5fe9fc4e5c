"""The model of a log by itself: the effect of cleaning, transactions and truncation."""

from __future__ import annotations

from sim.log_batches import (
    DELETE_HORIZON,
    GZIP,
    TRANSACTIONAL,
    Fields,
    Kept,
    control_kind,
    encode,
    fields_of,
    marker,
    records_of,
)
from sim.partition_log import OUT_OF_ORDER, PartitionLog

NOW_MS = 1_750_000_000_000
PLAIN, FIRST, SECOND = -1, 71, 72


def batch(pid: int, sequence: int, *keys: str, value: bytes | None = b"v") -> bytes:
    attributes = TRANSACTIONAL if pid >= 0 else 0
    kept = [Kept(n, NOW_MS + n, key.encode(), value) for n, key in enumerate(keys)]
    fields = Fields(
        attributes, len(keys) - 1, NOW_MS, NOW_MS, pid, 0 if pid >= 0 else -1, sequence, 0
    )
    return encode(fields, kept)


def visible(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    return [(offset, record.key) for offset, record in log.committed()]


def test_own_encoding_is_read_by_another_codec() -> None:
    kept = (
        Kept(3, NOW_MS + 5, None, b"x" * 300, (("h", None), ("", b"1"))),
        Kept(9, NOW_MS, b"", None),
    )
    for codec in (0, GZIP):
        data = encode(Fields(codec, 11, NOW_MS, NOW_MS, 5, 1, 7, 0), kept)
        assert records_of(data) == kept
    assert (fields_of(data).last_delta, fields_of(data).count) == (11, 2)
    assert control_kind(marker(5, 1, NOW_MS, 0)) == 0
    assert control_kind(marker(5, 1, NOW_MS, 1)) == 1


def test_open_transactions_hold_the_stable_end_back() -> None:
    log = PartitionLog()
    log.append(batch(PLAIN, -1, "a"))
    log.append(batch(FIRST, 0, "b", "c"))
    log.append(batch(SECOND, 0, "d"))
    assert (log.last_stable_offset, log.end) == (1, 4)
    log.end_transaction(FIRST, 0, NOW_MS, commit=True)
    assert log.last_stable_offset == 3
    log.end_transaction(SECOND, 0, NOW_MS, commit=False)
    assert (log.last_stable_offset, log.end) == (6, 6)
    assert visible(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert log.aborted_from(0, 6) == [(SECOND, 3)]
    assert log.aborted_from(6, 9) == []
    assert len(log.read(0, 10**6, committed=True)) == len(log.read(0, 10**6))


def test_cleaning_keeps_the_newest_record_of_each_key_at_its_offset() -> None:
    log = PartitionLog()
    log.append(batch(PLAIN, -1, "a", "b", "a"))
    log.append(batch(FIRST, 0, "b", "c"))
    log.end_transaction(FIRST, 0, NOW_MS, commit=False)
    log.append(batch(PLAIN, -1, "c", "a"))
    log.append(batch(PLAIN, -1, "a"))
    log.clean(8)
    assert visible(log) == [(1, b"b"), (6, b"c"), (7, b"a"), (8, b"a")]
    assert [(each.base_offset, each.next_offset) for each in log.batches] == [
        (0, 3),
        (5, 6),
        (6, 8),
        (8, 9),
    ]
    assert log.end == 9


def test_tombstones_get_a_delete_horizon_and_are_removed_after_it() -> None:
    log = PartitionLog()
    log.append(batch(PLAIN, -1, "a", "b"))
    log.append(batch(PLAIN, -1, "a", value=None))
    log.clean(3, horizon_ms=NOW_MS + 86_400_000)
    assert visible(log) == [(1, b"b"), (2, b"a")]
    assert all(fields_of(each.data).attributes & DELETE_HORIZON for each in log.batches)
    assert [record.timestamp for _, record in log.committed()] == [NOW_MS + 1, NOW_MS]
    log.clean(3, drops_tombstones=True)
    assert visible(log) == [(1, b"b")]


def test_markers_stay_as_long_as_their_records_and_empty_ones_where_they_are_last() -> None:
    log = PartitionLog()
    log.append(batch(FIRST, 0, "a"))
    log.append(batch(FIRST, 1, "a"))
    log.end_transaction(FIRST, 0, NOW_MS, commit=False)
    log.append(batch(SECOND, 0, "b"))
    log.end_transaction(SECOND, 0, NOW_MS, commit=True)
    log.clean(5, drops_markers=True)
    kept = [(each.base_offset, fields_of(each.data).count) for each in log.batches]
    assert kept == [(2, 1), (3, 1), (4, 1)]
    assert len(log.aborted) == 1
    log.clean(5, drops_markers=True)
    kept = [(each.base_offset, fields_of(each.data).count) for each in log.batches]
    assert kept == [(2, 0), (3, 1), (4, 1)]
    assert log.aborted == []


def test_truncation_removes_whole_batches_and_their_producer_state() -> None:
    log = PartitionLog()
    log.append(batch(FIRST, 0, "a"))
    log.append(batch(FIRST, 1, "b", "c"))
    log.truncate(2)
    assert (log.end, log.leader_epoch) == (1, 1)
    assert log.append(batch(FIRST, 3, "d"))[0] == OUT_OF_ORDER
    assert log.append(batch(FIRST, 1, "d")) == (0, 1)
    assert log.batches[-1].leader_epoch == 1
    assert log.open == {FIRST: 0}
