"""The age of the oldest missing record of a partition that copies nothing: read once."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from sim.log_answers import batches_of
from sim.partition_log import PartitionLog
from support.simulated_cluster import SimulatedCluster

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.copier.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.copier.lane_copies import ask_high_watermarks
from heliostat.records.copier.network import LogRange
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_report import report_of
from heliostat.records.transport.mirror_ends import times_at

P = TopicPartition(TopicName("t"), PartitionId(0))
NOW_MS = 1_700_000_000_000


def source_of(*batches: list[int]) -> PartitionLog:
    """Batches of records of so many ms ago."""
    cluster = SimulatedCluster()
    cluster.create(P.topic)
    for ages in batches:
        cluster.append(P.topic, [NOW_MS - age for age in ages])
    return cluster.log(P) or PartitionLog()


class Stopped:
    """A partition that is stopped at an offset of its source."""

    def __init__(self, position: int, *batches: list[int]) -> None:
        spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
        self.copy = PartitionCopy(0, spec, CopySettings(), 7, NOW_MS)
        self.copy.progress.position = position
        self.copy.stop(PartitionState.BLOCKED, "X", "why", NOW_MS)
        self.log = source_of(*batches)
        self.asked: list[Mapping[int, Offset]] = []

    def look(self) -> int:
        """Its age as reported after a look (-1: not known)."""

        def source_times(places: Mapping[int, Offset]) -> dict[int, int]:
            self.asked.append(places)
            return times_at(places, batches_of({0: self.log}))

        here = LogRange(Offset(self.log.start), Offset(self.log.end))
        network: Any = SimpleNamespace(
            source_ranges=lambda indexes: dict.fromkeys(indexes, here), source_times=source_times
        )
        ask_high_watermarks(network, [self.copy], 0.0, NOW_MS)
        missing_ms = report_of(self.copy).missing_ms
        return missing_ms if missing_ms < 0 else NOW_MS - missing_ms


def test_the_age_is_that_of_the_record_at_the_position_read_once() -> None:
    stopped = Stopped(3, [90, 80], [70, 60, 50])
    assert stopped.look() == 60  # in the midst of a batch
    assert stopped.look() == 60
    assert stopped.asked == [{0: 3}]


def test_after_expiry_the_age_is_that_of_the_first_remaining_record() -> None:
    stopped = Stopped(1, [90, 80, 70], [60, 50])
    stopped.log.delete_before(3)
    assert stopped.look() == 60


def test_a_partition_in_sync_is_not_read() -> None:
    stopped = Stopped(2, [90, 80])
    assert (stopped.look(), stopped.asked) == (-1, [])
    assert (Stopped(-1, [90]).look(), stopped.asked) == (-1, [])


def test_an_unreadable_partition_is_read_again() -> None:
    stopped = Stopped(0, [90])
    whole, stopped.log = stopped.log, PartitionLog()
    stopped.log.end = 1  # a batch that no fetch brings
    assert stopped.look() == -1
    stopped.log = whole
    assert stopped.look() == 90


def test_a_partition_that_copies_again_has_no_such_age() -> None:
    stopped = Stopped(0, [90])
    stopped.look()
    stopped.copy.begin_at(LogRange(Offset(0), Offset(0)), None, OffsetMap(), NOW_MS)
    assert report_of(stopped.copy).missing_ms == -1
