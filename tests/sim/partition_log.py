"""A small model of one partition's log with Kafka's sequence rules.

`tests/kafka/test_log_contract.py` holds it to a real broker, so that the simulation cannot lie.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

HEADER = struct.Struct(">qiibIhiqqqhii")
MODULUS = 2**31
REMEMBERED_BATCHES = 5

NONE, OUT_OF_ORDER, STALE_EPOCH, INVALID_RECORD = 0, 45, 47, 87


@dataclass(frozen=True, slots=True)
class StoredBatch:
    base_offset: int
    count: int
    data: bytes


@dataclass(slots=True)
class Producer:
    epoch: int
    batches: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )
    """First sequence, last sequence, base offset."""
    last_timestamp_ms: int = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1]


class PartitionLog:
    """One replica, everything committed at once."""

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.start = 0
        self.end = 0
        self.producers: dict[int, Producer] = {}

    def append(self, data: bytes) -> tuple[int, int]:
        """Error code and base offset, as a produce answer gives them."""
        fields = HEADER.unpack_from(data, 0)
        _, _, _, _, _, _, last_delta, _, max_timestamp, pid, epoch, sequence, count = fields
        if fields[0] != 0 or count != last_delta + 1 or count < 1:
            return INVALID_RECORD, -1
        if pid >= 0:
            if sequence < 0:
                return INVALID_RECORD, -1
            answer = self._check_sequence(pid, epoch, sequence, count)
            if answer is not None:
                return answer
        base = self.end
        self.batches.append(StoredBatch(base, count, data))
        self.end += count
        if pid >= 0:
            known = self.producers.get(pid)
            if known is None or known.epoch != epoch:
                known = self.producers[pid] = Producer(epoch)
            known.batches.append((sequence, (sequence + count - 1) % MODULUS, base))
            known.last_timestamp_ms = max_timestamp
        return NONE, base

    def _check_sequence(
        self, pid: int, epoch: int, sequence: int, count: int
    ) -> tuple[int, int] | None:
        known = self.producers.get(pid)
        if known is None:
            return None  # unknown producer: any first sequence is taken
        if epoch < known.epoch:
            return STALE_EPOCH, -1
        if epoch > known.epoch:
            return None if sequence == 0 else (OUT_OF_ORDER, -1)
        last = (sequence + count - 1) % MODULUS
        for first, end, base in known.batches:
            if (first, end) == (sequence, last):
                return NONE, base
        if sequence != (known.last_sequence + 1) % MODULUS:
            return OUT_OF_ORDER, -1
        return None

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """The sweep: producers are forgotten by the timestamp of their last batch."""
        self.producers = {
            pid: producer
            for pid, producer in self.producers.items()
            if now_ms - producer.last_timestamp_ms < expiration_ms
        }

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, min(offset, self.end))

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Whole batches from the one that holds `offset` on; at least one if there is any."""
        out: list[bytes] = []
        size = 0
        for batch in self.batches:
            if batch.base_offset + batch.count <= offset:
                continue
            if out and size + len(batch.data) > bytes_max:
                break
            stored = bytearray(batch.data)
            struct.pack_into(">q", stored, 0, batch.base_offset)
            out.append(bytes(stored))
            size += len(stored)
        return b"".join(out)
