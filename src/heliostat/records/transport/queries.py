"""A lane's queries to both clusters: partition leaders, log ends, and batches at the ends.

Each query goes to the brokers that it concerns, and fails only for their partitions (I7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from heliostat.clusters.kafka_codes import (
    CONSUMER,
    DEBUGGING_CONSUMER,
    LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_ID,
)
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.leaders import Leader, TopicLeaders
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.merge.own_end import OwnNote
from heliostat.names import BrokerId, Offset, TopicId, TopicPartition, is_another
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import (
    BrokerProblem,
    LastBatch,
    LeaderProblem,
    Leaders,
    LogRange,
    MirrorEnd,
    SourceSays,
)
from heliostat.records.transport.last_batches import read_last_batches
from heliostat.records.transport.mirror_ends import compare_ends, times_at
from heliostat.records.transport.single_batches import (
    SMALL_BATCH_BYTES,
    BatchAt,
    Batches,
    by_leader,
    read_led,
)


class WireQuestions:
    """See `heliostat.records.copier.network.Network`.

    Parameters
    ----------
    partitions
        Partitions of the lane, in order of their indexes; `change` adds to it.
    source, target
        Both clusters.
    producer_id
        Producer id of the link.
    """

    def __init__(
        self,
        partitions: list[PartitionSpec],
        source: WireCluster,
        target: WireCluster,
        producer_id: int,
    ) -> None:
        self._partitions = partitions
        self._gone: set[int] = set()
        self._source = source
        self._target = target
        self._producer_id = producer_id
        self._leaders = Leaders({}, {}, {})

    def change(self, gone: Sequence[int], new: Sequence[PartitionSpec]) -> None:
        """See `heliostat.records.copier.network.Network`."""
        self._gone.update(gone)
        self._partitions += new
        left = self._leaders
        for leaders in (left.source, left.target):
            for index in gone:
                leaders.pop(index, None)

    def leaders(self, indexes: Sequence[int] | None = None) -> Leaders:
        """Ask both clusters for the leaders of the lane's partitions, or of some of them.

        Raises
        ------
        ConnectionLost
            No broker of the source answers. If none of the target does, that is a problem of each
            partition, so that what is fetched meanwhile does not end it.
        """
        asked = range(len(self._partitions)) if indexes is None else indexes
        specs = {index: self._partitions[index] for index in asked if index not in self._gone}
        source_topics = self._source.metadata(sorted({p.source.topic for p in specs.values()}))
        source = {} if indexes is None else dict(self._leaders.source)
        target = {} if indexes is None else dict(self._leaders.target)
        problems: dict[int, LeaderProblem] = {}
        for index, spec in specs.items():
            topic = source_topics.get(spec.source.topic)
            answer = _leader(topic, spec.source, spec.source_topic_id, "source")
            if isinstance(answer, BrokerError):
                problems[index] = LeaderProblem(answer, is_target=False)
            else:
                source[index] = answer
        try:
            target_topics = self._target.metadata(sorted({p.target.topic for p in specs.values()}))
        except ConnectionLost as error:
            problems |= dict.fromkeys(specs, LeaderProblem(error, is_target=True))
            self._leaders = Leaders(source, self._leaders.target, problems)
            return self._leaders
        for index, spec in specs.items():
            topic = target_topics.get(spec.target.topic)
            answer = _leader(topic, spec.target, spec.target_topic_id, "target")
            if isinstance(answer, BrokerError):
                problems[index] = LeaderProblem(answer, is_target=True)
            else:
                target[index] = answer
        self._leaders = Leaders(source, target, problems)
        return self._leaders

    def target_ranges(
        self, indexes: Iterable[int], *, confirmed: bool = False
    ) -> Mapping[int, LogRange | BrokerProblem]:
        """Ask the leaders for log starts and log end offsets, uncommitted tail included.

        ListOffsets and WriteTxnMarkers identify topics by name only. An empty mirror may have been
        recreated since its leaders were looked up: a round of the old topic was seen to append a
        marker to the new one, whose rounds took it for a foreign record. A mirror with records is
        checked by fetching them, as fetches name the topic id.
        """
        partitions = {index: self._partitions[index].target for index in indexes}
        leaders = self._leaders.target
        if confirmed and partitions:
            ids = {index: self._partitions[index].target_topic_id for index in partitions}
            if lost := _confirm(self._target, leaders, partitions, ids):
                return dict.fromkeys(partitions, lost)
        found = self._ranges(self._target, leaders, partitions, DEBUGGING_CONSUMER)
        empty = [index for index, each in found.items() if each == LogRange(Offset(0), Offset(0))]
        return found | self._recreated(empty)

    def _recreated(self, indexes: Sequence[int]) -> dict[int, BrokerProblem]:
        """Return problems of partitions whose topic was recreated, or can't be checked."""
        targets = {index: self._partitions[index].target for index in indexes}
        if not targets:
            return {}
        try:
            topics = self._target.metadata(sorted({each.topic for each in targets.values()}))
        except ConnectionLost as error:
            return dict.fromkeys(targets, error)
        answers = {
            index: _leader(topics.get(each.topic), each, self._partitions[index].target_topic_id)
            for index, each in targets.items()
        }
        return {index: each for index, each in answers.items() if isinstance(each, BrokerError)}

    def target_last_batches(self, ranges: Mapping[int, LogRange]) -> Mapping[int, LastBatch | None]:
        """Ask the leaders who appended the last record of these logs."""
        found: dict[int, LastBatch | None] = {}
        for broker, some in by_leader(self._leaders.target, ranges).items():
            specs = {index: self._partitions[index] for index in some}
            found |= read_last_batches(self._target, broker, specs, some, self._producer_id)
        return found

    def own_note(self, index: int) -> OwnNote | None:
        """Return None: these topics are not merged, see `MergedNetwork`."""
        del index
        return None

    def compare_ends(self, ends: Mapping[int, MirrorEnd]) -> Mapping[int, SourceSays]:
        """Compare the last records of mirrors with the source's, read from both sides' leaders."""
        return compare_ends(ends, self._at_target, self._at_source)

    def source_times(self, places: Mapping[int, Offset]) -> Mapping[int, int]:
        """Return timestamps (ms) of records, read from the source's leaders."""
        return times_at(places, self._at_source)

    def _at_target(self, offsets: Mapping[int, Offset], room: int = SMALL_BATCH_BYTES) -> Batches:
        of = self._partitions
        at = {i: BatchAt(of[i].target, of[i].target_topic_id, o) for i, o in offsets.items()}
        return read_led(self._target, self._leaders.target, at, room)

    def _at_source(self, offsets: Mapping[int, Offset], room: int = SMALL_BATCH_BYTES) -> Batches:
        of = self._partitions
        at = {i: BatchAt(of[i].source, of[i].source_topic_id, o) for i, o in offsets.items()}
        return read_led(self._source, self._leaders.source, at, room)

    def source_ranges(
        self, indexes: Sequence[int], *, confirmed: bool = False
    ) -> Mapping[int, LogRange | BrokerProblem]:
        """Ask the leaders for log starts and high watermarks."""
        partitions = {index: self._partitions[index].source for index in indexes}
        leaders = self._leaders.source
        if confirmed and partitions:
            ids = {index: self._partitions[index].source_topic_id for index in partitions}
            if lost := _confirm(self._source, leaders, partitions, ids):
                return dict.fromkeys(partitions, lost)
        return self._ranges(self._source, leaders, partitions, CONSUMER)

    def _ranges(
        self,
        cluster: WireCluster,
        leaders: Mapping[int, BrokerId],
        partitions: Mapping[int, TopicPartition],
        replica_id: int,
    ) -> dict[int, LogRange | BrokerProblem]:
        by_broker: dict[BrokerId, list[int]] = {}
        result: dict[int, LogRange | BrokerProblem] = {}
        for index in partitions:
            if index in leaders:
                by_broker.setdefault(leaders[index], []).append(index)
            else:
                result[index] = ConnectionLost("no leader known", partition=str(partitions[index]))
        asked = {
            broker: [partitions[index] for index in indexes]
            for broker, indexes in by_broker.items()
        }
        for broker, answer in cluster.ranges_of(asked, replica_id=replica_id).items():
            for index in by_broker[broker]:
                result[index] = (
                    answer
                    if isinstance(answer, ConnectionLost)
                    else _range(*answer, partitions[index])
                )
        return result

    def delete_target_records(self, index: int, before: Offset) -> BrokerProblem | None:
        """Raise the log start offset of one target partition.

        DeleteRecords identifies topics by name only: the topic id is checked right before and right
        after, so that nothing is copied into a recreated topic.
        """
        broker = self._leaders.target.get(index)
        spec = self._partitions[index]
        if broker is None:
            return ConnectionLost("no leader known", index=index)
        try:
            self._check_target(spec)
            self._target.delete_records(broker, spec.target, before)
            self._check_target(spec)
        except (BrokerError, ConnectionLost) as error:
            return error
        return None

    def _check_target(self, spec: PartitionSpec) -> None:
        """Raise an error if the mirror's topic was recreated."""
        topic = self._target.metadata([spec.target.topic]).get(spec.target.topic)
        leader = _leader(topic, spec.target, spec.target_topic_id)
        if isinstance(leader, BrokerError):
            raise leader


