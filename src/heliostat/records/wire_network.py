"""Both clusters over real connections: the `Network` that a Spark task uses.

One data connection a broker and side. A fetch is answered before the next one is sent; appends are
pipelined, the broker serves them strictly in order (`SocketServer` mutes the connection meanwhile).
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heliostat.access import PLAINTEXT
from heliostat.clusters.wire import fetch, produce
from heliostat.clusters.wire.cluster import (
    CONSUMER,
    DEBUG_REPLICA,
    EARLIEST,
    LATEST,
    TopicLeaders,
    WireCluster,
)
from heliostat.clusters.wire.connection import Connection, Frame
from heliostat.clusters.wire.primitives import request_header
from heliostat.errors import BrokerError, ConnectionLost, ProtocolError
from heliostat.names import BrokerId, Offset, TopicId, TopicPartition
from heliostat.records.lane import CopySettings, PartitionSpec
from heliostat.records.network import (
    Appended,
    AppendLost,
    Event,
    Fetched,
    FetchLost,
    Leaders,
    LogRange,
    Problem,
    Send,
    Want,
)

FETCH_BYTES_MIN = 1
"""A fetch is answered as soon as there is anything: no linger."""
ANSWER_SLACK_S = 5.0
"""Beyond the time that the broker itself may take (`produce_timeout_s`)."""
UNKNOWN_TOPIC_ID = 100
LEADER_NOT_AVAILABLE = 5


@dataclass(slots=True)
class _Fetching:
    connection: Connection
    version: int
    correlation_id: int = -1
    wants: dict[tuple[str | TopicId, int], Want] = field(default_factory=dict)
    sent_at_s: float = 0.0
    throttled_until_s: float = 0.0


@dataclass(slots=True)
class _Appending:
    connection: Connection
    version: int
    requests: deque[tuple[int, float, Sequence[Send]]] = field(default_factory=deque)
    """Correlation id, when it was sent (monotonic seconds), what it holds."""
    throttled_until_s: float = 0.0


class WireNetwork:
    """See `heliostat.records.network.Network`.

    Parameters
    ----------
    partitions
        The lane's, in order of their indexes.
    source, target
        Both clusters.
    settings
        Sizes and limits.
    monotonic_s
        The clock that the copier uses.
    """

    def __init__(
        self,
        partitions: Sequence[PartitionSpec],
        source: WireCluster,
        target: WireCluster,
        settings: CopySettings,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._partitions = partitions
        self._source = source
        self._target = target
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._selector = selectors.DefaultSelector()
        self._fetching: dict[BrokerId, _Fetching] = {}
        self._appending: dict[BrokerId, _Appending] = {}
        self._leaders = Leaders({}, {}, {})
        self._lost: list[Event] = []
        self._secured: dict[tuple[str, BrokerId], Connection] = {}

    def close(self) -> None:
        """Close all connections; what is in flight stays ambiguous."""
        for side in (self._fetching, self._appending):
            for item in side.values():
                item.connection.close()
        self._selector.close()
        self._source.close()
        self._target.close()

    # -- who and where -------------------------------------------------------------------------

    def leaders(self) -> Leaders:
        """Ask both clusters for the leaders of all partitions of the lane.

        Raises
        ------
        ConnectionLost
            One of the clusters answers nothing at all.
        """
        source_topics = self._source.metadata(sorted({p.source.topic for p in self._partitions}))
        target_topics = self._target.metadata(sorted({p.target.topic for p in self._partitions}))
        source: dict[int, BrokerId] = {}
        target: dict[int, BrokerId] = {}
        problems: dict[int, Problem] = {}
        for index, spec in enumerate(self._partitions):
            for found, topics, partition, topic_id in (
                (source, source_topics, spec.source, spec.source_topic_id),
                (target, target_topics, spec.target, spec.target_topic_id),
            ):
                answer = _leader(topics.get(partition.topic), partition, topic_id)
                if isinstance(answer, BrokerError):
                    problems[index] = answer
                else:
                    found[index] = answer
        self._leaders = Leaders(source, target, problems)
        return self._leaders

    def target_ranges(self, indexes: Sequence[int]) -> Mapping[int, LogRange | Problem]:
        """Log starts and log ends, uncommitted tail included, asked from the leaders."""
        partitions = {index: self._partitions[index].target for index in indexes}
        return self._ranges(self._target, self._leaders.target, partitions, DEBUG_REPLICA)

    def source_ranges(self, indexes: Sequence[int]) -> Mapping[int, LogRange | Problem]:
        """Log starts and high watermarks, asked from the leaders."""
        partitions = {index: self._partitions[index].source for index in indexes}
        return self._ranges(self._source, self._leaders.source, partitions, CONSUMER)

    def _ranges(
        self,
        cluster: WireCluster,
        leaders: Mapping[int, BrokerId],
        partitions: Mapping[int, TopicPartition],
        replica_id: int,
    ) -> dict[int, LogRange | Problem]:
        by_broker: dict[BrokerId, list[int]] = {}
        result: dict[int, LogRange | Problem] = {}
        for index in partitions:
            if index in leaders:
                by_broker.setdefault(leaders[index], []).append(index)
            else:
                result[index] = ConnectionLost("no leader known", partition=str(partitions[index]))
        for broker, indexes in by_broker.items():
            asked = [partitions[index] for index in indexes]
            try:
                starts = cluster.list_offsets(broker, asked, timestamp=EARLIEST)
                ends = cluster.list_offsets(broker, asked, timestamp=LATEST, replica_id=replica_id)
            except ConnectionLost as error:
                result.update(dict.fromkeys(indexes, error))
                continue
            for index in indexes:
                result[index] = _range(starts, ends, partitions[index])
        return result

    def delete_target_records(self, index: int, before: Offset) -> Problem | None:
        """Lift the log start of one target partition."""
        broker = self._leaders.target.get(index)
        if broker is None:
            return ConnectionLost("no leader known", index=index)
        try:
            self._target.delete_records(broker, self._partitions[index].target, before)
        except (BrokerError, ConnectionLost) as error:
            return error
        return None

    # -- requests ------------------------------------------------------------------------------

    def can_fetch(self, broker: BrokerId) -> bool:
        """No fetch is in flight there, and the broker has not asked for a pause (KIP-219)."""
        item = self._fetching.get(broker)
        return item is None or (not item.wants and self._monotonic_s() >= item.throttled_until_s)

    def can_append(self, broker: BrokerId) -> bool:
        """Fewer appends in flight there than allowed, and no pause asked for."""
        item = self._appending.get(broker)
        if item is None:
            return True
        is_free = len(item.requests) < self._settings.requests_in_flight_max
        return is_free and self._monotonic_s() >= item.throttled_until_s

    def fetch(self, broker: BrokerId, wants: Sequence[Want]) -> None:
        """Send one fetch; where it can't be sent, `FetchLost` comes as an event."""
        try:
            item = self._fetching.get(broker) or self._open_fetching(broker)
            connection = item.connection
            by_id = item.version >= fetch.BY_ID_FROM
            specs = self._partitions
            body = fetch.encode_fetch(
                item.version,
                [
                    fetch.FetchPartition(
                        specs[want.index].source.topic,
                        specs[want.index].source_topic_id,
                        specs[want.index].source.partition,
                        want.offset,
                        want.bytes_max,
                    )
                    for want in wants
                ],
                max_wait_ms=self._settings.fetch_wait_ms,
                min_bytes=FETCH_BYTES_MIN,
                max_bytes=self._settings.fetch_bytes_max,
                read_committed=True,
            )
            item.wants = {self._source_key(want.index, by_id=by_id): want for want in wants}
            item.sent_at_s = self._monotonic_s()
            item.correlation_id = connection.next_correlation_id()
            header = request_header(
                fetch.API_KEY,
                item.version,
                item.correlation_id,
                connection.settings.client_id,
                flexible=True,
            )
            connection.send([header, body])
        except ConnectionLost as error:
            self._drop_fetching(broker)
            self._lost.append(FetchLost(list(wants), str(error)))

    def append(self, broker: BrokerId, sends: Sequence[Send]) -> None:
        """Send one produce request; where it can't be sent, `AppendLost` comes as an event."""
        try:
            item = self._appending.get(broker) or self._open_appending(broker)
        except ConnectionLost as error:
            self._lost.append(AppendLost(list(sends), str(error)))
            return
        connection = item.connection
        correlation_id = connection.next_correlation_id()
        item.requests.append((correlation_id, self._monotonic_s(), sends))
        specs = self._partitions
        body = produce.encode_produce(
            item.version,
            [
                produce.ProducePartition(
                    specs[send.index].target.topic,
                    specs[send.index].target_topic_id,
                    specs[send.index].target.partition,
                    send.batch.parts,
                    send.batch.size,
                )
                for send in sends
            ],
            timeout_ms=int(self._settings.produce_timeout_s * 1000),
        )
        header = request_header(
            produce.API_KEY,
            item.version,
            correlation_id,
            connection.settings.client_id,
            flexible=True,
        )
        try:
            connection.send([header, *body])
        except ConnectionLost as error:
            self._drop_appending(broker, str(error))

    def _open_fetching(self, broker: BrokerId) -> _Fetching:
        version = self._source.fetch_version(broker)
        item = _Fetching(self._source.open_data(broker), version)
        self._fetching[broker] = item
        self._watch(item.connection, "fetch", broker)
        return item

    def _open_appending(self, broker: BrokerId) -> _Appending:
        version = self._target.produce_version(broker)
        item = _Appending(self._target.open_data(broker), version)
        self._appending[broker] = item
        self._watch(item.connection, "append", broker)
        return item

    def _source_key(self, index: int, *, by_id: bool) -> tuple[str | TopicId, int]:
        spec = self._partitions[index]
        topic = spec.source_topic_id if by_id and spec.source_topic_id else spec.source.topic
        return topic, spec.source.partition

    def _target_key(self, index: int, *, by_id: bool) -> tuple[str | TopicId, int]:
        spec = self._partitions[index]
        topic = spec.target_topic_id if by_id and spec.target_topic_id else spec.target.topic
        return topic, spec.target.partition

    # -- answers -------------------------------------------------------------------------------

    def wait(self, timeout_s: float) -> Iterable[Event]:
        """Answers that came within `timeout_s`, and requests that will not be answered."""
        self._drop_overdue()
        events, self._lost = self._lost, []
        if not self._fetching and not self._appending:
            if not events:
                self._selector.select(timeout_s)
            return events
        for side, broker in self._readable(0.0 if events else timeout_s):
            try:
                if side == "fetch":
                    frame = self._fetching[broker].connection.pump()
                    if frame is not None:
                        events.extend(self._fetched(broker, frame))
                else:
                    frame = self._appending[broker].connection.pump()
                    if frame is not None:
                        events.extend(self._appended(broker, frame))
            except (ConnectionLost, ProtocolError) as error:
                if side == "fetch":
                    wants = self._drop_fetching(broker)
                    self._lost.append(FetchLost(wants, str(error)))
                else:
                    self._drop_appending(broker, str(error))
        events.extend(self._lost)
        self._lost = []
        return events

    def _readable(self, timeout_s: float) -> Iterable[tuple[str, BrokerId]]:
        """Whom to read from; secured connections may hold what no selector sees."""
        held = [data for data, item in self._secured.items() if item.has_held()]
        found = self._selector.select(0.0 if held else timeout_s)
        if not held:
            return (key.data for key, _ in found)
        return dict.fromkeys([*held, *(key.data for key, _ in found)])

    def _watch(self, connection: Connection, side: str, broker: BrokerId) -> None:
        self._selector.register(connection, selectors.EVENT_READ, (side, broker))
        if connection.settings.security != PLAINTEXT:
            self._secured[side, broker] = connection

    def _unwatch(self, connection: Connection, side: str, broker: BrokerId) -> None:
        self._secured.pop((side, broker), None)
        self._selector.unregister(connection)
        connection.close()

    def _drop_overdue(self) -> None:
        """Give up connections on which an answer is overdue: a broker that hangs closes nothing."""
        now_s = self._monotonic_s()
        limit_s = self._settings.produce_timeout_s + ANSWER_SLACK_S
        for broker, fetching in list(self._fetching.items()):
            if fetching.wants and now_s > fetching.sent_at_s + limit_s:
                self._lost.append(FetchLost(self._drop_fetching(broker), "no answer in time"))
        for broker, appending in list(self._appending.items()):
            if appending.requests and now_s > appending.requests[0][1] + limit_s:
                self._drop_appending(broker, "no answer in time")

    def _fetched(self, broker: BrokerId, frame: Frame) -> list[Event]:
        item = self._fetching[broker]
        if frame.correlation_id != item.correlation_id:
            raise ProtocolError("a fetch answer belongs to another request", broker=broker)
        answer = fetch.decode_fetch(item.version, frame.buffer, 4)
        pause_ends_s = self._monotonic_s() + answer.throttle_ms / 1000
        item.throttled_until_s = max(item.throttled_until_s, pause_ends_s)
        events: list[Event] = []
        wants, item.wants = item.wants, {}
        if answer.error:
            failure = BrokerError("a fetch was refused", kafka_code=answer.error)
            return [FetchLost(list(wants.values()), str(failure))]
        for got in answer.partitions:
            want = wants.pop((got.topic, got.partition), None)
            if want is None:
                raise ProtocolError("a fetch answer holds what was not asked", topic=got.topic)
            events.append(
                Fetched(want, got.error, got.high_watermark, frame.buffer, got.start, got.end)
            )
        if wants:
            raise ProtocolError("a fetch answer lacks partitions", missing=len(wants))
        return events

    def _appended(self, broker: BrokerId, frame: Frame) -> list[Event]:
        item = self._appending[broker]
        if not item.requests or item.requests[0][0] != frame.correlation_id:
            raise ProtocolError("a produce answer belongs to another request", broker=broker)
        answers, throttle_ms = produce.decode_produce(item.version, frame.buffer, 4)
        # The answer behind it may ask for none and must not end the pause.
        pause_ends_s = self._monotonic_s() + throttle_ms / 1000
        item.throttled_until_s = max(item.throttled_until_s, pause_ends_s)
        _, _, sends = item.requests[0]
        by_id = item.version >= produce.BY_ID_FROM
        waiting = {self._target_key(send.index, by_id=by_id): send for send in sends}
        events: list[Event] = []
        for got in answers:
            send = waiting.pop((got.topic, got.partition), None)
            if send is None:
                raise ProtocolError("a produce answer holds what was not sent", topic=got.topic)
            events.append(Appended(send, got.error, got.base_offset, got.message))
        if waiting:
            raise ProtocolError("a produce answer lacks partitions", missing=len(waiting))
        item.requests.popleft()
        return events

    def _drop_fetching(self, broker: BrokerId) -> list[Want]:
        item = self._fetching.pop(broker, None)
        if item is None:
            return []
        self._unwatch(item.connection, "fetch", broker)
        return list(item.wants.values())

    def _drop_appending(self, broker: BrokerId, reason: str) -> None:
        item = self._appending.pop(broker)
        self._unwatch(item.connection, "append", broker)
        sends = [send for _, _, request in item.requests for send in request]
        self._lost.append(AppendLost(sends, reason))


