"""What the topic of wishes tells of a link, with a driver and without; read on any machine."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any, NamedTuple

from heliostat.access import Reachable
from heliostat.errors import HeliostatError
from heliostat.handover.unfenced import Unfenced
from heliostat.names import LinkName, Offset
from heliostat.wishes.restarts import RestartMemory
from heliostat.wishes.wish import Wishes
from heliostat.wishes.wish_book import WishBook

REPORTED_MAX = 20
"""Paused topics and partitions that are named: the driver's report is written each second."""
NOTHING_WISHED: Mapping[str, Any] = MappingProxyType({})


class Remembered(NamedTuple):
    """What is known of a link without its driver."""

    restarts: RestartMemory | None
    """None: it never halted."""
    unfenced: Unfenced | None
    """None: nothing was failed over."""
    wishes: Mapping[str, Any] = NOTHING_WISHED
    """What is wished of it, as its driver would report it."""
    end: Offset = Offset(0)
    """Offset after the last of these wishes."""


def report_of(wishes: Wishes) -> dict[str, Any]:
    """Return what is wished, for reports and the status."""
    of_link = wishes.of_link()
    pauses = sorted(wishes.pauses(), key=lambda wish: wish.place.key)
    limits = list(wishes.levels.limits())[:REPORTED_MAX]
    preferences = list(wishes.levels.preferences())[-REPORTED_MAX:]
    return {
        "link": None if of_link is None else of_link.to_json(),
        "paused": [{"place": str(wish.place), **wish.to_json()} for wish in pauses[:REPORTED_MAX]],
        "paused_count": len(pauses),
        "limits": [{"topic": limit.topic, **limit.to_json()} for limit in limits],
        "preferences": [
            {"topics": preference.topics, **preference.to_json()} for preference in preferences
        ],
    }


class MemoryReader:
    """Reads what is remembered of a link, again and again. Thread-safe.

    Parameters
    ----------
    link, target
        The link, and where its wishes lie.
    """

    def __init__(self, link: LinkName, target: Reachable) -> None:
        self._link = link
        self._target = target
        self._book: WishBook | None = None
        self._reading = threading.Lock()

    def read(self) -> Remembered | None:
        """Return what is remembered of the link now; None: an earlier read has not ended.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer, or refuses.
        """
        if not self._reading.acquire(blocking=False):
            return None
        try:
            return self._read()
        except HeliostatError:
            self._end()
            raise
        finally:
            self._reading.release()

    def close(self) -> None:
        """Close the connections, if none is in use; what is asked next opens others."""
        if self._reading.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._reading.release()

    def _read(self) -> Remembered:
        if self._book is None:
            self._book = WishBook(self._link, self._target)
        book = self._book
        if not book.is_there:
            book.read()
        while book.consume(0):
            pass
        return remembered_in(book)

    def _end(self) -> None:
        book, self._book = self._book, None
        if book is not None:
            book.close()


def remembered_in(book: WishBook) -> Remembered:
    """Return what a book has of a link, as far as it is read."""
    unfenced = Unfenced.of(book.wishes.promotions.values())
    return Remembered(book.restarts, unfenced, report_of(book.wishes), book.position)


def remembered_of(link: LinkName, target: Reachable) -> Remembered:
    """Return what is remembered of a link.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with closing(WishBook(link, target)) as book:
        book.read()
        return remembered_in(book)
