"""Where mirrors begin, and begin later where retention is quicker than the first copy."""

from __future__ import annotations

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.clusters.admin import EARLIEST, LATEST
from heliostat.link.beginnings import Beginnings
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
LATER_MS = 4_000_000_000_000
OVERTOOK, OTHER = "SOURCE_OVERTOOK", "SOURCE_TRUNCATED"


class World:
    """A source whose log is [100, 200), and what was told."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster()
        self.cluster.create(T)
        self.log = self.cluster.topics[T].logs[0]
        self.write(200)
        self.log.delete_before(100)
        self.told: list[str] = []
        self.beginnings = Beginnings(SimulatedAdmin(self.cluster), self.told.append)

    def write(self, end: int) -> None:
        while self.log.end < end:
            self.cluster.append(T, min(10, end - self.log.end))


def report(position: int, code: str = OVERTOOK) -> PartitionReport:
    state = PartitionState.GAP if code else PartitionState.COPYING
    return PartitionReport(P, P, state, position, 200, 0, 0, -1, -1, 5, code)


@pytest.mark.parametrize(("when", "start"), [(EARLIEST, 100), (LATEST, 200), (LATER_MS, 200)])
def test_a_partition_begins_where_it_was_asked_for(when: int, start: int) -> None:
    assert World().beginnings.look_up({P: when}) == {P: start}


@pytest.mark.parametrize(
    ("given", "start", "words"),
    [
        (150, 150, ""),
        (200, 200, ""),
        (7, 100, "it was to begin at 7, but the source's log starts at 100"),
        (201, None, "it is to begin at 201, but the source's log ends at 200; it is not copied"),
    ],
)
def test_a_partition_begins_at_a_given_offset_of_its_log(
    given: int, start: int | None, words: str
) -> None:
    world = World()
    found = world.beginnings.look_up({P: EARLIEST}, {P: Offset(given)})
    assert found == ({} if start is None else {P: start})
    assert words in "".join(world.told)
    assert len(world.told) == bool(words)


@pytest.mark.parametrize("gone_to", [101, 200])
def test_records_that_expire_before_the_first_copy_are_no_gap(gone_to: int) -> None:
    world = World()
    world.beginnings.look_up({P: EARLIEST})
    world.log.delete_before(gone_to)
    assert world.beginnings.overtaken([report(100)]) == {P: gone_to}
    assert f"offsets 100 to {gone_to - 1}" in world.told[0]
    assert world.beginnings.overtaken([report(100)]) == {}  # a late report
    assert len(world.told) == 1


def test_it_may_happen_again() -> None:
    world = World()
    world.beginnings.look_up({P: EARLIEST})
    for gone_to in (120, 140):
        start = world.log.start
        world.log.delete_before(gone_to)
        assert world.beginnings.overtaken([report(start)]) == {P: gone_to}


def test_later_records_that_expire_uncopied_are_a_gap() -> None:
    """Given records written after observation / when they expire uncopied / then a loss."""
    world = World()
    world.beginnings.look_up({P: EARLIEST})
    world.write(201)
    world.log.delete_before(201)
    assert world.beginnings.overtaken([report(100)]) == {}
    assert world.told == []


@pytest.mark.parametrize("before", [report(101, ""), report(150, "")])
def test_records_that_expire_after_the_first_copied_one_are_a_gap(before: PartitionReport) -> None:
    world = World()
    world.beginnings.look_up({P: EARLIEST})
    assert world.beginnings.overtaken([before]) == {}
    world.log.delete_before(180)
    assert world.beginnings.overtaken([report(100), report(before.position)]) == {}


def test_mirrors_begun_by_another_driver_are_not_moved() -> None:
    world = World()
    world.log.delete_before(150)
    assert world.beginnings.overtaken([report(100)]) == {}


@pytest.mark.parametrize("code", ["", OTHER])
def test_other_stops_are_left_alone(code: str) -> None:
    world = World()
    world.beginnings.look_up({P: EARLIEST})
    world.log.delete_before(150)
    assert world.beginnings.overtaken([report(100, code)]) == {}


def test_a_partition_that_does_not_answer_is_reported_and_retried() -> None:
    world = World()
    world.cluster.fail("list_offsets", 6, P)
    assert world.beginnings.look_up({P: EARLIEST}) == {}
    assert "can't be looked up" in world.told[0]
