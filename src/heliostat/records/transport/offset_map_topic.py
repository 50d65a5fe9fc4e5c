"""Reads and writes the offset map's rows on the target, for a lane's task.

I2  `read` returns every row that was durable when it was called. The high watermark of a fetch
    does not show how many there are: a newly elected leader has all acknowledged rows, but learns
    the high watermark only from its followers' next fetches. ListOffsets waits for that; until
    then it answers OFFSET_NOT_AVAILABLE (KIP-207). Where rows are gone, or the topic is another
    one, nothing is read or written: the driver must first find out which mirrors are affected.
I3  `MapWritten` comes only after all in-sync replicas have the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from heliostat.clusters.kafka_codes import EARLIEST, LATEST, OFFSET_OUT_OF_RANGE
from heliostat.clusters.wire import fetch, produce
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection
from heliostat.clusters.wire.frames import Frame
from heliostat.clusters.wire.leaders import TopicLeaders
from heliostat.errors import (
    BrokerError,
    ConnectionLost,
    HeliostatError,
    OffsetMapLost,
    ProtocolError,
)
from heliostat.names import TopicName, TopicPartition, id_text, is_another
from heliostat.offsets.offset_map import MapReader, Odd, OffsetMap
from heliostat.records.batches.batch import Codec, next_offset
from heliostat.records.batches.encode import decode_batches, encode_batch
from heliostat.records.copier.lane import LaneSpec, PartitionSpec
from heliostat.records.copier.network import BrokerProblem, MapLost, MapWrite, MapWritten
from heliostat.records.transport.state_connection import ONLY, StateConnection

FETCH_BYTES = 4 * 1024 * 1024
ANSWER_S = 8.0
"""Longest wait for one answer."""
ROWS_MAX = 100_000
"""Most rows to read in a round after its first read: some 5 us each, while the lane waits."""
WRITE_BYTES_MAX = 512 * 1024
"""Most bytes of one batch of rows; the topic accepts 1 MiB."""


class MapChannel:
    """Offset map rows of one lane's partitions.

    Parameters
    ----------
    lane
        The lane, with the topic's name and what is known of the maps.
    target
        Target cluster connection.
    monotonic_s, wall_ms
        Monotonic clock (s) and wall clock (ms).
    """

    def __init__(
        self,
        lane: LaneSpec,
        target: WireCluster,
        monotonic_s: Callable[[], float],
        wall_ms: Callable[[], int],
    ) -> None:
        self._monotonic_s = monotonic_s
        self._wall_ms = wall_ms
        self._reading = StateConnection(lane.offsets_topic, target, monotonic_s)
        self._writing = StateConnection(lane.offsets_topic, target, monotonic_s)
        self._next_offset = lane.maps_from
        self._topic_id = lane.maps_topic_id
        self._names = {
            (spec.target, id_text(spec.target_topic_id)): index
            for index, spec in enumerate(lane.partitions)
        }
        self._count = len(lane.partitions)
        self._maps = MapReader()
        for index, tail in lane.maps:
            spec = lane.partitions[index]
            self._maps.begin(spec.target, id_text(spec.target_topic_id), tail)
        self.is_outdated = False
        """Whether too many rows were written since the last read, by all lanes together: a new
        round begins with the few of them that matter to it."""
        self._has_read = False
        self._lost_maps: dict[tuple[TopicPartition, str], str] = {}
        """Why the maps of these mirrors can't be relied on, whichever index they have."""
        self._writes: Sequence[MapWrite] = ()
        self._sent_at_s = 0.0

    def close(self) -> None:
        """Close the connections."""
        self._reading.close()
        self._writing.close()

    def change(self, gone: Sequence[int], new: Sequence[PartitionSpec]) -> None:
        """Take partitions, with the next indexes, of which the round knows all rows of their maps.

        All rows since the round's begin are read, whose-ever they are, and it had those before of
        its own partitions: these may come again, treated otherwise.
        """
        left = set(gone)
        own = {name for name, index in self._names.items() if index in left}
        self._names = {name: index for name, index in self._names.items() if index not in left}
        for index, spec in enumerate(new, self._count):
            name = (spec.target, id_text(spec.target_topic_id))
            self._names[name] = index
            if name not in own:  # what was lost of it may have been rebuilt while others had it
                self._lost_maps.pop(name, None)
        self._count += len(new)

    # -- reading -------------------------------------------------------------------------------

    def read(self) -> Mapping[int, OffsetMap]:
        """Return the maps that have breaks, and the lost ones, by index of the partition.

        Raises
        ------
        OffsetMapLost
            Rows that existed are gone.
        ConnectionLost, BrokerError, ProtocolError
            Rows can't be read now.
        """
        try:
            end = self._bound(LATEST)
            if end < self._next_offset:
                end = self._confirmed(LATEST)  # a deposed leader may have answered
            if end < self._next_offset:
                raise self._lost(f"it ends at {end}, and had rows up to {self._next_offset}")
            if self._has_read and end - self._next_offset > ROWS_MAX:
                self.is_outdated = True
                raise ConnectionLost(f"{end - self._next_offset} rows of offset maps are unread")
            while self._next_offset < end:  # ends: each turn advances, or raises
                self._read_more(end)
            self._has_read = True
            for odd in self._maps.lost_rows():
                self._lose(odd)
        except HeliostatError:
            self._reading.close()
            raise
        maps = self._maps.maps.items()
        found = {self._names[name]: one for name, one in maps if name in self._names}
        lost = self._lost_maps.items()
        return found | {
            self._names[name]: OffsetMap(lost=why) for name, why in lost if name in self._names
        }

    def maps_of(self, indexes: Sequence[int]) -> Mapping[int, OffsetMap] | BrokerProblem:
        """Return maps of these partitions, with all rows that are durable now."""
        try:
            found = self.read()
        except (BrokerError, ConnectionLost, OffsetMapLost) as error:
            return error
        except ProtocolError as error:
            return ConnectionLost(f"the offset map can't be read: {error.text}")
        return {index: found.get(index, OffsetMap()) for index in indexes}

    def _confirmed(self, timestamp: int) -> int:
        """As `_bound`, by the leader that all brokers name: before rows are called lost."""
        self._reading.close()
        return self._bound(timestamp, confirmed=True)

    def _bound(self, timestamp: int, *, confirmed: bool = False) -> int:
        """Return the topic's start, or the offset after the last acknowledged row (`LATEST`)."""
        conn = self._reading
        _, leaders, leader = conn.open(confirmed=confirmed)
        if not confirmed and is_another(self._topic_id, id_text(leaders.topic_id)):
            return self._confirmed(timestamp)
        self._look_at_id(leaders)
        partition = TopicPartition(TopicName(conn.topic), ONLY)
        found = conn.target.list_offsets(leader.broker, [partition], timestamp=timestamp)[partition]
        if isinstance(found, BrokerError):
            raise found
        return found

    def _read_more(self, end: int) -> None:
        """Read the rows before `end` that one fetch returns."""
        conn = self._reading
        connection, _, leader = conn.open()
        version = conn.target.fetch_version(leader.broker)
        want = conn.fetch_at(self._next_offset, FETCH_BYTES)
        body = fetch.encode_fetch(
            version, [want], max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, read_committed=False
        )
        conn.send(fetch.API_KEY, version, [body])
        buffer = connection.receive(ANSWER_S).buffer
        for got in fetch.decode_fetch(version, buffer, 4).partitions:
            if got.error == OFFSET_OUT_OF_RANGE:
                if self._confirmed(EARLIEST) <= self._next_offset:
                    raise ConnectionLost("the offset map's leader has changed", topic=conn.topic)
                raise self._lost(f"rows before {end}, from {self._next_offset} on, were deleted")
            if got.error:
                raise BrokerError("the offset map can't be read", kafka_code=got.error)
            for offset, _, key, value in decode_batches(buffer[got.start : got.end]):
                if offset >= self._next_offset:
                    self._take(offset, key, value)
            following = next_offset(buffer, got.start, got.end)
            if following is None and got.end == got.start:
                following = got.high_watermark  # compaction removed the rest
            if (following or 0) <= self._next_offset < end:
                raise ConnectionLost("the offset map's leader has changed", topic=conn.topic)
            self._next_offset = max(self._next_offset, following or 0)
            return
        raise ProtocolError("the answer to a fetch of the offset map lacks its partition")

    def _look_at_id(self, leaders: TopicLeaders) -> None:
        found = id_text(leaders.topic_id)
        if is_another(self._topic_id, found):
            raise self._lost("it was deleted and recreated")

    def _lost(self, why: str) -> OffsetMapLost:
        return OffsetMapLost(f"topic {self._reading.topic} has lost rows: {why}")

    def _take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Apply a record; an invalid one affects only the mirror whose row it may replace."""
        odd = self._maps.take_record(key, value, offset)
        if odd is not None:
            self._lose(odd)

    def _lose(self, odd: Odd) -> None:
        if odd.mirror in self._names:
            topic = self._reading.topic
            why = f"{odd.why} (topic {topic}, offset {odd.offset}; hint: {OffsetMapLost.hint})"
            self._lost_maps[odd.mirror] = why

    # -- writing -------------------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """Whether no rows are in flight, and the pause after a failure is over."""
        return not self._writes and self._monotonic_s() >= self._writing.retry_at_s

    @property
    def connection(self) -> Connection:
        """The connection for writing rows, opened if needed."""
        return self._writing.open()[0]

    def send(self, writes: Sequence[MapWrite]) -> Sequence[MapWrite]:
        """Send as many rows as fit into one batch, and return those.

        Raises
        ------
        OffsetMapLost
            The topic is not the one that was read.
        ConnectionLost, BrokerError
            The rows can't be sent.
        """
        conn = self._writing
        _, leaders, leader = conn.open()
        self._look_at_id(leaders)
        rows: list[tuple[bytes | None, bytes | None, int]] = []
        size, now_ms = 0, self._wall_ms()
        for write in writes:
            value = write.row.encode()
            size += len(value)
            if rows and size > WRITE_BYTES_MAX:
                break
            rows.append((write.row.key.encode(), value, now_ms))
        self._writes = writes[: len(rows)]
        self._sent_at_s = self._monotonic_s()
        batch = encode_batch(rows, codec=Codec.NONE)
        version = conn.target.produce_version(leader.broker)
        item = produce.ProducePartition(conn.topic, leaders.topic_id, ONLY, [batch], len(batch))
        body = produce.encode_produce(version, [item], timeout_ms=int(ANSWER_S * 1000))
        conn.send(produce.API_KEY, version, body)
        return self._writes

    def take(self, frame: Frame) -> list[MapWritten | MapLost]:
        """Return the events of an answer.

        Raises
        ------
        ProtocolError
            The frame is not an answer to a produce request.
        """
        conn = self._writing
        _, _, leader = conn.open()
        version = conn.target.produce_version(leader.broker)
        answers, _ = produce.decode_produce(version, frame.buffer, 4)
        writes, self._writes = self._writes, ()
        if answers[0].error:
            error = BrokerError("a row was refused", kafka_code=answers[0].error)
            self._writing.failed(error, 0.0)
            return [MapLost(writes, str(error))]
        conn.worked()
        return [MapWritten(writes)]

    def is_overdue(self, limit_s: float) -> bool:
        """Whether an answer has been due for longer than `limit_s`."""
        return bool(self._writes) and self._monotonic_s() > self._sent_at_s + limit_s

    def give_up(self, reason: str) -> MapLost:
        """Close the connection, and return the rows in flight: they will not be answered."""
        writes, self._writes = self._writes, ()
        self._writing.failed(ConnectionLost(reason), 0.1)
        return MapLost(list(writes), reason)
