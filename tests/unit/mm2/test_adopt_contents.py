"""How far back both logs are read until it is certain where a copy ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pytest

from heliostat.clusters.admin import ClusterAdmin, ListedOffset
from heliostat.clusters.plain_records import LogBounds, PlainReader, PlainRecord
from heliostat.mm2 import adopt_contents
from heliostat.mm2.adopt_contents import ContentLook
from heliostat.mm2.adopt_look import PartitionLogs
from heliostat.mm2.resume_point import NoResumePoint, ResumePoint
from heliostat.names import LeaderEpoch, Offset, PartitionId, TopicName, TopicPartition

SOURCE = TopicPartition(TopicName("t"), PartitionId(0))
TARGET = TopicPartition(TopicName("A.t"), PartitionId(0))


class Log:
    """Stands for a reader of one partition, and for its broker; counts what is read.

    A record's number is its timestamp.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.read_records = 0
        self.asked = 0

    @property
    def bounds(self) -> LogBounds:
        return LogBounds(Offset(0), Offset(len(self.numbers)))

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[PlainRecord]:
        for offset in range(start, end):
            self.read_records += 1
            number = self.numbers[offset]
            yield PlainRecord(offset, number, None, b"%d" % number, ())

    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, confirmed: bool
    ) -> dict[TopicPartition, ListedOffset]:
        assert confirmed
        ((partition, time_ms),) = specs.items()
        self.asked += 1
        places = [at for at, number in enumerate(self.numbers) if number >= time_ms]
        return {partition: ListedOffset(Offset(min(places, default=-1)), time_ms, LeaderEpoch(0))}


def look(
    source: Log, target: Log, stable: Log | None = None, *, with_timestamps: bool = True
) -> ResumePoint | NoResumePoint:
    readers = [cast("PlainReader", each) for each in (source, stable or source, target)]
    admins = [cast("ClusterAdmin", each) for each in (source, target)]
    logs = PartitionLogs(
        SOURCE, TARGET, source.bounds, target.bounds, None, None, with_timestamps=with_timestamps
    )
    return ContentLook(*readers, *admins).resume_point(logs)


@pytest.fixture(autouse=True)
def _small_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt_contents, "LOOKS", (20, 100))
    monkeypatch.setattr(adopt_contents, "MAP_BACK", 50)


def resume_point(found: ResumePoint | NoResumePoint) -> ResumePoint:
    assert isinstance(found, ResumePoint), found
    return found


def test_the_end_of_a_long_copy_is_read_only() -> None:
    source, target = Log(range(1000)), Log(range(900))
    assert resume_point(look(source, target)).source == 900
    assert target.read_records < 30
    assert source.read_records < 150


def test_a_rerun_longer_than_what_was_read_is_seen_by_the_time_of_the_next_record() -> None:
    """Given a rerun that ended early / when its end is read / then not it decides, nor a part."""
    target = Log([*range(900), *range(700, 760)])
    found = resume_point(look(Log(range(1000)), target))
    assert (found.source, found.doubled) == (900, 60)
    target = Log([*range(900), *range(600, 760)])
    assert resume_point(look(Log(range(1000)), target)).source == 900


def test_unequal_offsets_are_mapped_as_far_back_as_is_cheap() -> None:
    found = resume_point(look(Log(range(1000)), Log(range(100, 900))))
    assert (found.source, found.compared) == (900, 100)


def test_offsets_that_are_equal_again_are_not_taken_to_be_equal_before() -> None:
    """Given a copy that began later, and doubled as many / then groups below start over."""
    target = Log([*range(50, 400), *range(350, 900)])
    found = resume_point(look(Log(range(1000)), target))
    assert (found.source, found.target) == (900, 900)
    assert found.map.target_of(300) <= 1
    assert found.map.target_of(850) == 850


def test_a_foreign_end_is_refused_without_reading_more() -> None:
    target = Log([*range(900), 2000])
    found = look(Log(range(1000)), target)
    assert isinstance(found, NoResumePoint)
    assert "is not at the source" in found.reason
    assert target.read_records == 20


def test_a_copy_of_committed_records_only_is_compared_with_those() -> None:
    class Stable(Log):
        """Leaves out every tenth record, which was aborted."""

        def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[PlainRecord]:
            for record in super().read(partition, start, end):
                if record.offset % 10:
                    yield record

    target = Log([number for number in range(60) if number % 10])
    assert resume_point(look(Log(range(80)), target, Stable(range(80)))).source == 60


def test_without_timestamps_both_are_read_whole() -> None:
    source, target = Log(range(300)), Log(range(250))
    assert resume_point(look(source, target, with_timestamps=False)).source == 250
    assert (target.read_records, target.asked, source.asked) == (250, 0, 0)
