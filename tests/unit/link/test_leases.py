"""Which reports a driver answers, and when it takes a lease for over."""

from __future__ import annotations

import pytest
from sim.sim_clock import SimClock

from heliostat.link.leases import Leases, renew_every_s
from heliostat.records.copier.late_sends import LATE_S
from heliostat.state.ownership import owner_lasts_s

LEASE_S = 10.0


@pytest.fixture
def clock() -> SimClock:
    return SimClock(0)


@pytest.fixture
def leases(clock: SimClock) -> Leases:
    return Leases(LEASE_S, clock)


def test_only_what_came_before_the_renewal_is_answered(leases: Leases, clock: SimClock) -> None:
    """Given a report that comes while the claim is renewed / then the next answer names it."""
    assert leases.reported("a", 1)
    noted = leases.to_answer(["a", "b"])
    clock.sleep(1.0)
    assert not leases.reported("a", 2)
    leases.answer(noted)
    assert leases.answered(["a", "b"]) == {"a": 1}
    leases.answer(leases.to_answer(["a"]))
    assert leases.answered(["a"]) == {"a": 2}


def test_a_lease_is_over_after_the_last_answered_report(leases: Leases, clock: SimClock) -> None:
    """Given reports that go on / when they are not answered any more / then the last one counts."""
    assert leases.over_at_s("a") == float("-inf")
    leases.reported("a", 1)
    assert leases.over_at_s("a") == float("-inf")
    leases.answer({"a": 1})
    over_s = leases.over_at_s("a")
    assert over_s == pytest.approx(clock.now_s + LEASE_S + LATE_S, abs=0.1)
    clock.sleep(5.0)
    leases.reported("a", 2)
    assert leases.over_at_s("a") == over_s
    assert leases.heard_s("a") == clock.now_s
    leases.forget("a")
    assert (leases.over_at_s("a"), leases.heard_s("a")) == (float("-inf"), None)


def test_an_old_report_read_again_changes_nothing(leases: Leases, clock: SimClock) -> None:
    leases.reported("a", 5)
    heard_s = leases.heard_s("a")
    clock.sleep(1.0)
    leases.reported("a", 3)
    assert (leases.to_answer(["a"]), leases.heard_s("a")) == ({"a": 5}, heard_s)
    leases.answer({"a": 5})
    leases.answer({"a": 3})
    assert leases.answered(["a"]) == {"a": 5}


@pytest.mark.parametrize("lease_s", [2.0, 20.0, 300.0])
def test_several_renewals_fit_into_a_lease(lease_s: float) -> None:
    assert renew_every_s(lease_s) * 5 < lease_s < owner_lasts_s(lease_s)
