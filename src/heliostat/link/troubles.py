"""What of a link fails now and is tried again: a line when it begins, and one when it is over.

A broker that goes away is noticed by all of a link's loops, by its start and by who reads its
reports, each time they try. That is one fact: the cluster does not answer. What a person may not
miss of it is when it began, and when it was over; all in between is counted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from heliostat.clock import Clock
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, code_of
from heliostat.ops.events import Events, Subject

SETTLES_S = 12.0
"""A trouble is over if nothing has failed for so long: where one of three brokers is away, some
requests succeed, and a loop takes its turn each ten seconds."""
OUTAGE = frozenset({5, 6, 7, 13, 14, 15, 16, 19, 20})
"""What brokers answer while another is away: no leader or coordinator yet, too few replicas."""
START, REPORTS = "start", "reports"
"""Parts of a link that are no loops."""
_Key = tuple[str, str]


@dataclass(slots=True)
class Trouble:
    """One fact, and which parts of the link it keeps from working."""

    what: str
    """What works again when it is over."""
    since_s: float
    last_s: float
    failures: int = 1
    parts: set[str] = field(default_factory=set)


class Troubles:
    """The troubles of one link. Thread-safe.

    Parameters
    ----------
    aliases
        The link's clusters: how an error describes each, and its alias.
    clock, events
        Time, and where lines are logged.
    behind
        Returns how many records the target lacks, as far as is known.
    """

    def __init__(
        self,
        aliases: Mapping[str, str],
        clock: Clock,
        events: Events,
        behind: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._aliases = aliases
        self._clock = clock
        self._events = events
        self._behind = behind
        self._lock = threading.Lock()
        self._open: dict[_Key, Trouble] = {}
        self._counts: Counter[_Key] = Counter()

    def failed(self, part: str, error: HeliostatError) -> None:
        """Note that a part has failed, and is tried again."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            key, what = self._fact(part, error)
            alias = key[1] if key[0] == ConnectionLost.code else ""
            self._counts[code_of(error), alias] += 1
            for other in self._open.keys() - {key}:
                self._open[other].parts.discard(part)
            trouble = self._open.get(key)
            if trouble is None:
                trouble = self._open[key] = Trouble(what, now_s, now_s)
                about = Subject(code=code_of(error))
                self._events.warn(f"{part} is tried again: {error}", about)
            else:
                trouble.failures += 1
                trouble.last_s = now_s
            trouble.parts.add(part)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how often something failed, by its code and the alias of the cluster, if known."""
        with self._lock:
            return dict(self._counts)

    def works(self, part: str) -> None:
        """Note that a part works; whatever no part reports any more is over after a moment.

        With the start the loops begin anew, so that none of the former is waited for.
        """
        if not self._open:
            return
        now_s = self._clock.monotonic_s()
        with self._lock:
            for trouble in self._open.values():
                if part == START:
                    trouble.parts.intersection_update({REPORTS})
                trouble.parts.discard(part)
            over = [
                key
                for key, trouble in self._open.items()
                if not trouble.parts and now_s - trouble.last_s >= SETTLES_S
            ]
            troubles = [self._open.pop(key) for key in over]
        for trouble in troubles:
            self._events.info(self._over(trouble))

    def _over(self, trouble: Trouble) -> str:
        lasted = duration(trouble.last_s - trouble.since_s)
        behind = self._behind()
        more = f"; {behind:,} records behind" if behind else ""
        return f"{trouble.what} again after {lasted}, {_counted(trouble.failures)}{more}"

    def _outage(self, code: str, alias: str) -> tuple[_Key, str]:
        """Return the trouble of a cluster; who can't say which joins one that is told already."""
        known = [] if alias else [key for key in self._open if key[0] == code]
        if known:
            return known[-1], self._open[known[-1]].what
        return (code, alias), f"{alias or 'its cluster'} answers"

    def _fact(self, part: str, error: HeliostatError) -> tuple[_Key, str]:
        """Return what is the same trouble, and what works again when it is over."""
        if isinstance(error, ConnectionLost):
            return self._outage(error.code, self._alias_in(error))
        if isinstance(error, BrokerError) and error.kafka_code in OUTAGE:
            return self._outage(ConnectionLost.code, "")
        return (error.code, error.text), f"{part} works"

    def _alias_in(self, error: ConnectionLost) -> str:
        """Return the cluster that an error names, by its alias or its addresses; empty: none."""
        named, text = error.context.get("cluster"), str(error)
        for told, alias in self._aliases.items():
            if named == alias or told in text:
                return alias
        return ""


def _counted(failures: int) -> str:
    return "one failure" if failures == 1 else f"{failures:,} failures"


def duration(seconds: float) -> str:
    """Return a time for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
