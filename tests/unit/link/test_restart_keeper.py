"""A link that halted begins again: by time, by an order, from what the target remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from heliostat.errors import ConfigError, ConnectionLost, LinkTakenOver, ProtocolError
from heliostat.link.restart_book import restarts_ordered
from heliostat.link.restart_keeper import RestartKeeper
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events
from heliostat.status.board import StatusBoard
from heliostat.wishes.order import Order, Orders, OrderVerb
from heliostat.wishes.restarts import Phase, RestartMemory
from heliostat.wishes.wish import Place

BAD = ProtocolError("a record that is not ours")


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Store:
    """The target's topic, in memory."""

    def __init__(self) -> None:
        self.row: RestartMemory | None = None
        self.ids: set[str] = set()
        self.is_away = False

    def _answer(self) -> None:
        if self.is_away:
            raise ConnectionLost("away")

    def memory(self) -> RestartMemory | None:
        self._answer()
        return self.row

    def remember(self, memory: RestartMemory) -> None:
        self._answer()
        self.row = memory

    def orders(self) -> set[str]:
        self._answer()
        return self.ids

    def close(self) -> None:
        """Nothing is open."""


class Scene:
    """One process that keeps a link."""

    def __init__(self, store: Store | None = None, limit: int = 3) -> None:
        self.time, self.store = Time(), store or Store()
        self.events = Events(lambda: 0, None)
        self.board = StatusBoard(LinkName("l"))
        self.keeper = RestartKeeper(
            "l", limit, self.store, self.board, clock=self.time, events=self.events
        )

    def rests_s(self) -> float | None:
        """For how long it rests; None: for more than two hours."""
        began_s = self.time.now_s
        while not self.keeper.is_due():
            self.time.now_s += 1
            if self.time.now_s - began_s > 7200:
                return None
        return self.time.now_s - began_s

    def said(self) -> str:
        return "\n".join(self.events.recent(100))


def test_it_rests_longer_each_time_and_gives_up() -> None:
    scene = Scene()
    rests = list[float | None]()
    for _ in range(4):
        scene.keeper.halted(BAD)
        rests.append(scene.rests_s())
    assert rests == [0, 120, 360, None]
    assert scene.keeper.is_over
    assert scene.store.row is not None
    assert (scene.store.row.phase, scene.store.row.total) == (Phase.GAVE_UP, 3)
    assert "has halted: [PROTOCOL] a record that is not ours" in scene.said()
    assert "given up after 3 restarts" in scene.said()


def test_a_quiet_time_as_long_as_its_next_rest_takes_it_back_to_zero() -> None:
    scene = Scene()
    for _ in range(2):
        scene.keeper.halted(BAD)
        scene.rests_s()
    scene.keeper.runs(scene.store.row)
    assert scene.board.status(0).state == "unknown", "it is not halted any more"
    scene.time.now_s += 359
    scene.keeper.look()
    assert scene.store.row is not None
    assert scene.store.row.count == 2
    scene.time.now_s += 1
    scene.keeper.look()
    assert (scene.store.row.count, scene.store.row.total) == (0, 2)


def test_another_process_counts_on() -> None:
    """Given a link that gave up in one process / when another halts too / then it gives up."""
    first = Scene()
    for _ in range(3):
        first.keeper.halted(BAD)
        first.rests_s()
    second = Scene(first.store)
    second.keeper.halted(BAD)
    assert second.keeper.is_over
    assert second.store.row is not None
    assert second.store.row.total == 2, "the third try was not told to the target"


def test_an_order_begins_it_again_once_and_counts_from_zero() -> None:
    scene = Scene(limit=0)
    scene.keeper.halted(BAD)
    assert scene.rests_s() is None
    scene.store.ids.add("a")
    assert scene.rests_s() is not None
    scene.keeper.halted(BAD)
    assert scene.rests_s() is None, "that order was heeded"
    assert "begins again, as it was ordered" in scene.said()


def test_one_that_was_taken_over_stands_by_at_once_and_writes_nothing() -> None:
    scene = Scene()
    scene.keeper.halted(LinkTakenOver("by another"))
    assert scene.rests_s() == 0
    assert not scene.keeper.is_over
    assert scene.store.row is None
    assert "stands by" in scene.said()


def test_a_refused_configuration_waits_for_another_one_or_an_order() -> None:
    scene = Scene()
    scene.keeper.halted(ConfigError("one cluster"))
    assert scene.rests_s() is None
    assert scene.keeper.is_over
    scene.store.ids.add("a")
    assert scene.rests_s() is not None


def test_a_target_that_is_away_changes_only_what_outlives_the_process() -> None:
    scene = Scene()
    scene.store.is_away = True
    rests = list[float | None]()
    for _ in range(3):
        scene.keeper.halted(BAD)
        rests.append(scene.rests_s())
    assert rests == [0, 120, 360]
    assert "only this process knows of its restarts" in scene.said()


@pytest.mark.parametrize("phase", list(Phase))
def test_a_status_shows_it_while_no_driver_runs(phase: Phase) -> None:
    scene = Scene()
    scene.board.know_restarts(RestartMemory(phase, 1, 3, 1, "PROTOCOL", "bad", 1, 90_000, "h"))
    status = scene.board.status(30_000)
    assert status.state == ("unknown" if phase is Phase.RUNS else "halted")
    if phase is Phase.WAITS:
        [first, *_] = status.why_not_in_sync()
        assert first == "the link has halted: bad; it begins again in 60 s (restart 1 of 3)"


def test_only_an_order_to_restart_the_link_begins_it_anew() -> None:
    """Given orders to apply, to give way, and to restart a topic / then none of them is one."""
    orders = Orders()
    restart, topic = Order.new(Place(), "ann", 1), Order.new(Place(TopicName("t")), "ann", 1)
    others = [replace(Order.new(Place(), "ann", 1), verb=verb) for verb in OrderVerb]
    for each in (restart, topic, *others):
        orders.take(each.key, each.to_json())
    ids = {each.order_id for each in others if each.verb is OrderVerb.RESTART}
    assert set(restarts_ordered(orders)) == {restart.order_id, *ids}
