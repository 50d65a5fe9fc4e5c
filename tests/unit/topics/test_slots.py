"""Two links that fill one topic: each has its own partitions there."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.topic_plans import forced, link, mirror, record, source, target, topic

from heliostat.clusters.admin import PartitionInfo
from heliostat.names import (
    BrokerId,
    LeaderEpoch,
    LinkName,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.naming import naming_of
from heliostat.topics.plan import plan_topics
from heliostat.topics.values import MirrorRecord

T = TopicName("t")
ONE, OTHER = Slot(0, 2), Slot(1, 2)


def share(slot: Slot, **topics: object):
    return link(fan_in={"slot": slot.number, "of": slot.of}, **topics)


def written(partitions: int, *numbers: int, **own: str):
    """The shared topic, with records in these partitions."""
    ends = {PartitionId(p): Offset(9 * (p in numbers)) for p in range(partitions)}
    return replace(mirror(partitions=partitions, **own), ends=ends)


@given(st.integers(1, 9), st.integers(1, 99))
def test_slots_divide_a_topic_between_links(of: int, partitions: int) -> None:
    """Given all slots of a topic / then each target partition belongs to exactly one source."""
    slots = [Slot(number, of) for number in range(of)]
    taken = [slot.target_partition(PartitionId(p)) for slot in slots for p in range(partitions)]
    assert sorted(taken) == list(range(slots[0].target_partitions(partitions)))
    for slot in slots:
        mine = [slot.target_partition(PartitionId(p)) for p in range(partitions)]
        assert [slot.source_partition(p) for p in mine] == list(range(partitions))
        others = set(taken) - set(mine)
        assert all(slot.source_partition(p) is None for p in others)
        assert not slot.is_beside(slot)
        assert all(slot.is_beside(other) for other in slots if other != slot)
        assert not slot.is_beside(Slot(0, of + 1))


def test_the_first_link_makes_room_for_all() -> None:
    plan = plan_topics(share(OTHER), source(topic(partitions=3, retention__ms="5")), target(), {})
    (create,), (made,), (kept,) = plan.create, plan.mirrors, plan.remember
    assert (create.partitions, made.partitions, made.target_partitions) == (6, 3, 6)
    assert made.mirror_of(PartitionId(2)) == TopicPartition(T, PartitionId(5))
    assert (kept.slot, kept.synced_configs) == (OTHER, ())
    assert MirrorRecord.from_json(kept.to_json()) == kept
    assert kept.own(
        [PartitionInfo(PartitionId(p), BrokerId(1), LeaderEpoch(0), (), ()) for p in range(6)]
    ) == {TopicPartition(T, PartitionId(2 * p + 1)): p for p in range(3)}


def test_the_second_link_joins_though_the_first_has_written() -> None:
    """Given records of the other link / when ours begins / then only its own partitions count."""
    there = target(written(4, 0, 2))
    assert not plan_topics(share(OTHER), source(topic()), there, {}).refuse
    assert set(plan_topics(share(ONE), source(topic()), there, {}).refuse) == {T}
    assert set(plan_topics(link(), source(topic(partitions=4)), there, {}).refuse) == {T}


def test_a_source_that_grows_makes_room_for_the_other_too() -> None:
    made = record(slot=OTHER, target_id=UUID(int=7))
    plan = plan_topics(share(OTHER), source(topic(partitions=3)), target(written(4, 1)), made)
    assert [(g.has, g.wants) for g in plan.grow] == [(4, 6)]
    assert "3 instead of 2" in plan.notes[0]
    smaller = plan_topics(share(OTHER), source(topic(partitions=1)), target(written(4, 1)), made)
    assert not smaller.grow
    assert not smaller.refuse  # the topic has more partitions, for the other source


def test_settings_follow_the_source_of_slot_0() -> None:
    there, own = target(written(4, 0, 1, retention__ms="5")), source(topic(retention__ms="7"))
    leads = plan_topics(share(ONE), own, there, record(slot=ONE))
    assert [c.changes for c in leads.configure] == [{"retention.ms": "7"}]
    assert plan_topics(share(OTHER), own, there, record(slot=OTHER)).configure == ()
    larger = source(topic(max__message__bytes="2000000"))
    (needed,) = plan_topics(share(OTHER), larger, there, record(slot=OTHER)).configure
    assert needed.changes == {"max.message.bytes": "2000000"}
    assert forced().keys() >= {"message__timestamp__type"}


@pytest.mark.parametrize(("was", "now"), [(WHOLE_TOPIC, ONE), (ONE, OTHER), (ONE, Slot(0, 3))])
def test_a_changed_slot_is_refused(was: Slot, now: Slot) -> None:
    """Given a mirror / when the file gives it other partitions / then nothing is changed."""
    plan = plan_topics(share(now), source(topic()), target(written(4, 0)), record(slot=was))
    assert plan.refuse[T].code == "fan_in_changed"
    assert not plan.mirrors


def test_a_compacted_shared_topic_refuses_a_source_that_is_not_compacted() -> None:
    there = target(written(4, 0, cleanup__policy="compact"))
    plan = plan_topics(share(OTHER), source(topic()), there, {})
    assert plan.refuse[T].code == "configs"


def test_heartbeats_are_not_shared() -> None:
    naming = naming_of(share(OTHER))
    assert naming.slot_of(T) == OTHER
    mirrored = replace(
        naming, heartbeats=(None, type("P", (), {"is_heartbeats": lambda _, n: n})())
    )
    assert mirrored.slot_of(TopicName("heartbeats")) == WHOLE_TOPIC


def test_a_link_with_other_slots_conflicts() -> None:
    claimed = {T: LinkName("other")}
    plan = plan_topics(share(ONE), source(topic()), target(), {}, claimed)
    assert "topics.fan_in" in plan.refuse[T].hint
