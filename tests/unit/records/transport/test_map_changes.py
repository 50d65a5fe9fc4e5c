"""What a lane knows of offset maps when its partitions change; no broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from support.one_partition import lane_spec

from heliostat.access import ClusterAccess
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapRow
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.transport.offset_map_topic import MapChannel

NOWHERE = ClusterAccess(())


def spec(number: int) -> PartitionSpec:
    at = TopicPartition(TopicName("t"), PartitionId(number))
    return PartitionSpec(at, at, None, None, Offset(0), 1 << 20, is_compacted=False)


def row_of(number: int, target: int, source: int) -> MapRow:
    return MapRow(RowKey(spec(number).target, "", target, Stamp(1, 0)), (Break(target, source),))


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> MapChannel:
    """A lane with partitions 0 and 1; all rows are read."""
    made = MapChannel(lane_spec(NOWHERE, NOWHERE, spec(0), spec(1)), Mock(), lambda: 0.0, lambda: 0)
    monkeypatch.setattr(made, "_bound", lambda _timestamp, **_: made._next_offset)
    return made


def take(maps: MapChannel, row: MapRow, value: Any = None) -> None:
    maps._take(0, row.key.encode(), row.encode() if value is None else value)


def test_a_partition_that_is_taken_anew_keeps_its_map(maps: MapChannel) -> None:
    """Given rows of a partition / when it is treated otherwise, or comes from another lane / then

    its map has all rows since the round's begin under its new number.
    """
    take(maps, row_of(1, 10, 11))
    take(maps, row_of(2, 5, 9))
    maps.change([1], [replace(spec(1), attempt=1), spec(2)])
    take(maps, row_of(1, 20, 30))
    found = maps.read()
    assert {index: list(each.breaks()) for index, each in found.items()} == {
        2: [Break(10, 11), Break(20, 30)],
        3: [Break(5, 9)],
    }


def test_what_was_lost_of_a_map_is_lost_whatever_the_partitions_number(maps: MapChannel) -> None:
    """Given a row of a map that others wrote over / when its partition is taken anew / then the map

    is still lost; when it has been elsewhere, the driver knows better.
    """
    take(maps, row_of(1, 10, 11), b"not a row")
    maps.change([1], [replace(spec(1), attempt=1)])
    assert maps.read()[2].lost
    maps.change([2], [])
    assert maps.read() == {}
    maps.change([], [spec(1)])
    assert maps.read() == {}
