"""What is compared over a long line: how much is asked for at once, and by how many requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.verify import work
from heliostat.verify.both_readers import BothReaders
from heliostat.verify.fetch_fit import PARTITION_BYTES, PARTITION_BYTES_MAX, FetchFit
from heliostat.verify.ranges import Chunk, Stretch, pack
from heliostat.verify.reader import FetchedPart
from heliostat.verify.work import LARGE_TOGETHER, SMALL_RECORDS_MAX, ChunkResult, ComparedClusters

FAR_S, NEAR_S = 0.15, 0.002
NOBODY: Any = None


@pytest.mark.parametrize(
    ("round_trip_s", "bytes_per_s", "expected"),
    [
        (FAR_S, 1e9, PARTITION_BYTES_MAX),
        (FAR_S, 20e6, 4 * PARTITION_BYTES),  # 16 MiB take 0.8 s: the line is rarely idle
        (FAR_S, 5e6, PARTITION_BYTES),
        (NEAR_S, 1e9, PARTITION_BYTES),
        (NEAR_S, 20e6, PARTITION_BYTES),
    ],
)
def test_more_is_asked_for_while_round_trips_take_most_of_the_time(
    round_trip_s: float, bytes_per_s: float, expected: int
) -> None:
    fit = FetchFit()
    fit.answered(round_trip_s)
    for _ in range(8):
        fit.fetched(fit.partition_bytes - 999, round_trip_s + fit.partition_bytes / bytes_per_s)
    assert fit.partition_bytes == expected


def test_a_short_answer_asks_for_no_more() -> None:
    """Given a log whose end has come / then nothing shows that more would fit."""
    fit = FetchFit()
    fit.answered(FAR_S)
    fit.fetched(PARTITION_BYTES // 4, FAR_S)
    assert fit.partition_bytes == PARTITION_BYTES


class Reader:
    """A reader that counts its fetches; each answer has something."""

    def __init__(self, round_trip_s: float) -> None:
        self.fit = FetchFit()
        self.fit.answered(round_trip_s)
        self.fetches: list[tuple[int, int]] = []
        """Partitions and bytes of each."""

    def fetch(
        self, positions: dict[TopicPartition, int], partition_bytes: int
    ) -> dict[TopicPartition, FetchedPart]:
        self.fetches.append((len(positions), partition_bytes))
        return {one: FetchedPart(at, b"x", (), 1) for one, at in positions.items()}


def chunk(number: int, records: int) -> Chunk:
    one = TopicPartition(TopicName("t"), PartitionId(number))
    return Chunk(number, one, one, 0, records, records)


def test_larger_pieces_share_requests_to_the_side_that_is_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given pieces too large to be fetched by the hundred / then a far side is asked for eight."""
    readers: Any = BothReaders(Reader(NEAR_S), Reader(FAR_S))  # type: ignore[arg-type]  # fakes
    firsts: list[tuple[bool, bool]] = []

    @contextmanager
    def opened(*_: object) -> Iterator[BothReaders]:
        yield readers

    def compared(*given: Any) -> ChunkResult:
        firsts.append((given[4][0] is not None, given[4][1] is not None))
        return ChunkResult(given[3].stretch, 0)

    monkeypatch.setattr(work, "both_readers", opened)
    monkeypatch.setattr(work, "_compare_chunk", compared)
    large = [chunk(n, SMALL_RECORDS_MAX + 1) for n in range(2 * LARGE_TOGETHER)]
    small = [chunk(50 + n, 5) for n in range(20)]
    found = list(work.compare_chunks(ComparedClusters(NOBODY, NOBODY), [*large, *small]))
    assert [each.stretch for each in found] == [each.stretch for each in [*large, *small]]
    assert readers.target.fetches == [
        (LARGE_TOGETHER, PARTITION_BYTES),
        (LARGE_TOGETHER, PARTITION_BYTES),
        (20, work.SMALL_BYTES),
    ]
    assert readers.source.fetches == [(20, work.SMALL_BYTES)]
    assert firsts == [(False, True)] * len(large) + [(True, True)] * len(small)


@pytest.mark.parametrize(
    ("topics", "records", "tasks"), [(20, 20, 1), (200, 2, 3), (3_348, 1, 8), (1, 10_000_000, 8)]
)
def test_little_work_is_for_few_tasks(topics: int, records: int, tasks: int) -> None:
    """Each task connects to both sides first: over a long line that takes a second."""
    stretches = [
        Stretch(one.source, one.target, 0, records, records, records)
        for one in (chunk(n, records) for n in range(topics))
    ]
    shares = pack(stretches, 8)
    assert len(shares) == tasks
