"""Groups that still run where a way back leads: their offsets are followed until they move."""

from __future__ import annotations

import pytest
from unit.groups.test_group_turns import PARTITION, TOPIC, G, World

from heliostat.groups.naming import GroupNaming
from heliostat.names import GroupId, PartitionId, TopicPartition
from heliostat.offsets.offset_map import Break


def at_source(world: World) -> int:
    """Return what the source has of the group."""
    return world.source.groups[G].offsets[PARTITION].offset


def test_consumers_that_move_last_are_followed_until_they_have_moved() -> None:
    """Given a way back, and a group that still runs where it leads / when it commits there, and at

    last as it leaves / then the source has the same; from then on it is followed as any other.
    """
    world = World(is_returned=True)
    world.commit(10)
    assert world.turn() == 10
    world.target.join(G)
    world.target.commit(G, PARTITION, 40)
    world.turn()
    assert at_source(world) == 40
    world.target.commit(G, PARTITION, 45)
    world.target.leave(G)
    world.turn()
    assert at_source(world) == 45
    world.target.commit(G, PARTITION, 30)
    world.turn()
    assert at_source(world) == 45, "it does not run there: never followed, never set back"
    world.commit(60, live=True)
    assert world.turn() == 60


@pytest.mark.parametrize("rule", ["${group}", "old.${group}"])
def test_a_group_that_the_source_does_not_know_begins_there_where_it_stopped(rule: str) -> None:
    """Given a group that only the former source has / while it runs there / then the source has

    its offsets, so that it begins neither at the end nor at the beginning; another one gets none.
    """
    world = World(GroupNaming(rule), is_returned=True, exclude=["other.*"])
    there = GroupNaming(rule).target_name(G)
    for group in (there, GroupNaming(rule).target_name(GroupId("other"))):
        world.target.join(group)
        world.target.commit(group, PARTITION, 40)
    idle = GroupNaming(rule).target_name(GroupId("idle"))
    world.target.commit(idle, PARTITION, 40)
    world.turn()
    assert at_source(world) == 40
    assert world.source.groups.keys() == {G}
    world.target.commit(there, PARTITION, 45)
    world.target.leave(there)
    world.turn()
    assert at_source(world) == 45


def test_a_partition_that_it_has_read_only_there_is_followed_too() -> None:
    """Given a group that the source has for one partition / then that of another one follows."""
    second = TopicPartition(TOPIC, PartitionId(1))
    world = World(is_returned=True)
    world.commit(10)
    world.target.append(TOPIC, 30, partition=1)
    world.target.join(G)
    world.target.commit(G, PARTITION, 40)
    world.target.commit(G, second, 25)
    world.turn()
    assert at_source(world) == 40
    assert world.source.groups[G].offsets[second].offset == 25


@pytest.mark.parametrize(
    ("rule", "target", "source"),
    [
        ("${group}", "g", "g"),
        ("east.${group}", "east.g", "g"),
        ("east.${group}", "g", None),
        ("east.${group}", "east.", None),
        ("a-${group}-a", "a-a", None),
        ("${group}.${group}", "g.g", None),
    ],
)
def test_a_name_at_the_target_is_of_one_group_or_none(
    rule: str, target: str, source: str | None
) -> None:
    assert GroupNaming(rule).source_name(GroupId(target)) == source


def test_where_a_group_runs_is_followed_only_on_a_way_back_and_only_forward() -> None:
    """Given a group that runs at the target / when the link is no way back, it runs at the source,

    too, or is behind there / then the source's offset stays.
    """
    for is_returned, offset, runs_at_both in (
        (False, 40, False),
        (True, 4, False),
        (True, 40, True),
    ):
        world = World(is_returned=is_returned)
        world.commit(10, live=runs_at_both)
        world.target.join(G)
        world.target.commit(G, PARTITION, offset)
        world.turn()
        world.turn()
        assert at_source(world) == 10


@pytest.mark.parametrize(("committed", "wanted"), [(4, 4), (5, 5), (7, 5), (10, 5), (12, 7)])
def test_an_offset_in_a_hole_of_the_old_source_is_the_record_after_it(
    committed: int, wanted: int
) -> None:
    """Given markers at the old source that the new one has not / when a group there is in them /

    then it goes on at the record after them, and skips none.
    """
    world = World(is_returned=True, breaks=[Break(10, 5)])
    world.commit(0)
    world.turn()
    world.target.join(G)
    world.target.commit(G, PARTITION, committed)
    world.turn()
    assert at_source(world) == wanted
