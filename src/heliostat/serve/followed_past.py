"""A link's history at its target: what it tells of the last day, then what its driver tells."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from heliostat.access import ClusterAccess
from heliostat.clock import Clock
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.past_records import PastRecords
from heliostat.errors import HeliostatError
from heliostat.names import LinkName
from heliostat.state_topics import history_topic
from heliostat.status.follower import LinkFollower
from heliostat.status.history import FINE_COUNT, FINE_S
from heliostat.status.past import LinkPast, events_in, read_link

DAY_MS = 86_400_000
EVENTS_WAIT_S, LOOK_S = 1.0, 0.25
RECALL_AGAIN_S = 5.0
"""Between two tries to read a link's history, when the target does not answer."""


class FollowedPast:
    """Follows the history of one link on the thread that runs it.

    Parameters
    ----------
    follower
        Who follows the link.
    target
        Where the history is.
    clock
        The clock.
    remember
        Puts what was noted earlier before what is seen from now on.
    is_over
        Whether to end.
    """

    def __init__(
        self,
        follower: LinkFollower,
        target: ClusterAccess,
        clock: Clock,
        remember: Callable[[LinkPast], None],
        is_over: Callable[[], bool],
    ) -> None:
        self._events = follower.events
        self._foreign = ForeignRecords(follower.events.warn)
        self._topic = history_topic(LinkName(follower.link.name))
        self._target = target
        self._clock = clock
        self._remember = remember
        self._is_over = is_over

    def run(self) -> None:
        """Read what the history tells, and follow it."""
        while not self._is_over():
            now_ms = self._clock.wall_ms()
            with closing(PastRecords(self._target, self._topic, "heliostat-history")) as records:
                try:
                    past = read_link(
                        *(records, now_ms - DAY_MS, self._foreign),
                        fine_from_ms=now_ms - FINE_S * FINE_COUNT * 1000,
                    )
                except HeliostatError:  # its status tells that the target does not answer
                    self._pause()
                    continue
                self._remember(past)
                self._take_events(records)

    def _take_events(self, records: PastRecords) -> None:
        """Take what the link's driver tells from now on: who wishes what, what was changed."""
        while not self._is_over():
            try:
                rows = records.after(EVENTS_WAIT_S)
            except HeliostatError:  # as above
                self._pause()
                continue
            for event in events_in(records.topic, rows, self._foreign):
                self._events.take(event)

    def _pause(self) -> None:
        until_s = self._clock.monotonic_s() + RECALL_AGAIN_S
        while not self._is_over() and self._clock.monotonic_s() < until_s:
            self._clock.sleep(LOOK_S)
