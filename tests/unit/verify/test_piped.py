"""A source seen through a pipeline: what it drops is no loss, what it changes must be changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.planted import Record
from unit.verify.test_mapped import PARTITION, Log, places_of, record

from heliostat.names import Offset, OffsetRange, TopicName, TopicPartition
from heliostat.verify import piped
from heliostat.verify.piped import Pipe
from heliostat.verify.places import EXACT
from heliostat.verify.ranges import Chunk, Stretch
from heliostat.verify.schema_ids import MirroredIds
from heliostat.verify.stream import PartitionStream
from heliostat.verify.stream_values import ConsumedRecord
from heliostat.verify.tails import offsets_without_record
from heliostat.verify.work import ComparedClusters, Differing, _compare_chunk, _explained

COUNT = 90


class Pipes:
    """Drops every third offset and adds to all other values; notes what it was given."""

    def __init__(self, *topics: TopicName) -> None:
        self.topics = frozenset(topics)
        self.given: list[tuple[int, int, bool]] = []
        self.failed: dict[TopicPartition, dict[Offset, str]] = {}

    def of(self, partition: TopicPartition) -> Pipe:
        assert partition == PARTITION
        return self._made

    def _made(
        self, rows: Sequence[ConsumedRecord], *, is_log_append_time: bool
    ) -> list[ConsumedRecord]:
        self.given.append((rows[0][0], rows[-1][0], is_log_append_time))
        return [(row[0], *made(row[1:])) for row in rows if is_kept(row[0])]


def is_kept(offset: int) -> bool:
    return offset % 3 != 0


def made(row: Any) -> Record:
    timestamp, key, value, headers = row
    return timestamp, key, value + b"!", headers


KEPT = [n for n in range(COUNT) if is_kept(n)]
MIRROR = {n: made(record(n)) for n in KEPT}


def source() -> Log:
    log = Log()
    for begin in range(0, COUNT, 10):
        log.append(begin, [record(n) for n in range(begin, begin + 10)], "lz4")
    return log


def mirror(rows: list[Record], *, is_exact: bool = False) -> Log:
    log = Log()
    if is_exact:
        for offset, row in zip(KEPT, rows, strict=True):
            log.append(offset, [row])
    else:
        log.append(0, rows, "gzip")
    return log


def differs_at(
    rows: list[Record],
    pipes: Pipes,
    start: int = 0,
    end: int = COUNT,
    *,
    is_exact: bool = False,
    ids: MirroredIds | None = None,
) -> int | None:
    readers: Any = source(), mirror(rows, is_exact=is_exact)
    places = EXACT if is_exact else places_of(KEPT)
    chunk = Chunk(0, PARTITION, PARTITION, start, end, places.target_at(end), places)
    nobody: Any = None
    sides = ComparedClusters(nobody, nobody, ids=ids or MirroredIds(), pipes=pipes)
    found = _compare_chunk(sides, *readers, chunk, (None, None))
    assert found.error is None
    if found.differs_at is None:
        assert found.records == sum(start <= n < end for n in KEPT)
    return found.differs_at


@pytest.mark.parametrize("is_exact", [False, True])
def test_a_mirror_has_what_the_pipeline_makes(is_exact: bool) -> None:
    """Given pieces that begin and end amid batches / then each record must be as it was made."""
    right = list(MIRROR.values())
    for start, end in ((0, COUNT), (0, 15), (15, 37), (3, 4), (37, COUNT)):
        assert differs_at(right, Pipes(PARTITION.topic), start, end, is_exact=is_exact) is None
    assert differs_at(right, Pipes(), is_exact=is_exact) is not None
    for place in (0, 7, len(KEPT) - 1):
        wrong = list(right)
        wrong[place] = record(KEPT[place])
        assert differs_at(wrong, Pipes(PARTITION.topic), is_exact=is_exact) == KEPT[place]


def test_ids_are_those_of_what_was_made() -> None:
    """Given a pipeline, and a map of ids / then ids are mapped behind the pipeline."""
    ids = MirroredIds.of({1: 2}, {}, values=[PARTITION.topic])

    class Framing(Pipes):
        def _made(
            self, rows: Sequence[ConsumedRecord], *, is_log_append_time: bool
        ) -> list[ConsumedRecord]:
            return [(row[0], row[1], row[2], b"\0\0\0\0\1", row[4]) for row in rows[1:2]]

    for number, expected in ((2, None), (1, 1)):
        rows = [(1_001, b"k1", b"\0\0\0\0" + bytes([number]), [("h", b"1")])]
        readers: Any = source(), mirror(rows)
        chunk = Chunk(0, PARTITION, PARTITION, 0, COUNT, 1, places_of([1]))
        nobody: Any = None
        sides = ComparedClusters(nobody, nobody, ids=ids, pipes=Framing(PARTITION.topic))
        assert _compare_chunk(sides, *readers, chunk, (None, None)).differs_at == expected


def test_what_differs_is_explained_with_what_was_made() -> None:
    """Given a mirror that lacks a record and has a wrong one / then both are named."""
    rows = list(MIRROR.values())
    rows[5] = record(KEPT[5])
    del rows[40]
    readers: Any = source(), mirror(rows)
    stretch = Stretch(
        source=PARTITION,
        target=PARTITION,
        start=0,
        end=COUNT,
        source_stop=COUNT,
        target_stop=len(rows),
        is_cut=False,
        places=places_of([*KEPT[:40], *KEPT[41:]]),
    )
    nobody: Any = None
    sides = ComparedClusters(nobody, nobody, pipes=Pipes(PARTITION.topic))
    found = _explained(*readers, Differing(0, stretch, 0), sides.views(PARTITION)).findings
    assert (found.lost, found.different, found.doubled, found.reordered) == (1, 1, 0, 0)
    assert [each.source_offset for each in found.differences] == [KEPT[5], KEPT[40]]


def test_batches_go_together_as_far_as_room_and_kind_of_timestamps_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given batches, one with the broker's timestamps / then few jobs have them all, in order."""
    pipes = Pipes(PARTITION.topic)
    monkeypatch.setattr(piped, "RECORDS_TOGETHER", 25)
    log: Any = source()
    batches = list(PartitionStream(log, PARTITION, 0, COUNT))
    batches[4] = replace(batches[4], meaning=(0x08, *batches[4].meaning[1:]))  # KIP-32
    made_of = piped.piped(batches, pipes.of(PARTITION))
    assert [row[0] for each in made_of for row in each.rows(0, COUNT)] == KEPT
    assert pipes.given == [
        (0, 24, False),
        (25, 29, False),
        (30, 39, False),
        (40, 49, True),
        (50, 74, False),
        (75, 79, False),
        (80, 89, False),
    ]


