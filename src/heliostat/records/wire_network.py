"""Both clusters over real connections: the `Network` that a Spark task uses."""

from __future__ import annotations

import contextlib
import selectors
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from heliostat.access import PLAINTEXT
from heliostat.clusters.wire.cluster import (
    CONSUMER,
    DEBUG_REPLICA,
    TopicLeaders,
    WireCluster,
)
from heliostat.clusters.wire.connection import Connection
from heliostat.errors import BrokerError, ConnectionLost, OffsetMapLost, ProtocolError
from heliostat.names import BrokerId, Offset, TopicId, TopicPartition
from heliostat.records.append_line import AppendLine
from heliostat.records.lane import CopySettings, PartitionSpec
from heliostat.records.map_channel import MapChannel
from heliostat.records.mirror_ends import compare_ends, times_at
from heliostat.records.network import (
    DIALS_AT_ONCE,
    LIVE,
    AppendLost,
    Channel,
    Event,
    FetchLost,
    Leaders,
    LogRange,
    MapLost,
    MapWrite,
    MirrorEnd,
    Problem,
    Send,
    SourceSays,
    Tail,
    Traffic,
    Want,
)
from heliostat.records.offset_map import OffsetMap
from heliostat.records.single_batches import BatchAt, Batches, by_leader, read_led
from heliostat.records.tails import read_tails
from heliostat.records.wire_lines import FetchLine, LineContext, WatchLine

