"""What operators wish: which of several wishes counts, and what is no wish."""

from __future__ import annotations

import itertools
from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.link.wish_part import Steering, changes_between
from heliostat.names import LaneId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionSpec
from heliostat.wishes.wish import NAME_CHARS_MAX, Place, Wish, WishedState, Wishes

LINK, T, U = Place(), Place(TopicName("t")), Place(TopicName("u"))
T0, T1 = Place(TopicName("t"), PartitionId(0)), Place(TopicName("t"), PartitionId(1))
RUN, PAUSE, STOP = WishedState.RUNNING, WishedState.PAUSED, WishedState.STOPPED
PARTITIONS = {
    name: TopicPartition(TopicName(name[0]), PartitionId(int(name[1])))
    for name in ("t0", "t1", "u0")
}


def wish(place: Place, state: WishedState, by: str = "ops", why: str = "") -> Wish:
    return Wish(place, state, by, 1, why)


def taken(*wishes: tuple[Place, WishedState]) -> Wishes:
    found = Wishes()
    for each in wishes:
        found.take(wish(*each))
    return found


@pytest.mark.parametrize(
    ("wishes", "paused"),
    [
        ([], ""),
        ([(T, PAUSE)], "t0 t1"),
        ([(T0, PAUSE)], "t0"),
        ([(T, PAUSE), (T0, RUN)], "t1"),
        ([(T0, RUN), (T, PAUSE)], "t0 t1"),  # the later one counts
        ([(T0, PAUSE), (T, RUN)], ""),
        ([(T0, PAUSE), (T, RUN), (T1, PAUSE)], "t1"),
        ([(LINK, PAUSE)], "t0 t1 u0"),
        ([(LINK, STOP)], "t0 t1 u0"),
        ([(LINK, PAUSE), (T, RUN)], "t0 t1 u0"),
        ([(T, PAUSE), (LINK, PAUSE), (LINK, RUN)], "t0 t1"),  # it outlasts the link's
        ([(T, PAUSE), (U, PAUSE), (T, RUN)], "u0"),
    ],
)
def test_which_partitions_rest(wishes: list[tuple[Place, WishedState]], paused: str) -> None:
    found = taken(*wishes)
    assert [name for name, each in PARTITIONS.items() if found.is_paused(each)] == paused.split()


@pytest.mark.parametrize(
    ("wishes", "place", "state", "is_wished"),
    [
        ([], T, RUN, True),
        ([], LINK, PAUSE, False),
        ([(T, PAUSE)], T, PAUSE, True),
        ([(T, PAUSE)], T0, PAUSE, True),
        ([(T0, PAUSE)], T, RUN, False),  # a part of it rests
        ([(T, PAUSE), (T0, RUN)], T, PAUSE, False),  # a part of it goes on
        ([(T0, RUN), (T, PAUSE)], T, PAUSE, True),
        ([(T, PAUSE), (U, PAUSE), (T, RUN)], T, RUN, True),
        ([(LINK, PAUSE), (T, PAUSE)], LINK, PAUSE, True),
        ([(T, PAUSE)], LINK, RUN, True),  # a link's wish lifts none of its topics'
    ],
)
def test_whether_a_wish_would_change_anything(
    wishes: list[tuple[Place, WishedState]], place: Place, state: WishedState, is_wished: bool
) -> None:
    assert taken(*wishes).is_wished(place, state) is is_wished


def test_a_pause_that_was_lifted_is_told_no_more() -> None:
    found = taken((T0, PAUSE), (T, RUN), (U, PAUSE))
    assert [each.place for each in found.pauses()] == [U]


def test_what_is_forgotten_counts_no_more() -> None:
    found = taken((T, PAUSE), (T0, PAUSE))
    found.forget(T)
    assert [name for name, each in PARTITIONS.items() if found.is_paused(each)] == ["t0"]
    found.forget(U)


def test_a_copy_does_not_change_later() -> None:
    found = taken((T, PAUSE))
    before = found.copy()
    found.take(wish(T, RUN))
    assert [len(list(each.pauses())) for each in (before, found)] == [1, 0]


@pytest.mark.parametrize("place", [LINK, T, T1, Place(TopicName("a.b-c_1"), PartitionId(12))])
@pytest.mark.parametrize("state", [RUN, PAUSE])
def test_a_row_is_read_as_it_was_written(place: Place, state: WishedState) -> None:
    written = wish(place, state, why="so")
    assert Wish.from_json(place.key, written.to_json()) == written


GOOD = wish(LINK, PAUSE).to_json()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("stat", GOOD),
        ("", GOOD),
        ("state/", GOOD),
        ("state/t/x", GOOD),
        ("state/t/1/2", GOOD),
        ("state", {**GOOD, "state": "gone"}),
        ("state/t", {**GOOD, "state": "stopped"}),
        ("state", {**GOOD, "by": 7}),
        ("state", {**GOOD, "at_ms": "soon"}),
        ("state", {key: value for key, value in GOOD.items() if key != "by"}),
    ],
)
def test_what_is_no_wish(key: str, value: dict[str, Any]) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        Wish.from_json(key, value)


def test_a_long_name_is_cut() -> None:
    row = wish(LINK, PAUSE, by="x" * 9_999, why="y" * 9_999).to_json()
    read = Wish.from_json("state", row)
    assert len(read.by) == NAME_CHARS_MAX
    assert len(read.why) < 9_999


def test_lanes_keep_what_rests_and_are_told_at_once() -> None:
    """Given lanes with partitions / when wishes change / then the same lanes have the same ones."""
    wishes, given = Wishes(), list[dict[LaneId, list[bool]]]()
    steering = Steering(
        lambda wanted, _limits: given.append(
            {lane: [spec.is_paused for spec in specs] for lane, specs in wanted.items()}
        ),
        lambda: wishes,
        Mock(),
    )
    steering.again()
    assert given == []
    places = list(PARTITIONS.values())
    specs = [
        PartitionSpec(each, each, None, None, Offset(0), 1, is_compacted=False) for each in places
    ]
    steering.assign({LaneId(0): tuple(specs[:2]), LaneId(1): tuple(specs[2:])})
    for place, state in ((T1, PAUSE), (LINK, PAUSE), (LINK, RUN), (T, RUN)):
        wishes.take(wish(place, state))
        steering.again()
    ones = [[False, False, False], [False, True, False], [True] * 3, [False, True, False]]
    told = [list(itertools.chain.from_iterable(each.values())) for each in given]
    assert told == [*ones, [False] * 3]


def test_changes_are_told_in_a_line_each() -> None:
    before, now = taken((T, PAUSE)), taken((T, PAUSE))
    assert changes_between(before, now) == []
    now.take(wish(LINK, PAUSE, why="the disk is full"))
    for name in ("u", "v", "w"):
        now.take(wish(Place(TopicName(name)), PAUSE))
    now.take(wish(T, RUN))
    assert changes_between(before, now) == [
        "the link is paused: ops wishes so, the disk is full",
        "u and 2 more are paused: ops wishes so",
        "t is no longer paused: ops wishes so",
    ]
    going_on = now.copy()
    going_on.take(wish(LINK, RUN, why="it has room again"))
    assert changes_between(now, going_on) == ["the link goes on: ops wishes so, it has room again"]
    assert changes_between(now, before)[0] == "the link goes on"
