"""The offset maps of a link's mirrors, as its driver, its groups and people read them.

I2  Where rows are gone a map that is read would be another one, or none: an exact mirror's. So what
    is read is held against what the state topic says of the maps (`MapMarks`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.clusters.keyed_topic import ensure_compacted
from heliostat.errors import BrokerError, OffsetMapLost
from heliostat.names import (
    LinkName,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
    id_text,
)
from heliostat.offsets.log_bounds import bounds_of
from heliostat.offsets.map_rows import KEPT_VALUE, Prunable
from heliostat.offsets.marks import MapMarks, MapTopic, MirrorId
from heliostat.offsets.offset_map import Break, MapReader, MapTail, Odd, Row
from heliostat.records.copier.lane import PartitionSpec
from heliostat.state_topics import offsets_topic
from heliostat.topics.topic_plan import Mirror

TAIL_BREAKS = 20_000
"""Of a map that a lane is given at least where it is not known where its target's log ended: what a
round may have written ahead, and what the log may have lost at an unclean election."""
LANE_BREAKS = 4_000_000
"""Where it is known, all behind that are given, and a share of so many, some 9 MB a lane."""
DELETED_AT_ONCE = 5_000
POLL_S = 0.05
CLIENT_ID = "heliostat-offsets"


def read_maps(cluster: Reachable, link: LinkName) -> MapReader:
    """All maps of a link, as they are durable now; empty where the topic does not exist.

    Those of which rows are gone are named (`MapReader.lost`), also where no driver has seen it yet.

    Raises
    ------
    ConnectionLost, BrokerError, ProtocolError
        The topic can't be read, or holds what is not ours.
    """
    with closing(MapMarks(cluster, link)) as marks:
        stored = marks.read()
    with closing(OffsetMaps(cluster, link)) as maps:
        maps.begin(stored.topic, stored.lost)
        try:
            return maps.fresh()
        except (OffsetMapLost, BrokerError) as error:
            if isinstance(error, BrokerError) and error.kafka_code != UNKNOWN_TOPIC_OR_PARTITION:
                raise
        maps.begin_again(stored.names() | stored.lost.keys())
        return maps.fresh()


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
        self._admin: ClusterAdmin | None = None
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._reader = MapReader()
        self._next_offset = 0
        self._known: MapTopic | None = None
        self._strange: list[str] = []
        self._spoiled: dict[MirrorId, str] = {}

    @property
    def topic(self) -> TopicName:
        """Where the rows are."""
        return self._topic.topic

    @property
    def known(self) -> MapTopic | None:
        """The topic as it was at the last `refresh`; None before, and while there is none."""
        return self._known

    def ensure(self, replication_factor: int | None) -> None:
        """Create the topic where it is missing.

        Raises
        ------
        Refused
            A topic of that name is there and could not serve.
        """
        ensure_compacted(self._cluster, self.topic, CLIENT_ID, replication_factor)

    def begin(self, known: MapTopic | None, lost: Iterable[MirrorId]) -> None:
        """Hold what is read against what was known of the topic before."""
        with self._reading, self._lock:
            self._known = known
            self._reader.lost = frozenset(lost)

    def refresh(self) -> None:
        """Read what has come since the last time.

        Raises
        ------
        OffsetMapLost
            Rows are gone that were there, and what is known of maps may not be all.
        ConnectionLost, BrokerError, ProtocolError
            It can't be read.
        """
        with self._reading:
            end = self._topic.end()
            while self._next_offset < end:
                records = self._topic.poll(POLL_S)
                with self._lock:
                    for record in records:
                        self._take(record)
                    self._next_offset = self._topic.position()
            with self._lock:
                self._take_lost()
            # Looked at behind the reading: what was gone before it is seen by now.
            now = self._look()
            if now is not None:
                known = self._known or MapTopic(now.topic_id, 0, 0)
                known = known._replace(end=max(known.end, self._next_offset))
                if why := known.why_lost(now):
                    raise OffsetMapLost(f"topic {self.topic} has lost rows: {why}")
                self._known = MapTopic(now.topic_id, now.start, self._next_offset)

    def look_again(self) -> None:
        """The topic was made anew: a client of before asks for its end in vain (kafka-python)."""
        with self._reading:
            self._topic.look_again()

    def _take(self, record: ByteRecord) -> None:
        odd = self._reader.take_record(record.key, record.value, record.offset)
        if odd is not None:
            self._tell(odd)

    def _take_lost(self) -> None:
        for odd in self._reader.lost_rows():
            self._tell(odd)

    def _tell(self, odd: Odd) -> None:
        """What is no row is told, and of whose map it may have taken a row is lost.

        Below the known end that was judged before, and what was lost may have been made anew.
        """
        text = f"topic {self.topic} holds what is no row of it at offset {odd.offset}: {odd.why}"
        if odd.mirror is None:
            self._strange.append(text)
        elif self._known is None or odd.offset >= self._known.end:
            self._spoiled[odd.mirror] = text
            self._reader.lost |= {odd.mirror}

    def strange(self) -> tuple[str, ...]:
        """Records that are no rows and concern no mirror, in words."""
        with self._lock:
            return tuple(self._strange)

    def spoiled(self) -> dict[MirrorId, str]:
        """Maps that have lost rows since the last call, and why."""
        with self._lock:
            found, self._spoiled = self._spoiled, {}
            return found

    def _look(self) -> MapTopic | None:
        """The topic as it is now; None where there is none, nor was one.

        Raises
        ------
        BrokerError
            It does not tell, or there was one: whether it is gone the driver's turn finds out.
        """
        if self._admin is None:
            self._admin = ClusterAdmin(self._cluster, CLIENT_ID)
        info = self._admin.describe_topics([self.topic])[self.topic]
        if info.error is not None:
            if info.error.kafka_code == UNKNOWN_TOPIC_OR_PARTITION and self._known is None:
                return None
            raise info.error
        one = TopicPartition(self.topic, PartitionId(0))
        bounds = bounds_of(self._admin, [one])[one]
        if isinstance(bounds, BrokerError):
            raise bounds
        return MapTopic(id_text(info.topic_id), *bounds)

    def tails(
        self,
        partitions: Sequence[PartitionSpec],
        copied: Iterable[tuple[int, int, int, int]] = (),
    ) -> tuple[tuple[tuple[int, MapTail], ...], int, str]:
        """For a lane: the ends of its partitions' maps, and from where on it has to read itself.

        They reach back to where the target's logs ended by `copied` (see `LaneSpec.copied`), and
        further: logs grow, unless they are truncated. Of which very topic (its id, empty where that
        is not known) stands behind them.
        """
        ends = {index: end for index, _, _, end in copied if end >= 0}
        names = [(spec.target, id_text(spec.target_topic_id)) for spec in partitions]
        with self._lock:
            found: list[tuple[int, MapTail]] = []
            mapped = [index for index, name in enumerate(names) if name in self._reader.maps]
            share = min(TAIL_BREAKS, LANE_BREAKS // max(1, len(mapped)))
            for index in mapped:
                end = ends.get(index)
                at_least = TAIL_BREAKS if end is None else share
                tail = self._reader.tail(*names[index], at_least, end)
                if tail is not None:
                    found.append((index, tail))
            known = self._known
            return tuple(found), self._next_offset, "" if known is None else known.topic_id

    def is_filled(self, mirror: TopicPartition, target_id: TopicId | None) -> bool | None:
        """See `MapReader.is_filled`."""
        with self._lock:
            return self._reader.is_filled(mirror, id_text(target_id))

    def position_at(self, mirror: Mirror, number: PartitionId, end: Offset) -> Offset | None:
        """See `MapReader.position_at`."""
        name = mirror.mirror_of(number), id_text(mirror.target_id)
        with self._lock:
            return self._reader.position_at(*name, end)

    def names(self) -> frozenset[MirrorId]:
        """Mirrors with a map that is known, whole or not."""
        with self._lock:
            maps = self._reader.maps.items()
            return frozenset(name for name, found in maps if not found.is_identity)

    def fresh(self) -> MapReader:
        """All maps with every row that is durable now.

        To be asked for after log ends of the target: for all below these it is exact (I3); what
        lies behind may still move.
        """
        self.refresh()
        with self._lock:
            return self._reader.copy()

    def known_breaks(self, name: MirrorId) -> tuple[Break, ...]:
        """All breaks of a map that are durable now, also of one that is said to be lost."""
        self.refresh()
        with self._lock:
            found = self._reader.maps.get(name)
            return () if found is None else tuple(found.breaks())

    def put(self, rows: Iterable[Row]) -> None:
        """Write rows; durable when it returns."""
        self._topic.write([ByteRecord(row.key.encode(), row.encode()) for row in rows])

    def prunable(self, starts: Mapping[MirrorId, Offset], rows_min: int) -> list[Prunable]:
        """As `MapReader.prunable`, of these log starts of mirrors, where rows are many."""
        with self._lock:
            found = [self._reader.prunable(*name, start) for name, start in starts.items()]
        return [one for one in found if one is not None and len(one.rows) >= rows_min]

    def prune(self, found: Prunable) -> None:
        """Delete such rows; before the first goes it is durable that they may."""
        self._topic.write([ByteRecord(found.kept.encode(), KEPT_VALUE)])
        gone = [row.encode() for row in found.rows] + [kept.encode() for kept in found.said]
        for at in range(0, len(gone), DELETED_AT_ONCE):
            self._topic.write(ByteRecord(key, None) for key in gone[at : at + DELETED_AT_ONCE])

    def begin_again(self, lost: Iterable[MirrorId]) -> None:
        """Rows are gone: take the topic as it is now for all there is, and these maps for lost."""
        with self._reading:
            self._topic.close()
            with self._lock:
                self._reader = MapReader(lost=frozenset(lost))
                self._next_offset, self._known = 0, None
                self._strange, self._spoiled = [], {}
            now = self._look()
            self._known = None if now is None else now._replace(end=0)

    def set_lost(self, lost: Iterable[MirrorId]) -> None:
        """Which maps are lost, from now on."""
        with self._lock:
            self._reader.lost = frozenset(lost)

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()
        if self._admin is not None:
            self._admin.close()
            self._admin = None
