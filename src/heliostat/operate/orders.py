"""Restarting links, and what is stopped of topics.

An order is written to the target; the link's owner notes that it begins, carries it out once, and
writes what it came to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from heliostat.clock import SystemClock
from heliostat.config import Config, LinkConfig
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition
from heliostat.operate.idempotency import KeyUsed
from heliostat.operate.named_places import ask_source, places_named
from heliostat.operate.wish_desk import wish_desk
from heliostat.operate.wishes import CARRIED_OUT_WITHIN_S, READ_S
from heliostat.status.board import StatusBoard
from heliostat.status.reader import StatusReader
from heliostat.status.snapshot import DRIVER_SILENT_AFTER_S
from heliostat.wishes.order import Order, Orders, OrderStanding, Stage
from heliostat.wishes.wish import Place
from heliostat.wishes.wish_book import WishBook


@dataclass(frozen=True, slots=True)
class OrderAnswer:
    """What became of an order to restart."""

    link: LinkName
    places: tuple[str, ...]
    """The link, or its topics and partitions; each is an order of its own."""
    orders: tuple[OrderStanding, ...]
    """Empty: it was only tried."""
    lanes: int
    """Lanes of the link, as they last reported; 0 if it is not about the link as a whole."""
    stopped: int
    """Partitions that it has tried again, as they last reported."""
    waits: str
    """Why it is not done yet; empty: it is, or it was only tried."""
    took_s: float
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""
    is_repeated: bool = False
    """Whether the same was asked under the same key before, and nothing is ordered now."""

    @property
    def is_done(self) -> bool:
        """Whether the link's owner has done all of it."""
        return bool(self.orders) and all(standing.stage is Stage.DONE for standing in self.orders)

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "places": list(self.places),
            "orders": [standing.to_json() for standing in self.orders],
            "lanes": self.lanes,
            "stopped": self.stopped,
            "is_done": self.is_done,
            "waits": self.waits,
            "took_s": round(self.took_s, 3),
            "is_tried": self.is_tried,
            "is_repeated": self.is_repeated,
        }


def order_restart(
    config: Config,
    link: LinkConfig,
    topics: Sequence[str | Place] = (),
    *,
    by: str,
    why: str = "",
    within_s: float = CARRIED_OUT_WITHIN_S,
    dry_run: bool = False,
    key: str = "",
) -> OrderAnswer:
    """Order that a link, or what is stopped of these topics of it, begins anew; wait until it has.

    Parameters
    ----------
    topics
        Names at the source, or `TOPIC-PARTITION`, or places; none: the link as a whole.
    by
        Who orders it.
    within_s
        How long to wait; after that it is told as waiting, and is still carried out.
    dry_run
        Whether only to tell what would be done.
    key
        Under which the same is ordered once, however often it is asked; empty: none.

    Raises
    ------
    Refused
        There is no such topic or partition in the link.
    KeyUsed
        Something else was ordered under the same key.
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with wish_desk(config, link) as desk:
        partitions = desk.reader.board.positions().keys()
        desk.book.read()
        wished = desk.book.wishes.places()
        places = places_named(topics, partitions, wished, ask_source(config, link)) or [Place()]
        lanes, stopped = _concerned(desk.reader.board, places, desk.clock.wall_ms())
        now_ms = desk.clock.wall_ms()
        orders = [
            Order.new(place, by, now_ms, why, key=_key_of(key, number))
            for number, place in enumerate(places)
        ]
        standings: tuple[OrderStanding, ...] = ()
        waits, is_repeated = "", False
        if not dry_run:
            new = new_orders(desk.book.orders, orders, key)
            is_repeated = not new
            if new:
                desk.book.order(new, link.state.replication_factor)
            reports = desk.reader if desk.is_reported else None
            standings, waits = await_orders(reports, desk.book, orders, desk.clock, within_s)
        return OrderAnswer(
            desk.link,
            tuple(map(str, places)),
            standings,
            lanes,
            stopped,
            waits,
            desk.took_s(),
            dry_run,
            is_repeated,
        )


def _key_of(key: str, number: int) -> str:
    """Return the key of one of several orders."""
    return f"{key}\n{number}" if key else ""


def new_orders(given_orders: Orders, orders: Sequence[Order], key: str = "") -> list[Order]:
    """Return the orders that were not given before, in the order in which they are to be written.

    Parameters
    ----------
    key
        Under which they are asked.

    Raises
    ------
    KeyUsed
        Others were ordered under the same key, or for another reason.
    """
    before = [given_orders.standing(order.order_id) for order in orders]
    beyond = Order.new(Place(), "", 0, key=_key_of(key, len(orders)))
    one_more = given_orders.standing(beyond.order_id)
    # The last is written first: a write that was cut short leaves the last ones, never the first.
    is_longer = before[0] is not None and before[-1] is None
    for order, standing in zip(orders, before, strict=True):
        if standing is None:
            continue
        given = standing.order
        if is_longer or one_more or (given.place, given.why) != (order.place, order.why):
            why = f" ({given.why})" if given.why else ""
            raise KeyUsed(f"a restart of {given.place}{why} was ordered under that idempotency key")
    new = [order for order, standing in zip(orders, before, strict=True) if standing is None]
    return new[::-1]


def _concerned(board: StatusBoard, places: Sequence[Place], now_ms: int) -> tuple[int, int]:
    """Return how many lanes begin anew, and how many stopped partitions are tried again."""
    lanes = len(board.status(now_ms).lanes) if any(place.topic is None for place in places) else 0
    stopped = (
        TopicPartition(TopicName(problem.source), PartitionId(problem.partition))
        for problem in board.problems()
        if problem.is_stopped
    )
    return lanes, sum(any(place.holds(partition) for place in places) for partition in stopped)


def await_orders(
    reader: StatusReader | None,
    book: WishBook,
    orders: Sequence[Order],
    clock: SystemClock,
    within_s: float,
) -> tuple[tuple[OrderStanding, ...], str]:
    """Wait until the owner has ended them all; return how far they came, and why not further.

    Parameters
    ----------
    reader
        What it reports; None: nobody has ever run the link.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    until_s = clock.monotonic_s() + within_s
    silent_s = clock.monotonic_s() + DRIVER_SILENT_AFTER_S
    first_ms = None if reader is None else reader.board.driver_at_ms
    was_halted = False
    while True:  # ends: they have ended, nobody is there to do it, or the time is over
        book.consume(READ_S)
        if reader is not None:
            reader.read(0.0)
        lookups = (book.orders.standing(order.order_id) for order in orders)
        standings = tuple(standing for standing in lookups if standing is not None)
        if len(standings) == len(orders) and all(
            standing.ended is not None for standing in standings
        ):
            return standings, ""
        now_s = clock.monotonic_s()
        at_ms = None if reader is None else reader.board.driver_at_ms
        memory = book.restarts
        is_halted = memory is not None and memory.is_halted
        was_halted |= is_halted  # begun again as ordered, it has to become the owner first
        if at_ms is None and not was_halted:
            return standings, "the link has no owner now: it is done once a driver runs the link"
        is_silent = at_ms == first_ms and now_s >= silent_s and not was_halted
        if now_s < until_s and not is_silent:
            continue
        if is_halted and at_ms is None and memory is not None:
            return standings, f"the link has halted: {memory.reason}"
        if is_silent:
            return standings, "the link's driver does not report: it, or another one, does it"
        if any(standing.stage is Stage.BEGUN for standing in standings):
            return standings, "the link's driver has begun, and is not done yet"
        return standings, f"the link's driver has not begun it within {within_s:g} s: does it copy?"
