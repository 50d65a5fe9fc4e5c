"""Packing partitions into lanes: balanced, sticky, complete."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heliostat.link.lane_packing import (
    LOPSIDED_RATIO,
    PIPELINE_LANES,
    WEIGHT_BYTES_FLOOR,
    Packing,
    pack,
    pack_pipeline,
)
from heliostat.names import LaneId, PartitionId, TopicName, TopicPartition


def partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition(TopicName("t"), PartitionId(number)) for number in range(count)]


@given(st.lists(st.floats(0, 1e7), max_size=40), st.integers(1, 6))
def test_each_partition_is_in_exactly_one_lane(loads: list[float], lanes: int) -> None:
    """Given any loads / when packed / then nothing is left out or served twice."""
    wanted = partitions(len(loads))
    packing = pack(wanted, dict(zip(wanted, loads, strict=True)), lanes, {})
    served = [p for items in packing.values() for p in items]
    assert sorted(served) == wanted
    assert len(packing) <= lanes
    assert all(packing.values())


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=40), st.integers(1, 6))
def test_the_heaviest_lane_carries_little_more_than_its_share(
    loads: list[float], lanes: int
) -> None:
    """Given any loads / when packed afresh / then as balanced as one hot partition allows."""
    wanted = partitions(len(loads))
    packing = pack(wanted, dict(zip(wanted, loads, strict=True)), lanes, {})
    weights = [WEIGHT_BYTES_FLOOR + load for load in loads]
    heaviest = max(
        sum(WEIGHT_BYTES_FLOOR + loads[p.partition] for p in items) for items in packing.values()
    )
    assert heaviest <= sum(weights) / lanes + max(weights)


def test_a_new_partition_moves_no_other() -> None:
    """Given a balanced packing / when one partition joins / then all others stay."""
    before = pack(partitions(8), {}, 2, {})
    after = pack(partitions(9), {}, 2, before)
    for lane, items in before.items():
        assert set(items) <= set(after[lane])


def test_an_unbalanced_packing_is_balanced() -> None:
    """Given all load in one lane / when packed again / then hot partitions are apart."""
    wanted = partitions(4)
    before = {LaneId(0): tuple(wanted[:2]), LaneId(1): tuple(wanted[2:])}
    loads = dict.fromkeys(wanted[:2], 1e6)
    after = pack(wanted, loads, 2, before)
    homes = {p: lane for lane, items in after.items() for p in items}
    assert homes[wanted[0]] != homes[wanted[1]]
    assert LOPSIDED_RATIO > 1


def test_an_added_lane_gets_its_share() -> None:
    """Given two lanes / when a third is allowed / then it is not left empty."""
    before = pack(partitions(6), {}, 2, {})
    after = pack(partitions(6), {}, 3, before)
    assert sorted(len(items) for items in after.values()) == [2, 2, 2]
    assert pack(partitions(6), {}, 3, after) == after


def test_partitions_of_a_removed_lane_go_to_the_others() -> None:
    """Given three lanes / when only two are allowed / then only the third's partitions move."""
    before = pack(partitions(6), {}, 3, {})
    after = pack(partitions(6), {}, 2, before)
    assert sorted(p for items in after.values() for p in items) == partitions(6)
    for lane, items in after.items():
        assert set(before[lane]) <= set(items)


def test_a_partition_that_is_gone_leaves_its_lane() -> None:
    """Given a packing / when a partition is no longer wanted / then it is in no lane."""
    before = pack(partitions(3), {}, 3, {})
    after = pack(partitions(1), {}, 3, before)
    assert [p for items in after.values() for p in items] == partitions(1)


def test_a_hot_partition_moves_no_other() -> None:
    """Given one that outweighs all / when packed again / then nothing moves: it can't be split."""
    wanted = partitions(5)
    before = {LaneId(0): tuple(wanted[:2]), LaneId(1): tuple(wanted[2:])}
    assert pack(wanted, {wanted[0]: 1e6}, 2, before) == before


def test_lanes_of_pipelines_are_their_own_and_stay() -> None:
    """Given partitions with and without pipelines / when packed again / then each lane stays."""
    names = [TopicPartition(TopicName(name), PartitionId(n)) for name in "abc" for n in range(4)]
    plain, first, second = names[:4], names[4:8], names[8:]

    def packed(previous: Packing, lanes: int) -> dict[LaneId, tuple[TopicPartition, ...]]:
        return (
            pack(plain, {}, 2, previous)
            | pack_pipeline(0, first, {}, lanes, previous)
            | pack_pipeline(1, second, {}, 1, previous)
        )

    once = packed({}, 2)
    of_first = [PIPELINE_LANES, PIPELINE_LANES + 1]
    assert list(once) == [0, 1, *of_first, 2 * PIPELINE_LANES]
    assert sorted(p for lane in of_first for p in once[LaneId(lane)]) == first
    assert once[LaneId(2 * PIPELINE_LANES)] == tuple(second)
    halves = {LaneId(of_first[0]): tuple(first[:2]), LaneId(of_first[1]): tuple(first[2:])}
    assert packed(once | halves, 2) == once | halves
    assert packed(once, 1)[LaneId(PIPELINE_LANES)] == tuple(first)
