"""How far the brokers of one side are, and how much is on the line to them, by their answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf
from typing import NamedTuple

from heliostat.ops.request_times import RequestCounts
from heliostat.records.copier.lane import LineUse

WINDOW_S = 30.0
"""A round trip is the shortest of one to two windows: what a line was before is forgotten,
unless nobody has answered since."""
MEAN_OVER_S_MIN = 0.1
"""Reports that come right after each other don't tell a mean."""


class LineMeter:
    """Measures the line to the brokers of one side, from their answers.

    A broker's shortest answer is a little more than the round trip: its own time, mostly for
    writing to replicas, is not told by it.

    Parameters
    ----------
    monotonic_s
        The copier's clock (s).
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._shortest_s: dict[Hashable, float] = {}
        """Shortest answer of each broker in this window."""
        self._before_s: dict[Hashable, float] = {}
        """The same of the last window."""
        self._window_from_s = self._read_at_s = monotonic_s()
        self._byte_seconds = 0.0
        """Sum of bytes times the seconds that they were on the line, since they were last read."""
        self.moved_bytes = 0
        """Bytes of all answers, or of what they acknowledged."""
        self.requests = RequestCounts()
        """Those of which it is known how long the broker waited for something to answer."""

    def answered(
        self, broker: Hashable, size: int, asked_s: float, *, waited_s: float | None = 0.0
    ) -> None:
        """Take an answer.

        Parameters
        ----------
        broker
            Who answered.
        size
            Bytes of the answer, or of what it acknowledges.
        asked_s
            When the request was sent (monotonic seconds).
        waited_s
            How long the broker waited for something to answer; None: not known.
        """
        took_s = self._monotonic_s() - asked_s
        if waited_s is not None and took_s >= waited_s:  # a throttled broker does not wait
            took_s -= waited_s
        shortest_s = self._shortest_s[broker] = min(took_s, self._shortest_s.get(broker, inf))
        if waited_s is not None:
            self.requests.took(took_s)
        else:
            took_s = min(shortest_s, self._before_s.get(broker, inf))
        self._byte_seconds += size * took_s
        self.moved_bytes += size

    def nearest_s(self, question_s: float) -> float:
        """Return the round trip to the nearest broker; before answers, that of a question."""
        return min((*self._shortest_s.values(), *self._before_s.values()), default=question_s)

    def use(self) -> LineUse | None:
        """Return how the line was used since the last call; None: no broker has answered yet.

        The round trip is that of the farthest broker.
        """
        now_s = self._monotonic_s()
        brokers = self._before_s.keys() | self._shortest_s.keys()
        round_trips_s = [
            min(self._before_s.get(broker, inf), self._shortest_s.get(broker, inf))
            for broker in brokers
        ]
        passed_s = max(now_s - self._read_at_s, MEAN_OVER_S_MIN)
        in_flight = self._byte_seconds / passed_s
        self._read_at_s, self._byte_seconds = now_s, 0.0
        if self._shortest_s and now_s - self._window_from_s >= WINDOW_S:
            self._before_s, self._shortest_s = self._shortest_s, {}
            self._window_from_s = now_s
        if not round_trips_s:
            return None
        return LineUse(max(1, round(max(round_trips_s) * 1000)), round(in_flight))


class Lines(NamedTuple):
    """The lines to both sides of a lane."""

    source: LineMeter
    target: LineMeter

    def uses(self) -> tuple[LineUse | None, LineUse | None]:
        """Return how they were used since the last call."""
        return self.source.use(), self.target.use()

    def moved(self) -> tuple[int, int]:
        """Return the bytes that were fetched, and that brokers acknowledged."""
        return self.source.moved_bytes, self.target.moved_bytes

    def requests(self) -> list[int]:
        """Return the `RequestCounts.numbers` of the source, then those of the target."""
        return self.source.requests.numbers() + self.target.requests.numbers()


def measured_lines(monotonic_s: Callable[[], float]) -> Lines:
    """Return meters of both lines, see `LineMeter`."""
    return Lines(LineMeter(monotonic_s), LineMeter(monotonic_s))
