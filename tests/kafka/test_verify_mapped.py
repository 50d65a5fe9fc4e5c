"""`verify` of mapped mirrors on real brokers: real transactions, a real cleaner, planted faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.cleaning import COMPACTED, Seen, hurry_cleaner, offsets, read_committed, wait_cleaned
from support.clusters import ClusterPair, fresh_name
from support.planted import Planter, Record

from heliostat.names import TopicName
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.verify.pipeline import verify_pair
from heliostat.verify.ranges import MapClaim, MapView, RangeSpec, TopicPair
from heliostat.verify.report import VerifyReport

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.core]

START_MS = 1_700_000_000_000
STEP_MS = 10
"""Between two records: more than `segment.ms`, so that every batch closes a segment."""


@pytest.fixture(scope="module")
def source(cluster_pair: ClusterPair) -> Iterator[Planter]:
    hurry_cleaner(cluster_pair.source.bootstrap)
    with Planter(cluster_pair.source.bootstrap) as made:
        yield made


@pytest.fixture(scope="module")
def target(cluster_pair: ClusterPair) -> Iterator[Planter]:
    hurry_cleaner(cluster_pair.target.bootstrap)
    with Planter(cluster_pair.target.bootstrap) as made:
        yield made


Verify = Callable[..., VerifyReport]


@pytest.fixture
def verify(spark: SparkSession, source: Planter, target: Planter) -> Verify:
    def compared(name: str, breaks: list[Break], **options: Any) -> VerifyReport:
        def read_map() -> MapView:
            mirror = "mirror." + name
            return lambda partition, _: MapClaim(breaks if partition.topic == mirror else ())

        pair = TopicPair(TopicName(name), TopicName("mirror." + name))
        return verify_pair(
            spark, source.bootstrap, target.bootstrap, [pair], read_map=read_map, **options
        )

    return compared


def counts(report: VerifyReport) -> tuple[int, int, int, int]:
    return report.lost, report.doubled, report.reordered, report.different


def map_of(seen: list[Seen]) -> list[Break]:
    """The map of a mirror that holds these records and no others."""
    return list(OffsetMap.of(Break(at, row[0]) for at, row in enumerate(seen)).breaks())


def contents(seen: list[Seen]) -> list[Record]:
    return [row[1:] for row in seen]


# -- transactions ----------------------------------------------------------------------------------


def some(number: int, seed: int) -> list[Record]:
    chance = random.Random(seed)
    return [
        (START_MS + n, b"key-%d" % chance.randrange(9), chance.randbytes(20), [("n", b"%d" % n)])
        for n in range(number)
    ]


@pytest.fixture(scope="module")
def transactional(source: Planter) -> tuple[str, list[Seen]]:
    """A topic of committed, aborted and plain records; and what readers of committed ones see."""
    name = fresh_name("verify-tx")
    source.topic(name)
    source.write(name, some(40, 1), batch_records=7)
    source.write_transaction(name, some(60, 2), commit=True)
    source.write(name, some(25, 4), codec="gzip")
    source.write_transaction(name, some(30, 3), commit=False)
    source.write_transaction(name, some(50, 5), commit=True)
    seen = read_committed(source.bootstrap, name)
    assert len(seen) == 40 + 60 + 25 + 50
    assert len(map_of(seen)) == 2  # after the first marker; after aborted records and their marker
    return name, seen


@pytest.fixture
def copied(target: Planter, transactional: tuple[str, list[Seen]]) -> Iterator[Callable[..., str]]:
    """Write a new mirror of that topic; delete it afterwards."""
    name, _ = transactional
    made: list[str] = []

    def make(rows: list[Record]) -> str:
        target.topic("mirror." + name)
        made.append(name)
        target.write("mirror." + name, rows, batch_records=33, codec="zstd")
        return name

    yield make
    for each in made:
        target.delete_topic("mirror." + each)


def test_committed_records_are_where_the_map_says(
    verify: Verify, copied: Callable[..., str], transactional: tuple[str, list[Seen]]
) -> None:
    _, seen = transactional
    name = copied(contents(seen))
    report = verify(name, map_of(seen))
    assert report.is_clean, report.lines()
    assert report.records == len(seen)
    assert report.summary_line().startswith(
        f"verified: 1 topics, {len(seen)} records, offsets as mapped, 0 lost"
    )
    told = report.to_json()
    assert (told["mapped_partitions"], told["compacted_source"]) == (1, 0)
    [detail] = told["details"]
    assert detail["mapped"]
    assert verify(name, map_of(seen), ranges=RangeSpec(is_complete=True)).is_clean
    part = verify(name, map_of(seen), ranges=RangeSpec(start=90, until=160))
    assert part.is_clean
    assert part.records == sum(90 <= row[0] < 160 for row in seen)


def _lose(rows: list[Record]) -> list[Record]:
    return [*rows[:111], *rows[112:]]


def _double(rows: list[Record]) -> list[Record]:
    return [*rows[:111], rows[108], *rows[111:]]


def _swap(rows: list[Record]) -> list[Record]:
    return [*rows[:111], rows[112], rows[111], *rows[113:]]


def _alter(rows: list[Record]) -> list[Record]:
    return [*rows[:111], (*rows[111][:2], b"altered", rows[111][3]), *rows[112:]]


FAULTS = {
    "lost": (_lose, (1, 0, 0, 0)),
    "doubled": (_double, (0, 1, 0, 0)),
    "reordered": (_swap, (0, 0, 1, 0)),
    "different": (_alter, (0, 0, 0, 1)),
}


@pytest.mark.parametrize("kind", list(FAULTS))
def test_a_planted_fault_is_named(
    verify: Verify, copied: Callable[..., str], transactional: tuple[str, list[Seen]], kind: str
) -> None:
    _, seen = transactional
    plant, expected = FAULTS[kind]
    report = verify(copied(plant(contents(seen))), map_of(seen))
    assert counts(report) == expected, report.lines()
    first = report.first_difference
    assert first is not None
    assert first["kind"] == kind
    if kind != "doubled":
        assert min(first["source_offset"], seen[112][0]) == first["source_offset"]


@pytest.mark.thorough
def test_a_wrong_row_of_the_map_is_found(
    verify: Verify, copied: Callable[..., str], transactional: tuple[str, list[Seen]]
) -> None:
    _, seen = transactional
    name = copied(contents(seen))
    first, second = map_of(seen)
    for wrong in (
        [first, Break(second.target, second.source + 1)],
        [Break(first.target, first.source - 1), second],
        [first, Break(second.target + 2, second.source + 2)],
        [first],
        [],
    ):
        report = verify(name, wrong)
        assert not report.is_clean, wrong
        assert not report.offsets_equal, wrong


def test_aborted_records_at_the_target_are_foreign(
    verify: Verify, copied: Callable[..., str], transactional: tuple[str, list[Seen]]
) -> None:
    _, seen = transactional
    rows = contents(seen)
    report = verify(copied([*rows[:100], *some(30, 3)[:5], *rows[100:]]), map_of(seen))
    assert counts(report) == (0, 0, 0, 5), report.lines()


# -- compaction ------------------------------------------------------------------------------------


def history(count: int, keys: int, seed: int, begin: int = 0) -> list[Record]:
    chance = random.Random(seed)
    return [
        (
            START_MS + (begin + n) * STEP_MS,
            b"key-%d" % chance.randrange(keys),
            None if chance.random() < 0.1 else b"value-%d" % (begin + n),
            [],
        )
        for n in range(count)
    ]


def closing(begin: int) -> list[Record]:
    """Records that close the segments before them, and supersede nothing."""
    return [
        (START_MS + (begin + n) * STEP_MS, b"closing-%d" % (begin + n), b"", []) for n in (0, 1)
    ]


KEEP_TOMBSTONES = {**COMPACTED, "delete.retention.ms": "86400000000"}


def is_one_a_key(upto: int) -> Callable[[list[Seen]], bool]:
    """Whether of each key at most one record is left before an offset."""

    def holds(seen: list[Seen]) -> bool:
        keys = [row[2] for row in seen if row[0] < upto]
        return len(keys) == len(set(keys))

    return holds


@pytest.fixture
def compacted(source: Planter) -> tuple[str, list[Seen]]:
    """A topic that was compacted before anything is copied, and what is left of it."""
    name = fresh_name("verify-compact")
    source.topic(name, configs=KEEP_TOMBSTONES)
    source.write(name, history(300, 25, 1), batch_records=20)
    source.write(name, closing(300), batch_records=1)
    seen = wait_cleaned(source.bootstrap, name, is_one_a_key(301))
    assert len(map_of(seen)) > 5
    return name, seen


@pytest.mark.thorough
def test_both_sides_compact_independently(
    verify: Verify, source: Planter, target: Planter, compacted: tuple[str, list[Seen]]
) -> None:
    name, seen = compacted
    mirror = "mirror." + name
    source.write(name, history(60, 25, 2, 302), batch_records=5)
    source.write(name, closing(362), batch_records=1)
    more = history(60, 25, 2, 302) + closing(362)
    placed = [*seen, *((302 + n, *row) for n, row in enumerate(more))]
    target.topic(mirror, configs={**COMPACTED, "cleanup.policy": "delete"})
    target.write(mirror, contents(placed), batch_records=9)
    # The source compacts at once; the target still has all.
    wait_cleaned(source.bootstrap, name, is_one_a_key(363))
    report = verify(name, map_of(placed))
    assert report.is_clean, report.lines()
    told = report.to_json()
    assert told["compacted_source"] > 20
    assert (told["compacted_target"], told["expired_source"], told["expired_target"]) == (0, 0, 0)
    # A record at the target that nothing explains is still found among them.
    target.write(mirror, [(START_MS, b"who", b"wrote this", [])])
    assert counts(verify(name, map_of(placed)))[3] == 1


@pytest.mark.thorough
def test_the_target_compacts_and_forgets_tombstones(
    verify: Verify, source: Planter, target: Planter
) -> None:
    name = fresh_name("verify-compact")
    mirror = "mirror." + name
    rows = history(200, 25, 3)
    source.topic(name)  # it does not compact, or not yet
    target.topic(mirror, configs=COMPACTED)
    source.write(name, rows + closing(200), batch_records=11)
    target.write(mirror, rows, batch_records=7)
    target.write(mirror, closing(200), batch_records=1)
    rows += closing(200)
    wait_cleaned(target.bootstrap, mirror, is_one_a_key(201))
    more = closing(202)  # a tombstone goes when it is cleaned the second time
    source.write(name, more)
    target.write(mirror, more, batch_records=1)
    rows += more
    left = wait_cleaned(
        target.bootstrap, mirror, lambda seen: all(row[3] is not None for row in seen)
    )
    assert len(left) < 40
    report = verify(name, [])
    assert report.is_clean, report.lines()
    told = report.to_json()
    newest = {row[1]: row for row in rows}
    tombstones = sum(row[2] is None for row in newest.values())
    assert told["expired_target"] == tombstones
    assert told["compacted_target"] == len(rows) - len(newest)
    assert "expired at the target" in report.summary_line()
    assert offsets(left) == [
        n for n, row in enumerate(rows) if newest[row[1]] == row and row[2] is not None
    ]


@pytest.mark.thorough
def test_faults_are_found_in_compacted_logs(
    verify: Verify, source: Planter, target: Planter, compacted: tuple[str, list[Seen]]
) -> None:
    name, seen = compacted
    mirror = "mirror." + name
    rows = contents(seen)
    for kind, (at, wrong) in {
        "lost": (9, [*rows[:9], *rows[10:]]),
        "doubled": (10, [*rows[:10], rows[4], *rows[10:]]),
        "different": (8, [*rows[:8], (*rows[8][:2], b"altered", []), *rows[9:]]),
        "map": (0, rows),
    }.items():
        target.topic(mirror, configs={**KEEP_TOMBSTONES, "segment.ms": "604800000"})
        target.write(mirror, wrong, batch_records=4)
        right = map_of(seen)
        moved = [Break(one.target, one.source + (n == 3)) for n, one in enumerate(right)]
        report = verify(name, moved if kind == "map" else right)
        assert not report.is_clean, kind
        first = report.first_difference
        assert first is not None
        if kind == "map":
            assert not report.offsets_equal
        else:
            assert getattr(report, kind) >= 1, report.lines()
            assert first["kind"] == kind
        target.delete_topic(mirror)
        assert at < len(rows)
