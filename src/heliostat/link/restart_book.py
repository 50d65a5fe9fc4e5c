"""Where a link that is driven by nobody finds what was ordered, and keeps what it remembers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from heliostat.access import ClusterAccess
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import LinkConfig
from heliostat.names import LinkName
from heliostat.wishes.order import Orders, OrderVerb, Stage
from heliostat.wishes.restarts import RestartMemory
from heliostat.wishes.wish_book import CLIENT_ID, WishBook

LOOK_WITHIN_S = 0.1


class RestartStore(Protocol):
    """Holds what is remembered of a link's restarts, and orders; `RestartBook`, or a fake.

    Each method raises `ConnectionLost` if the target does not answer, `BrokerError` if it refuses.
    """

    def memory(self) -> RestartMemory | None:
        """Return what is remembered now; None: nothing is."""
        ...

    def remember(self, memory: RestartMemory) -> None:
        """Keep it; durable when it returns."""
        ...

    def orders(self) -> Collection[str]:
        """Return the ids of orders to begin the whole link anew that no owner has begun."""
        ...

    def close(self) -> None:
        """Close the connections; the next call opens them anew."""
        ...


class RestartBook:
    """Reads and writes that in the topic of wishes. From one thread only.

    Parameters
    ----------
    link
        Configuration of the link.
    target
        The cluster that it copies to.
    """

    def __init__(self, link: LinkConfig, target: ClusterAccess) -> None:
        self._link = link
        self._target = target
        self._lent: LentClusters | None = None
        self._book: WishBook | None = None

    def memory(self) -> RestartMemory | None:
        """See `RestartStore.memory`."""
        return self._read().restarts

    def remember(self, memory: RestartMemory) -> None:
        """See `RestartStore.remember`."""
        self._opened().remember(memory, self._link.state.replication_factor)

    def orders(self) -> Collection[str]:
        """See `RestartStore.orders`."""
        return restarts_ordered(self._read().orders)

    def close(self) -> None:
        """See `RestartStore.close`."""
        book, lent, self._book, self._lent = self._book, self._lent, None, None
        if book is not None:
            book.close()
        if lent is not None:
            lent.close()

    def _opened(self) -> WishBook:
        if self._book is None:
            self._lent = LentClusters(self._target, DialSettings(CLIENT_ID))
            self._book = WishBook(LinkName(self._link.name), self._lent)
        return self._book

    def _read(self) -> WishBook:
        """Return the book with all that is written by now."""
        is_new = self._book is None
        book = self._opened()
        try:
            if is_new:
                book.read()
            else:
                book.consume(LOOK_WITHIN_S)
        except BaseException:
            self.close()  # it is read from its start next time
            raise
        return book


def restarts_ordered(orders: Orders) -> list[str]:
    """Return the ids of orders to begin the whole link anew that wait: none of another verb."""
    return [
        each.order.order_id
        for each in orders.of(Stage.WAITS)
        if each.order.verb is OrderVerb.RESTART and each.order.place.topic is None
    ]
