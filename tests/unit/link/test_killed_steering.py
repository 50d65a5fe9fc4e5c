"""Driver and `serve` are killed at each step of a wish or an order: none is lost, no order is done

twice, and one cut short says so. The verbs, the owner's part and their rows are real; the topic,
lanes and clock are not. A kill is an exception at a request, a row or an act, before it or after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from heliostat.clusters.keyed_topic import Change
from heliostat.config import Config
from heliostat.link.order_part import OrderPart
from heliostat.link.ordered_restarts import Pending
from heliostat.link.wish_part import WishPart
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate import levels, orders, wishes
from heliostat.operate.levels import Asked
from heliostat.ops.events import Events
from heliostat.records.copier.lane_limits import Priority
from heliostat.wishes import wish_book
from heliostat.wishes.order import Order, OrderStanding, Stage
from heliostat.wishes.wish import WishedState, Wishes
from heliostat.wishes.wish_book import WishBook

T = TopicName("t")
PARTITIONS = [TopicPartition(T, PartitionId(number)) for number in range(2)]
CONFIG = Config.model_validate(
    {
        "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
        "links": [{"name": "l", "source": "east", "target": "west"}],
    }
)
LINK = CONFIG.links[0]
TURNS = 12
"""After which nothing is under way any more."""


class Died(BaseException):
    """The process was killed."""


class World:
    """The target's topic of wishes, who owns the link, and what its lanes were told."""

    def __init__(self, *dies_at: int, is_compacted: bool = False) -> None:
        self.rows: list[tuple[str, Mapping[str, Any] | None]] = []
        self.is_there = False
        self.steps = 0
        self.dies_at = set(dies_at)
        self.is_compacted = is_compacted
        self.acts: Counter[str] = Counter()
        self.owners = 0
        self.owner: Owner | None = None
        self.board = SimpleNamespace(
            driver_at_ms=None,
            driver={},
            positions=lambda: dict.fromkeys(PARTITIONS, 0),
            status=lambda _: SimpleNamespace(lanes=[1, 2]),
            problems=list,
        )
        self.now_s = 0.0

    def step(self) -> None:
        """Note a step; the process that does it dies at some."""
        number, self.steps = self.steps, self.steps + 1
        if number in self.dies_at:
            raise Died

    def drive(self) -> None:
        """Let the owner have a turn, or the next one begin."""
        try:
            if self.owner is None:
                if self.is_compacted:
                    self._compact()
                self.owners += 1
                self.owner = Owner(self, f"owner {self.owners}")
            self.owner.turn()
        except Died:
            self.owner = None

    def _compact(self) -> None:
        """Keep only the last row of each key; offsets stay, as on a broker."""
        last = {key: place for place, (key, _) in enumerate(self.rows)}
        self.rows = [
            row if last[row[0]] == place else ("", None) for place, row in enumerate(self.rows)
        ]

    def what_counts(self) -> WishBook:
        """Return what the topic says, read by nobody who can die."""
        self.dies_at = set()
        book = WishBook(LinkName(LINK.name), self)  # type: ignore[arg-type]  # stands for it
        book.read()
        return book

    def monotonic_s(self) -> float:
        self.now_s += 0.05
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Topic:
    """As `KeyedTopic` and its reader."""

    def __init__(self, world: World, *_: object) -> None:
        self._world = world
        self._place = 0
        self._was_there = False

    def reader(self) -> Topic:
        return Topic(self._world)

    @property
    def is_there(self) -> bool:
        return self._was_there

    @property
    def position(self) -> Offset:
        return Offset(self._place)

    def ensure(self, _: int | None = None) -> None:
        self._world.step()
        self._world.is_there = True

    def exists_now(self) -> None:
        """Nothing to note."""

    def close(self) -> None:
        """Nothing to close."""

    def read_changes(self) -> list[Change]:
        self._place = 0
        return self.poll(0.0)

    def poll(self, _: float) -> list[Change]:
        self._world.step()
        self._was_there = self._world.is_there
        first, self._place = self._place, len(self._world.rows)
        rows = enumerate(self._world.rows[first:], first)
        return [Change(key, value, Offset(offset), 0) for offset, (key, value) in rows if key]

    def write_many(self, values: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Offset]:
        self._world.step()
        first = len(self._world.rows)
        self._world.rows += values.items()
        self._world.is_there = True
        self._world.step()  # it has landed, and nobody hears so
        return {key: Offset(first + number) for number, key in enumerate(values)}


class Owner:
    """A process that owns the link."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.wished = Wishes()
        book = WishBook(LinkName(LINK.name), world)  # type: ignore[arg-type]  # stands for it
        book.ensure()
        events = Events(lambda: 0, None)
        self.orders = OrderPart(
            book, lambda: True, self._act, world.step, name, clock=world, events=events
        )
        self.part = WishPart(book, self._carry_out, self._has_reached, self.orders, events)
        self.part.begin()

    def _carry_out(self, now: Wishes) -> None:
        self.world.step()
        self.wished = now
        self.world.step()

    def _has_reached(self) -> bool:
        self.world.step()
        return True

    def _act(self, order: Order) -> Pending:
        self.world.step()
        self.world.acts[order.order_id] += 1
        self.world.step()
        return lambda: "2 lanes began anew"

    def turn(self) -> None:
        self.part.turn()
        self.world.step()
        self.world.board.driver = {"wishes": self.part.report()}
        self.world.board.driver_at_ms = (self.world.board.driver_at_ms or 0) + 1
        self.world.step()


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the world in place of clusters; `CONFIG` is never dialled."""
    monkeypatch.setattr(wish_book, "KeyedTopic", Topic)
    for module in (wishes, orders, levels):
        monkeypatch.setattr(module, "wish_desk", lambda _, link: desk_of(link))


