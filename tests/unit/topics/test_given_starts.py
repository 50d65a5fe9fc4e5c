"""New mirrors that begin where a consumer group stands, or as a file lists: decided in the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster
from support.topic_plans import link

from heliostat.config import LinkConfig
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.topics.observe import observe
from heliostat.topics.plan import plan_topics
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord, SourceTopics, TargetTopics

T = TopicName("t")
GROUP = {"group": "billing"}


def at(number: int, topic: TopicName = T) -> TopicPartition:
    return TopicPartition(topic, PartitionId(number))


class World:
    """A source topic `t` with three partitions, each with the offsets from 100 to 200."""

    def __init__(self, tmp_path: Path, **committed: int) -> None:
        self.source, self.target = SimulatedCluster("A"), SimulatedCluster("B")
        self.file = tmp_path / "offsets.csv"
        self.make(T)
        for number, offset in committed.items():
            self.source.commit("billing", at(int(number[1:])), offset)

    def make(self, topic: TopicName) -> None:
        self.source.create(topic, 3)
        for number in range(3):
            self.source.append(topic, 200, partition=number)
            self.source.topics[topic].logs[number].delete_before(100)

    def listed(self, *lines: str) -> dict[str, str]:
        self.file.write_text("\n".join(lines), encoding="utf-8")
        return {"offsets": str(self.file)}

    def observed(
        self, config: LinkConfig, known: dict[TopicName, MirrorRecord]
    ) -> tuple[SourceTopics, TargetTopics]:
        return observe(SimulatedAdmin(self.source), SimulatedAdmin(self.target), config, known)

    def plan(
        self,
        start: Any,
        known: dict[TopicName, MirrorRecord] | None = None,
        at_beginning: frozenset[TopicName] | None = None,
    ) -> TopicPlan:
        config = link(start=start)
        source, target = self.observed(config, known or {})
        source = replace(source, at_beginning=at_beginning)
        return plan_topics(config, source, target, known or {})


def test_a_new_mirror_begins_where_a_group_stands(tmp_path: Path) -> None:
    """Given a group that has read two of three partitions / then the third begins at its start."""
    plan = World(tmp_path, p0=150, p2=200).plan(GROUP)
    (mirror,) = plan.mirrors
    assert (mirror.start, mirror.given) == ("earliest", {0: 150, 2: 200})
    assert plan.remember[0].given == mirror.given
    (line,) = (line for kind, line in plan.lines() if kind == "start")
    assert line == (
        "begin t by consumer group billing: partition 0 at 150, 2 at 200; 1 at the beginning "
        "(nothing is committed there)"
    )
    assert not plan.notes


def test_a_new_mirror_begins_as_a_file_lists(tmp_path: Path) -> None:
    world = World(tmp_path)
    plan = world.plan(world.listed("t,0,150", "t,1,7", "t,9,1", "else,0,1"))
    assert plan.mirrors[0].given == {0: 150, 1: 7}
    assert plan.starts[T] == (
        f"by the file {world.file}: partition 0 at 150, 1 at its log start 100 (7 is gone); "
        "2 at the beginning (it is not listed)"
    )
    assert plan.notes == (
        f"the file {world.file} lists topics that the link does not mirror: else",
    )
    json.dumps(plan.to_json())


@pytest.mark.parametrize("where", ["group", "file"])
def test_a_start_above_the_log_end_is_refused(where: str, tmp_path: Path) -> None:
    world = World(tmp_path, p0=201)
    plan = world.plan(GROUP if where == "group" else world.listed("t,0,201"))
    refusal = plan.refuse[T]
    assert refusal.code == "start"
    assert refusal.reason.endswith("partition 0 at 201 (its log ends at 200)")
    assert "another cluster" in refusal.hint
    assert not plan.create


def test_a_group_that_has_committed_nothing_is_refused(tmp_path: Path) -> None:
    refusal = World(tmp_path).plan(GROUP).refuse[T]
    assert (refusal.code, refusal.reason) == (
        "start",
        "consumer group billing has committed no offset at the source, for no topic",
    )


def test_a_group_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, p0=150)
    world.source.fail("committed_offsets", 30)
    refusal = world.plan(GROUP).refuse[T]
    assert "is not known: " in refusal.reason
    assert "heliostat acls" in refusal.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "No such file"), ("t,0,x", "line 1: offset: must be a whole number")],
)
def test_a_file_that_cannot_be_used_is_refused(
    text: str | None, reason: str, tmp_path: Path
) -> None:
    world = World(tmp_path)
    start = world.listed(text or "")
    if text is None:
        world.file.unlink()
    refusal = world.plan(start).refuse[T]
    assert refusal.code == "start"
    assert reason in refusal.reason


def known_mirror(plan: TopicPlan, world: World) -> dict[TopicName, MirrorRecord]:
    """Its record after the plan was applied."""
    world.target.create(T, 3)
    made = world.target.topics[T].topic_id
    (record,) = plan.remember
    stored = MirrorRecord.from_json(json.loads(json.dumps(record.to_json())))
    assert stored == record
    return {T: replace(stored, target_id=made)}


def test_a_start_is_decided_once(tmp_path: Path) -> None:
    """Given a mirror that was planned / when the group moves, or the file is gone / then its start
    stays, and nobody is asked."""
    world = World(tmp_path, p0=150)
    known = known_mirror(world.plan(GROUP), world)
    world.source.commit("billing", at(0), 190)
    world.source.calls.clear()
    plan = world.plan(GROUP, known)
    assert plan.mirrors[0].given == {0: 150}
    assert (plan.starts, plan.refuse) == ({}, {})
    assert not world.source.asked("committed_offsets")
    assert world.plan({"offsets": "/none"}, known).mirrors[0].given == {0: 150}


def test_topics_born_later_begin_at_their_beginning(tmp_path: Path) -> None:
    """Given a topic that came after the link began / then a group's offsets, or a group that is
    gone, mean nothing to it; a file that lists it does."""
    world = World(tmp_path, p0=150)
    before = frozenset({TopicName("other")})
    assert world.plan(GROUP, at_beginning=before).mirrors[0].given == {}
    assert not world.plan({"group": "gone"}, at_beginning=before).refuse
    listed = world.listed("t,1,120")
    assert world.plan(listed, at_beginning=before).mirrors[0].given == {1: 120}


@pytest.mark.parametrize("start", ["latest", GROUP, "file"])
def test_a_topic_that_was_recreated_is_copied_from_its_beginning(
    start: Any, tmp_path: Path
) -> None:
    """Given a mirror that was deleted as its source was recreated / then offsets of the earlier
    topic mean nothing, and all records are new."""
    world = World(tmp_path, p0=150)
    start = world.listed("t,0,150") if start == "file" else start
    known = {T: replace(world.plan("earliest").remember[0], source_id=UUID(int=99))}
    (mirror,) = world.plan(start, known, at_beginning=frozenset({T})).mirrors
    assert (mirror.start, mirror.given) == ("earliest", {})


def test_many_partitions_are_told_in_short(tmp_path: Path) -> None:
    world = World(tmp_path)
    wide = TopicName("wide")
    world.source.create(wide, 20)
    plan = world.plan(world.listed(*(f"wide,{number},0" for number in range(12))))
    assert plan.starts[wide].endswith(
        "7 at 0 and 4 more; 12, 13, 14, 15, 16, 17, 18, 19 at the beginning (it is not listed)"
    )
    assert plan.mirrors[1].given[PartitionId(11)] == Offset(0)
