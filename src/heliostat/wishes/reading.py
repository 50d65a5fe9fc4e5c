"""What the topic of wishes tells of a link without a driver, read on any machine."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from heliostat.access import Reachable
from heliostat.handover.unfenced import Unfenced
from heliostat.names import LinkName
from heliostat.wishes.restarts import RestartMemory
from heliostat.wishes.wish_book import WishBook


class Remembered(NamedTuple):
    """What is known of a link without its driver."""

    restarts: RestartMemory | None
    """None: it never halted."""
    unfenced: Unfenced | None
    """None: nothing was failed over."""


def remembered_of(link: LinkName, target: Reachable) -> Remembered:
    """Return what is remembered of a link.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with closing(WishBook(link, target)) as book:
        book.read()
        return Remembered(book.restarts, Unfenced.of(book.wishes.promotions.values()))
