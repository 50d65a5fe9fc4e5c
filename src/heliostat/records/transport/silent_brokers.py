"""Finds brokers that owe a lane an answer and are silent: they are probed and reported (I7)."""

from __future__ import annotations

from heliostat.clusters.wire.cluster import WireCluster
from heliostat.names import BrokerId
from heliostat.records.copier.network import Leaders, Unanswered
from heliostat.records.transport.lane_connections import LaneConnections
from heliostat.records.transport.watched_connections import APPEND, FETCH

SILENT_S = 1.5
"""A broker that owes an answer is probed after this silence."""
TOLD_AFTER_S = 1.5
"""A broker that has not answered a probe for this long is reported."""
AGAIN_S = 5.0
"""Interval between reports of a silent broker, and between its probes."""


class SilentBrokers:
    """Watches a lane's connections; probes use other connections, see `WireCluster.doubt`."""

    def __init__(
        self, source: WireCluster, target: WireCluster, connections: LaneConnections
    ) -> None:
        self._source = source
        self._target = target
        self._connections = connections
        self._probed_at_s: dict[tuple[str, BrokerId], float] = {}
        self._told_at_s: dict[tuple[str, BrokerId], float] = {}
        """Both hold the earliest time (monotonic seconds) of the next probe or report."""

    def look(self, now_s: float, leaders: Leaders) -> list[Unanswered]:
        """Probe brokers that owe an answer; return those that don't answer the probe either."""
        appending = self._connections.appending
        found: list[Unanswered] = []
        sides = (
            (FETCH, self._source, self._connections.fetching, leaders.source),
            (APPEND, self._target, appending, leaders.target),
        )
        for side, cluster, conns, led_by in sides:
            for broker in {key[0] for key, conn in conns.items() if conn.is_silent(SILENT_S)}:
                if now_s >= self._probed_at_s.get((side, broker), 0.0):
                    self._probed_at_s[side, broker] = now_s + AGAIN_S
                    cluster.doubt(broker)
                silence = cluster.silence_of(broker, TOLD_AFTER_S)
                if silence is not None and now_s >= self._told_at_s.get((side, broker), 0.0):
                    self._told_at_s[side, broker] = now_s + AGAIN_S
                    led = {index for index, leader in led_by.items() if leader == broker}
                    if side == APPEND:  # some of these partitions may have no leader any more
                        conns_there = (appending[key] for key in conns if key[0] == broker)
                        led = led.union(*(conn.under_way for conn in conns_there))
                    found.append(Unanswered(sorted(led), silence, side == APPEND))
        return found
