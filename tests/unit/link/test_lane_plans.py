"""What rounds are told, by itself: no threads, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sim.sim_clock import SimClock
from support.one_partition import lane_spec

from heliostat.access import ClusterAccess
from heliostat.link.lane_plans import (
    CHANGED_MAX,
    FAILURES_MAX,
    LATELY_S,
    RETRY_FIRST_S,
    RETRY_MAX_S,
    STEADY_S,
    TAKEN_MAX,
    LanePlans,
    LaneRound,
)
from heliostat.link.leases import Leases
from heliostat.link.pipeline_faults import PipelineFaults
from heliostat.link.round_content import Contents
from heliostat.names import LaneId, Offset, PartitionId, TopicName
from heliostat.names import TopicPartition as Partition
from heliostat.offsets.offset_map import Break, MapTail
from heliostat.records.copier.blame import Blame, RowsFailed
from heliostat.records.copier.lane import PartitionSpec, PlanChange, RoundReport, Suspect
from heliostat.records.copier.late_sends import LATE_S
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S
from heliostat.records.copier.pipeline_steps import Pipeline, Where

LEASE_S = 10.0
TAIL: Any = object()
ZERO, ONE = LaneId(0), LaneId(1)


def at(number: int) -> Partition:
    return Partition(TopicName("t"), PartitionId(number))


def spec(number: int) -> PartitionSpec:
    return PartitionSpec(at(number), at(number), None, None, Offset(0), 1000, is_compacted=False)


TEMPLATE = replace(lane_spec(ClusterAccess(()), ClusterAccess(())), lease_s=LEASE_S)


class Driver:
    """Plans, with a clock; `mapped` partitions have an offset map."""

    def __init__(self) -> None:
        self.clock = SimClock(0)
        self.mapped: set[Partition] = set()
        self.maps_topic_id = "id"
        self.leases = Leases(LEASE_S, self.clock)
        self.faults = PipelineFaults({"p": Pipeline("p", (Where("true"),))}, {})
        contents = Contents(
            TEMPLATE, self.maps, lambda _: ((0, 5, 1, 5),), lambda _: ((0, 2.0),), self.faults
        )
        self.plans = LanePlans(contents, self.leases, 7, self.clock)

    def maps(
        self, specs: Sequence[PartitionSpec], _copied: object
    ) -> tuple[tuple[tuple[int, MapTail], ...], int, str]:
        tails = ((n, TAIL) for n, each in enumerate(specs) if each.source in self.mapped)
        return tuple(tails), 3, self.maps_topic_id

    def assign(self, wanted: Mapping[LaneId, Sequence[int]]) -> bool:
        return self.plans.assign({lane: tuple(map(spec, of)) for lane, of in wanted.items()})

    def begin(self, number: LaneId) -> LaneRound:
        lane = self.plans.lanes[number]
        assert self.plans.wait_s(lane) is not None
        return self.plans.begin(lane)

    def begun(self, wanted: Mapping[LaneId, Sequence[int]]) -> list[LaneRound]:
        """Assign, and begin all rounds; each has a lease."""
        self.assign(wanted)
        found = [self.begin(number) for number in wanted]
        for item in found:
            self.answer(item)
        return found

    def answer(self, item: LaneRound) -> None:
        self.leases.reported(item.spec.round_id, 1)
        self.leases.answer({item.spec.round_id: 1})

    def change_of(self, number: LaneId) -> PlanChange:
        (change,) = self.plans.announcement().rounds[number].changes
        return change


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_moved_partition_is_taken_when_it_was_let_go_of(driver: Driver) -> None:
    """Given two rounds / when a partition moves / then the second is told after the first's word.

    Rounds go on meanwhile, and others than these two hear of nothing (I10).
    """
    first, second, third = driver.begun({ZERO: [0, 1], ONE: [2], LaneId(2): [3]})
    assert driver.assign({ZERO: [0], ONE: [1, 2], LaneId(2): [3]})
    change = driver.change_of(ZERO)
    assert (change.give_up, change.take) == ((at(1),), ())
    assert driver.plans.announcement().rounds[ONE].changes == ()
    assert not driver.plans.heard(first.spec.round_id, change.generation - 1)
    assert driver.plans.announcement().rounds[ONE].changes == ()
    assert driver.plans.heard(first.spec.round_id, change.generation)
    taken = driver.change_of(ONE)
    assert taken.give_up == ()
    assert [each.spec for each in taken.take] == [spec(1)]
    assert (taken.take[0].copied, taken.take[0].rate) == ((5, 1, 5), 2.0)
    assert (taken.waits_for, taken.may_land_s) == ((), 0.0)
    assert taken.generation > change.generation
    assert driver.plans.announcement().rounds[ZERO].changes == ()
    assert {item.spec.round_id for item in (first, second, third)} == {
        wanted.round_id for wanted in driver.plans.announcement().rounds.values()
    }
    assert driver.plans.announcement().rounds[LaneId(2)].changes == ()


def test_a_change_is_told_until_it_is_acknowledged(driver: Driver) -> None:
    (item,) = driver.begun({ZERO: [0]})
    driver.assign({ZERO: [0, 1]})
    driver.assign({ZERO: [0, 1, 2]})
    one, two = driver.plans.announcement().rounds[ZERO].changes
    assert [[each.spec for each in change.take] for change in (one, two)] == [[spec(1)], [spec(2)]]
    driver.plans.heard(item.spec.round_id, one.generation)
    assert driver.plans.announcement().rounds[ZERO].changes == (two,)
    assert not driver.assign({ZERO: [0, 1, 2]})  # nothing is new


def test_a_partition_that_is_treated_otherwise_stays_in_its_round(driver: Driver) -> None:
    (item,) = driver.begun({ZERO: [0, 1]})
    known = driver.plans.known_since()
    other = replace(spec(1), batch_bytes_max=7)
    driver.plans.assign({ZERO: (spec(0), other)})
    change = driver.change_of(ZERO)
    assert change.give_up == (at(1),)
    assert [each.spec for each in change.take] == [other]
    assert item.has == {at(0): spec(0), at(1): other}
    # Reports from before know nothing of it; those of the other one are as true as before.
    assert driver.plans.known_since() == {at(0): known[at(0)], at(1): change.generation}


def test_a_lane_that_goes_ends_its_round_before_another_takes_over(driver: Driver) -> None:
    first, _ = driver.begun({ZERO: [1], ONE: [2]})
    assert driver.assign({ONE: [1, 2]})
    told = driver.plans.announcement()
    assert ZERO not in told.rounds
    assert told.rounds[ONE].changes == ()
    driver.plans.end(driver.plans.lanes[ZERO], first, None)
    assert [each.spec for each in driver.change_of(ONE).take] == [spec(1)]
    assert driver.change_of(ONE).may_land_s == 0.0


def test_a_new_lane_waits_for_what_others_still_have(driver: Driver) -> None:
    (item,) = driver.begun({ZERO: [0, 1]})
    driver.assign({ZERO: [0], ONE: [1]})
    assert driver.plans.wait_s(driver.plans.lanes[ONE]) is None
    driver.plans.heard(item.spec.round_id, driver.change_of(ZERO).generation)
    assert driver.begin(ONE).spec.partitions == (spec(1),)


def test_a_failed_round_counts_as_running_while_it_has_a_lease(driver: Driver) -> None:
    """Given a job that failed / when its partitions are taken / then these wait for its lease.

    Its task may run on, on a machine that is cut off from the driver only.
    """
    first, second = driver.begun({ZERO: [0], ONE: [1]})
    lane = driver.plans.lanes[ZERO]
    driver.plans.end(lane, first, RuntimeError("x"))
    assert (driver.plans.wait_s(lane) or 0.0) > 0.0
    again = driver.begin(ZERO)
    assert again.spec.waits_for == (first.spec.round_id,)
    assert again.spec.may_land_s == LANDS_WITHIN_S
    assert again.spec.generation > first.spec.generation
    ids = [item.spec.round_id for item in (again, second, first)]
    assert list(driver.plans.announcement().running) == ids
    driver.clock.sleep(LEASE_S + LATE_S)
    assert list(driver.plans.announcement().running) == ids
    assert driver.plans.lease_left_s() > 0
    driver.clock.sleep(0.02)
    assert list(driver.plans.announcement().running) == ids[:2]


def test_what_a_failed_round_had_may_go_to_another_lane_at_once(driver: Driver) -> None:
    first, _ = driver.begun({ZERO: [0], ONE: [1]})
    driver.plans.end(driver.plans.lanes[ZERO], first, RuntimeError("x"))
    driver.assign({ONE: [0, 1]})
    change = driver.change_of(ONE)
    assert [each.spec for each in change.take] == [spec(0)]
    assert change.waits_for == (first.spec.round_id,)
    assert change.may_land_s == LANDS_WITHIN_S


def test_what_a_failed_round_was_giving_up_waits_for_its_lease_as_well(driver: Driver) -> None:
    """Given a partition that a round was told to give up / when the round fails before its word /

    then whoever takes it waits for that round's lease (I10).
    """
    first, _ = driver.begun({ZERO: [0, 1], ONE: [2]})
    driver.assign({ZERO: [0], ONE: [1, 2]})
    assert driver.plans.announcement().rounds[ONE].changes == ()
    driver.plans.end(driver.plans.lanes[ZERO], first, RuntimeError("x"))
    change = driver.change_of(ONE)
    assert [each.spec for each in change.take] == [spec(1)]
    assert (change.waits_for, change.may_land_s) == ((first.spec.round_id,), LANDS_WITHIN_S)


def test_what_has_landed_may_land_again_once_another_round_is_told(driver: Driver) -> None:
    """Given a partition that a round has let go of / when the next one fails / then what that one

    has sent may land.
    """
    first, _ = driver.begun({ZERO: [0, 1], ONE: [2]})
    driver.assign({ZERO: [0], ONE: [2], LaneId(2): [1]})
    driver.plans.heard(first.spec.round_id, driver.change_of(ZERO).generation)
    third = driver.begin(LaneId(2))
    assert third.spec.may_land_s == 0.0
    driver.plans.end(driver.plans.lanes[LaneId(2)], third, RuntimeError("x"))
    assert driver.begin(LaneId(2)).spec.may_land_s == LANDS_WITHIN_S


def test_one_partition_of_which_something_may_land_is_enough(driver: Driver) -> None:
    """Given a round that ended well / when the next has a partition more / then records of an

    earlier driver may still land in that one.
    """
    (item,) = driver.begun({ZERO: [0]})
    assert item.spec.may_land_s == LANDS_WITHIN_S
    lane = driver.plans.lanes[ZERO]
    driver.plans.end(lane, item, None)
    driver.assign({ZERO: [0, 1]})
    again = driver.begin(ZERO)
    assert again.spec.may_land_s == LANDS_WITHIN_S
    driver.plans.end(lane, again, None)
    assert driver.begin(ZERO).spec.may_land_s == 0.0


def test_a_failed_round_without_a_lease_has_sent_nothing(driver: Driver) -> None:
    driver.assign({ZERO: [0]})
    driver.plans.end(driver.plans.lanes[ZERO], driver.begin(ZERO), RuntimeError("no slot"))
    assert driver.begin(ZERO).spec.waits_for == ()


@pytest.mark.parametrize("why", ["many", "mapped"])
def test_what_a_change_cannot_tell_is_told_by_a_new_round(driver: Driver, why: str) -> None:
    (item,) = driver.begun({ZERO: [0]})
    driver.mapped = {at(1)} if why == "mapped" else set()
    wanted = range(CHANGED_MAX + 2) if why == "many" else [0, 1]
    assert driver.assign({ZERO: wanted})
    told = driver.plans.announcement()
    assert told.rounds[ZERO].round_id == ""
    assert item.spec.round_id in told.running
    assert driver.plans.with_lease() == []
    driver.plans.end(driver.plans.lanes[ZERO], item, None)
    again = driver.begin(ZERO)
    assert again.spec.partitions == tuple(map(spec, wanted))
    assert len(again.spec.maps) == (why == "mapped")


def test_a_mapped_mirror_that_is_treated_otherwise_stays_in_its_round(driver: Driver) -> None:
    """Given a mirror with an offset map / when a record of it is passed / then its round takes it

    anew, as it has that map, and its neighbours notice nothing.
    """
    (item,) = driver.begun({ZERO: [0, 1]})
    driver.mapped = {at(1)}
    other = replace(spec(1), jump=Break(5, 7))
    assert driver.plans.assign({ZERO: (spec(0), other)})
    assert driver.plans.announcement().rounds[ZERO].round_id == item.spec.round_id
    change = driver.change_of(ZERO)
    assert (change.give_up, [each.spec for each in change.take]) == ((at(1),), [other])


@pytest.mark.parametrize("why", ["rebuilt", "identity", "recreated"])
def test_a_map_that_a_round_may_not_have_is_told_by_a_new_round(driver: Driver, why: str) -> None:
    """Given a map that was lost and rebuilt, or a mirror that was recreated / then what a round has

    read of its map holds no more.
    """
    lost = replace(spec(1), map_lost="gone" if why != "recreated" else "")
    driver.plans.assign({ZERO: (spec(0), lost)})
    driver.begin(ZERO)
    driver.mapped = set() if why == "identity" else {at(1)}
    target_id = UUID(int=5) if why == "recreated" else None
    driver.plans.assign({ZERO: (spec(0), replace(spec(1), target_topic_id=target_id))})
    assert driver.plans.announcement().rounds[ZERO].round_id == ""


def test_a_round_that_has_taken_many_partitions_one_by_one_is_followed_by_another(
    driver: Driver,
) -> None:
    """Given a partition that is taken again and again / then its task does not grow for ever."""
    (item,) = driver.begun({ZERO: [0, 1]})
    for attempt in range(1, TAKEN_MAX + 1):
        assert driver.plans.assign({ZERO: (spec(0), replace(spec(1), attempt=attempt))})
        assert driver.plans.heard(item.spec.round_id, driver.change_of(ZERO).generation)
    assert driver.plans.announcement().rounds[ZERO].round_id == item.spec.round_id
    driver.plans.assign({ZERO: (spec(0), replace(spec(1), attempt=0))})
    assert driver.plans.announcement().rounds[ZERO].round_id == ""
    driver.plans.end(driver.plans.lanes[ZERO], item, None)
    again = driver.begin(ZERO)
    driver.plans.assign({ZERO: (spec(0), replace(spec(1), attempt=1))})
    assert driver.plans.announcement().rounds[ZERO].round_id == again.spec.round_id


def test_the_changes_of_all_lanes_together_have_a_limit(driver: Driver) -> None:
    driver.begun({ZERO: [0], ONE: [1]})
    half = CHANGED_MAX // 2 + 2
    driver.assign({ZERO: [0, *range(10, 10 + half)], ONE: [1, *range(5000, 5000 + half)]})
    rounds = driver.plans.announcement().rounds
    assert bool(rounds[ZERO].round_id) != bool(rounds[ONE].round_id)


def test_when_stopping_nothing_is_wanted(driver: Driver) -> None:
    (item,) = driver.begun({ZERO: [0]})
    driver.plans.is_stopping = True
    told = driver.plans.announcement()
    assert (told.rounds, told.running, told.answered) == ({}, (item.spec.round_id,), {})
    assert not driver.assign({ZERO: [0, 1]})


def test_a_new_round_with_the_same_task_makes_no_report_outdated(driver: Driver) -> None:
    (item,) = driver.begun({ZERO: [0]})
    known = driver.plans.known_since()
    driver.plans.end(driver.plans.lanes[ZERO], item, RuntimeError("x"))
    driver.begin(ZERO)
    assert driver.plans.known_since() == known == {at(0): item.spec.generation}


def test_a_misplaced_lane_begins_anew(driver: Driver) -> None:
    (item,) = driver.begun({ZERO: [0]})
    assert driver.plans.begin_anew(ZERO)
    assert driver.plans.announcement().rounds[ZERO].round_id == ""
    assert not driver.plans.begin_anew(ZERO)
    assert not driver.plans.begin_anew(ONE)
    driver.plans.end(driver.plans.lanes[ZERO], item, None)
    assert driver.begin(ZERO).spec.partitions == (spec(0),)


def test_a_lane_whose_pipeline_has_changed_begins_anew(driver: Driver) -> None:
    """Given a round with a pipeline / when more schemas are known / then its next report ends it,

    and the next one has the new pipeline; other lanes go on.
    """
    other = driver.begun({ONE: [1]})[0]
    piped = (replace(spec(0), pipeline="p"),)
    driver.plans.assign({ZERO: piped, ONE: (spec(1),)})
    item = driver.begin(ZERO)
    assert not driver.plans.heard(item.spec.round_id, 0)
    learnt = Pipeline("p", (Where("false"),))
    driver.faults.learn({"p": learnt}, {})
    assert not driver.plans.heard(other.spec.round_id, 0)
    assert driver.plans.heard(item.spec.round_id, 0)
    assert driver.plans.announcement().rounds[ZERO].round_id == ""
    driver.plans.end(driver.plans.lanes[ZERO], item, None)
    found = driver.begin(ZERO)
    assert found.spec.pipeline == learnt
    assert not driver.plans.heard(found.spec.round_id, 0)


def test_failures_are_forgotten_once_a_round_works(driver: Driver) -> None:
    """Given a round that follows a failed one / when it reports for a while / then all is well."""
    (item,) = driver.begun({ZERO: [0]})
    lane = driver.plans.lanes[ZERO]
    driver.plans.end(lane, item, RuntimeError("x"))
    again = driver.begin(ZERO).spec
    driver.plans.heard(again.round_id, again.generation)
    assert lane.health.failures_in_a_row == 1
    driver.clock.sleep(STEADY_S + 1.0)
    driver.plans.heard(again.round_id, again.generation)
    assert (lane.health.failures_in_a_row, lane.health.last_error) == (0, "")


def test_failures_are_told_for_a_while_though_rounds_work_between_them(driver: Driver) -> None:
    """Given a worker that dies every 11 s / when asked / then how often, how long ago, and why."""
    driver.begun({ZERO: [0]})
    lane = driver.plans.lanes[ZERO]
    dead = "Job aborted\nPython worker exited unexpectedly (crashed)\n\tat java.base/Thread.run\n"
    for _ in range(FAILURES_MAX + 1):
        item = lane.round or driver.begin(ZERO)
        driver.clock.sleep(STEADY_S + 1.0)
        driver.plans.heard(item.spec.round_id, item.spec.generation)
        driver.plans.end(lane, item, RuntimeError(dead))
    driver.clock.sleep(2.0)
    told = lane.health.report(driver.clock.monotonic_s())
    assert (told["failed_lately"], told["failed_s_ago"]) == (LATELY_S // (STEADY_S + 1.0) + 1, 2.0)
    assert str(told["why_failed"]).startswith("a Python worker of Spark has died: killed")
    driver.clock.sleep(LATELY_S)
    told = lane.health.report(driver.clock.monotonic_s())
    assert (told["failed_lately"], told["failed_s_ago"], told["why_failed"]) == (0, None, "")


def test_a_round_follows_at_once_while_a_failing_record_is_looked_for(driver: Driver) -> None:
    """Given rounds that fail in their pipeline / when each narrows down where / then the next one

    waits for nothing but a short pause; one that does not waits longer and longer.
    """
    piped = replace(spec(0), pipeline="p")
    driver.plans.assign({ZERO: (piped,)})
    lane = driver.plans.lanes[ZERO]
    waits: list[float] = []
    for records in (0, 64, 1, 0, 1, 0, 0, 0):  # with 0 it has not said what is in its pipeline
        item = driver.plans.begin(lane)
        if records:
            at_work = item.spec
            report = RoundReport(ZERO, at_work.generation, at_work.round_number, 0, 0, "", [])
            report.suspect = Suspect(piped.source, 0, records)
            driver.faults.heard(report)
        driver.plans.end(lane, item, RowsFailed("[CAST_INVALID_INPUT] x", Blame.RECORD))
        waits.append(driver.plans.wait_s(lane) or 0.0)
        driver.clock.sleep(waits[-1])
    assert waits[:6] == pytest.approx([RETRY_FIRST_S] * 6)
    assert waits[6:] == pytest.approx([RETRY_MAX_S] * 2)


@pytest.mark.parametrize("how", ["rows", "topic"])
def test_after_a_loss_of_maps_all_rounds_begin_anew(driver: Driver, how: str) -> None:
    """Given lanes / when rows of offset maps are gone, or their topic is another / then each lane

    begins with what the driver knows of that, those without mapped mirrors too; and only once.
    """
    rounds = driver.begun({ZERO: [0], ONE: [1]})
    if how == "topic":
        driver.maps_topic_id = "another"
    lost = replace(spec(0), map_lost="gone" if how == "rows" else "")
    assert driver.plans.assign({ZERO: (lost,), ONE: (spec(1),)})
    told = driver.plans.announcement()
    assert [told.rounds[lane].round_id for lane in (ZERO, ONE)] == ["", ""]
    for item in rounds:
        driver.plans.end(driver.plans.lanes[item.spec.lane], item, None)
    assert [driver.begin(lane).spec.partitions for lane in (ZERO, ONE)] == [(lost,), (spec(1),)]
    assert not driver.plans.assign({ZERO: (lost,), ONE: (spec(1),)})
