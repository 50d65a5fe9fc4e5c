"""Transactions at the source that do not end: by which producer, since when, what they hold back.

Records after an open transaction's first are copied when it ends, as `read_committed` consumers see
them. A hanging transaction, whose producer is gone, holds back all later records of its partitions
until its timeout, or for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.names import ProducerId, TopicPartition

LOOK_EVERY_S = 5.0
LISTED_MAX = 50
"""Most partitions queried and listed; a hanging producer may have written to thousands."""
_Key = tuple[TopicPartition, ProducerId, int]


class OpenTransactions:
    """The open transactions of a link's source, as last seen.

    Parameters
    ----------
    source
        Source cluster connection.
    held
        Returns how many records open transactions hold back, by source partition.
    wall_ms
        Wall clock (ms).
    """

    def __init__(
        self,
        source: ClusterAdmin,
        held: Callable[[], Mapping[TopicPartition, int]],
        wall_ms: Callable[[], int],
    ) -> None:
        self._source = source
        self._held = held
        self._wall_ms = wall_ms
        self._open: dict[_Key, int] = {}
        """Latest time (wall ms) at which each can have begun, as far as seen."""
        self._names: dict[ProducerId, str] = {}
        self._records: Mapping[TopicPartition, int] = {}

    def look(self) -> None:
        """Query the source about partitions with held-back records, if there are any.

        Raises
        ------
        ConnectionLost
            The source does not answer.
        """
        held = self._held()
        asked = sorted(held, key=lambda partition: (-held[partition], partition))[:LISTED_MAX]
        now_ms = self._wall_ms()
        since_ms: dict[_Key, int] = {}
        for partition, answer in (self._source.open_transactions(asked) if asked else {}).items():
            # Brokers before Kafka 2.8 don't support it: the number of records is shown anyway.
            for transaction in () if isinstance(answer, BrokerError) else answer:
                key = (partition, transaction.producer_id, int(transaction.first))
                written_ms = (
                    transaction.last_timestamp_ms if transaction.last_timestamp_ms >= 0 else now_ms
                )
                since_ms[key] = self._open.get(key, min(now_ms, written_ms))
        unnamed = {producer for _, producer, _ in since_ms} - self._names.keys()
        names = self._source.transactional_ids(unnamed) if unnamed else {}
        self._names |= {producer: names.get(producer, "") for producer in unnamed}
        self._open, self._records = since_ms, held

    def report(self) -> list[dict[str, object]]:
        """Return rows for the driver's report, the oldest first; `HeldBack` is built from them."""
        rows = sorted(self._open.items(), key=lambda item: item[1])
        return [
            {
                "source": partition.topic,
                "partition": int(partition.partition),
                "first": first,
                "records": self._records.get(partition, 0),
                "producer_id": int(producer),
                "transactional_id": self._names.get(producer, ""),
                "since_ms": since_ms,
            }
            for (partition, producer, first), since_ms in rows[:LISTED_MAX]
        ]
