"""Carries out orders of operators, each at most once, whenever this process dies.

    wishes/order       the rows, and which counts; pure
    ordered_restarts   what is begun anew
    here               begun is durable, and ours, before anything is done

I10 Only the link's owner begins an order: it checks that before it writes, and before it acts.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from heliostat.clock import Clock
from heliostat.link.ordered_restarts import Pending
from heliostat.ops.events import Events
from heliostat.wishes.order import (
    CUT_SHORT,
    Order,
    OrderStanding,
    Stage,
    begun_key,
    ended_key,
)
from heliostat.wishes.wish_book import WishBook

REPORTED_MAX = 5
"""Orders in the driver's report, the newest."""
PRUNE_EVERY_S = 60.0


class OrderPart:
    """The orders for one link, while this process owns it. From one thread only.

    Parameters
    ----------
    book
        Where they are written; read by the caller.
    may_restart
        Returns whether something runs that can begin anew, or nothing is to run at all.
    act
        Begins to do what is ordered.
    check
        Raises unless the link is still ours.
    instance
        Name of this owner, another one for each claim.
    clock, events
        Time, and where it is told.
    """

    def __init__(
        self,
        book: WishBook,
        may_restart: Callable[[], bool],
        act: Callable[[Order], Pending],
        check: Callable[[], None],
        instance: str,
        *,
        clock: Clock,
        events: Events,
    ) -> None:
        self._book = book
        self._may_restart = may_restart
        self._act = act
        self._check = check
        self._instance = instance
        self._clock = clock
        self._events = events
        self._announced: set[str] = set()
        """Orders of which it is written that we begin them."""
        self._under_way: dict[str, Pending] = {}
        """Orders that were carried out here, those that have ended too."""
        self._prune_s = 0.0

    def turn(self) -> bool:
        """Carry out what was ordered; return whether to look again at once."""
        orders = self._book.orders
        for standing in orders.of(Stage.BEGUN):
            self._go_on(standing)
        waiting = orders.of(Stage.WAITS) if self._may_restart() else []
        for standing in waiting:
            self._begin(standing)
        self._prune()
        return bool(waiting) or bool(orders.of(Stage.BEGUN))

    def _begin(self, standing: OrderStanding) -> None:
        """Write that it begins; it is carried out once that row is read, and is the first."""
        order_id = standing.order.order_id
        if order_id in self._announced:
            return
        self._check()
        now_ms = self._clock.wall_ms()
        row = {"instance": self._instance, "host": socket.gethostname(), "at_ms": now_ms}
        self._book.put({begun_key(order_id): row})
        self._announced.add(order_id)

    def _go_on(self, standing: OrderStanding) -> None:
        order, begun = standing.order, standing.begun
        assert begun is not None
        if begun.instance != self._instance:
            self._end(standing, Stage.CUT_SHORT, f"{CUT_SHORT} ({begun.host})")
            return
        pending = self._under_way.get(order.order_id)
        if pending is None:
            self._check()
            self._under_way[order.order_id] = lambda: None  # once, whatever becomes of it
            self._events.info(f"{order.verb.value} of {order.place}: {_told(standing)}")
            pending = self._under_way[order.order_id] = self._act(order)
        if (text := pending()) is not None:
            self._end(standing, Stage.DONE, text)

    def _end(self, standing: OrderStanding, stage: Stage, text: str) -> None:
        self._check()
        row = {"stage": stage.value, "text": text, "at_ms": self._clock.wall_ms()}
        key = ended_key(standing.order.order_id)
        self._book.put({key: row})
        self._book.orders.take(key, row)
        say = self._events.info if stage is Stage.DONE else self._events.warn
        say(f"{standing.order.verb.value} of {standing.order.place}: {text}")

    def _prune(self) -> None:
        """Delete the rows of orders that ended long ago, now and then."""
        now_s = self._clock.monotonic_s()
        if now_s < self._prune_s:
            return
        self._prune_s = now_s + PRUNE_EVERY_S
        if keys := self._book.orders.outdated(self._clock.wall_ms()):
            self._check()
            self._book.put(dict.fromkeys(keys))
            for key in keys:
                self._book.orders.take(key, None)

    def report(self) -> list[dict[str, Any]]:
        """Return the newest orders, for the driver's report."""
        return [each.to_json() for each in list(self._book.orders.standings())[-REPORTED_MAX:]]


def _told(standing: OrderStanding) -> str:
    order = standing.order
    return f"{order.by} orders so" + (f", {order.why}" if order.why else "")
