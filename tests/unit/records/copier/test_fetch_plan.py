"""Which partitions are busy, which are watched, which are a backlog."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.records.copier.fetch_plan import (
    BROKER_SHARE,
    BURST_S,
    BUSY_FROM,
    BUSY_GROUPS,
    LOOK_S,
    LOOK_S_PER_PARTITION,
    WATCHED_MAX,
    WATCHES_MAX,
    WATCHES_MIN,
    FetchPlan,
    Learnt,
    WatchPace,
    watches_for,
)
from heliostat.records.copier.lane import CopySettings
from heliostat.records.copier.line_fit import LineFit
from heliostat.records.copier.network import Channel, Traffic

FIRST, SECOND = Channel(Traffic.SPARSE, 0), Channel(Traffic.SPARSE, 1)
BUSY, MORE_BUSY = Channel(Traffic.SPARSE, 2), Channel(Traffic.SPARSE, 3)


def plan_of(count: int, *, slots: int = 1, rates: dict[int, float] | None = None) -> FetchPlan:
    items: Any = [SimpleNamespace(index=index) for index in range(count)]
    line = LineFit(CopySettings(backlog_connections=slots))
    return FetchPlan(items, line=line, known=Learnt(WatchPace(), rates or {}))


def sizes(plan: FetchPlan) -> dict[Channel, int]:
    return {channel: len(items) for channel, items in plan.groups.items()}


def seconds(plan: FetchPlan, count: int, hits: dict[int, int]) -> None:
    """Let so many pass, from second 10 on, with so many answers with records in each."""
    for second in range(count + 1):
        for index, times in hits.items():
            for _ in range(times):
                plan.saw_records(index, is_behind=False)
        plan.regroup(10.0 + second)


def test_few_partitions_are_one_group_of_sparse_and_one_of_busy_ones():
    plan = plan_of(4, rates={1: 2.0, 2: 2.0})
    assert sizes(plan) == {FIRST: 2, SECOND: 2}
    assert plan.channels == {FIRST, SECOND}
    assert [plan.channel_of(index) for index in range(4)] == [FIRST, SECOND, SECOND, FIRST]


def test_a_partition_that_got_no_room_in_an_answer_is_fetched_apart():
    plan = plan_of(4)
    plan.judge(2, lag=0, got_bytes=0, wanted_bytes=1000)
    assert plan.channel_of(2) == FIRST, "all that there is was copied"
    plan.judge(2, lag=5, got_bytes=0, wanted_bytes=1000)
    assert plan.channel_of(2) == Channel(Traffic.BACKLOG, 0)
    assert not plan.is_busy(2)
    plan.judge(2, lag=0, got_bytes=3000, wanted_bytes=1000)
    assert plan.channel_of(2) == FIRST


def test_of_many_the_busy_ones_are_in_groups_of_their_own():
    plan = plan_of(100)
    assert sizes(plan) == {FIRST: WATCHED_MAX, SECOND: 100 - WATCHED_MAX}
    seconds(plan, 3, {7: 1, 8: 1, 9: 4})
    assert sizes(plan) == {
        FIRST: WATCHED_MAX - 3,
        SECOND: 100 - WATCHED_MAX,
        BUSY: 1,
        MORE_BUSY: 2,
    }
    assert [plan.channel_of(index) for index in (6, 7, 8, 64)] == [FIRST, MORE_BUSY, BUSY, SECOND]
    assert [plan.is_busy(index) for index in (6, 7)] == [False, True]


def test_a_round_begins_with_the_known_rates():
    plan = plan_of(100, rates={5: 2.0, 6: BUSY_FROM / 2})
    assert plan.is_busy(5)
    assert not plan.is_busy(6)
    assert plan.channels == {FIRST, SECOND, BUSY, MORE_BUSY}, "open before they are needed"


def test_one_record_makes_no_partition_busy():
    plan = plan_of(100, rates={5: 2.0})
    plan.regroup(10.0)
    plan.saw_records(3, is_behind=False)
    plan.regroup(11.0)
    assert plan.channel_of(3) == FIRST


def test_a_partition_gone_quiet_is_in_both_groups_until_its_own_watches_it():
    plan = plan_of(100, rates={3: 1.0})
    seconds(plan, 13, {})
    assert plan.is_busy(3)
    for second in (24.0, 25.0, 26.0, 27.0):
        plan.regroup(second)
        if not plan.is_busy(3):
            break
    assert sizes(plan) == {FIRST: WATCHED_MAX, SECOND: 100 - WATCHED_MAX, MORE_BUSY: 1}
    plan.regroup(second + 1)
    assert sizes(plan) == {FIRST: WATCHED_MAX, SECOND: 100 - WATCHED_MAX}


def test_a_busy_partition_stays_so_while_its_rate_is_near_the_limit():
    plan = plan_of(100, rates={3: BUSY_FROM})
    for second in range(60):
        if second % 3 == 0:
            plan.saw_records(3, is_behind=False)
        plan.regroup(10.0 + second)
        assert plan.is_busy(3)


def test_those_far_behind_have_connections_of_their_own_until_they_caught_up():
    plan = plan_of(6, slots=2)
    for index in (2, 3, 4):
        plan.saw_records(index, is_behind=True)
    backlog = [Channel(Traffic.BACKLOG, slot) for slot in (0, 1)]
    assert sizes(plan) == {FIRST: 3, backlog[0]: 2, backlog[1]: 1}
    groups = plan.groups
    assert plan.groups is groups
    plan.caught_up(3)
    assert sizes(plan) == {FIRST: 4, backlog[0]: 2}


@pytest.mark.parametrize("count", [5_000, 20_000])
def test_so_many_partitions_need_no_more_connections_than_allowed(count: int):
    assert len(plan_of(count).channels) <= WATCHES_MAX + BUSY_GROUPS
    assert max(sizes(plan_of(count)).values()) >= WATCHED_MAX


def test_a_group_is_fetched_again_at_once_while_load_is_low():
    pace = WatchPace()
    assert [pace.ended(64, now_s) for now_s in (10.0, 10.05, 10.1)] == [10.0, 10.05, 10.1]


def test_all_groups_together_take_their_share_of_the_broker_and_no_more():
    """Given groups that are answered all the time / then the broker works its share of time."""
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
def test_with_high_latency_there_are_fewer_and_larger_groups(open_s: float, groups: int):
    """Given the time a connection takes to open / then all are open while a round is prepared."""
    assert watches_for(open_s) == groups


def test_a_group_that_stays_the_same_stays_the_same_list():
    """Given a partition that becomes busy / then only the groups that it leaves and joins change:

    the requests of the others need not be made again.
    """
    plan = plan_of(200)
    before = plan.groups
    seconds(plan, 3, {7: 4})
    after = plan.groups
    first, *others = (Channel(Traffic.SPARSE, number) for number in range(4))
    assert after[first] is not before[first]
    assert [after[channel] is before[channel] for channel in others] == [True] * 3
