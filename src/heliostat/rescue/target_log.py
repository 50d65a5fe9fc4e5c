"""The topic that was a mirror, for who appends to it: requests and reads of a real cluster."""

from __future__ import annotations

from collections.abc import Iterable

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import Offset, ProducerId, TopicPartition
from heliostat.verify.both_logs import rows_of
from heliostat.verify.reader import LogReader
from heliostat.verify.schema_ids import AS_THEY_ARE
from heliostat.verify.stream import ConsumedRecord

UNSUPPORTED_VERSION = 35
REPLICATED_WITHIN_S, LOOK_AGAIN_S = 30.0, 0.05


class ClusterLog:
    """See `heliostat.rescue.appending.TargetLog`; for one thread.

    Parameters
    ----------
    admin
        For requests; one that fails must not take longer than between two notes.
    reader
        Reads all of the target's records.
    clock
        Time.
    """

    def __init__(self, admin: ClusterAdmin, reader: LogReader, clock: Clock) -> None:
        self._admin = admin
        self._reader = reader
        self._clock = clock

    def new_producer(self) -> ProducerId:
        """Return a new producer id."""
        return self._admin.init_producer_id()

    def last_sequence(self, partition: TopicPartition, producer: ProducerId) -> int | None:
        """Return its last sequence there; None: the broker knows none, or is older than 2.8."""
        try:
            answer = self._admin.active_producers([partition])[partition]
            if isinstance(answer, BrokerError):
                raise answer
        except BrokerError as error:
            if error.kafka_code != UNSUPPORTED_VERSION:
                raise
            return None
        return {each.producer_id: each.last_sequence for each in answer}.get(producer)

    def end(self, partition: TopicPartition) -> Offset:
        """Return the log's end, by the word of all brokers."""
        answer = self._admin.list_log_ends([partition], confirmed=True)[partition]
        if isinstance(answer, BrokerError):
            raise answer
        return answer

    def records(
        self, partition: TopicPartition, start: Offset, stop: Offset
    ) -> Iterable[ConsumedRecord]:
        """Yield all records with offsets in `[start, stop)`; waits until they are replicated.

        Raises
        ------
        ConnectionLost
            They are not in time.
        """
        until_s = self._clock.monotonic_s() + REPLICATED_WITHIN_S
        while (bounds := self._reader.bounds([partition])[partition]).end < stop:
            if self._clock.monotonic_s() >= until_s:
                text = f"{partition} is replicated up to {bounds.end} only, of {stop}"
                raise ConnectionLost(text, hint="ask again once its replicas are in sync")
            self._clock.sleep(LOOK_AGAIN_S)
        view = AS_THEY_ARE.of_target
        return rows_of(self._reader, partition, max(start, bounds.start), stop, view)

    def append(self, partition: TopicPartition, batch: bytes) -> Offset | BrokerError:
        """Append a batch, durable on all replicas in sync."""
        return self._admin.append({partition: batch})[partition]
