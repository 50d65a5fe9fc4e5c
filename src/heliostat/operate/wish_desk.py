"""What each verb that writes wishes opens: the link's wishes, and what its owner reported last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from heliostat.clock import SystemClock
from heliostat.clusters.recent_records import RecentRecords
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import Config, LinkConfig
from heliostat.names import LinkName
from heliostat.operate.reach import require_answer
from heliostat.state_topics import progress_topic
from heliostat.status.reader import StatusReader
from heliostat.wishes.wish_book import CLIENT_ID, WishBook


@dataclass(frozen=True, slots=True)
class WishDesk:
    """The wishes of a link, and its reports, for one verb."""

    link: LinkName
    book: WishBook
    reader: StatusReader
    is_reported: bool
    """Whether anybody has ever run the link: else there are no reports to wait for."""
    clock: SystemClock
    began_s: float
    target: LentClusters
    """What lends connections to the target."""

    def took_s(self) -> float:
        """Return how long the verb has taken so far, since the target answered."""
        return self.clock.monotonic_s() - self.began_s


@contextmanager
def wish_desk(config: Config, link: LinkConfig) -> Iterator[WishDesk]:
    """Open them, with what was reported so far read.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    clock, name = SystemClock(), LinkName(link.name)
    target = config.clusters[link.target]
    require_answer(target)
    began_s = clock.monotonic_s()
    with (
        closing(LentClusters(target.access(), DialSettings(CLIENT_ID))) as lent,
        closing(WishBook(name, lent)) as book,
        closing(RecentRecords(lent, progress_topic(name))) as progress,
    ):
        reader = StatusReader(name, progress)
        is_reported = progress.exists()
        if is_reported:
            reader.begin()
        yield WishDesk(name, book, reader, is_reported, clock, began_s, lent)
