"""Orders are carried out at most once, whenever the owner dies, and an answer says how far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from heliostat.errors import ConnectionLost, LinkTakenOver
from heliostat.link.order_part import PRUNE_EVERY_S, OrderPart
from heliostat.link.ordered_restarts import Pending
from heliostat.names import TopicName
from heliostat.ops.events import Events
from heliostat.wishes.order import KEPT_MS, Order, Orders, OrderStanding, Stage
from heliostat.wishes.wish import Place

ORDER = Order("0f" * 16, Place(), "ops", 5, "it hangs")


class Died(BaseException):
    """The process was killed."""


class Topic:
    """The topic: what is written is durable, and read in order. A test lets processes die at it."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Mapping[str, Any] | None]] = []
        self.writes = 0
        self.dies_at: int | None = None
        """The number of the step (a write that lands, or an act) right before which it dies."""
        self.is_lost = False
        """The next write lands, and its answer is lost."""

    def step(self) -> None:
        if self.dies_at == self.writes:
            raise Died
        self.writes += 1

    def compacted(self) -> None:
        """Only the last row of each key stays."""
        last = {key: place for place, (key, _) in enumerate(self.rows)}
        self.rows = [row for place, row in enumerate(self.rows) if last[row[0]] == place]


class Book:
    """A reader and writer of it."""

    def __init__(self, topic: Topic) -> None:
        self.topic, self.orders, self.place = topic, Orders(), 0

    def consume(self) -> None:
        for key, value in self.topic.rows[self.place :]:
            self.orders.take(key, value)
        self.place = len(self.topic.rows)

    def put(self, rows: Mapping[str, Mapping[str, Any] | None]) -> None:
        self.topic.step()
        self.topic.rows += rows.items()
        if self.topic.is_lost:
            self.topic.is_lost = False
            raise ConnectionLost("the answer is lost")


class Time:
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Owner:
    """One process that owns the link."""

    def __init__(self, topic: Topic, acts: list[str], name: str) -> None:
        self.topic, self.acts, self.name = topic, acts, name
        self.book, self.time = Book(topic), Time()
        self.may_restart = True
        self.is_ours = True
        self.outcome: str | None = "1 lane began anew"
        self.events = Events(lambda: 0, None)
        self.part = OrderPart(
            self.book,  # type: ignore[arg-type]  # a part of it
            lambda: self.may_restart,
            self._act,
            self._check,
            name,
            clock=self.time,
            events=self.events,
        )

    def _check(self) -> None:
        if not self.is_ours:
            raise LinkTakenOver("by another")

    def _act(self, order: Order) -> Pending:
        self.topic.step()
        self.acts.append(f"{self.name}: {order.place}")
        return lambda: self.outcome

    def turns(self, count: int = 6) -> None:
        for _ in range(count):
            self.book.consume()
            self.part.turn()
        self.book.consume()

    def standing(self) -> OrderStanding:
        found = self.book.orders.standing(ORDER.order_id)
        assert found is not None
        return found


class Scene:
    def __init__(self) -> None:
        self.topic, self.acts = Topic(), list[str]()
        self.topic.rows.append((ORDER.key, ORDER.to_json()))

    def owner(self, name: str) -> Owner:
        return Owner(self.topic, self.acts, name)


@pytest.mark.parametrize(
    ("dies_at", "acts", "stage"),
    [
        (0, ["second: the link"], Stage.DONE),  # before "begun" is written
        (1, [], Stage.CUT_SHORT),  # before it is carried out
        (2, ["first: the link"], Stage.CUT_SHORT),  # before "ended" is written
        (None, ["first: the link"], Stage.DONE),
    ],
)
@pytest.mark.parametrize("is_compacted", [False, True])
def test_an_owner_that_dies_at_any_step(
    dies_at: int | None, acts: list[str], stage: Stage, *, is_compacted: bool
) -> None:
    """Given an order / when its owner dies / then the next one does it once, or says so."""
    scene = Scene()
    scene.topic.dies_at = dies_at
    try:
        scene.owner("first").turns()
    except Died:
        scene.topic.dies_at = None
    if is_compacted:
        scene.topic.compacted()
    second = scene.owner("second")
    second.turns()
    scene.owner("third").turns()
    assert scene.acts == acts
    assert second.standing().stage is stage
    if stage is Stage.CUT_SHORT:
        assert "is not repeated" in second.part.report()[0]["text"]


@pytest.mark.parametrize("lost", [1, 2])
def test_an_answer_that_is_lost_repeats_nothing(lost: int) -> None:
    """Given that the first or second write lands without an answer / then it is done once."""
    scene = Scene()
    owner = scene.owner("first")
    owner.book.consume()
    if lost == 1:
        scene.topic.is_lost = True
        with pytest.raises(ConnectionLost):
            owner.part.turn()
    else:
        owner.part.turn()
        owner.book.consume()
        scene.topic.is_lost = True
        with pytest.raises(ConnectionLost):
            owner.part.turn()
    owner.book = Book(scene.topic)
    owner.part._book = owner.book  # type: ignore[assignment]  # it is read from its start
    owner.turns()
    assert scene.acts == ["first: the link"]
    assert owner.standing().stage is Stage.DONE


def test_two_that_take_themselves_for_the_owner_do_it_once() -> None:
    """Given one that sleeps after its check / when its successor has begun / then it does not."""
    scene = Scene()
    first, second = scene.owner("first"), scene.owner("second")
    first.book.consume()
    second.turns(1)
    first.part.turn()
    second.turns(3)
    first.turns(3)
    assert scene.acts == ["second: the link"]


def test_one_that_lost_the_link_does_nothing() -> None:
    scene = Scene()
    owner = scene.owner("first")
    owner.turns(1)
    owner.is_ours = False
    with pytest.raises(LinkTakenOver):
        owner.turns(1)
    assert scene.acts == []


def test_it_waits_while_nothing_runs_and_until_it_is_done() -> None:
    scene = Scene()
    owner = scene.owner("first")
    owner.may_restart, owner.outcome = False, None
    owner.book.consume()
    assert not owner.part.turn(), "nothing to look for at once"
    assert owner.standing().stage is Stage.WAITS
    owner.may_restart = True
    owner.turns()
    assert owner.standing().stage is Stage.BEGUN
    assert owner.part.turn()
    owner.outcome = "2 lanes began anew"
    owner.turns(1)
    [told] = owner.part.report()
    assert (told["stage"], told["text"]) == ("done", "2 lanes began anew")
    assert not owner.part.turn()
    assert scene.acts == ["first: the link"]


def test_orders_are_done_one_by_one_in_their_order_and_deleted_after_a_day() -> None:
    scene = Scene()
    later = Order("e1" * 16, Place(TopicName("t")), "ops", 1)
    scene.topic.rows.append((later.key, later.to_json()))
    owner = scene.owner("first")
    owner.turns()
    assert scene.acts == ["first: the link", "first: t"]
    owner.time.now_s = KEPT_MS / 1000 + PRUNE_EVERY_S
    owner.turns(1)
    scene.topic.compacted()
    assert [value for _, value in scene.topic.rows] == [None] * 6
    assert owner.part.report() == []
