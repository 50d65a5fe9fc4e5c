"""A link's own records in merged topics, while maps or state are rebuilt of what both logs hold.

How many there are is told as a lane is told (`own_end`): by the leader's memory of the producer, by
the note, else by the last own batch with no hole behind it. The log must have them up to there,
each number once: then both sides are compared as those of a mirror, with numbers as its offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from heliostat.access import Reachable
from heliostat.clusters.kafka_codes import DEBUGGING_CONSUMER
from heliostat.clusters.producer_rows import ProducerReader
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.errors import ConnectionLost
from heliostat.merge.own_end import OwnNote
from heliostat.names import (
    BrokerId,
    Offset,
    ProducerId,
    TopicName,
    TopicPartition,
    id_text,
)
from heliostat.rebuild.proof import NotProved
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import LogRange
from heliostat.records.transport.own_ends import OwnEnds, OwnProducers
from heliostat.state.merged_notes import OwnNotes
from heliostat.topics.values import MirrorRecord
from heliostat.verify.origin import LinkIds, Origin, OwnRecords, own_range
from heliostat.verify.reader import Bounds, LogReader
from heliostat.verify.stream import PartitionStream

CLIENT_ID = "heliostat-rebuild"
WITHIN_S = 30.0
NO_LEADER = "no leader of its partition at the target answers"
NOT_TOLD = (
    "how many records the link has appended is not told: the brokers have forgotten its producer, "
    "and neither a note nor what is left of the target's log says it (TAIL_UNKNOWN)"
)


class OwnCount(NamedTuple):
    """How many records a link has appended to a partition, as its leader was asked."""

    number: int
    end: Offset
    """The target's end before that: no other own record is below it."""
    epoch: int
    """Leader epoch then."""

    @property
    def note(self) -> OwnNote:
        """What is noted of it: open, as something may be sent from now on."""
        return OwnNote(self.number, self.end, self.epoch)


class OwnSides:
    """Both sites, asked about what one link has brought from one to the other.

    Parameters
    ----------
    source, target
        Both sites.
    ids
        All producer ids that the link ever had.
    last
        Those with which it may have appended last: leaders are asked what they remember of them.
    notes
        What it has noted, by source topic.
    """

    def __init__(
        self,
        source: Reachable,
        target: Reachable,
        ids: frozenset[ProducerId],
        last: Iterable[ProducerId],
        notes: Mapping[TopicName, OwnNotes],
    ) -> None:
        self._source = source
        self._clusters, self._are_ours = lent_clusters(target, CLIENT_ID, WITHIN_S)
        self._ids = ids
        self._own = [OwnProducers(each, ids) for each in last]
        self._notes = notes

    def close(self) -> None:
        """Close the connections that are its own."""
        if self._are_ours:
            self._clusters.close()

    def ids(self) -> LinkIds:
        """Return whose ids are at both sides, by the rows as of now: read after the logs' ends.

        Raises
        ------
        ConnectionLost, BrokerError, ProtocolError
            The source does not answer.
        """
        with closing(ProducerReader(self._source)) as reader:
            rows, _ = reader.read()
        return LinkIds(frozenset(rows), self._ids)

    def counts(
        self, asked: Sequence[tuple[TopicPartition, MirrorRecord]]
    ) -> dict[TopicPartition, OwnCount | str]:
        """Return how many records the link has appended to each, or why that is not known.

        Parameters
        ----------
        asked
            Partitions at the source, with what is recorded of their topics.

        Raises
        ------
        ConnectionLost
            The target does not answer.
        """
        specs = [_spec(source, record) for source, record in asked]
        notes = {
            index: note
            for index, (source, record) in enumerate(asked)
            if (note := self._note_of(source, record)) is not None
        }
        found: dict[TopicPartition, OwnCount | str] = {}
        with self._clusters.lent() as cluster:
            for broker, logs in _logs(cluster, specs).items():
                for own in self._own:
                    ends = OwnEnds(specs, own, notes, cluster)
                    for index, count in _counted(ends, broker, logs):
                        source = specs[index].source
                        found[source] = _more(found.get(source, count), count)
        return {each.source: found.get(each.source, NO_LEADER) for each in specs}

    def _note_of(self, source: TopicPartition, record: MirrorRecord) -> OwnNote | None:
        notes = self._notes.get(record.source)
        if notes is None or notes.target_id != id_text(record.target_id):
            return None
        return notes.partitions.get(source.partition)


def _spec(source: TopicPartition, record: MirrorRecord) -> PartitionSpec:
    mirror = record.mirror_of(source.partition)
    ids = record.source_id, record.target_id
    start, size = Offset(0), 0  # nothing is copied by it
    return PartitionSpec(source, mirror, *ids, start, size, is_compacted=False)


