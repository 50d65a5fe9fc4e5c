"""How `plan` reports source records that expired before they were copied."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.gaps.gone_records import LISTED_MAX, gone_lines
from heliostat.gaps.ledger import CopiedTopic, CopyNote
from heliostat.names import Offset, PartitionId, TopicId, TopicName, TopicPartition, id_text
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapReader, MapRow
from heliostat.state.link_state import Starts
from heliostat.topics.topic_plan import Mirror

T = TopicName("t")


class Clusters:
    """A topic with 200 records at the source, and its mirror, as a plan observes them."""

    def __init__(self, *, copied: int, gone_to: int, begin: int = 0, partitions: int = 1) -> None:
        self.source, self.target = SimulatedCluster(), SimulatedCluster()
        for cluster, records in ((self.source, 200), (self.target, copied)):
            cluster.create(T, partitions)
            for number in range(partitions):
                for _ in range(records // 10):
                    cluster.append(T, 10, partition=number)
        for log in self.source.topics[T].logs:
            log.delete_before(gone_to)
        self.target_id = self.target.topics[T].topic_id or TopicId(
            "00000000-0000-0000-0000-000000000001"
        )
        offsets = {PartitionId(number): Offset(begin) for number in range(partitions)}
        self.starts = {T: Starts(self.target_id, offsets)}
        self.maps, self.reads = MapReader(), 0
        self.partitions = partitions

    def lines(self, *notes: CopyNote) -> tuple[str, ...]:
        n = self.partitions
        mirror = Mirror(
            *(T, T, None, self.target_id, n, n, "earliest", 1 << 20),
            is_compacted=False,
            is_log_append_time=False,
        )
        admins = SimulatedAdmin(self.source), SimulatedAdmin(self.target)
        by_number = {PartitionId(number): note for number, note in enumerate(notes)}
        noted = {T: CopiedTopic("", by_number)}
        return gone_lines([mirror], self.starts, *admins, self._read, noted=lambda: noted)

    def _read(self) -> MapReader:
        self.reads += 1
        return self.maps


def test_what_a_pipeline_left_nothing_of_is_not_gone() -> None:
    """Given source offsets that the link has noted as copied / when they expire / then no line;

    a note that is of another end of the mirror says nothing.
    """
    clusters = Clusters(copied=100, gone_to=150)
    assert clusters.lines(CopyNote(150, 0, 100)) == ()
    [line] = clusters.lines(CopyNote(140, 0, 100))
    assert line.startswith("t-0: source offsets 140 to 149 are gone")
    assert len(clusters.lines(CopyNote(150, 0, 90))) == 1


def test_expired_records_after_the_mirrors_end_are_reported_with_offsets() -> None:
    [line] = Clusters(copied=100, gone_to=150).lines()
    assert line.startswith("t-0: source offsets 100 to 149 are gone before they were copied")


@pytest.mark.parametrize(
    ("copied", "gone_to", "begin"),
    [
        (150, 150, 0),
        (200, 150, 0),
        (0, 150, 0),  # it just begins later
        (100, 150, 100),  # nothing was copied after the start
    ],
)
def test_nothing_is_gone_if_copied_or_if_the_mirror_is_empty(
    copied: int, gone_to: int, begin: int
) -> None:
    sides = Clusters(copied=copied, gone_to=gone_to, begin=begin)
    assert sides.lines() == ()


def test_a_map_is_read_only_where_offsets_may_differ() -> None:
    """Given a compacted source whose mirror has fewer records / then its position counts."""
    sides = Clusters(copied=100, gone_to=150)
    target = TopicPartition(T, PartitionId(0))
    key = RowKey(target, id_text(sides.target_id), 40, Stamp(1, 1))
    sides.maps.take(MapRow(key, (Break(Offset(40), Offset(90)),)))
    assert (sides.lines(), sides.reads) == ((), 1)  # 100 at the target is 150 at the source
    assert (Clusters(copied=160, gone_to=150).lines(), sides.reads) == ((), 1)


def test_a_recreated_mirror_has_copied_nothing() -> None:
    sides = Clusters(copied=100, gone_to=150)
    other = TopicId("00000000-0000-0000-0000-000000000007")
    sides.starts[T] = replace(sides.starts[T], target_id=other)
    assert sides.lines() == ()


def test_unreadable_partitions_are_left_out() -> None:
    sides = Clusters(copied=100, gone_to=150, partitions=2)
    sides.source.fail("list_offsets", 6, TopicPartition(T, PartitionId(0)))
    sides.target.fail("list_log_ends", 6, TopicPartition(T, PartitionId(1)))
    assert sides.lines() == ()


def test_of_thousands_a_few_are_named() -> None:
    lines = Clusters(copied=100, gone_to=150, partitions=LISTED_MAX + 3).lines()
    assert len(lines) == LISTED_MAX + 1
    assert lines[-1] == "and 3 more partitions lack records"
