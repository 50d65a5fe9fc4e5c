"""Quiet partitions that a round watches before it begins: what makes it read the end again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support.records import Sample, encode

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.copier import provisional
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.network import Fetched, LastBatch, LogRange, Want
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.provisional import ProvisionalPlaces

BEGIN_MS = 1_800_000_000_000
QUIET: Any = SimpleNamespace(is_busy=lambda _: False)


class Side:
    """A target whose logs all end at 100; notes which partitions are asked about."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.tails: dict[int, LastBatch | None] = {}
        """Last batches of partitions whose last record is not ours."""

    def target_last_batches(self, ranges: Mapping[int, LogRange]) -> Mapping[int, LastBatch | None]:
        return {index: self.tails.get(index, LastBatch(7, 99)) for index in ranges}

    def offset_maps(self, indexes: Sequence[int]) -> Mapping[int, OffsetMap]:
        return {index: OffsetMap() for index in indexes}

    def target_ranges(self, indexes: Sequence[int]) -> Mapping[int, LogRange]:
        self.asked += indexes
        return {index: LogRange(Offset(0), Offset(100)) for index in indexes}


@pytest.fixture(autouse=True)
def _of_any_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisional, "PARTITIONS_MIN", 0)


def asked(*fields: dict[str, Any]) -> tuple[ProvisionalPlaces, list[PartitionCopy], Side]:
    items = []
    for index, more in enumerate(fields):
        p = TopicPartition(TopicName("t"), PartitionId(index))
        spec = PartitionSpec(p, p, None, None, Offset(0), 1 << 20, is_compacted=False, **more)
        items.append(PartitionCopy(index, spec, CopySettings(), 7, 0))
    places, side = ProvisionalPlaces(items, BEGIN_MS), Side()
    network: Any = side
    places.ask(network, dict.fromkeys(range(len(items)), QUIET), BEGIN_MS - 500)
    return places, items, side


def answer(data: bytes = b"", error: int = 0, **more: Any) -> Fetched:
    return Fetched(Want(0, 0, 100, 1000), error, 101, bytearray(data), 0, len(data), **more)


def record(age_ms: int) -> bytes:
    return encode([Sample(b"k", b"v", BEGIN_MS - age_ms)])


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (answer(record(0)), False),
        (answer(record(-10)), False),
        (answer(record(1)), True),
        (answer(record(86_400_000)), True),
        (answer(record(0)[:30]), True),
        (answer(b"\0" * 80), True),
        (answer(error=6), True),
        (answer(diverging_epoch=(3, 90)), True),
    ],
)
def test_records_that_the_last_round_may_have_copied_are_not_sent(
    event: Fetched, *, expected: bool
) -> None:
    """Given an end from before the round / when a record precedes it / then read again (I2)."""
    places, [item], _ = asked({})
    assert item.phase is Phase.COPY
    assert not places.must_look(answer())
    assert places.must_look(event) is expected
    assert not places.must_look(answer(record(1)))  # it was looked at: its place is certain


@pytest.mark.parametrize(
    "more", [{"jump": Break(100, 150)}, {"truncated": "it was"}, {"fills": True}]
)
def test_nothing_is_provisional_if_more_than_the_end_decides(more: dict[str, Any]) -> None:
    _, [other, item], side = asked({}, more)
    assert (other.phase, item.phase) == (Phase.COPY, Phase.FIND_END)
    assert side.asked == [0]
