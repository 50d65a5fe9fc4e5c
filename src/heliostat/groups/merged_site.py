"""What links have brought to one site of merged topics, read of its cluster; changes nothing.

Everything that tells it stands at the site itself: which producer ids are links' (rows of them),
which topics each link writes there and how many records it has noted (its state), its offset maps,
and the logs. Read in this order:

    states, with the notes      a note that is read after a log's end may count records behind it
    the logs' ends
    rows of producer ids        so they name whoever has written a batch below these ends
    offset maps                 so they cover what is below these ends (I3)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.producer_rows import ProducerReader
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.epoch_ends import epoch_ends
from heliostat.clusters.wire.lent import LentClusters
from heliostat.errors import ConnectionLost, ProtocolError
from heliostat.groups.published import PublishedOffsets
from heliostat.merge.crossing import Crossing
from heliostat.merge.landed_log import LandedLog, OwnBatches, Stretch, UnknownPlaceError
from heliostat.merge.own_end import BatchPlace, OwnNote
from heliostat.merge.places import Site
from heliostat.names import (
    BrokerId,
    LinkName,
    Offset,
    ProducerId,
    TopicId,
    TopicName,
    TopicPartition,
    id_text,
)
from heliostat.offsets.offset_map import MapReader
from heliostat.offsets.store import MapsLook
from heliostat.ops.asked import asked_at_once
from heliostat.records.batches.batch import HEADER, MAGIC, MAGIC_AT, BatchHeader
from heliostat.records.transport.single_batches import (
    NO_SUCH_OFFSET,
    BatchAt,
    each_batch,
    read_batches,
)
from heliostat.state.link_state import feeds_in
from heliostat.state.merged_notes import OwnNotes, notes_in
from heliostat.state_topics import state_topic
from heliostat.topics.values import MirrorRecord

NO_LEADER = "no leader of its partition answers"
READ_BYTES = 1024 * 1024
"""Of a log at a time."""


_Stands: TypeAlias = tuple[TopicId, int, frozenset[ProducerId]]
"""Of which topic, in which leader epoch, and for which producer ids a log was read."""
_ReadLog: TypeAlias = Callable[[TopicPartition, "LogHere", Offset], Stretch]


class LinkHere(NamedTuple):
    """A link that merges topics into this site, by its state."""

    records: Mapping[TopicName, MirrorRecord]
    """By the topic's name here."""
    notes: Mapping[TopicName, OwnNotes]
    """By source topic."""


@dataclass(slots=True)
class LogHere:
    """A partition's log as of one look."""

    topic_id: TopicId
    leader: BrokerId
    epoch: int
    start: Offset
    end: Offset


@dataclass(slots=True)
class SiteLook:
    """What is known of the site's partitions, and of what crossed to them."""

    logs: Mapping[TopicPartition, LogHere]
    """Partitions whose leader does not answer are missing."""
    into: Mapping[TopicPartition, Mapping[Site, Crossing] | str]
    """What has crossed there, by where it is from; or why that can't be told."""
    links: Mapping[LinkName, LinkHere]
    """Links that merge topics into the site."""
    published: Mapping[LinkName, PublishedOffsets]
    """What each link has published for groups here."""

    def of_link(self, link: LinkName, partition: TopicPartition) -> Crossing | str:
        """Return what one link has brought to a partition, or why that can't be told."""
        into, here = self.into.get(partition, NO_LEADER), self.links.get(link)
        if isinstance(into, str):
            return into
        record = None if here is None else here.records.get(partition.topic)
        found = None if record is None else into.get(Site(record.source_cluster))
        return "the link has brought nothing there yet" if found is None else found


@dataclass(slots=True)
class Budget:
    """How many bytes of logs one look may read: the rest is for the next one."""

    left: int | None

    def take(self, size: int) -> None:
        """Count what was read.

        Raises
        ------
        UnknownPlaceError
            That was all.
        """
        if self.left is not None:
            self.left -= size
            if self.left < 0:
                raise UnknownPlaceError("its log is being read: the next look goes on")


