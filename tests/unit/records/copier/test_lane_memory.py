"""Memory that a lane keeps of answers is counted, and released above its bound."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from support.records import Sample, encode
from support.tools import ROOT

from heliostat.clusters.wire.buffers import HeldBytes
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import BatchPlace, ConvertedBatch, ConvertSettings
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.lane_memory import COPY_OUT_EVERY_S, PROCESS_BYTES, LaneMemory
from heliostat.records.copier.network import LogRange
from heliostat.records.copier.partition_copy import PartitionCopy

NOW_MS = 1_800_000_000_000
ANSWER_BYTES = 1 << 20
BOUND = 4 * ANSWER_BYTES
EXPIRATION_S = 1000.0
OLD_MS = int(NOW_MS - EXPIRATION_S * 1000)
SETTINGS = CopySettings(join_below_bytes=0, producer_expiration_s=EXPIRATION_S)


class Answers:
    """Stands in for the network: what it has answered, and whether copies were asked for."""

    def __init__(self) -> None:
        self.held = HeldBytes()
        self.copied = 0

    def held_bytes(self) -> int:
        return self.held.bytes

    def copy_unsent(self) -> None:
        self.copied += 1


class Lane:
    """Partitions, and answers that they share."""

    def __init__(self, partitions: int) -> None:
        self.network: Any = Answers()
        self.memory = LaneMemory(self.network, BOUND)
        self.items: list[PartitionCopy] = []
        for number in range(partitions):
            name = TopicPartition(TopicName("t"), PartitionId(number))
            spec = PartitionSpec(name, name, None, None, Offset(0), 2 << 20, is_compacted=False)
            item = PartitionCopy(number, spec, SETTINGS, 7, NOW_MS, holds_old=True)
            item.begin_at(LogRange(Offset(0), Offset(0)), None, OffsetMap(), NOW_MS)
            self.items.append(item)

    def answer(self, *sizes: int) -> None:
        """One answer of a batch for each partition; the first one's are too old to be sent yet."""
        batches = []
        for number, (item, size) in enumerate(zip(self.items, sizes, strict=True)):
            sample = Sample(b"k", bytes(size), NOW_MS if number else OLD_MS)
            batch = bytearray(encode([sample]))
            batch[:8] = item.fetches.offset.to_bytes(8, "big")
            batches.append(batch)
        buffer = self.network.held.view(bytearray(b"".join(batches)))
        at = 0
        for item, batch in zip(self.items, batches, strict=True):
            end = item.fetches.offset + 1
            item.fetched(buffer, at, at + len(batch), high_watermark=end, now_s=0.0, now_ms=NOW_MS)
            self.memory.note(item)
            at += len(batch)

    def acknowledge(self) -> None:
        """All that may be sent is sent, and answered."""
        for item in self.items:
            while (send := item.next_send(0.0, NOW_MS)) is not None:
                send.batch.let_go()
                assert item.appended(send.batch, send.batch.base_offset, NOW_MS)

    def room(self, now_s: float = 0.0) -> int:
        return self.memory.room_bytes(now_s)


def test_a_small_batch_counts_as_the_answer_that_it_keeps() -> None:
    """Given an answer of which one small batch waits / when counted / then the whole answer is."""
    lane = Lane(2)
    lane.answer(10, ANSWER_BYTES)
    assert lane.room() < BOUND - ANSWER_BYTES
    lane.acknowledge()
    assert (lane.items[0].appends.queued_bytes, len(lane.items[0].appends.queue)) == (79, 1)
    assert lane.room() < BOUND - ANSWER_BYTES


def test_at_the_bound_waiting_batches_are_copied_out() -> None:
    """Given small batches that keep as many answers as fit / when checked / then there is room,
    each has its own bytes, unchanged.
    """
    lane = Lane(2)
    for _ in range(4):
        lane.answer(10, ANSWER_BYTES)
        lane.acknowledge()
    came = [b"".join(map(bytes, batch.parts)) for batch in lane.items[0].appends.queue]
    assert lane.network.held.bytes > BOUND
    assert lane.room() > BOUND - 10_000
    assert (lane.network.held.bytes, lane.network.copied) == (0, 1)
    assert [b"".join(map(bytes, batch.parts)) for batch in lane.items[0].appends.queue] == came
    assert lane.items[0].appends.kept_bytes > sum(map(len, came))