BACKLOG_FETCH_BYTES_MAX = 8 * 1024 * 1024
"""Of one answer for partitions far behind: live ones wait while it is taken in, milliseconds."""
OVERDUE_EVERY_S = 0.1
"""There may be a hundred connections to look at."""
ANSWER_SLACK_S = 5.0
"""Beyond the time that the broker itself may take (`produce_timeout_s`)."""
UNKNOWN_TOPIC_ID = 100
LineKey = tuple[str, BrokerId, Channel]
LEADER_NOT_AVAILABLE = 5
FETCH, APPEND, MAP = "fetch", "append", "map"
_MAP_KEY: LineKey = (MAP, BrokerId(-1), LIVE)
"""The offset map's topic has one leader."""
_Line = FetchLine | AppendLine | MapChannel


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
    maps
        The offset map's topic.
    producer_id
        The link's.
    """

    def __init__(
        self,
        partitions: Sequence[PartitionSpec],
        source: WireCluster,
        target: WireCluster,
        settings: CopySettings,
        monotonic_s: Callable[[], float],
        *,
        maps: MapChannel,
        producer_id: int = -1,
    ) -> None:
        self._maps = maps
        self._partitions = partitions
        self._source = source
        self._target = target
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._selector = selectors.DefaultSelector()
        self._context = LineContext(partitions, settings, monotonic_s, producer_id)
        self._fetching: dict[tuple[BrokerId, Channel], FetchLine] = {}
        self._appending: dict[tuple[BrokerId, Channel], AppendLine] = {}
        self._leaders = Leaders({}, {}, {})
        self._lost: list[Event] = []
        self._overdue_at_s = 0.0
        self._source_lines: set[tuple[BrokerId, Channel]] = set()
        self._map_watched: Connection | None = None
        self._secured: dict[LineKey, _Line] = {}

    def close(self) -> None:
        """Close all connections; what is in flight stays ambiguous."""
        for fetching in self._fetching.values():
            fetching.connection.close()
        for appending in self._appending.values():
            appending.close()
        self._maps.close()
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

    def target_ranges(self, indexes: Iterable[int]) -> Mapping[int, LogRange | Problem]:
        """Log starts and log ends, uncommitted tail included, asked from the leaders."""
        partitions = {index: self._partitions[index].target for index in indexes}
        return self._ranges(self._target, self._leaders.target, partitions, DEBUG_REPLICA)

    def target_tails(self, ranges: Mapping[int, LogRange]) -> Mapping[int, Tail | None]:
        """Who appended the last record of these logs, asked from the leaders."""
        found: dict[int, Tail | None] = {}
        for broker, some in by_leader(self._leaders.target, ranges).items():
            specs = {index: self._partitions[index] for index in some}
            found |= read_tails(self._target, broker, specs, some, self._context.producer_id)
        return found

    def compare_ends(self, ends: Mapping[int, MirrorEnd]) -> Mapping[int, SourceSays]:
        """Whether the source has what these end with, read from the leaders of both sides."""
        try:
            return compare_ends(ends, self._at_target, self._at_source)
        except (ConnectionLost, ProtocolError):
            return {}

    def source_times(self, places: Mapping[int, Offset]) -> Mapping[int, int]:
        """Times of records, read from the source's leaders."""
        try:
            return times_at(places, self._at_source)
        except (ConnectionLost, ProtocolError):
            return {}

    def _at_target(self, offsets: Mapping[int, Offset]) -> Batches:
        of = self._partitions
        at = {i: BatchAt(of[i].target, of[i].target_topic_id, o) for i, o in offsets.items()}
        return read_led(self._target, self._leaders.target, at)

    def _at_source(self, offsets: Mapping[int, Offset]) -> Batches:
        of = self._partitions
        at = {i: BatchAt(of[i].source, of[i].source_topic_id, o) for i, o in offsets.items()}
        return read_led(self._source, self._leaders.source, at)

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
                starts, ends = cluster.list_ranges(broker, asked, replica_id=replica_id)
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

    def expect(self, lines: Iterable[tuple[BrokerId, Channel]]) -> None:
        """Take note of what to open together, at the first use of one of them."""
        self._source_lines = set(lines)

    def open(self, target: Iterable[BrokerId]) -> None:
        """Open the connections of a round's beginning; a failure shows up again at their use.

        What a round begins with, ends and offset maps, is asked once for nothing: connections and
        versions are there then, and of the maps only what came since is left to read.
        """
        with contextlib.suppress(ConnectionLost):
            self._open_fetch_lines(self._source_lines)
            for broker in target:
                self._append_line(broker, LIVE)
        self.target_ranges({each: index for index, each in self._leaders.target.items()}.values())
        self.offset_maps(())

    def can_fetch(self, broker: BrokerId, channel: Channel) -> bool:
        """No fetch is in flight there, and the broker has not asked for a pause (KIP-219)."""
        line = self._fetching.get((broker, channel))
        return line is None or line.is_free

    def can_append(self, broker: BrokerId, channel: Channel) -> bool:
        """Fewer appends in flight there than allowed, and no pause asked for."""
        line = self._appending.get((broker, channel))
        return line is None or line.is_free

    def fetch(self, broker: BrokerId, channel: Channel, wants: Sequence[Want]) -> None:
        """Send one fetch; where it can't be sent, `FetchLost` comes as an event."""
        try:
            self._fetch_line(broker, channel).send(wants)
        except ConnectionLost as error:
            if (broker, channel) in self._fetching:
                self._drop((FETCH, broker, channel), str(error))
            else:
                self._lost.append(FetchLost(list(wants), str(error)))

    def append(self, broker: BrokerId, channel: Channel, sends: Sequence[Send]) -> None:
        """Send one produce request; where it can't be sent, `AppendLost` comes as an event."""
        try:
            self._append_line(broker, channel).send(sends)
        except ConnectionLost as error:
            if (broker, channel) in self._appending:
                self._drop((APPEND, broker, channel), str(error))
            else:
                self._lost.append(AppendLost(list(sends), str(error)))

    def _fetch_line(self, broker: BrokerId, channel: Channel) -> FetchLine:
        line = self._fetching.get((broker, channel))
        if line is None:
            # A broker that was away has mostly closed them all.
            others = (each for each in self._source_lines if each[0] == broker)
            try:
                self._open_fetch_lines({(broker, channel), *others})
            except ConnectionLost:
                if (broker, channel) not in self._fetching:
                    raise
            line = self._fetching[broker, channel]
        return line

    def _open_fetch_lines(self, lines: Iterable[tuple[BrokerId, Channel]]) -> None:
        """Open those that are missing, several at once: one takes a second on a long line.

        Raises
        ------
        ConnectionLost
            One can't be opened; others may be open all the same.
        """
        missing = sorted(each for each in lines if each not in self._fetching)
        versions = {broker: self._source.fetch_version(broker) for broker, _ in missing}
        lost: ConnectionLost | None = None
        # The first one alone: where that fails, the others would as well.
        for some in (missing[:1], missing[1:]):
            if not some or lost is not None:
                break
            with ThreadPoolExecutor(min(len(some), DIALS_AT_ONCE)) as pool:
                dialed = list(pool.map(self._dialed, [broker for broker, _ in some]))
            for key, connection in zip(some, dialed, strict=True):
                if isinstance(connection, ConnectionLost):
                    lost = connection
                else:
                    self._add_fetch_line(key, connection, versions[key[0]])
        if lost is not None:
            raise lost

    def _dialed(self, broker: BrokerId) -> Connection | ConnectionLost:
        try:
            return self._source.open_data(broker)
        except ConnectionLost as error:
            return error

    def _add_fetch_line(
        self, key: tuple[BrokerId, Channel], connection: Connection, version: int
    ) -> None:
        broker, channel = key
        bytes_max = self._settings.fetch_bytes_max
        if channel.traffic is Traffic.SPARSE:
            line: FetchLine = WatchLine(broker, channel, connection, version, self._context)
        else:
            if channel.traffic is Traffic.BACKLOG:
                bytes_max = min(bytes_max, BACKLOG_FETCH_BYTES_MAX)
            line = FetchLine(connection, version, self._context, bytes_max)
        self._fetching[key] = line
        self._watch((FETCH, broker, channel), line)

    def _append_line(self, broker: BrokerId, channel: Channel) -> AppendLine:
        line = self._appending.get((broker, channel))
        if line is None:
            version = self._target.produce_version(broker)
            line = AppendLine(self._target.open_data(broker), version, self._context)
            self._appending[broker, channel] = line
            self._watch((APPEND, broker, channel), line)
        return line

    # -- the offset map ------------------------------------------------------------------------

    def offset_maps(self, indexes: Sequence[int]) -> Mapping[int, OffsetMap] | Problem:
        """Maps of these partitions with all rows that are durable now."""
        try:
            found = self._maps.read()
        except (BrokerError, ConnectionLost, OffsetMapLost) as error:
            return error
        except ProtocolError as error:
            return ConnectionLost(f"the offset map can't be read: {error.text}")
        return {index: found.get(index, OffsetMap()) for index in indexes}

    def can_write_map(self) -> bool:
        """No rows are under way."""
        return self._maps.is_free

    def write_map(self, writes: Sequence[MapWrite]) -> Sequence[MapWrite]:
        """Send as many rows as one request takes, and answer which; the rest is for later."""
        try:
            connection = self._maps.connection
            if self._map_watched is not connection:
                self._unwatch_map()
                self._map_watched = connection
                self._watch(_MAP_KEY, self._maps)
            return self._maps.send(writes)
        except (BrokerError, ConnectionLost, OffsetMapLost) as error:
            self._unwatch_map()
            self._maps.give_up(str(error))
            self._lost.append(MapLost(list(writes), str(error)))
            return writes

    def _unwatch_map(self) -> None:
        if self._map_watched is not None:
            self._selector.unregister(self._map_watched)
            self._secured.pop(_MAP_KEY, None)
            self._map_watched = None

    # -- answers -------------------------------------------------------------------------------

    def wait(self, timeout_s: float) -> Iterable[Event]:
        """Answers that came within `timeout_s`, and requests that will not be answered."""
        self._drop_overdue()
        events, self._lost = self._lost, []
        if not self._fetching and not self._appending and self._map_watched is None:
            if not events:
                self._selector.select(timeout_s)
            return events
        for key in self._readable(0.0 if events else timeout_s):
            line = self._line(key)
            try:
                frame = line.connection.pump()
                if frame is not None:
                    events.extend(line.take(frame))
            except (ConnectionLost, ProtocolError) as error:
                self._drop(key, str(error))
        events.extend(self._lost)
        self._lost = []
        return events

    def _readable(self, timeout_s: float) -> Iterable[LineKey]:
        """Whom to read from; secured connections may hold what no selector sees."""
        held = [key for key, line in self._secured.items() if line.connection.has_held()]
        found = self._selector.select(0.0 if held else timeout_s)
        if not held:
            return (key.data for key, _ in found)
        return dict.fromkeys([*held, *(key.data for key, _ in found)])

    def _line(self, key: LineKey) -> _Line:
        side, broker, channel = key
        if side == MAP:
            return self._maps
        if side == FETCH:
            return self._fetching[broker, channel]
        return self._appending[broker, channel]

    def _watch(self, key: LineKey, line: _Line) -> None:
        self._selector.register(line.connection, selectors.EVENT_READ, key)
        if line.connection.settings.security != PLAINTEXT:
            self._secured[key] = line

    def _drop_overdue(self) -> None:
        """Give up connections on which an answer is overdue: a broker that hangs closes nothing."""
        now_s = self._monotonic_s()
        if now_s < self._overdue_at_s:
            return
        self._overdue_at_s = now_s + OVERDUE_EVERY_S
        limit_s = self._settings.produce_timeout_s + ANSWER_SLACK_S
        overdue: list[LineKey] = [
            (FETCH, *key) for key, line in self._fetching.items() if line.is_overdue(limit_s)
        ]
        overdue += [
            (APPEND, *key) for key, line in self._appending.items() if line.is_overdue(limit_s)
        ]
        if self._maps.is_overdue(limit_s):
            overdue.append(_MAP_KEY)
        for key in overdue:
            self._drop(key, "no answer in time")

    def _drop(self, key: LineKey, reason: str) -> None:
        """Close a connection; what was under way on it is lost."""
        side, broker, channel = key
        line = self._line(key)
        self._secured.pop(key, None)
        if side == MAP:
            self._unwatch_map()
        else:
            self._selector.unregister(line.connection)
            line.connection.close()
        if side == FETCH:
            del self._fetching[broker, channel]
        elif side == APPEND:
            del self._appending[broker, channel]
        self._lost.append(line.give_up(reason))


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