class MergedSite:
    """One site, looked at again and again by one thread.

    Parameters
    ----------
    clusters
        Connections to it.
    look_bytes
        Most bytes of logs that one look reads; None: as many as it takes.
    """

    def __init__(self, clusters: LentClusters, look_bytes: int | None = None) -> None:
        self._clusters = clusters
        self._look_bytes = look_bytes
        self._producers = ProducerReader(clusters)
        self._maps: dict[LinkName, MapsLook] = {}
        self._published: dict[LinkName, PublishedOffsets] = {}
        self._kept: dict[tuple[LinkName, TopicPartition], tuple[_Stands, OwnBatches]] = {}

    def close(self) -> None:
        """Close what was opened here."""
        self._producers.close()
        for maps in self._maps.values():
            maps.close()
        for memory in self._published.values():
            memory.close()

    @contextmanager
    def look(self, topics: Iterable[TopicName]) -> Iterator[SiteLook]:
        """Look at topics of the site; logs are read as places are asked for.

        Raises
        ------
        ConnectionLost, BrokerError, ProtocolError
            The site does not answer, or what links have noted there can't be read.
        """
        links = self._links()
        with self._clusters.lent() as cluster:
            logs = _logs(cluster, topics)
            cut = _cut_epochs(cluster, logs, links)
            looked = _Looked(links, logs, self._ids(links), self._read_maps(links), cut)
            read = partial(_read_log, cluster, Budget(self._look_bytes))
            into = {one: self._crossings(one, looked, read) for one in logs}
            yield SiteLook(logs, into, links, {name: self._published[name] for name in links})

    # -- what links say ------------------------------------------------------------------------

    def _links(self) -> dict[LinkName, LinkHere]:
        rows, _ = self._producers.read()
        names = sorted(set(rows.values()))
        states = asked_at_once({name: partial(self._link, name) for name in names})
        return {name: found for name, found in states.items() if found is not None}

    def _link(self, name: LinkName) -> LinkHere | None:
        """Return what a link's state says; None: it has none any more."""
        with closing(KeyedTopic(self._clusters, state_topic(name))) as topic:
            rows = topic.read_all()
        records = {
            feed.record.target: feed.record
            for feed in feeds_in(name, rows)
            if feed.record.is_merged and feed.record.target_id is not None
        }
        return LinkHere(records, notes_in(state_topic(name), rows).own) if records else None

    def _ids(self, links: Mapping[LinkName, LinkHere]) -> Mapping[LinkName, set[ProducerId]]:
        """Return links' producer ids, as of now."""
        rows, _ = self._producers.read()
        ids: dict[LinkName, set[ProducerId]] = {}
        for number, name in rows.items():
            ids.setdefault(name, set()).add(number)
        for name in ids.keys() - links.keys():
            if self._link(name) is not None:
                raise ConnectionLost(f"link {name} has just begun: its state is read again")
        return ids

    def _read_maps(self, links: Mapping[LinkName, LinkHere]) -> Mapping[LinkName, MapReader]:
        for name in links:
            if name not in self._maps:
                self._maps[name] = MapsLook(self._clusters, name)
                self._published[name] = PublishedOffsets(self._clusters, name)
        asked = {name: self._maps[name].read for name in links}
        found = asked_at_once(asked)
        asked_at_once({name: self._published[name].read for name in links})
        return found

    # -- what crossed --------------------------------------------------------------------------

    def _crossings(
        self, partition: TopicPartition, looked: _Looked, read: _ReadLog
    ) -> Mapping[Site, Crossing] | str:
        found: dict[Site, Crossing] = {}
        for name, link in looked.links.items():
            log, record = looked.logs[partition], link.records.get(partition.topic)
            if record is None or record.target_id != log.topic_id:
                continue
            maps, topic_id = looked.maps[name], id_text(record.target_id)
            if maps.is_lost(partition, topic_id):
                return f"rows of the offset map of link {name} are gone"
            own = frozenset(looked.ids.get(name, ()))
            landed = LandedLog(
                self._batches(name, partition, log, own),
                partial(read, partition, log),
                looked.note_of(link, record, partition),
                log.start,
                log.end,
            )
            origin = Site(record.source_cluster)
            if origin in found:
                return f"link {name} and another one have both merged it from one site"
            found[origin] = Crossing(maps.of(partition, topic_id), landed)
        return found

    def _batches(
        self, link: LinkName, partition: TopicPartition, log: LogHere, own: frozenset[ProducerId]
    ) -> OwnBatches:
        """Return what earlier looks have read of a log, unless an election may have cut it."""
        key, stands = (link, partition), (log.topic_id, log.epoch, own)
        known = self._kept.get(key)
        if known is None or known[0] != stands:
            known = self._kept[key] = stands, OwnBatches(own)
        return known[1]


