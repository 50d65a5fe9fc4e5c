"""Transactions at the source that do not end: whose, since when, and what they hold back.

What stands behind an open transaction is copied when it ends, as committed readers see it. One that
hangs, its producer gone, holds back all that others write behind it until its timeout, or for good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import BrokerError
from heliostat.names import ProducerId, TopicPartition

LOOK_EVERY_S = 5.0
LISTED_MAX = 50
"""Partitions asked for and told of; a producer that hangs may have written to thousands."""
_Key = tuple[TopicPartition, ProducerId, int]


class OpenTransactions:
    """What is known of the open transactions of a link's source.

    Parameters
    ----------
    source
        The source cluster.
    held
        Source partitions with records behind open transactions, and how many, as last reported.
    wall_ms
        The clock.
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
        """Not later than this (wall ms) each began, by what we have seen."""
        self._names: dict[ProducerId, str] = {}
        self._records: Mapping[TopicPartition, int] = {}

    def look(self) -> None:
        """Ask about partitions that hold records back; nothing is asked where none does.

        Raises
        ------
        ConnectionLost
            The source does not answer.
        """
        held = self._held()
        asked = sorted(held, key=lambda partition: (-held[partition], partition))[:LISTED_MAX]
        now_ms = self._wall_ms()
        found: dict[_Key, int] = {}
        for partition, answer in (self._source.open_transactions(asked) if asked else {}).items():
            # Brokers before Kafka 2.8 can't tell: how many records wait is shown all the same.
            for each in () if isinstance(answer, BrokerError) else answer:
                key = (partition, each.producer_id, int(each.first))
                written_ms = each.last_timestamp_ms if each.last_timestamp_ms >= 0 else now_ms
                found[key] = self._open.get(key, min(now_ms, written_ms))
        unnamed = {producer for _, producer, _ in found} - self._names.keys()
        names = self._source.transactional_ids(unnamed) if unnamed else {}
        self._names |= {producer: names.get(producer, "") for producer in unnamed}
        self._open, self._records = found, held

    def report(self) -> list[dict[str, object]]:
        """For the driver's report, the oldest first; as `HeldBack` reads it."""
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
