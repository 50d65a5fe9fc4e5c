"""Heartbeats: written at the source, mirrored like any topic, and their age seen at the target.

A heartbeat proves the whole path: the driver reaches the source, records are copied, the target
accepts them. `MirrorHeartbeatConnector` writes into `heartbeats` of the cluster that its Connect
workers use, which is the source of the flows that leave it; here the link writes them itself.
Where clients look for that connector's own topic at the target, the link writes there, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.errors import ProtocolError
from heliostat.mm2.formats import Heartbeat
from heliostat.names import Alias

FLOWS_MAX = 100
"""Most flows of one topic that are told apart: it is open to other writers."""
LOOK_BACK_RECORDS = 100
"""How far before the log end a reader begins: several links' heartbeats may alternate there."""


class HeartbeatEmitter:
    """Writer of a link's heartbeats at one of its clusters.

    Parameters
    ----------
    topic
        `heartbeats` there.
    admin
        Admin connection to that cluster.
    source, target
        Aliases of the link's clusters.
    replication_factor
        Replication factor of the topic, if it must be created.
    """

    def __init__(
        self,
        topic: ByteTopic,
        admin: ClusterAdmin,
        source: Alias,
        target: Alias,
        replication_factor: int | None = None,
    ) -> None:
        self._topic = topic
        self._admin = admin
        self._names = (source, target)
        self._replicas = replication_factor
        self._is_there = False

    def emit(self, now_ms: int) -> None:
        """Write one heartbeat.

        Raises
        ------
        ConnectionLost, BrokerError
            The cluster does not answer or refuses; the next call looks for the topic again.
        """
        if not self._is_there:
            self._topic.ensure(self._admin, self._replicas)
        self._is_there = False
        beat = Heartbeat(*self._names, now_ms)
        self._topic.write([ByteRecord(beat.key(), beat.value(), now_ms)])
        self._is_there = True


@dataclass(frozen=True, slots=True)
class Beat:
    """The newest heartbeat that has arrived."""

    timestamp_ms: int
    delay_ms: int
    """Time from its timestamp until it was first seen at the target; read twice a second."""


class HeartbeatWatch:
    """Reader of the mirrored heartbeats at the target.

    Parameters
    ----------
    topic
        The mirror of the source's `heartbeats`.
    source, target
        Aliases of the link's clusters.
    is_ours
        Whether only heartbeats with these two aliases count; otherwise any do.
    """

    def __init__(self, topic: ByteTopic, source: Alias, target: Alias, *, is_ours: bool) -> None:
        self._topic = topic
        self._wanted = (source, target) if is_ours else None
        self._follows = False
        self.newest: Beat | None = None
        self.beats: dict[tuple[Alias, Alias], int] = {}
        """Timestamp (ms) of the newest heartbeat of each flow: source and target."""
        self.unreadable = 0
        """Number of records that are not heartbeats."""

    @property
    def follows(self) -> bool:
        """Whether the topic was found."""
        return self._follows

    def look(self, wall_ms: Callable[[], int], timeout_s: float) -> None:
        """Read what has arrived, waiting at most `timeout_s` seconds.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer or refuses.
        """
        if not self._follows:
            self._follows = self._topic.seek_back(LOOK_BACK_RECORDS)
            if not self._follows:
                return
        for record in self._topic.poll(timeout_s):
            self.take(record, wall_ms())

    def take(self, record: ByteRecord, now_ms: int) -> None:
        """Process one record of the topic."""
        try:
            beat = Heartbeat.decode(record.key, record.value)
        except ProtocolError:
            self.unreadable += 1  # shown in the status: the topic is open to other writers
            return
        flow = beat.source, beat.target
        if flow in self.beats or len(self.beats) < FLOWS_MAX:
            self.beats[flow] = max(beat.timestamp_ms, self.beats.get(flow, 0))
        is_wanted = self._wanted is None or flow == self._wanted
        if is_wanted and (self.newest is None or beat.timestamp_ms > self.newest.timestamp_ms):
            self.newest = Beat(beat.timestamp_ms, max(0, now_ms - beat.timestamp_ms))

    def age_s(self, now_ms: int) -> float | None:
        """Return the age of the newest heartbeat at the target; None before one has arrived."""
        newest = self.newest
        return None if newest is None else max(0.0, (now_ms - newest.timestamp_ms) / 1000)
