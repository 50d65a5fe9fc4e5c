"""Which partitions are busy, which are watched, which are a backlog."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.records.fetch_plan import (
    BROKER_SHARE,
    BURST_S,
    LOOK_S,
    LOOK_S_PER_PARTITION,
    WATCHED_MAX,
    WATCHES_MAX,
    WATCHES_MIN,
    FetchPlan,
    WatchPace,
    watches_for,
)
from heliostat.records.network import LIVE, Channel, Traffic

FIRST, SECOND = Channel(Traffic.SPARSE, 0), Channel(Traffic.SPARSE, 1)


def plan_of(count: int, *, live_max: int = 4, slots: int = 1) -> FetchPlan:
    items: Any = [SimpleNamespace(index=index) for index in range(count)]
    return FetchPlan(items, live_max=live_max, backlog_slots=slots)


def sizes(plan: FetchPlan) -> dict[Channel, int]:
    return {channel: len(items) for channel, items in plan.groups.items()}


def test_few_partitions_all_wait():
    plan = plan_of(4)
    plan.regroup(10.0)
    assert sizes(plan) == {LIVE: 4}


def test_of_many_the_busy_ones_wait_and_the_rest_is_watched_in_groups():
    plan = plan_of(100)
    assert sizes(plan) == {FIRST: WATCHED_MAX, SECOND: 100 - WATCHED_MAX}
    for second in range(3):
        for index in (7, 8, 9, 10, 11):
            for _ in range(index):
                plan.saw_records(index, is_behind=False)
        plan.regroup(10.0 + second)
    assert sizes(plan) == {LIVE: 4, FIRST: WATCHED_MAX - 4, SECOND: 100 - WATCHED_MAX}
    assert [plan.channel_of(index) for index in (7, 8, 11, 64)] == [FIRST, LIVE, LIVE, SECOND]
    assert plan.channels == {LIVE, FIRST, SECOND}


def test_a_partition_that_falls_silent_is_watched_again():
    plan = plan_of(100)
    plan.saw_records(3, is_behind=False)
    plan.regroup(1.0)
    assert plan.channel_of(3) == LIVE
    for second in range(2, 12):
        plan.regroup(float(second))
    assert plan.channel_of(3) == FIRST


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
    assert (plan.channel_of(1), plan.channel_of(2)) == (LIVE, FIRST)


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


@pytest.mark.parametrize("count", [5_000, 20_000])
def test_so_many_partitions_need_no_more_connections_than_allowed(count: int):
    assert len(plan_of(count).groups) <= WATCHES_MAX
    assert max(sizes(plan_of(count)).values()) >= WATCHED_MAX


def test_a_group_goes_out_anew_at_once_while_little_happens():
    pace = WatchPace()
    assert [pace.ended(64, now_s) for now_s in (10.0, 10.05, 10.1)] == [10.0, 10.05, 10.1]


def test_all_groups_together_take_their_share_of_the_broker_and_no_more():
    """Given groups that are answered all the time / then the broker works its share of the time."""
    pace = WatchPace()
    now_s, seconds, answers = 10.0, 5.0, 0
    while now_s < 10.0 + seconds:
        now_s = max(now_s, pace.ended(64, now_s))
        answers += 1
    worked_s = answers * (LOOK_S + LOOK_S_PER_PARTITION * 64)
    assert worked_s == pytest.approx((seconds + BURST_S) * BROKER_SHARE, rel=0.02)


@pytest.mark.parametrize(
    ("open_s", "groups"), [(0.0, WATCHES_MAX), (0.02, WATCHES_MAX), (2.0, 8), (60.0, WATCHES_MIN)]
)
def test_over_long_lines_there_are_fewer_and_larger_groups(open_s: float, groups: int):
    """Given the time a connection takes to open / then all are open while a round is prepared."""
    assert watches_for(open_s) == groups
