"""The offset maps of a link's mirrors, as its driver, its groups and people read them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from heliostat.access import Reachable
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.clusters.keyed_topic import ensure_compacted
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.errors import OffsetMapLost
from heliostat.names import LinkName, TopicId, TopicName, TopicPartition, id_text
from heliostat.records.lane import PartitionSpec
from heliostat.records.offset_map import MapReader, MapTail, Row, RowKey

TAIL_BREAKS_MAX = 20_000
"""Of a map that a lane is given: far more than a round can have written ahead."""
POLL_S = 0.05
CLIENT_ID = "heliostat-offsets"


def offsets_topic(link: LinkName) -> str:
    """Name of the topic that holds the offset maps' rows."""
    return f"{STATE_TOPIC_PREFIX}{link}.offsets"


def read_maps(cluster: Reachable, link: LinkName) -> MapReader:
    """All maps of a link, as they are durable now; empty where the topic does not exist.

    Raises
    ------
    ConnectionLost, BrokerError, ProtocolError
        The topic can't be read, or holds what is not ours.
    """
    with ByteTopic(cluster, TopicName(offsets_topic(link)), CLIENT_ID) as topic:
        found = MapReader()
        for record in topic.read_all():
            _take(found, record)
        return found


def _take(reader: MapReader, record: ByteRecord) -> None:
    if record.key is not None and record.value is not None:
        key = RowKey.decode(record.key)
        reader.take(Row.decode(key, record.value))


class OffsetMaps:
    """What the driver knows of all maps; for any thread.

    Parameters
    ----------
    cluster
        The target.
    link
        Whose maps.
    """

    def __init__(self, cluster: Reachable, link: LinkName) -> None:
        self._cluster = cluster
        self._topic = ByteTopic(cluster, TopicName(offsets_topic(link)), CLIENT_ID)
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._reader = MapReader()
        self._next_offset = 0

    @property
    def topic(self) -> TopicName:
        """Where the rows are."""
        return self._topic.topic

    def ensure(self, replication_factor: int | None) -> None:
        """Create the topic where it is missing.

        Raises
        ------
        Refused
            A topic of that name is there and could not serve.
        """
        ensure_compacted(self._cluster, self.topic, CLIENT_ID, replication_factor)

    def refresh(self) -> None:
        """Read what has come since the last time.

        Raises
        ------
        ConnectionLost, BrokerError, ProtocolError
            It can't be read.
        """
        with self._reading:
            end = self._topic.end()
            while self._next_offset < end:
                records = self._topic.poll(POLL_S)
                with self._lock:
                    for record in records:
                        _take(self._reader, record)
                    self._next_offset = self._topic.position()

    def tails(
        self, partitions: Sequence[PartitionSpec]
    ) -> tuple[tuple[tuple[int, MapTail], ...], int]:
        """For a lane: the ends of its partitions' maps, and from where on it has to read itself."""
        with self._lock:
            found: list[tuple[int, MapTail]] = []
            for index, spec in enumerate(partitions if self._reader.maps else ()):
                topic_id = id_text(spec.target_topic_id)
                tail = self._reader.tail(spec.target, topic_id, TAIL_BREAKS_MAX)
                if tail is not None:
                    found.append((index, tail))
            return tuple(found), self._next_offset

    def is_filled(self, mirror: TopicPartition, target_id: TopicId | None) -> bool | None:
        """See `MapReader.is_filled`."""
        with self._lock:
            return self._reader.is_filled(mirror, id_text(target_id))

    def fresh(self) -> MapReader:
        """All maps with every row that is durable now.

        To be asked for after log ends of the target: for all below these it is exact (I3); what
        lies behind may still move.
        """
        self.refresh()
        with self._lock:
            return self._reader.copy()

    def put(self, rows: Iterable[Row]) -> None:
        """Write rows; durable when it returns."""
        self._topic.write([ByteRecord(row.key.encode(), row.encode()) for row in rows])

    def forget(self) -> None:
        """The topic was deleted: begin anew, where nothing is lost by that.

        What lanes had written since the last `refresh` can't be known any more, so that maps could
        be restored only almost.

        Raises
        ------
        OffsetMapLost
            There were maps.
        """
        with self._reading, self._lock:
            if self._reader.maps:
                raise OffsetMapLost(
                    f"topic {self.topic} was deleted while mirrors need it",
                    mirrors=len(self._reader.maps),
                )
            self._next_offset = 0
            self._topic.close()

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()
