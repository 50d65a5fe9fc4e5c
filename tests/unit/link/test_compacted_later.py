"""A mirror becomes compacted when it has the records that its source got before it was."""

from __future__ import annotations

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.link.compacted_later import CompactedLater
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.topics.topic_plan import Mirror, SetConfigs, TopicPlan

T = TopicName("t")
OTHER = TopicName("other")
ENDS = (5, 3, 0)
"""Of the topic's partitions; the last is empty."""


@pytest.fixture
def cluster() -> SimulatedCluster:
    made = SimulatedCluster()
    made.create(T, len(ENDS))
    for number, count in enumerate(ENDS):
        if count:
            made.append(T, count, partition=number)
    return made


def plan(**changes: str | None) -> TopicPlan:
    wanted = {key.replace("__", "."): value for key, value in changes.items()}
    mirror = Mirror(T, T, None, None, len(ENDS), len(ENDS), "earliest", 10**6, True, False)
    was = {"cleanup.policy": "delete", "retention.ms": "1"}
    other = SetConfigs(OTHER, OTHER, {"retention.ms": "2"}, was)
    return TopicPlan(configure=(SetConfigs(T, T, wanted, was), other), mirrors=(mirror,))


def reports(*positions: int) -> list[PartitionReport]:
    state = PartitionState.COPYING
    return [
        PartitionReport(one, one, state, position, *([0] * 6))
        for number, position in enumerate(positions)
        for one in [TopicPartition(T, PartitionId(number))]
    ]


def held(found: TopicPlan) -> bool:
    """Whether the policy is left as it is, and everything else is not."""
    changes = {each.source: set(each.changes) for each in found.configure}
    assert changes[OTHER] == {"retention.ms"}
    return "cleanup.policy" not in changes.get(T, set())


def test_it_waits_for_the_records_present_at_the_change(cluster: SimulatedCluster) -> None:
    later = CompactedLater(SimulatedAdmin(cluster))
    wanted = plan(cleanup__policy="compact", max__message__bytes="7")
    found, notes = later.hold(wanted, reports(4, 3))
    assert held(found)
    assert {"max.message.bytes"} == set(found.configure[0].changes)
    assert len(notes) == 1
    assert "t: cleanup.policy becomes compact once" in notes[0]
    cluster.append(T, 10)  # these have keys: the source compacts by now
    assert held(later.hold(wanted, reports(4, 3))[0])
    assert later.hold(wanted, reports(5, 3)) == (wanted, ())


def test_an_unreported_partition_waits_and_an_empty_one_does_not(
    cluster: SimulatedCluster,
) -> None:
    later = CompactedLater(SimulatedAdmin(cluster))
    wanted = plan(cleanup__policy="compact,delete")
    assert held(later.hold(wanted, reports(5))[0])
    assert not held(later.hold(wanted, reports(5, 3))[0])


def test_it_waits_while_the_sources_ends_are_unknown(cluster: SimulatedCluster) -> None:
    cluster.fail("list_offsets", 6, TopicPartition(T, PartitionId(1)))
    later = CompactedLater(SimulatedAdmin(cluster))
    wanted = plan(cleanup__policy="compact")
    assert held(later.hold(wanted, reports(5, 3))[0])


@pytest.mark.parametrize("to", ["delete", None])
def test_other_changes_do_not_wait(cluster: SimulatedCluster, to: str | None) -> None:
    later = CompactedLater(SimulatedAdmin(cluster))
    wanted = plan(cleanup__policy=to, retention__ms="9")
    assert later.hold(wanted, ()) == (wanted, ())
    assert not cluster.asked("list_offsets")