def _logs(
    cluster: WireCluster, specs: Sequence[PartitionSpec]
) -> dict[BrokerId, dict[int, LogRange]]:
    """Return the logs of those whose leaders answer, by leader."""
    topics = cluster.metadata(sorted({each.target.topic for each in specs}), confirmed=True)
    leaders: dict[BrokerId, dict[int, TopicPartition]] = {}
    for index, spec in enumerate(specs):
        topic = topics.get(spec.target.topic)
        leader = None if topic is None else topic.partitions.get(spec.target.partition)
        if topic is None or leader is None or topic.error or leader.error:
            continue
        leaders.setdefault(leader.broker, {})[index] = spec.target
    asked = {broker: list(some.values()) for broker, some in leaders.items()}
    ranges = cluster.ranges_of(asked, replica_id=DEBUGGING_CONSUMER)
    found: dict[BrokerId, dict[int, LogRange]] = {}
    for broker, some in leaders.items():
        answer = ranges[broker]
        if isinstance(answer, ConnectionLost):
            continue
        for index, one in some.items():
            start, end = answer[0].get(one), answer[1].get(one)
            if isinstance(start, int) and isinstance(end, int):
                found.setdefault(broker, {})[index] = LogRange(Offset(start), Offset(end))
    return found


def _counted(
    ends: OwnEnds, broker: BrokerId, logs: Mapping[int, LogRange]
) -> Iterator[tuple[int, OwnCount | str]]:
    """Yield what a leader says; a long log is read in several looks."""
    left = dict(logs)
    while left:
        again: dict[int, LogRange] = {}
        reached = {index: _reached(ends, index) for index in left}
        for index, answer in ends.ranges(broker, left):
            own = ends.logs[index]
            if not isinstance(answer, LogRange):
                if _reached(ends, index) > reached[index]:
                    again[index] = left[index]
                else:
                    yield index, str(answer)
            elif own.count is None:
                yield index, NOT_TOLD
            else:
                yield index, OwnCount(own.count, logs[index].end, own.epoch)
        left = again


def _more(one: OwnCount | str, other: OwnCount | str) -> OwnCount | str:
    """Return the greater count: what a leader remembers may be of an id that others came after.

    So where it does not remember one of them, the log has to tell as well.
    """
    if isinstance(one, str):
        return one
    return other if isinstance(other, str) else max(one, other)


def _reached(ends: OwnEnds, index: int) -> int:
    stretch = ends.logs[index].stretch
    return -1 if stretch is None else stretch.next


class OwnView(NamedTuple):
    """The link's own records in a target's log, as what they are compared as."""

    numbers: Bounds
    """Of those that are left; start and end are equal where none is."""
    origin: Origin


def own_view(
    reader: LogReader,
    mirror: TopicPartition,
    count: OwnCount,
    ids: LinkIds,
) -> OwnView:
    """Return which own records a log has: all up to the last one that was appended, each once.

    Parameters
    ----------
    reader
        Reads the target.
    mirror
        The partition there.
    count
        How many the link has appended.
    ids
        Whose ids are at both sides.

    Raises
    ------
    NotProved
        Some of them are not there, or are there twice.
    """
    log = reader.bounds([mirror])[mirror]
    own = own_range(reader, mirror, (log.start, log.end), ids.at_target, count.number)
    if own is None or own.start == own.end:
        number = count.number
        if own is not None and number:
            raise NotProved(f"its log begins at 0, and has none of the link's {number} records")
        return OwnView(Bounds(number, number), Origin(ids, log.start, log.end, number))
    if own.end != count.number:
        raise NotProved(
            f"the link has appended {count.number} records, and the last one left in the target's "
            f"log is number {own.end - 1}: later ones are gone, or have just come; try again"
        )
    found = OwnView(Bounds(own.start, own.end), Origin(ids, log.start, log.end, own.start))
    _refuse_broken(reader, mirror, found)
    return found


def _refuse_broken(reader: LogReader, mirror: TopicPartition, view: OwnView) -> None:
    """Refuse if a number is missing among those that are left, or is there again."""
    start, end = view.numbers.start, view.numbers.end
    stream = PartitionStream(reader, mirror, view.origin.start, view.origin.end)
    batches = OwnRecords(stream, view.origin, start, end)
    following = start
    for batch in batches:
        if batch.base_offset > following:
            raise NotProved(f"own record {following} is gone, and later ones are there", following)
        following = batch.next_offset
    if (again := batches.repeated_at) is not None:
        raise NotProved(f"own record {again} is one whose number was there before", again)
