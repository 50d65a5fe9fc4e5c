"""Which partitions wait at the broker, which are swept, which are a backlog."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from heliostat.records.fetch_plan import FetchPlan
from heliostat.records.network import LIVE, SPARSE, Channel, Traffic


def plan_of(count: int, *, live_max: int = 4, slots: int = 1) -> FetchPlan:
    items: Any = [SimpleNamespace(index=index) for index in range(count)]
    return FetchPlan(items, live_max=live_max, backlog_slots=slots)


def sizes(plan: FetchPlan) -> dict[Channel, int]:
    return {channel: len(items) for channel, items in plan.groups.items()}


def test_few_partitions_all_wait():
    plan = plan_of(4)
    plan.regroup(10.0)
    assert sizes(plan) == {LIVE: 4}


def test_of_many_the_busy_ones_wait_and_the_rest_is_swept():
    plan = plan_of(100)
    assert sizes(plan) == {SPARSE: 100}
    for second in range(3):
        for index in (7, 8, 9, 10, 11):
            for _ in range(index):
                plan.saw_records(index, is_behind=False)
        plan.regroup(10.0 + second)
    assert sizes(plan) == {LIVE: 4, SPARSE: 100}
    assert [plan.channel_of(index) for index in (7, 8, 11)] == [SPARSE, LIVE, LIVE]


def test_a_partition_that_falls_silent_is_swept_again():
    plan = plan_of(100)
    plan.saw_records(3, is_behind=False)
    plan.regroup(1.0)
    assert plan.channel_of(3) == LIVE
    for second in range(2, 12):
        plan.regroup(float(second))
    assert plan.channel_of(3) == SPARSE


def test_a_little_busier_is_no_reason_to_change_places():
    plan = plan_of(100, live_max=1)
    for index, hits in ((1, 10), (2, 12)):
        for _ in range(hits if index == 1 else 0):
            plan.saw_records(index, is_behind=False)
    plan.regroup(1.0)
    assert plan.channel_of(1) == LIVE
    for second in range(2, 6):
        for index, hits in ((1, 10), (2, 12)):
            for _ in range(hits):
                plan.saw_records(index, is_behind=False)
        plan.regroup(float(second))
    assert (plan.channel_of(1), plan.channel_of(2)) == (LIVE, SPARSE)


def test_those_far_behind_have_connections_of_their_own_until_they_caught_up():
    plan = plan_of(6, live_max=64, slots=2)
    for index in (2, 3, 4):
        plan.saw_records(index, is_behind=True)
    backlog = [Channel(Traffic.BACKLOG, slot) for slot in (0, 1)]
    assert sizes(plan) == {LIVE: 3, backlog[0]: 2, backlog[1]: 1}
    groups = plan.groups
    assert plan.groups is groups
    plan.caught_up(3)
    assert sizes(plan) == {LIVE: 4, backlog[0]: 2}
