"""What a link commits at its source as its progress, against a cluster in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedGroup
from unit.groups.test_group_turns import TOPIC, Clock, G, cluster

from heliostat.clusters.admin import CommittedOffset, GroupMember
from heliostat.config import Config
from heliostat.config.checks import progress_group_problems
from heliostat.errors import BrokerError, GroupsFailed, LinkTakenOver
from heliostat.groups import progress as made
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.landed import Landed

P = TopicPartition(TOPIC, PartitionId(0))
OTHER = TopicPartition(TopicName("other"), PartitionId(0))


class Turns:
    """A link's progress, turn by turn."""

    def __init__(self) -> None:
        self.source = cluster()
        self.clock = Clock()
        self.landed: dict[TopicPartition, Landed] = {P: Landed(40), OTHER: Landed(7)}
        self.is_ours = True
        self.group = made.ProgressGroup(
            G,
            LinkName("l"),
            SimulatedAdmin(self.source),
            landed=lambda: self.landed,
            mirrored=lambda: [P],
            clock=self.clock,
            guard=self.guard,
        )

    def guard(self) -> None:
        if not self.is_ours:
            raise LinkTakenOver("gone")

    @property
    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        return self.source.groups.get(G, SimulatedGroup()).offsets


def test_positions_of_mirrored_partitions_are_committed() -> None:
    """Not of others, and not again before they move, but for an hourly round."""
    turns = Turns()
    turns.group.turn()
    row = CommittedOffset(Offset(40), "heliostat link l")
    assert turns.committed == {P: row}
    turns.source.groups[G].offsets.clear()
    turns.group.turn()
    assert not turns.committed
    turns.clock.now_s += made.ALL_AGAIN_S
    turns.group.turn()
    assert turns.committed == {P: row}
    turns.landed[P] = Landed(50)
    turns.group.turn()
    assert turns.committed[P].offset == 50
    turns.landed[P] = Landed(-1)
    turns.group.turn()
    assert turns.committed[P].offset == 50


def test_a_group_with_members_is_refused_until_they_are_gone() -> None:
    turns = Turns()
    member = GroupMember("app", "host")
    turns.source.groups[G] = SimulatedGroup(members=[member])
    with pytest.raises(GroupsFailed, match="has members"):
        turns.group.turn()
    turns.source.groups[G].members.clear()
    turns.group.turn()
    assert turns.committed[P].offset == 40


def test_offsets_of_others_are_not_written_over() -> None:
    turns = Turns()
    theirs = CommittedOffset(Offset(3), "")
    turns.source.groups[G] = SimulatedGroup(offsets={P: theirs})
    with pytest.raises(GroupsFailed, match="not written over"):
        turns.group.turn()
    assert turns.committed == {P: theirs}


@pytest.mark.parametrize("method", ["committed_offsets", "commit_offsets"])
@pytest.mark.parametrize(("code", "kind"), [(14, BrokerError), (24, GroupsFailed)])
def test_what_brokers_refuse_is_tried_again_and_halts_nothing(
    method: str, code: int, kind: type[Exception]
) -> None:
    turns = Turns()
    turns.source.fail(method, code, G, times=1)
    with pytest.raises(kind) as caught:
        turns.group.turn()
    assert caught.value.verdict.name == "RETRY"  # type: ignore[attr-defined]  # both have one
    turns.group.turn()
    assert turns.committed[P].offset == 40


def test_a_deposed_owner_commits_nothing() -> None:
    turns = Turns()
    turns.is_ours = False
    with pytest.raises(LinkTakenOver):
        turns.group.turn()
    assert not turns.committed


@pytest.mark.parametrize(("name", "problems"), [("g", 1), ("g-{link}", 0)])
def test_links_of_one_source_need_groups_of_their_own(name: str, problems: int) -> None:
    config = Config.model_validate(
        {
            "clusters": {name: {"bootstrap": f"{name}:1"} for name in ("a", "b", "c")},
            "links": [{"name": f"to-{to}", "source": "a", "target": to} for to in ("b", "c")],
            "metrics": {"progress_group": name},
        }
    )
    assert len(list(progress_group_problems(config))) == problems
    assert made.progress_group("g-{link}", LinkName("l")) == "g-l"
    assert made.progress_group(None, LinkName("l")) is None
