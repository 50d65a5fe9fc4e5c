"""The offset maps of a link's mirrors, as its driver, its groups and people read them.

I2  If rows are gone, reading gives another map, or none, as of an exact mirror. So what is read is
    compared with what the state topic says about the maps (`MapMarks`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from time import monotonic
from typing import Any

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.errors import BrokerError, ConnectionLost, OffsetMapLost
from heliostat.names import (
    LinkName,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
    id_text,
)
from heliostat.offsets.map_rows import KEPT_VALUE, Prunable
from heliostat.offsets.marks import MapMarks, MapTopic, Marks, MirrorId
from heliostat.offsets.offset_map import Break, MapReader, MapRow, MapTail, Odd
from heliostat.offsets.topic_bounds import CLIENT_ID, TopicBounds
from heliostat.ops.asked import asked_at_once
from heliostat.records.copier.lane import PartitionSpec
from heliostat.state_topics import offsets_topic
from heliostat.topics.topic_plan import Mirror

TAIL_BREAKS = 20_000
"""A lane gets at least so many breaks of a map where it is not known where the target's log ended:
a round may have written ahead, and the log may have lost records at an unclean election."""
LANE_BREAKS = 4_000_000
"""If it is known, the lane gets all breaks after it, and a share of so many, some 9 MB a lane."""
DELETED_AT_ONCE = 5_000
POLL_S = 0.05
LOOK_EVERY_S = 2.0
"""If no rows come for so long, it is asked whether the topic still has them."""
ROWS_WITHIN_S = 15.0


def read_maps(cluster: Reachable, link: LinkName) -> MapReader:
    """Read all maps of a link, as they are durable now; none if the topic does not exist.

    `MapReader.lost` names those that lost rows, even if no driver has noticed it yet.

    Raises
    ------
    ConnectionLost, BrokerError, ProtocolError
        The topic can't be read, or has something that is not ours.
    """
    with closing(MapsLook(cluster, link)) as maps:
        return maps.read()


class MapsLook:
    """One reading of all maps; what it can ask before the mirrors' ends are read is `prepare`.

    Parameters
    ----------
    cluster, link
        The target cluster, and the link's name.
    admin
        An admin client of the cluster; one is opened by default.
    """

    def __init__(
        self, cluster: Reachable, link: LinkName, admin: ClusterAdmin | None = None
    ) -> None:
        self._marks = MapMarks(cluster, link)
        self._maps = OffsetMaps(cluster, link, admin)
        self._stored: Marks | None = None

    def close(self) -> None:
        """Close the connections that are its own."""
        self._marks.close()
        self._maps.close()

    def prepare(self) -> None:
        """Read the marks, and who leads the maps' topic; raises as `read_maps`.

        What is lost between this and `read` is noticed by `read` all the same: it compares the
        topic with these marks.
        """
        asks: dict[str, Callable[[], Any]] = {
            "marks": self._marks.read,
            "maps": self._maps.prepare,
        }
        self._stored = asked_at_once(asks)["marks"]

    def read(self) -> MapReader:
        """See `read_maps`."""
        stored = self._stored or self._marks.read()
        self._maps.begin(stored.topic, stored.lost)
        try:
            return self._maps.fresh()
        except (OffsetMapLost, BrokerError) as error:
            if isinstance(error, BrokerError) and error.kafka_code != UNKNOWN_TOPIC_OR_PARTITION:
                raise
        self._maps.begin_again(stored.names() | stored.lost.keys())
        return self._maps.fresh()


class OffsetMaps:
    """All maps of a link, as read so far; any thread may use it.

    Parameters
    ----------
    cluster
        The target cluster.
    link
        Name of the link.
    admin
        An admin client of the cluster; one is opened by default.
    """

    def __init__(
        self, cluster: Reachable, link: LinkName, admin: ClusterAdmin | None = None
    ) -> None:
        self._topic = ByteTopic(cluster, TopicName(offsets_topic(link)), CLIENT_ID)
        self._bounds = TopicBounds(cluster, self._topic.topic, admin)
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        self._reader = MapReader()
        self._next_offset = 0
        self._epoch = -1
        """Leader epoch of the last row read."""
        self._known: MapTopic | None = None
        self._strange: list[str] = []
        self._spoiled: dict[MirrorId, str] = {}

    @property
    def topic(self) -> TopicName:
        """Name of the maps' topic."""
        return self._topic.topic

    @property
    def known(self) -> MapTopic | None:
        """The topic as of the last `refresh`; None before that, and while it does not exist."""
        return self._known

    def begin(self, topic: MapTopic | None, lost: Iterable[MirrorId]) -> None:
        """Set what was known about the topic before, with which `refresh` compares it."""
        with self._reading, self._lock:
            self._known = topic
            self._epoch = -1 if topic is None else topic.epoch
            self._reader.lost = frozenset(lost)

    def refresh(self) -> None:
        """Read rows that were added since the last time.

        Raises
        ------
        OffsetMapLost
            Rows that were there are gone, and the known maps may be incomplete.
        ConnectionLost, BrokerError, ProtocolError
            The topic can't be read.
        """
        with self._reading:
            self._read_to(self._topic.end())
            with self._lock:
                self._take_lost()
            # Checked after reading: rows that were gone before it are noticed now.
            now = self._look()
            if now is not None:
                topic = self._known or MapTopic(now.topic_id, 0, 0)
                end = max(topic.end, self._next_offset)
                self._known = topic = topic._replace(end=end, epoch=self._epoch)
                if topic.why_lost(now):
                    now = self._look(confirmed=True) or now  # a deposed leader may have answered
                if why := topic.why_lost(now):
                    raise OffsetMapLost(f"topic {self.topic} has lost rows: {why}")
                self._known = MapTopic(now.topic_id, now.start, self._next_offset, self._epoch)

    def prepare(self) -> None:
        """Find out who leads the topic, before anything of it must be read."""
        with self._reading:
            asks: dict[str, Callable[[], Any]] = {
                "reader": self._topic.exists,
                "bounds": self._bounds.prepare,
            }
            asked_at_once(asks)

    def has_all_of(self, was: MapTopic) -> bool:
        """See `TopicBounds.has_all_of`."""
        with self._reading:
            return self._bounds.has_all_of(was)

    def _look(self, *, confirmed: bool = False) -> MapTopic | None:
        return self._bounds.look(was_there=self._known is not None, confirmed=confirmed)

    def _read_to(self, end: int) -> None:
        """Read the rows before an end that the topic had.

        Raises
        ------
        ConnectionLost, BrokerError
            They don't come: the topic was deleted meanwhile, or recreated.
        """
        came_s = looked_s = monotonic()
        while self._next_offset < end:
            before = self._next_offset
            records = self._topic.poll(POLL_S)
            with self._lock:
                for record in records:
                    self._take(record)
                    self._epoch = record.leader_epoch
                self._next_offset = self._topic.position()
            now_s = monotonic()
            if self._next_offset > before:
                came_s = looked_s = now_s
            elif now_s - looked_s > LOOK_EVERY_S:
                looked_s = now_s
                topic = self._look()
                if topic is None or topic.end < end or now_s - came_s > ROWS_WITHIN_S:
                    raise ConnectionLost(f"topic {self.topic} was not read to its end", end=end)

    def _take(self, record: ByteRecord) -> None:
        odd = self._reader.take_record(record.key, record.value, record.offset)
        if odd is not None:
            self._tell(odd)

    def _take_lost(self) -> None:
        for odd in self._reader.lost_rows():
            self._tell(odd)

    def _tell(self, odd: Odd) -> None:
        """Note a record that is no row; a map whose row it may have replaced is lost.

        Below the known end this was judged before, and a lost map may have been rebuilt since.
        """
        text = f"topic {self.topic} has a record that is no row at offset {odd.offset}: {odd.why}"
        if odd.mirror is None:
            self._strange.append(text)
        elif self._known is None or odd.offset >= self._known.end:
            self._spoiled[odd.mirror] = text
            self._reader.lost |= {odd.mirror}

    def strange(self) -> tuple[str, ...]:
        """Descriptions of records that are no rows and concern no mirror."""
        with self._lock:
            return tuple(self._strange)

    def spoiled(self) -> dict[MirrorId, str]:
        """Maps that have lost rows since the last call, and why."""
        with self._lock:
            reasons, self._spoiled = self._spoiled, {}
            return reasons

    def tails(
        self,
        partitions: Sequence[PartitionSpec],
        copied: Iterable[tuple[int, int, int, int]] = (),
    ) -> tuple[tuple[tuple[int, MapTail], ...], int, str]:
        """Return for a lane the ends of its maps, the offset to read on from, and the topic's id.

        The maps reach back to where the target's logs ended by `copied` (see `LaneSpec.copied`),
        and further: logs grow, unless they are truncated. The id is empty if it is not known.
        """
        ends = {index: end for index, _, _, end in copied if end >= 0}
        names = [(spec.target, id_text(spec.target_topic_id)) for spec in partitions]
        with self._lock:
            tails: list[tuple[int, MapTail]] = []
            mapped = [index for index, name in enumerate(names) if name in self._reader.maps]
            share = min(TAIL_BREAKS, LANE_BREAKS // max(1, len(mapped)))
            for index in mapped:
                end = ends.get(index)
                at_least = TAIL_BREAKS if end is None else share
                tail = self._reader.tail(*names[index], at_least, end)
                if tail is not None:
                    tails.append((index, tail))
            topic = self._known
            return tuple(tails), self._next_offset, "" if topic is None else topic.topic_id

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
        """Mirrors with a known map, complete or not."""
        with self._lock:
            maps = self._reader.maps.items()
            return frozenset(name for name, offset_map in maps if not offset_map.is_identity)

    def fresh(self) -> MapReader:
        """Return all maps with every row that is durable now.

        Read log ends of the target before: for all below these the maps are exact (I3); breaks
        after them may still change.
        """
        self.refresh()
        with self._lock:
            return self._reader.copy()

    def known_breaks(self, name: MirrorId) -> tuple[Break, ...]:
        """Return all durable breaks of a map, even if it is marked as lost."""
        self.refresh()
        with self._lock:
            offset_map = self._reader.maps.get(name)
            return () if offset_map is None else tuple(offset_map.breaks())

    def put(self, rows: Iterable[MapRow]) -> None:
        """Write rows; they are durable when it returns."""
        self._topic.write([ByteRecord(row.key.encode(), row.encode()) for row in rows])

    def prunable(self, starts: Mapping[MirrorId, Offset], rows_min: int) -> list[Prunable]:
        """Return `MapReader.prunable` of these log starts of mirrors, if there are enough rows."""
        with self._lock:
            candidates = [self._reader.prunable(*name, start) for name, start in starts.items()]
        return [
            prunable
            for prunable in candidates
            if prunable is not None and len(prunable.rows) >= rows_min
        ]

    def prune(self, prunable: Prunable) -> None:
        """Delete these rows, once a durable record says that they may go."""
        self._topic.write([ByteRecord(prunable.kept.encode(), KEPT_VALUE)])
        gone = [row.encode() for row in prunable.rows] + [kept.encode() for kept in prunable.said]
        for index in range(0, len(gone), DELETED_AT_ONCE):
            self._topic.write(
                ByteRecord(key, None) for key in gone[index : index + DELETED_AT_ONCE]
            )

    def begin_again(self, lost: Iterable[MirrorId]) -> None:
        """Accept the topic as it is now, after rows are gone, and these maps as lost."""
        with self._reading:
            self._topic.close()
            with self._lock:
                self._reader = MapReader(lost=frozenset(lost))
                self._next_offset, self._known, self._epoch = 0, None, -1
                self._strange, self._spoiled = [], {}
            now = self._look(confirmed=True)
            self._known = None if now is None else now._replace(end=0)

    def set_lost(self, lost: Iterable[MirrorId]) -> None:
        """Set which maps are lost from now on."""
        with self._lock:
            self._reader.lost = frozenset(lost)

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()
        self._bounds.close()
