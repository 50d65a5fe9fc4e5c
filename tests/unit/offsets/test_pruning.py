"""When rows of offset maps go: what lay below the log start at two looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from heliostat.clusters.admin import EARLIEST, ListedOffset
from heliostat.errors import BrokerError
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets import pruning as map_pruning
from heliostat.offsets.map_rows import KeptFrom, Prunable, RowKey, Stamp
from heliostat.offsets.marks import MirrorId
from heliostat.offsets.pruning import EVERY_S, MapPruning

A, B = (TopicPartition(TopicName(name), PartitionId(0)) for name in "ab")


class World:
    """Maps, a target and a clock in one."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.starts: dict[TopicPartition, int | BrokerError] = {A: 5, B: 7}
        self.asked: list[dict[MirrorId, Offset]] = []
        self.pruned: list[Prunable] = []
        both: Any = self
        self.pruning = MapPruning(both, both, lambda: self.now_s)

    def names(self) -> frozenset[MirrorId]:
        return frozenset({(A, "1"), (B, "2")})

    def prunable(self, starts: Mapping[MirrorId, Offset], rows_min: int) -> list[Prunable]:
        assert rows_min == map_pruning.ROWS_MIN
        self.asked.append(dict(starts))
        return [Prunable(KeptFrom(A, "1", 4), [RowKey(A, "1", 1, Stamp(1, 1))], [])]

    def prune(self, found: Prunable) -> None:
        self.pruned.append(found)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        assert set(wanted.values()) == {EARLIEST}
        return {
            partition: start
            if isinstance(start, BrokerError)
            else ListedOffset(Offset(start), -1, -1)
            for partition, start in self.starts.items()
            if partition in wanted
        }

    def look(self, later_s: float) -> int:
        self.now_s += later_s
        return self.pruning.look()


@pytest.fixture
def world() -> World:
    return World()


def test_only_rows_obsolete_at_two_checks_are_pruned(world: World) -> None:
    assert world.look(EVERY_S - 1) == 0
    assert world.asked == []
    assert world.look(1) == 1  # the stand-in always has some
    assert world.asked.pop() == {}
    world.starts = {A: 50, B: 6}
    assert world.look(EVERY_S - 1) == 0
    assert world.look(1) == 1
    assert world.asked.pop() == {(A, "1"): 5, (B, "2"): 6}
    assert len(world.pruned) == 2


def test_rows_of_unknown_log_starts_stay(world: World) -> None:
    world.look(EVERY_S)
    world.starts = {A: BrokerError("no leader", kafka_code=5)}
    world.look(EVERY_S)
    assert world.asked.pop() == {}
    world.starts = {A: 9, B: 9}
    world.look(EVERY_S)
    assert world.asked.pop() == {}
    world.look(EVERY_S)
    assert world.asked.pop() == {(A, "1"): 9, (B, "2"): 9}


def test_maps_that_are_by_numbers_begin_where_that_is_told() -> None:
    """Given maps of merged topics / then numbers count in place of the target's log starts."""
    world = World()
    both: Any = world
    numbers = {(A, "1"): Offset(3)}
    world.pruning = MapPruning(both, both, lambda: world.now_s, lambda _: numbers)
    world.look(EVERY_S)
    numbers = {(A, "1"): Offset(2), (B, "2"): Offset(4)}
    world.look(EVERY_S)
    assert world.asked == [{}, {(A, "1"): 2}]
