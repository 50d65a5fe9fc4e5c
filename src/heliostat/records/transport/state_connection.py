"""A lane task's connection to one state topic on the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.fetch import FetchPartition
from heliostat.clusters.wire.leaders import Leader, TopicLeaders
from heliostat.clusters.wire.primitives import request_header
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import PartitionId, TopicName

SILENT_S_MAX = 20.0
"""A lane that can't reach its state topics for this long ends its round: it can't be stopped."""
ANSWER_S = 8.0
"""Longest wait for one answer; well within `SILENT_S_MAX`, so that a failure is known by then."""
ONLY = PartitionId(0)
"""State topics have one partition."""


class StateConnection:
    """Connection to one state topic, with the time since when it has not answered."""

    def __init__(
        self,
        topic: str,
        target: WireCluster,
        monotonic_s: Callable[[], float],
        together: dict[TopicName, TopicLeaders | None] | None = None,
    ) -> None:
        self.topic = topic
        self._together = {} if together is None else together
        """Topics to ask about with this one, and what was told of them, which is used once."""
        self.target = target
        self.good_at_s = monotonic_s()
        self.retry_at_s = 0.0
        self.connection: Connection | None = None
        self.monotonic_s = monotonic_s
        self._error: ConnectionLost | BrokerError | None = None
        self._open: tuple[Connection, TopicLeaders, Leader] | None = None

    def open(self, *, confirmed: bool = False) -> tuple[Connection, TopicLeaders, Leader]:
        """Return a connection to the leader of the topic's only partition.

        `confirmed` as with `WireCluster.metadata`, if no connection is open.
        """
        if self._open is None:
            leaders = self._leaders(confirmed=confirmed)
            leader = leaders.partitions.get(ONLY)
            if leaders.error or leader is None or leader.error:
                code = leaders.error or (leader.error if leader is not None else 3)
                raise BrokerError("a state topic has no leader", kafka_code=code, topic=self.topic)
            self.connection = self.target.open_data(leader.broker)
            self._open = (self.connection, leaders, leader)
        return self._open

    def _leaders(self, *, confirmed: bool) -> TopicLeaders:
        name = TopicName(self.topic)
        leaders = self._together.pop(name, None)
        if leaders is None or confirmed:
            found = self.target.metadata([name, *self._together], confirmed=confirmed)
            leaders = found.pop(name)
            self._together.update((each, found[each]) for each in list(self._together))
        return leaders

    def fetch_at(self, offset: int, bytes_max: int) -> FetchPartition:
        """Return what to read of the topic's only partition."""
        _, leaders, leader = self.open()
        return FetchPartition(
            self.topic, leaders.topic_id, ONLY, offset, bytes_max, leader_epoch=leader.epoch
        )

    def send(
        self, api_key: int, version: int, body: Sequence[bytes | bytearray | memoryview]
    ) -> None:
        """Send one request over the open connection."""
        connection, _, _ = self.open()
        header = request_header(
            api_key,
            version,
            connection.next_correlation_id(),
            connection.settings.client_id,
            flexible=True,
        )
        connection.send([header, *body])

    def worked(self) -> None:
        """Note that the topic's leader answered."""
        self.good_at_s = self.monotonic_s()
        self._error = None

    def failed(self, error: ConnectionLost | BrokerError, pause_s: float) -> None:
        """Note a failure: reconnect after a pause (s)."""
        self._error = error
        self.retry_at_s = self.monotonic_s() + pause_s
        self.close()

    def raise_if_silent(self) -> None:
        """Raise the last error if there have been only errors for `SILENT_S_MAX`."""
        error = self._error
        if error is not None and self.monotonic_s() > self.good_at_s + SILENT_S_MAX:
            raise error

    def close(self) -> None:
        """Close the connection."""
        connection, self.connection, self._open = self.connection, None, None
        if connection is not None:
            connection.close()
