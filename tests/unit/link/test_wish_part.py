"""Wishes of a running link: read before anything is copied, carried out, answered, tried again."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.clock import SystemClock
from heliostat.errors import ConnectionLost
from heliostat.link.order_part import OrderPart
from heliostat.link.wish_part import WishPart
from heliostat.names import Offset, TopicName
from heliostat.ops.events import Events
from heliostat.wishes.job import Job, JobRows
from heliostat.wishes.order import Orders
from heliostat.wishes.restarts import RestartMemory
from heliostat.wishes.wish import Place, Wish, WishedState, Wishes

PAUSE = Wish(Place(), WishedState.PAUSED, "ops", 1, "full")


class Book:
    """A topic of wishes whose records a test gives."""

    def __init__(self) -> None:
        self.wishes = Wishes()
        self.orders = Orders()
        self.jobs = JobRows()
        self.new_jobs: list[Job] = []
        self.restarts: RestartMemory | None = None
        self.there: list[Wish] = []
        self.position = Offset(0)
        self.waits: list[float] = []

    def exists_now(self) -> None:
        """Its topic was made."""

    def read(self) -> None:
        self.wishes, self.position = Wishes(), Offset(0)
        self.consume(0.0)

    def consume(self, wait_s: float) -> bool:
        self.waits.append(wait_s)
        new = self.there[self.position :]
        for wish in new:
            self.wishes.take(wish)
        self.position = Offset(len(self.there))
        for job in self.new_jobs:
            self.jobs.take(job.key, job.to_json())
        return bool(new or self.new_jobs)


class Scene:
    def __init__(self) -> None:
        self.book = Book()
        self.done: list[WishedState | None] = []
        self.fails = 0
        self.is_carried_out, self.is_crowded = True, False
        self.events = Events(lambda: 0, None)
        self.part = WishPart(
            self.book,  # type: ignore[arg-type]  # a part of it
            self.carry_out,
            lambda: self.is_carried_out,
            OrderPart(
                self.book,  # type: ignore[arg-type]  # as above
                lambda: False,
                lambda _: lambda: None,
                lambda: None,
                "mine",
                clock=SystemClock(),
                events=self.events,
            ),
            self.events,
            is_crowded=lambda: self.is_crowded,
        )

    def carry_out(self, wishes: Wishes) -> None:
        if self.fails:
            self.fails -= 1
            raise ConnectionLost("gone")
        of_link = wishes.of_link()
        self.done.append(None if of_link is None else of_link.state)

    def report(self) -> dict[str, Any]:
        return self.part.report()


def test_what_was_wished_before_is_carried_out_first() -> None:
    scene = Scene()
    scene.book.there.append(PAUSE)
    scene.part.begin()
    assert scene.done == [WishedState.PAUSED]
    assert scene.report()["answered"] == 0, "lanes have not answered yet"
    scene.part.turn()
    assert scene.report()["answered"] == 1
    assert scene.report()["link"]["by"] == "ops"
    assert scene.part.answered.is_set()


def test_an_answer_waits_for_the_lanes_and_then_comes_at_once() -> None:
    scene = Scene()
    scene.part.begin()
    wake = scene.part.loop(Mock()).wake
    assert wake is not None
    scene.is_carried_out = False
    scene.book.there.append(PAUSE)
    scene.part.turn()
    assert wake.is_set()
    scene.part.turn()
    assert scene.report()["answered"] == 0
    scene.is_carried_out = True
    wake.clear()
    scene.part.turn()
    assert scene.report()["answered"] == 1
    assert not wake.is_set()
    *_, first, second, third = scene.book.waits
    assert first > second == third, "while lanes are to answer it looks more often"
    assert scene.events.recent(9)[-1].endswith("the link is paused: ops wishes so, full")


def test_what_failed_is_tried_again_whole() -> None:
    """Given a wish whose carrying out fails / then it is not answered, and all are read again."""
    scene = Scene()
    scene.part.begin()
    scene.book.there.append(PAUSE)
    scene.fails = 2
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            scene.part.turn()
        assert scene.report()["answered"] == 0
    scene.part.turn()
    assert scene.done == [None, WishedState.PAUSED]
    assert scene.report()["answered"] == 1


def test_many_pauses_are_counted_and_some_named() -> None:
    scene = Scene()
    scene.book.there += [
        Wish(Place(TopicName(f"t{number:03}")), WishedState.PAUSED, "ops", 1)
        for number in range(99)
    ]
    scene.part.begin()
    told = scene.report()
    assert (told["paused_count"], len(told["paused"]), told["paused"][0]["place"]) == (
        99,
        20,
        "t000",
    )
    assert told["link"] is None


def test_among_many_links_no_turn_waits_for_wishes() -> None:
    """Given many links / then a turn looks without waiting, and the next one is not at once."""
    scene = Scene()
    scene.part.begin()
    scene.is_crowded = True
    wake = scene.part.loop(Mock()).wake
    assert wake is not None
    scene.part.turn()
    assert scene.book.waits[-1] < 0.1
    assert not wake.is_set()
    scene.book.there.append(PAUSE)
    scene.part.turn()
    assert scene.done[-1] is WishedState.PAUSED
    assert wake.is_set()


def test_what_services_begin_is_told_with_who_asks() -> None:
    scene = Scene()
    scene.part.begin()
    scene.book.new_jobs = [Job("0" * 16, {}, "ann", 5, "here", "service")]
    scene.part.turn()
    scene.part.turn()
    (line,) = scene.events.recent(9)
    assert line.endswith(f"INFO verify: begun by ann as job {'0' * 16}")