def _confirm(
    cluster: WireCluster,
    leaders: dict[int, BrokerId],
    partitions: Mapping[int, TopicPartition],
    ids: Mapping[int, TopicId | None],
) -> ConnectionLost | None:
    """Ask all brokers who leads these, and change `leaders`; return why that failed."""
    try:
        topics = cluster.metadata(sorted({p.topic for p in partitions.values()}), confirmed=True)
    except ConnectionLost as error:
        return error
    for index, partition in partitions.items():
        leader = _leader(topics.get(partition.topic), partition, ids[index])
        if isinstance(leader, BrokerError):
            leaders.pop(index, None)
        else:
            leaders[index] = leader
    return None


def _leader(
    topic: TopicLeaders | None,
    partition: TopicPartition,
    topic_id: TopicId | None,
    side: str = "target",
) -> BrokerId | BrokerError:
    if topic is None or topic.error:
        code = topic.error if topic is not None else 3
        return BrokerError("no metadata of a topic", kafka_code=code, topic=partition.topic)
    if is_another(topic_id, topic.topic_id):
        return BrokerError(
            "the topic was deleted and recreated",
            kafka_code=UNKNOWN_TOPIC_ID,
            topic=partition.topic,
            was=str(topic_id),
            now=str(topic.topic_id),
        )
    leader = topic.partitions.get(partition.partition)
    if leader is None or leader.error not in (0, 9) or leader.broker < 0:
        code = leader.error if leader is not None and leader.error else LEADER_NOT_AVAILABLE
        return BrokerError(
            "a partition has no leader",
            kafka_code=code,
            partition=str(partition),
            side=side,
            brokers=_replicas(leader),
        )
    return leader.broker


def _replicas(leader: Leader | None) -> str:
    """Return the brokers with the partition's replicas as text, and which of them are gone."""
    if leader is None or not leader.replicas:
        return "unknown"
    gone = [str(each) for each in leader.replicas if each in leader.offline]
    return ", ".join(map(str, leader.replicas)) + (f" ({', '.join(gone)} offline)" if gone else "")


def _range(
    starts: Mapping[TopicPartition, Offset | BrokerError],
    ends: Mapping[TopicPartition, Offset | BrokerError],
    partition: TopicPartition,
) -> LogRange | BrokerProblem:
    start, end = starts.get(partition), ends.get(partition)
    for item in (start, end):
        if isinstance(item, BrokerError):
            return item
    if start is None or end is None:
        return ConnectionLost("an answer lacks a partition", partition=str(partition))
    assert not isinstance(start, BrokerError)
    assert not isinstance(end, BrokerError)
    return LogRange(start, end)