def test_a_batch_that_is_large_when_opened_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given records whose batch is small as stored / then no piece has much more than the limit."""
    size = 100_000
    rows: list[Record] = [(1_000, b"k", bytes(size), []) for _ in range(30)]
    log: Any = Log()
    log.append(0, rows, "gzip")
    assert len(log.batches[0][2]) < size / 10
    monkeypatch.setattr(piped, "BYTES_TOGETHER", 7 * size)
    pipes = Pipes(PARTITION.topic)
    (batch,) = piped.piped(PartitionStream(log, PARTITION, 0, 30), pipes.of(PARTITION))
    assert [(first, last) for first, last, _ in pipes.given] == [
        (0, 6),
        (7, 13),
        (14, 20),
        (21, 27),
        (28, 29),
    ]
    assert [row[0] for row in batch.rows(0, 30)] == [n for n in range(30) if is_kept(n)]


def test_records_that_are_filtered_out_do_not_lag() -> None:
    """Given an end of the source of which a pipeline keeps a part / then only that is counted."""
    tail = OffsetRange(PARTITION, Offset(80), Offset(COUNT))
    nobody: Any = None
    sides = ComparedClusters(nobody, nobody, pipes=Pipes(PARTITION.topic))
    log: Any = source()
    log.fetch = lambda positions, *_: {
        one: log.fetch_alone(one, at) for one, at in positions.items()
    }
    assert offsets_without_record(log, [tail], sides.views) == sum(
        not is_kept(n) for n in range(80, COUNT)
    )