@dataclass(frozen=True, slots=True)
class _Looked:
    """What one look has read of the site."""

    links: Mapping[LinkName, LinkHere]
    logs: Mapping[TopicPartition, LogHere]
    ids: Mapping[LinkName, set[ProducerId]]
    maps: Mapping[LinkName, MapReader]
    cut: frozenset[tuple[TopicPartition, int]]
    """Partitions with leader epochs whose logs elections have cut: notes of these don't hold."""

    def note_of(
        self, link: LinkHere, record: MirrorRecord, partition: TopicPartition
    ) -> OwnNote | None:
        """Return what a link has noted of a partition; None: it does not hold any more."""
        notes, log = link.notes.get(record.source), self.logs[partition]
        note = None
        if notes is not None and notes.target_id == id_text(record.target_id):
            note = notes.partitions.get(partition.partition)
        if note is None:  # one is durable within a minute of a link's first append
            return OwnNote(0, log.start)
        return None if (partition, note.epoch) in self.cut else note


def _logs(cluster: WireCluster, topics: Iterable[TopicName]) -> dict[TopicPartition, LogHere]:
    """Return the logs of these topics whose leaders answer, as readers see them now."""
    leaders: dict[BrokerId, dict[TopicPartition, tuple[TopicId, int]]] = {}
    for name, topic in cluster.metadata(list(topics)).items():
        for number, leader in topic.partitions.items():
            if not topic.error and not leader.error and topic.topic_id is not None:
                of_broker = leaders.setdefault(leader.broker, {})
                of_broker[TopicPartition(name, number)] = topic.topic_id, leader.epoch
    ranges = cluster.ranges_of({broker: list(some) for broker, some in leaders.items()})
    found: dict[TopicPartition, LogHere] = {}
    for broker, some in leaders.items():
        answer = ranges[broker]
        if isinstance(answer, ConnectionLost):
            continue
        for one, (topic_id, epoch) in some.items():
            start, end = answer[0].get(one), answer[1].get(one)
            if isinstance(start, int) and isinstance(end, int):
                found[one] = LogHere(topic_id, broker, epoch, Offset(start), Offset(end))
    return found


def _cut_epochs(
    cluster: WireCluster,
    logs: Mapping[TopicPartition, LogHere],
    links: Mapping[LinkName, LinkHere],
) -> frozenset[tuple[TopicPartition, int]]:
    """Return of which noted leader epochs the log ends before what was noted in them."""
    notes = [
        (TopicPartition(record.target, number), note)
        for link in links.values()
        for record in link.records.values()
        if (own := link.notes.get(record.source)) is not None
        for number, note in own.partitions.items()
    ]
    cut: set[tuple[TopicPartition, int]] = set()
    for one, note in notes:
        log = logs.get(one)
        if log is not None and note.epoch not in {-1, log.epoch}:
            ends = epoch_ends(cluster, log.leader, {one: note.epoch})
            if ends.get(one, Offset(-1)) < note.complete_to:
                cut.add((one, note.epoch))
    return frozenset(cut)


def _read_log(
    cluster: WireCluster, budget: Budget, partition: TopicPartition, log: LogHere, offset: Offset
) -> Stretch:
    """Read batches' headers from an offset on.

    Raises
    ------
    UnknownPlaceError
        They can't be read now.
    """
    at = BatchAt(partition, log.topic_id, offset)
    try:
        data = read_batches(cluster, log.leader, {0: at}, READ_BYTES).get(0, NO_SUCH_OFFSET)
    except (ConnectionLost, ProtocolError) as error:
        raise UnknownPlaceError(error.text) from error
    if data is None:
        return Stretch([], log.end)  # a cleaner has removed what was there
    budget.take(len(data))
    batches: list[BatchPlace] = []
    for batch in each_batch(data):
        if batch[MAGIC_AT] != MAGIC:
            break
        header = BatchHeader._make(HEADER.unpack_from(batch))
        producer_id = -1 if header.is_control else header.producer_id
        place = header.base_sequence, header.base_offset, header.next_offset
        batches.append(BatchPlace(producer_id, *place))
    if not batches:
        raise UnknownPlaceError(f"the log of {partition} can't be read from {offset} on")
    return Stretch(batches, Offset(batches[-1].next_offset))
