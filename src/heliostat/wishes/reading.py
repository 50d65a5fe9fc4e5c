"""What is remembered of a link's restarts, read on any machine."""

from __future__ import annotations

from contextlib import closing

from heliostat.access import Reachable
from heliostat.names import LinkName
from heliostat.wishes.restarts import RestartMemory
from heliostat.wishes.wish_book import WishBook


def restarts_of(link: LinkName, target: Reachable) -> RestartMemory | None:
    """Return what is remembered of a link's restarts; None: it never halted.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    with closing(WishBook(link, target)) as book:
        book.read()
        return book.restarts
