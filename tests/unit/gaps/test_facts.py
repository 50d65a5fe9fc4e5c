"""What both clusters answer about stopped partitions: read, never guessed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import pytest

from heliostat.clusters.admin import EARLIEST, EpochEnd, ListedOffset, PartitionInfo, TopicInfo
from heliostat.errors import BrokerError
from heliostat.gaps.choices import Facts, still_holds
from heliostat.gaps.facts import Ask, gather
from heliostat.gaps.ledger import CopiedTopic, CopyNote
from heliostat.names import (
    ClusterId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
    id_text,
)
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import Break, MapReader, MapRow
from heliostat.topics.values import MirrorRecord

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
TARGET_ID = UUID(int=3)
RECORD = MirrorRecord(T, T, UUID(int=1), TARGET_ID, ClusterId("c"), "earliest", 1)
UNKNOWN_TOPIC, NOT_LEADER, NO_RIGHT, LEADER_NOT_AVAILABLE = 3, 6, 29, 5


class Side:
    """A cluster of one partition; what it is asked is noted in `asked`."""

    def __init__(self, start: int, end: int, asked: list[str]) -> None:
        self.start, self.end, self.asked = start, end, asked
        self.topic_error: BrokerError | None = None
        self.leader_error: BrokerError | None = None

    def confirm_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, TopicInfo]:
        leader = PartitionInfo(PartitionId(0), None, LeaderEpoch(0), (), ())
        partitions = () if self.topic_error else (leader,)
        info = TopicInfo(T, None, partitions, is_internal=False, error=self.topic_error)
        return dict.fromkeys(names, info)

    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Any]:
        assert confirmed or EARLIEST not in specs.values(), "the first question asks all brokers"
        ends = {p: self.start if spec == EARLIEST else self.end for p, spec in specs.items()}
        return {
            p: self.leader_error or ListedOffset(Offset(end), -1, LeaderEpoch(0))
            for p, end in ends.items()
        }

    def list_log_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Any]:
        self.asked.append("end")
        return {p: self.leader_error or Offset(self.end) for p in partitions}

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Any]:
        """A leader whose last epoch before the next is 1, which ended at the log's end."""
        return {p: EpochEnd(LeaderEpoch(1), Offset(self.end)) for p in epochs}


class World:
    """A source [150, 200), a target [0, 100) whose offset map says that 100 is 120."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.has_holes = True
        self.source, self.target = Side(150, 200, self.asked), Side(0, 100, self.asked)

    def maps(self) -> MapReader:
        self.asked.append("maps")
        reader = MapReader()
        if not self.has_holes:
            return reader
        key = RowKey(P, id_text(TARGET_ID), 80, Stamp(1, 1))
        reader.take(MapRow(key, (Break(80, 100),)))
        return reader

    def facts(
        self,
        *,
        fills: bool = False,
        code: str = "SOURCE_OVERTOOK",
        copied: CopiedTopic | None = None,
        is_dense: bool = True,
    ) -> list[Facts]:
        source: Any = self.source
        target: Any = self.target
        return gather(
            source,
            target,
            [Ask(P, P, Offset(0), is_dense)],
            record=RECORD,
            code=code,
            maps=self.maps,
            copied=copied,
            fills=fills,
        )


def test_the_position_is_the_map_at_the_targets_end() -> None:
    [facts] = World().facts()
    assert (facts.position, facts.source_start, facts.source_end) == (120, 150, 200)
    assert (facts.target_start, facts.target_end) == (0, 100)
    assert (facts.is_dense, facts.is_gone) == (False, False)


def test_the_map_is_read_after_the_end() -> None:
    """Given an append in between / when facts are read / then the map covers the end (I2)."""
    world = World()
    world.facts()
    assert world.asked == ["end", "maps"]


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("code", [NO_RIGHT, LEADER_NOT_AVAILABLE, NOT_LEADER])
def test_a_topic_that_cannot_be_read_now_is_not_gone(side: str, code: int) -> None:
    """Given no right or no leader for a moment / then there are no facts until the next turn."""
    world = World()
    getattr(world, side).topic_error = BrokerError("no", kafka_code=code)
    assert world.facts() == []


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_partition_whose_leader_does_not_answer_has_no_facts(side: str) -> None:
    world = World()
    getattr(world, side).leader_error = BrokerError("no", kafka_code=NOT_LEADER)
    assert world.facts() == []


def test_a_missing_source_topic_is_gone() -> None:
    world = World()
    world.source.topic_error = BrokerError("no", kafka_code=UNKNOWN_TOPIC)
    [facts] = world.facts()
    assert (facts.is_gone, facts.source_start, facts.source_end) == (True, 0, 0)


@pytest.mark.parametrize(("fills", "has_holes"), [*itertools.product([True, False], repeat=2)])
def test_a_mapped_mirror_stays_mapped_though_the_link_fills(fills: bool, has_holes: bool) -> None:
    world = World()
    world.has_holes = has_holes
    [facts] = world.facts(fills=fills)
    assert facts.fills is (fills and not has_holes)


@pytest.mark.parametrize("is_dense", [True, False])
def test_an_epoch_that_compaction_may_have_taken_is_no_loss(is_dense: bool) -> None:
    """Given a leader without the epoch copied from / then only a dense log has lost records."""
    copied = CopiedTopic(id_text(RECORD.source_id), {P.partition: CopyNote(120, LeaderEpoch(3))})
    [facts] = World().facts(code="SOURCE_TRUNCATED", copied=copied, is_dense=is_dense)
    assert (facts.is_known_truncated, facts.diverged_at) == (is_dense, None)
    assert still_holds(facts) is is_dense