def _leader(
    topic: TopicLeaders | None, partition: TopicPartition, topic_id: TopicId | None
) -> BrokerId | BrokerError:
    if topic is None or topic.error:
        code = topic.error if topic is not None else 3
        return BrokerError("no metadata of a topic", kafka_code=code, topic=partition.topic)
    if topic_id is not None and topic.topic_id is not None and topic.topic_id != topic_id:
        return BrokerError(
            "the topic was deleted and made anew",
            kafka_code=UNKNOWN_TOPIC_ID,
            topic=partition.topic,
            was=str(topic_id),
            now=str(topic.topic_id),
        )
    leader = topic.partitions.get(partition.partition)
    if leader is None or leader.error not in (0, 9) or leader.broker < 0:
        code = leader.error if leader is not None and leader.error else LEADER_NOT_AVAILABLE
        return BrokerError("a partition has no leader", kafka_code=code, partition=str(partition))
    return leader.broker


def _range(
    starts: Mapping[TopicPartition, Offset | BrokerError],
    ends: Mapping[TopicPartition, Offset | BrokerError],
    partition: TopicPartition,
) -> LogRange | Problem:
    start, end = starts.get(partition), ends.get(partition)
    for item in (start, end):
        if isinstance(item, BrokerError):
            return item
    if start is None or end is None:
        return ConnectionLost("an answer lacks a partition", partition=str(partition))
    assert not isinstance(start, BrokerError)
    assert not isinstance(end, BrokerError)
    return LogRange(start, end)
