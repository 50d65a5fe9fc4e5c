"""What an order begins anew: all of a link, or what is stopped of a place, and when it is done."""

from __future__ import annotations

import pytest

from heliostat.clock import SystemClock
from heliostat.link.ordered_restarts import RECONCILED, OrderedRestarts
from heliostat.link.renewals import Renewals
from heliostat.names import LaneId, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.wishes.wish import Place

T0, T1, U0 = (
    TopicPartition(TopicName(name), PartitionId(number))
    for name, number in (("t", 0), ("t", 1), ("u", 0))
)
T = Place(TopicName("t"))


class Scene:
    def __init__(self) -> None:
        self.generations = {LaneId(0): 7, LaneId(1): 8}
        self.settled = True
        self.asked: list[str] = []
        self.restarts = OrderedRestarts(
            self,
            lambda: self.asked.append("renew"),
            lambda: [
                _report(T0, PartitionState.BLOCKED),
                _report(T1, PartitionState.COPYING),
                _report(U0, PartitionState.GAP),
            ],
            lambda source: self.asked.append(str(source)),
            refresh=lambda: self.asked.append("refresh"),
            wake=lambda: self.asked.append("wake"),
        )

    def is_settled(self) -> bool:
        return self.settled

    def turn(self) -> None:
        self.restarts.turn_begins()
        self.restarts.turn_ends()


def _report(source: TopicPartition, state: PartitionState) -> PartitionReport:
    return PartitionReport(source, source, state, 5, 9, 0, 0, -1, -1, 0)


@pytest.mark.parametrize(
    ("place", "tried", "text"),
    [
        (T, ["t-0"], "1 stopped partition is tried again"),
        (Place(TopicName("t"), PartitionId(0)), ["t-0"], "1 stopped partition is tried again"),
        (Place(TopicName("t"), PartitionId(1)), [], "nothing of it was stopped"),
    ],
)
def test_of_a_place_what_is_stopped_is_tried_again(
    place: Place, tried: list[str], text: str
) -> None:
    scene = Scene()
    outcome = scene.restarts.order(place)
    assert scene.asked == ["refresh"]
    assert outcome() is None, "no reconciliation has taken it"
    scene.settled = False
    scene.turn()
    assert scene.asked == ["refresh", *tried]
    assert outcome() is None, "lanes have not answered"
    scene.settled = True
    assert outcome() == text


def test_a_link_has_new_rounds_in_all_lanes() -> None:
    scene = Scene()
    outcome = scene.restarts.order(Place())
    assert scene.asked == ["renew", "wake", "refresh"]
    scene.turn()
    assert outcome() is None, "the old rounds still run"
    scene.generations = {LaneId(0): 9, LaneId(1): 0}
    assert outcome() is None, "a lane has none at the moment"
    scene.generations = {LaneId(0): 9}
    assert outcome() == "2 lanes began anew, 2 stopped partitions are tried again"
    assert scene.asked[3:] == ["t-0", "u-0"]


def test_a_reconciliation_that_failed_or_had_begun_before_does_not_count() -> None:
    scene = Scene()
    scene.restarts.turn_begins()
    outcome = scene.restarts.order(T)
    scene.restarts.turn_ends()
    assert outcome() is None
    scene.restarts.turn_begins()  # it fails
    assert outcome() is None
    scene.turn()
    assert outcome() is not None
    assert scene.asked == ["refresh", "t-0"], "tried again once"


def test_all_lanes_begin_anew_once() -> None:
    renewals = Renewals(lambda: None, SystemClock())
    lanes = [LaneId(0), LaneId(1)]
    assert renewals.due(lanes) == []
    renewals.order()
    assert renewals.due(lanes) == lanes
    assert renewals.due(lanes) == []


def test_an_apply_is_one_reconciliation_and_nothing_begins_anew() -> None:
    scene = Scene()
    pending = scene.restarts.reconcile()
    assert scene.asked == ["refresh"]
    assert pending() is None
    scene.restarts.turn_begins()
    assert pending() is None
    scene.restarts.turn_ends()
    assert pending() == RECONCILED
    assert scene.asked == ["refresh"]
