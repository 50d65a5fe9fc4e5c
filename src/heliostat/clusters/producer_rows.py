"""Rows of one cluster that say which producer ids are links': by them nothing merged comes back.

A link writes a row for its id before it appends to a merged topic there, and no row is ever
removed. Who reads batches of that cluster passes over those of such an id (docs/adr/0059).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.keyed_topic import (
    COMPACTED,
    KeyedReader,
    KeyedTopic,
    ensure_own_topics,
    read_as_row,
)
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.errors import BrokerError
from heliostat.names import LinkName, Offset, PartitionId, ProducerId, TopicPartition, id_text
from heliostat.state_topics import PRODUCERS_TOPIC

CLIENT_ID = "heliostat-producers"
READ_S = 5.0
"""How long a lane waits for the rows: what it holds back is fetched again."""


class ProducersTopic(NamedTuple):
    """What is noted of that topic: later it must be the same one, and no shorter."""

    topic_id: str
    end: Offset


class ProducerRows:
    """The rows of one cluster, for who writes some of them.

    Parameters
    ----------
    cluster
        The cluster.
    admin
        Admin connection to it.
    """

    def __init__(self, cluster: Reachable, admin: ClusterAdmin) -> None:
        self._topic = KeyedTopic(cluster, PRODUCERS_TOPIC, CLIENT_ID)
        self._admin = admin

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()

    def ensure(self, replication_factor: int | None) -> None:
        """Create the topic if it is missing."""
        ensure_own_topics(self._admin, {self._topic.topic: COMPACTED}, replication_factor)
        self._topic.exists_now()

    def read(self) -> dict[ProducerId, LinkName]:
        """Return all rows."""
        return rows_in(self._topic.read_all())

    def put(self, link: LinkName, ids: Iterable[ProducerId]) -> None:
        """Write rows of a link; durable when it returns."""
        self._topic.write_many({str(number): {"link": link} for number in sorted(ids)})

    def look(self) -> ProducersTopic | None:
        """Return the topic's id and end, by the word of all brokers; None: it does not exist.

        Raises
        ------
        ConnectionLost, BrokerError
            That can't be told now.
        """
        info = self._admin.confirm_topics([self._topic.topic])[self._topic.topic]
        if info.is_missing:
            return None
        if info.error is not None:
            raise info.error
        partition = TopicPartition(self._topic.topic, PartitionId(0))
        end = self._admin.list_log_ends([partition], confirmed=True)[partition]
        if isinstance(end, BrokerError):
            raise end
        return ProducersTopic(id_text(info.topic_id), end)


class ProducerReader:
    """Reads all rows of a cluster again and again, for one thread.

    Parameters
    ----------
    cluster
        The cluster.
    """

    def __init__(self, cluster: Reachable) -> None:
        self._clusters, self._are_ours = lent_clusters(cluster, CLIENT_ID, READ_S)

    def close(self) -> None:
        """Close the connections."""
        if self._are_ours:
            self._clusters.close()

    def read(self) -> tuple[dict[ProducerId, LinkName], Offset]:
        """Return all rows up to the end as of now, and that end.

        Raises
        ------
        ConnectionLost, BrokerError, ProtocolError
            They can't be read now.
        """
        with KeyedReader(self._clusters, PRODUCERS_TOPIC, CLIENT_ID, lambda: True) as reader:
            return rows_in(reader.read_all(READ_S)), reader.position


def rows_in(rows: Mapping[str, Mapping[str, object]]) -> dict[ProducerId, LinkName]:
    """Return which link has which producer id."""
    links: dict[ProducerId, LinkName] = {}
    for key, value in rows.items():
        with read_as_row(PRODUCERS_TOPIC, key):
            links[ProducerId(int(key))] = LinkName(str(value["link"]))
    return links
