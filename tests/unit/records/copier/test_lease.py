"""A lease counts from when a report was handed over, whatever the process or the network does."""

from __future__ import annotations

import random

import pytest
from sim.sim_clock import SimClock

from heliostat.invariants import lease_is_covered
from heliostat.records.copier.lease import Lease
from heliostat.state.ownership import owner_lasts_s

LEASE_S = 5.0


@pytest.fixture
def clock() -> SimClock:
    return SimClock(0)


@pytest.fixture
def lease(clock: SimClock) -> Lease:
    return Lease(LEASE_S, clock)


def test_nothing_is_sent_before_the_first_answer(lease: Lease, clock: SimClock) -> None:
    lease.report(1)
    clock.sleep(1.0)
    lease.answer(0)
    assert not lease.may_send()
    lease.answer(1)
    assert lease.may_send()
    assert lease.left_s() == LEASE_S - 1.0


@pytest.mark.parametrize("frozen_s", [0.0, 4.9, 5.0, 3600.0])
def test_an_answer_that_comes_late_gives_no_more_time(
    lease: Lease, clock: SimClock, frozen_s: float
) -> None:
    """Given a process or a network that sleeps before the answer / then the lease is as over."""
    lease.report(1)
    clock.sleep(frozen_s)
    lease.answer(1)
    assert lease.may_send() is (frozen_s < LEASE_S)


def test_an_answer_to_one_report_gives_no_time_of_a_later_one(
    lease: Lease, clock: SimClock
) -> None:
    lease.report(1)
    clock.sleep(2.0)
    lease.report(2)
    clock.sleep(2.0)
    lease.report(3)
    lease.answer(2)
    assert lease.left_s() == LEASE_S - 2.0
    lease.answer(1)  # an older announcement is read again
    assert lease.left_s() == LEASE_S - 2.0
    lease.answer(3)
    assert lease.left_s() == LEASE_S


def test_a_lease_ends_and_begins_again_once(lease: Lease, clock: SimClock) -> None:
    lease.report(1)
    lease.answer(1)
    assert (lease.has_ended, lease.begins_again()) == (False, False)
    clock.sleep(LEASE_S)
    assert lease.has_ended
    lease.report(2)
    assert not lease.begins_again()
    lease.answer(2)
    assert [lease.begins_again() for _ in range(2)] == [True, False]
    assert not lease.has_ended
    clock.sleep(LEASE_S)
    assert lease.has_ended


def test_a_lease_that_lapsed_between_two_looks_is_noticed(lease: Lease, clock: SimClock) -> None:
    """Given a process frozen past its lease / when the next answer is there as it wakes /

    then the target's ends are read again all the same: another round may have sent meanwhile.
    """
    lease.report(1)
    lease.answer(1)
    clock.sleep(LEASE_S - 1.0)
    lease.report(2)
    clock.sleep(1.5)
    lease.answer(2)
    assert lease.may_send()
    assert lease.begins_again()


def test_the_owners_record_covers_each_lease() -> None:
    """Given any order of a report, its arrival and a record / then the lease ends first (I10)."""
    chance = random.Random(1)
    for _ in range(1000):
        reported_s = chance.uniform(0, 100)
        recorded_s = reported_s + chance.choice([0.0, chance.uniform(0, 50)])  # it had come before
        assert lease_is_covered(reported_s, recorded_s, LEASE_S, owner_lasts_s(LEASE_S))
    assert not lease_is_covered(10.0, 9.0 - 1.006, LEASE_S, owner_lasts_s(LEASE_S))
