"""Jobs in the topics of wishes at the links' targets, where every service finds them."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from heliostat.clock import Clock
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import Config, LinkConfig
from heliostat.names import LinkName
from heliostat.operate.idempotency import KeyUsed
from heliostat.operate.reach import require_answer
from heliostat.wishes.job import Job, JobEnd, JobStanding, beats_key, ended_key
from heliostat.wishes.wish_book import CLIENT_ID, WishBook

BEAT_S = 10.0
QUIET_S = 35.0
"""A job whose service has said nothing for so long, while we looked, has lost it."""


@contextmanager
def book_of(config: Config, link: LinkConfig) -> Iterator[WishBook]:
    """Open the topic of a link's wishes.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses.
    """
    target = config.clusters[link.target]
    require_answer(target)
    with (
        closing(LentClusters(target.access(), DialSettings(CLIENT_ID))) as lent,
        closing(WishBook(LinkName(link.name), lent)) as book,
    ):
        yield book


class Notes(Protocol):
    """Where jobs are noted. Thread-safe."""

    service: str
    """Name of this service."""

    def begin(self, link: LinkConfig, job: Job) -> JobStanding | None:
        """Note that a job begins; return the one that was begun under its id before, if any."""
        ...

    def beat(self, link: LinkConfig, job_id: str, beats: int) -> None:
        """Say that it is under way."""
        ...

    def end(self, link: LinkConfig, job_id: str, end: JobEnd) -> None:
        """Note what became of it."""
        ...

    def of(self, link: LinkConfig) -> list[JobStanding]:
        """Return all that are noted of a link, the earliest first."""
        ...


class JobNotes:
    """The same at the targets. Every method raises `ConnectionLost` or `BrokerError` as they do.

    Parameters
    ----------
    config
        Returns the configuration.
    clock
        The clock.
    book
        Opens the topic of a link.
    """

    def __init__(
        self,
        config: Callable[[], Config],
        clock: Clock,
        book: Callable[[Config, LinkConfig], AbstractContextManager[WishBook]] = book_of,
    ) -> None:
        self.service = secrets.token_hex(8)
        self._config = config
        self._clock = clock
        self._book = book
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[int, float]] = {}
        """The number that was seen last of each job under way, and since when (monotonic)."""

    def begin(self, link: LinkConfig, job: Job) -> JobStanding | None:
        """Note that a job begins; return the one that was begun under its id before, if any."""
        with self._book(self._config(), link) as book:
            book.read()
            before = book.jobs.standing(job.job_id)
            if before is not None:
                require_same(before.job, job)
                return before
            rows: dict[str, Mapping[str, Any] | None] = dict.fromkeys(book.jobs.outdated())
            book.put({job.key: job.to_json(), **rows}, link.state.replication_factor)
            book.read()
            first = book.jobs.standing(job.job_id)
            if first is None or first.job.service == job.service:
                return None
            require_same(first.job, job)
            return first

    def beat(self, link: LinkConfig, job_id: str, beats: int) -> None:
        """Say that it is under way."""
        self._put(link, {beats_key(job_id): {"beats": beats}})

    def end(self, link: LinkConfig, job_id: str, end: JobEnd) -> None:
        """Note what became of it."""
        self._put(link, {ended_key(job_id): end.to_json()})

    def _put(self, link: LinkConfig, rows: Mapping[str, Mapping[str, Any]]) -> None:
        with self._book(self._config(), link) as book:
            book.read()
            book.put(rows)

    def of(self, link: LinkConfig) -> list[JobStanding]:
        """Return all that are noted of a link, the earliest first.

        That one has lost its service is seen once two looks lie `QUIET_S` apart.
        """
        with self._book(self._config(), link) as book:
            book.read()
            return [self._judged(standing) for standing in book.jobs.standings()]

    def _judged(self, standing: JobStanding) -> JobStanding:
        of_id, now_s = standing.job.job_id, self._clock.monotonic_s()
        with self._lock:
            if standing.end is not None:
                self._seen.pop(of_id, None)
                return standing
            beats, since_s = self._seen.get(of_id, (standing.beats, now_s))
            if beats != standing.beats:
                since_s = now_s
            self._seen[of_id] = standing.beats, since_s
            return replace(standing, is_lost=now_s - since_s >= QUIET_S)


def require_same(before: Job, job: Job) -> None:
    """See that two jobs of one id are of the same.

    Raises
    ------
    KeyUsed
        They are not.
    """
    if before.options != job.options:
        raise KeyUsed("another comparison was begun under that idempotency key")