WORLD: list[World] = []
"""The one that is played in."""


@contextmanager
def desk_of(link: object) -> Iterator[SimpleNamespace]:
    """Stand for `wish_desk`."""
    world = WORLD[-1]
    assert link is LINK
    reader = SimpleNamespace(board=world.board, read=lambda _: world.drive())
    book = WishBook(LinkName(LINK.name), world)  # type: ignore[arg-type]  # stands for it
    yield SimpleNamespace(
        link=LinkName(LINK.name),
        book=book,
        reader=reader,
        is_reported=True,
        clock=world,
        took_s=lambda: 0.0,
    )


def wish(state: WishedState, *topics: str) -> Callable[[], Any]:
    return lambda: wishes.make_wish(CONFIG, LINK, state, topics, by="ann")


def restart(*topics: str, key: str = "") -> Callable[[], Any]:
    return lambda: orders.order_restart(CONFIG, LINK, topics, by="ann", key=key)


ASKS: dict[str, Callable[[], Any]] = {
    "pause": wish(WishedState.PAUSED),
    "stop": wish(WishedState.STOPPED),
    "pause a topic and a partition": wish(WishedState.PAUSED, "t", "t-1"),
    "limit": lambda: levels.limit(CONFIG, LINK, 5_000_000, asked=Asked("ann")),
    "prefer": lambda: levels.prefer(CONFIG, LINK, ["t"], Priority.HIGH, asked=Asked("ann")),
    "restart": restart(),
    "restart once": restart(key="k"),
    "restart two once": restart("t", "t-1", key="k"),
}
KILLS = 120
"""No verb here has as many steps, owner and all."""


def played(ask: Callable[[], Any], world: World) -> Any:
    """Ask; who gets no answer, or a waiting one, asks again; return the last answer."""
    WORLD[:] = [world]
    world.drive()
    world.drive()
    answer = None
    for _ in range(5):
        try:
            answer = ask()
        except Died:
            continue  # `serve` was killed: the next one is asked
        if answer.is_done or _is_cut_short(answer):
            break
        world.drive()
    for _ in range(TURNS):
        world.drive()
    world.dies_at = set()  # who owns the link then lives
    for _ in range(3):
        world.drive()
    return answer


def _is_cut_short(answer: Any) -> bool:
    standings: tuple[OrderStanding, ...] = getattr(answer, "orders", ())
    return any(each.stage is Stage.CUT_SHORT for each in standings)


def said(wished: Wishes) -> tuple[Any, ...]:
    """Return all that is wished."""
    return (
        wished.of_link(),
        sorted(str(each.place) for each in wished.pauses()),
        [(each.topic, each.bytes_per_s) for each in wished.levels.limits()],
        list(wished.levels.preferences()),
    )


def check(name: str, ask: Callable[[], Any], world: World) -> None:
    answer = played(ask, world)
    assert answer is not None
    assert answer.is_done or _is_cut_short(answer), f"{name} waits: {answer}"
    book = world.what_counts()
    assert world.owner is not None
    assert said(world.owner.wished) == said(book.wishes), "what was written is carried out"
    standings = list(book.orders.standings())
    for standing in standings:
        times = world.acts[standing.order.order_id]
        assert times <= 1, "an order is done once"
        assert standing.stage in {Stage.DONE, Stage.CUT_SHORT}
        assert times or standing.stage is Stage.CUT_SHORT, "nothing is told to be done that is not"
    assert world.acts.keys() <= {each.order.order_id for each in standings}
    if name.startswith("restart"):
        assert standings
    else:
        assert said(book.wishes) != said(Wishes()), "the wish is there"
    if name == "restart once":
        assert len(standings) == 1, "asked again under its key it is the same one"


@pytest.mark.parametrize("name", ASKS)
@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_kill_at_each_step(name: str, *, is_compacted: bool) -> None:
    """Given a link / when whoever does a step of a verb dies right there / then see above."""
    whole = World()
    check(name, ASKS[name], whole)
    assert whole.steps < KILLS
    for step in range(whole.steps):
        check(name, ASKS[name], World(step, is_compacted=is_compacted))


@pytest.mark.parametrize("name", ["pause", "restart", "restart once"])
def test_two_kills_at_any_two_steps(name: str) -> None:
    """Given the same / when the one who takes over dies, too."""
    whole = World()
    check(name, ASKS[name], whole)
    for first in range(whole.steps):
        for second in range(first + 1, first + 25, 6):
            check(name, ASKS[name], World(first, second))


def test_a_dry_run_tells_for_how_many_partitions() -> None:
    WORLD[:] = [World()]
    tried = Asked("ann", dry_run=True)
    whole = levels.limit(CONFIG, LINK, 5, asked=tried)
    other = levels.prefer(CONFIG, LINK, ["u*"], Priority.HIGH, asked=tried)
    counts = [(each.topics, each.partitions) for each in (whole, other)]
    assert counts == [(1, len(PARTITIONS)), (0, 0)]
