"""`heliostat events`: what has happened to links, and what happens, as their histories have it.

The link's driver writes each event to its history within a second or two: who wishes what and why,
what was changed, what began to fail and is over. Any machine may read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Protocol

from heliostat.access import Reachable
from heliostat.clock import SystemClock
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.past_records import PastRecords
from heliostat.config import Config
from heliostat.errors import HeliostatError, Refused, Verdict
from heliostat.names import LinkName
from heliostat.operate.links import links_of
from heliostat.state_topics import history_topic
from heliostat.status.history_records import PastEvent
from heliostat.status.past import events_in

CLIENT_ID = "heliostat-events"
LEVELS = ("INFO", "WARN")
"""Levels, the least first."""
ROUND_S = 0.5
"""How long one round over all links waits for what is new."""
AGAIN_S = 1.0
"""Pause after a round in which a target did not answer."""


class AboutSomething(Protocol):
    """An event of whichever kind."""

    @property
    def level(self) -> str:
        """`INFO` or `WARN`."""

    @property
    def topic(self) -> str:
        """The topic that it is about; empty: it is about none, or about several."""

    @property
    def text(self) -> str:
        """What has happened."""


class EventChoice(NamedTuple):
    """Which events are asked for."""

    level: str = LEVELS[0]
    """Events of at least this level."""
    topic: str | None = None
    """Events of topics with this name at the source, in which `*` is a wildcard."""

    def has(self, event: AboutSomething) -> bool:
        """Return whether an event is asked for; of several topics it counts whom it names."""
        if event.level in LEVELS and LEVELS.index(event.level) < LEVELS.index(self.level):
            return False
        if self.topic is None:
            return True
        names = [event.topic] if event.topic else event.text.replace(",", " ").split()
        return any(fnmatchcase(name, self.topic) for name in names)


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """An event of a link."""

    link: LinkName
    at_ms: int
    """When it was noticed, in ms since the epoch."""
    level: str
    text: str
    topic: str
    partition: int | None
    code: str

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)


class EventReader:
    """Reads the events of one link: those of some time, then those that come. For one thread.

    Every method raises `ConnectionLost` if the brokers do not answer in time, and `BrokerError` if
    they refuse.

    Parameters
    ----------
    link
        Name of the link.
    target
        Access to its target.
    foreign
        Notes records that are no history.
    """

    def __init__(
        self, link: LinkName, target: Reachable, foreign: ForeignRecords | None = None
    ) -> None:
        self.link = link
        self._foreign = foreign or ForeignRecords()
        self._records = PastRecords(target, history_topic(link), CLIENT_ID)

    def exists(self) -> bool:
        """Return whether the link has a history."""
        return self._records.exists()

    def since(self, from_ms: int) -> list[LinkEvent]:
        """Return events from a time on, in the order of time."""
        topic = self._records.topic
        rows = events_in(topic, self._records.since(from_ms), self._foreign)
        events = sorted({row for row in rows if row.at_ms >= from_ms}, key=lambda row: row.at_ms)
        return [self._named(row) for row in events]

    def after(self, wait_s: float) -> list[LinkEvent]:
        """Return events that were written after those that were read, within `wait_s`."""
        rows = self._records.after(wait_s)
        return [self._named(row) for row in events_in(self._records.topic, rows, self._foreign)]

    def close(self) -> None:
        """Close the connections."""
        self._records.close()

    def _named(self, row: PastEvent) -> LinkEvent:
        return LinkEvent(self.link, *row)


def past_events(
    config: Config, link_name: str | None, since_s: float, choice: EventChoice
) -> list[LinkEvent]:
    """Return what has happened to a link, or to all, the newest last.

    Raises
    ------
    ConnectionLost, BrokerError
        A target does not answer, or refuses.
    Refused
        The link has no history, or none has.
    """
    from_ms = SystemClock().wall_ms() - round(since_s * 1000)
    with ExitStack() as stack:
        readers = _readers(config, link_name, stack)
        with_history = [reader for reader in readers if reader.exists()]
        if not with_history:
            names = ", ".join(reader.link for reader in readers)
            raise Refused(
                f"there is no history of {names}",
                hint="heliostat run writes it from its first minute on",
            )
        events = [event for reader in with_history for event in reader.since(from_ms)]
    return sorted(filter(choice.has, events), key=lambda event: event.at_ms)


def follow_events(
    config: Config,
    link_name: str | None,
    since_s: float,
    choice: EventChoice,
    *,
    is_ending: Callable[[], bool],
    tell: Callable[[HeliostatError], None],
) -> Iterator[LinkEvent]:
    """Yield what has happened, and then what happens, until it is to end.

    Parameters
    ----------
    is_ending
        Asked in each round.
    tell
        Takes why a target can't be read; it is tried again.

    Raises
    ------
    HeliostatError
        A target refuses, and would do so again.
    """
    from_ms = SystemClock().wall_ms() - round(since_s * 1000)
    with ExitStack() as stack:
        yield from filter(
            choice.has, events_from(_readers(config, link_name, stack), from_ms, is_ending, tell)
        )


def events_from(
    readers: Sequence[EventReader],
    from_ms: int,
    is_ending: Callable[[], bool],
    tell: Callable[[HeliostatError], None],
    clock: SystemClock | None = None,
) -> Iterator[LinkEvent]:
    """Yield the events of several links: those since a time in its order, then as they come."""
    clock = clock or SystemClock()
    new_readers = list(readers)
    silent_links: set[LinkName] = set()
    while not is_ending():
        events: list[LinkEvent] = []
        for reader in readers:
            try:
                if reader in new_readers:
                    events += reader.since(from_ms)
                    new_readers.remove(reader)
                else:
                    events += reader.after(ROUND_S / len(readers))
                silent_links.discard(reader.link)
            except HeliostatError as error:
                if error.verdict is not Verdict.RETRY:
                    raise
                if reader.link not in silent_links:
                    tell(error)
                silent_links.add(reader.link)
        yield from sorted(events, key=lambda event: event.at_ms)
        if silent_links:
            clock.sleep(AGAIN_S)


def _readers(config: Config, link_name: str | None, stack: ExitStack) -> list[EventReader]:
    readers: list[EventReader] = []
    for link in links_of(config, link_name):
        reader = EventReader(LinkName(link.name), config.clusters[link.target].access())
        stack.callback(reader.close)
        readers.append(reader)
    return readers
