"""What the topic of wishes tells of a link, with a driver and without; read on any machine."""

from __future__ import annotations

from collections.abc import Mapping
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
        "paused": [{"place": str(each.place), **each.to_json()} for each in pauses[:REPORTED_MAX]],
        "paused_count": len(pauses),
        "limits": [{"topic": each.topic, **each.to_json()} for each in limits],
        "preferences": [{"topics": each.topics, **each.to_json()} for each in preferences],
    }


class MemoryReader:
    """Reads what is remembered of a link, again and again. From one thread.

    Parameters
    ----------
    link, target
        The link, and where its wishes lie.
    """

    def __init__(self, link: LinkName, target: Reachable) -> None:
        self._link = link
        self._target = target
        self._book: WishBook | None = None

    def read(self) -> Remembered:
        """Return what is remembered of the link now.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer, or refuses.
        """
        try:
            if self._book is None:
                self._book = WishBook(self._link, self._target)
            if not self._book.is_there:
                self._book.read()
            while self._book.consume(0):
                pass
        except HeliostatError:
            self.close()
            raise
        book, wishes = self._book, self._book.wishes
        unfenced = Unfenced.of(wishes.promotions.values())
        return Remembered(book.restarts, unfenced, report_of(wishes), book.position)

    def close(self) -> None:
        """Close the connections; what is asked next opens others."""
        if self._book is not None:
            self._book.close()
            self._book = None


def remembered_of(link: LinkName, target: Reachable) -> Remembered:
    """Return what is remembered of a link; raises as `MemoryReader.read`."""
    reader = MemoryReader(link, target)
    try:
        return reader.read()
    finally:
        reader.close()
