"""Whose a batch is: its site's, or copied there by a link; told by its producer id.

A row for each producer id with which a link appends to merged topics of a cluster is durable in one
topic of that cluster before the link's first append. So an id that has written a batch and is in no
row read after that batch was, is not a link's, and never will be: a cluster gives an id once.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from heliostat.names import LinkName, ProducerId


class Whose(Enum):
    """Who wrote a batch."""

    SITE = "site"
    """A producer of the cluster it was read from: its records are copied."""
    LINK = "link"
    """A link: its records are from elsewhere, and stay where they are."""
    UNKNOWN = "unknown"
    """The rows must be read first."""


class SiteProducers:
    """Producer ids of one cluster, as far as they were judged.

    Parameters
    ----------
    links
        Which link appends with a producer id, by all rows read so far.
    """

    def __init__(self, links: dict[ProducerId, LinkName] | None = None) -> None:
        self._links = dict(links or {})
        self._others: set[int] = set()

    def whose(self, producer_id: int) -> Whose:
        """Return who wrote a batch with this producer id; a negative one is none."""
        if producer_id in self._links:
            return Whose.LINK
        if producer_id < 0 or producer_id in self._others:
            return Whose.SITE
        return Whose.UNKNOWN

    @property
    def site(self) -> list[int]:
        """Ids that were judged as the site's own producers', ascending."""
        return sorted(self._others)

    def rows_read(self, links: dict[ProducerId, LinkName], asked: Iterable[int]) -> None:
        """Take all rows, and judge the producer ids that were asked for.

        Parameters
        ----------
        links
            All rows, read to an end that was asked for after `asked`.
        asked
            Ids of batches that had been fetched before that.
        """
        self._links |= links
        self._others |= set(asked) - self._links.keys()


def lost_rows(noted: tuple[str, int], now: tuple[str, int] | None) -> str:
    """Return why rows of producer ids may be gone; empty: none are.

    Parameters
    ----------
    noted
        Id of their topic, and up to which offset it was read.
    now
        The topic's id and end; None: there is no such topic.
    """
    if now is None:
        return "the topic of links' producer ids is gone"
    if now[0] != noted[0]:
        return "the topic of links' producer ids was deleted and made anew"
    if now[1] < noted[1]:
        return f"the topic of links' producer ids was read to {noted[1]} and ends at {now[1]}"
    return ""
