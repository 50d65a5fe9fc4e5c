"""The ids that lanes wait for by their reports: merged, forgotten, and what wakes the loop."""

from __future__ import annotations

import pytest
from support.schema_turns import StoppedClock

from heliostat.link.wanted_ids import SureIds, WantedIds
from heliostat.names import LaneId
from heliostat.ops.request_times import BOUNDS_S
from heliostat.records.copier.lane import RoundReport


def report(lane: int, *schema_ids: int, ended_by: str = "", plan: int = 1) -> RoundReport:
    return RoundReport(LaneId(lane), 1, 0, 0, 0, ended_by, [], schema_ids=schema_ids, plan=plan)


def wakes(wanted: WantedIds, told: RoundReport) -> bool:
    """Whether a report asks for a turn at once."""
    wanted.wake.clear()
    wanted.take(told)
    return wanted.wake.is_set()


def test_only_new_ids_wake_the_loop() -> None:
    """Given an id that was reported / when it is again, by another lane too / then nobody wakes."""
    wanted = WantedIds(StoppedClock().monotonic_s)
    assert not wakes(wanted, report(0))
    assert wakes(wanted, report(0, 7))
    assert not wakes(wanted, report(0, 7))
    assert not wakes(wanted, report(1, 7))
    assert wakes(wanted, report(1, 7, 8))
    assert not wakes(wanted, report(0))
    assert not wakes(wanted, report(0, 8, 7))


def test_lanes_that_wait_are_merged_and_their_newest_report_counts() -> None:
    wanted = WantedIds(StoppedClock().monotonic_s)
    wanted.take(report(0, 9, 3))
    wanted.take(report(1, 3, 5))
    assert wanted.now() == [3, 5, 9]
    wanted.take(report(0, 4))
    assert wanted.now() == [3, 4, 5]
    wanted.take(report(1))
    assert wanted.now() == [4]
    assert wanted.ever() == {3, 4, 5, 9}


def test_a_lane_whose_round_has_ended_waits_for_nothing() -> None:
    """Given a round's last report / then its ids are looked for, but nobody waits for them."""
    wanted = WantedIds(StoppedClock().monotonic_s)
    wanted.take(report(0, 3))
    wanted.take(report(1, 5))
    assert wakes(wanted, report(0, 3, 4, ended_by="plan"))
    assert wanted.now() == [5]
    assert wanted.ever() == {3, 4, 5}


def test_what_is_given_does_not_change_later() -> None:
    wanted = WantedIds(StoppedClock().monotonic_s)
    wanted.take(report(0, 3))
    ever = wanted.ever()
    wanted.take(report(0, 4))
    assert ever == {3}


def test_of_too_many_ids_those_are_kept_that_lanes_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given noise that looks like ids / when there is too much of it / then what no lane waits for

    is forgotten; what lanes wait for is looked for, and asks for one turn, not one each report.
    """
    monkeypatch.setattr("heliostat.link.wanted_ids.WANTED_MAX", 4)
    wanted = WantedIds(StoppedClock().monotonic_s)
    wanted.take(report(0, 1, 2))
    wanted.take(report(1, 3, 4))
    assert wakes(wanted, report(0, 5))
    assert wanted.ever() >= {3, 4, 5}
    assert not wakes(wanted, report(0, 5))
    for number in range(6, 30):
        assert wakes(wanted, report(0, number))
        assert number in wanted.ever()
        assert len(wanted.ever()) <= 4


def test_who_waits_asks_again_and_again() -> None:
    """Given a lane that waits / then it asks until it waits no more; a request counts once."""
    wanted = WantedIds(StoppedClock().monotonic_s)
    assert not wanted.asks()
    wanted.ask()
    assert wanted.wake.is_set()
    assert wanted.asks()
    assert not wanted.asks()
    wanted.take(report(0, 7))
    assert [wanted.asks(), wanted.asks()] == [True, True]
    wanted.take(report(0))
    assert not wanted.asks()


def test_waits_are_counted_when_they_end() -> None:
    """Given two lanes that wait / then each wait counts once, a round's end ends its waits."""
    clock = StoppedClock()
    wanted = WantedIds(clock.monotonic_s)
    wanted.take(report(0, 7, 8))
    clock.now_s = 2.0
    wanted.take(report(0, 8))
    wanted.take(report(1, 8))
    clock.now_s = 40.0
    assert sum(wanted.waits()[:-2]) == 1
    wanted.take(report(0, ended_by="plan"))
    wanted.take(report(0))
    *counts, took_ms, _ = wanted.waits()
    assert (counts[BOUNDS_S.index(2.5)], counts[-1], took_ms) == (1, 1, 42_000)


def test_ids_are_sure_once_lanes_know_what_is_framed() -> None:
    """Given lanes that wait / then ids count from plans on that have the newest framing."""
    told = {LaneId(0): 5}
    sure = SureIds(lambda: told)
    assert not sure.take(report(0, 7, plan=9))  # not planned yet
    sure.planned()
    assert not sure.take(report(0, 7, plan=4))
    assert not sure.take(report(1, 8, plan=9))  # that lane was not told all of it
    assert sure.known() == frozenset()
    assert sure.take(report(0, 7, plan=5))
    assert not sure.take(report(0, 7, plan=6))
    assert sure.known() == {7}
    sure.changed()
    assert sure.known() == frozenset()
    assert not sure.take(report(0, 7, plan=6))
