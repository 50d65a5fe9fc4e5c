"""A topic of one partition that other programs read, too: records as bytes, in their formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import NamedTuple

from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.clusters.kafka_codes import TOPIC_ALREADY_EXISTS
from heliostat.clusters.log_writer import NewRecord
from heliostat.clusters.one_partition import OnePartitionTopic
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import Offset, TopicName

ANSWER_TIMEOUT_S = 15.0  # a loop that stops must not wait long; a later pass tries again
REQUEST_TIMEOUT_S = 10.0
POLL_S = 0.5
REPLICAS = 3  # capped by what the cluster has
COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}


class ByteRecord(NamedTuple):
    """One record; a timestamp of None means the time of writing."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    offset: int = -1
    """Its offset if it was read, otherwise -1."""
    leader_epoch: int = -1
    """Leader epoch in which it was appended; -1: not known."""


def make_if_missing(
    admin: ClusterAdmin,
    topic: TopicName,
    settings_of: Callable[[int], Mapping[str, str]],
    replication_factor: int | None = None,
) -> bool:
    """Create a topic of one partition if it is missing; return whether it was created.

    Parameters
    ----------
    settings_of
        Its settings, by the number of replicas.
    replication_factor
        None means 3, or as many as there are brokers.
    """
    if admin.describe_topics([topic])[topic].error is None:
        return False
    replicas = replication_factor or min(REPLICAS, len(admin.brokers()))
    answer = admin.create_topics([NewTopic(topic, 1, replicas, settings_of(replicas))])[topic]
    if not isinstance(answer, BrokerError):
        return True
    if answer.kafka_code != TOPIC_ALREADY_EXISTS:
        raise answer
    return False


class ByteTopic(OnePartitionTopic):
    """Writes and reads records as they are."""

    WRITE_S = ANSWER_TIMEOUT_S
    REQUEST_S = REQUEST_TIMEOUT_S

    def ensure(self, admin: ClusterAdmin, replication_factor: int | None = None) -> bool:
        """Create it if it is missing: one partition, compacted; return whether it was created.

        An existing topic is used as it is: it may be another program's.

        Parameters
        ----------
        replication_factor
            None means 3, or as many as there are brokers.
        """
        return make_if_missing(admin, self.topic, lambda _: COMPACTED, replication_factor)

    def write(self, records: Iterable[ByteRecord]) -> None:
        """Write records in order; durable on all replicas in sync when it returns."""
        self._writer().write([NewRecord(row.key, row.value, row.timestamp_ms) for row in records])

    def read_all(self) -> Iterator[ByteRecord]:
        """All records up to where the topic ended when reading began; none if it is missing."""
        with self._alone():
            log = self._reader()
            if log is None:
                return
            log.position, end = log.bounds()
        deadline_s = monotonic() + ANSWER_TIMEOUT_S
        while log.position < end:
            if monotonic() > deadline_s:
                raise ConnectionLost(f"topic {self.topic} was not read in time", end=end)
            yield from self.poll(POLL_S)

    def exists(self) -> bool:
        """Whether the topic exists."""
        with self._alone():
            return self._reader() is not None

    def end(self) -> int:
        """Log end offset of the topic; 0 if it is missing."""
        with self._alone():
            log = self._reader()
            return 0 if log is None else log.bounds()[1]

    def position(self) -> int:
        """Offset of the next record that `poll` returns; 0 if the topic is missing."""
        with self._alone():
            log = self._reader()
            return 0 if log is None else log.position

    def seek_back(self, records: int) -> bool:
        """Make `poll` begin that many records before the end; False if the topic is missing."""
        with self._alone():
            log = self._reader()
            if log is None:
                return False
            start, end = log.bounds()
            log.position = Offset(max(start, end - records))
            return True

    def poll(self, timeout_s: float) -> list[ByteRecord]:
        """Records since the last read, waiting at most `timeout_s` for the first."""
        with self._alone():
            log = self._reader()
            rows = [] if log is None else log.poll(timeout_s)
        return [
            ByteRecord(row.key, row.value, row.timestamp, row.offset, row.leader_epoch)
            for row in rows
        ]