def test_nothing_is_copied_while_there_is_room() -> None:
    lane = Lane(2)
    for _ in range(3):
        lane.answer(10, ANSWER_BYTES)
        lane.acknowledge()
    assert lane.room() > 0
    assert all(batch.is_view for batch in lane.items[0].appends.queue)
    assert lane.network.copied == 0


def test_answers_that_mostly_wait_are_not_copied() -> None:
    """Given a partition that fills the bound by itself / when checked / then

    nothing is copied, and there is no room before it has been acknowledged.
    """
    lane = Lane(2)
    for _ in range(4):
        lane.answer(ANSWER_BYTES, 10)
        lane.acknowledge()
    assert lane.room() <= 0
    assert all(batch.is_view for batch in lane.items[0].appends.queue)
    lane.items[0].appends.holds_old = lane.items[0].appends.looked_early = False
    lane.acknowledge()
    assert lane.room() == BOUND


def test_waiting_batches_are_scanned_only_now_and_then() -> None:
    """Given a bound that is reached for long / when asked on each turn / then few scans."""
    lane = Lane(1)
    for _ in range(4):
        lane.answer(ANSWER_BYTES)
    for turn in range(10):
        assert lane.room(turn * COPY_OUT_EVERY_S / 5) <= 0
    assert lane.network.copied == 2


def test_dropped_batches_are_not_counted() -> None:
    """Given copied and other batches / when a partition restarts or stops / then none counts."""
    for is_stopped in (False, True):
        lane = Lane(2)
        for _ in range(4):
            lane.answer(10, ANSWER_BYTES)
            lane.acknowledge()
        assert 0 < lane.room() < BOUND
        lane.answer(10, 10)
        for item in lane.items:
            if is_stopped:
                item.stop(item.standing.state, "CODE", "why", NOW_MS)
            else:
                item.look_again(NOW_MS)
        assert lane.room() == BOUND


def kept_by(batches: list[ConvertedBatch]) -> int:
    return sum(batch.own_bytes for batch in batches)


CASES = {
    "split": ([60_000] * 16, 100_000, None),
    "joined": ([300] * 500, 1 << 20, None),
    "joined, one at a time": ([171] * 3, 1 << 20, None),
    "compressed": ([300] * 500, 1 << 20, Codec.ZSTD),
}


@pytest.mark.parametrize("case", CASES)
def test_reencoded_batches_keep_the_memory_that_is_counted(case: str) -> None:
    """Given records that are split, or joined / when converted / then

    what they keep is counted, and is not much more than their bytes. Each part of a batch that was
    split kept room for the whole of it.
    """
    sizes, batch_bytes_max, compression = CASES[case]
    values = random.Random(1)
    samples = [Sample(b"k", values.randbytes(size), NOW_MS) for size in sizes]
    rows = [samples] if case == "split" else [[each] for each in samples]
    stored = bytearray()
    for offset, row in enumerate(rows):
        batch = bytearray(encode(row))
        batch[:8] = offset.to_bytes(8, "big")
        stored += batch
    settings = ConvertSettings(7, batch_bytes_max, compression=compression)
    convert(
        bytearray(stored), 0, len(stored), BatchPlace.same(0), settings
    )  # what is kept for reuse
    tracemalloc.start()
    try:
        outcome = convert(stored, 0, len(stored), BatchPlace.same(0), settings)
        assert outcome.stop is None
        traced, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    sizes_of = sum(batch.size for batch in outcome.batches)
    kept = kept_by(outcome.batches)
    assert sizes_of - 61 * len(outcome.batches) <= kept <= 2.5 * sizes_of
    assert traced <= kept + 1000 * len(outcome.batches) + (1 << 20)


def test_a_process_that_is_ready_to_copy_is_within_its_documented_memory() -> None:
    """Given what a lane's process imports and compiles / when it is ready / then it has room for
    the state of its partitions.
    """
    code = (
        "from heliostat.records.spark import pipeline, warm_up; warm_up.warm_up();"
        "print(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) * 1024 < PROCESS_BYTES - (32 << 20)
