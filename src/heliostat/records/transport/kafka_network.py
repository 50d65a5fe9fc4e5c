"""Both clusters over real connections: the `Network` that a Spark task uses.

I7  A broker that hangs holds up its own partitions only: nothing waits until it takes what is sent
    to it, and once it is silent it is asked nothing before a probe beside the copy was answered.
"""

from __future__ import annotations

import contextlib
import selectors
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from typing_extensions import override

from heliostat.access import PLAINTEXT
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection
from heliostat.errors import BrokerError, ConnectionLost, OffsetMapLost, ProtocolError
from heliostat.names import BrokerId
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.network import (
    DIALS_AT_ONCE,
    LIVE,
    AppendLost,
    Channel,
    Event,
    FetchLost,
    Leaders,
    MapLost,
    MapWrite,
    Problem,
    Send,
    Traffic,
    Unanswered,
    Want,
)
from heliostat.records.transport.answer_room import AnswerRoom
from heliostat.records.transport.append_connection import AppendConnection
from heliostat.records.transport.fetch_connection import (
    ConnectionContext,
    FetchConnection,
    WatchConnection,
)
from heliostat.records.transport.offset_map_topic import MapChannel
from heliostat.records.transport.queries import WireQuestions

BACKLOG_FETCH_BYTES_MAX = 8 * 1024 * 1024
"""Of one answer for partitions far behind: live ones wait while it is taken in, milliseconds."""
OVERDUE_EVERY_S = 0.1
"""There may be a hundred connections to look at."""
ANSWER_SLACK_S = 5.0
"""Beyond the time that the broker itself may take (`produce_timeout_s`)."""
SILENT_S = 1.5
"""A broker that owes an answer and sends nothing for so long is probed."""
TOLD_AFTER_S = 1.5
"""One that has not answered a probe for so long is told of."""
AGAIN_S = 5.0
"""How often a silent broker is told of, and one that answers probes but nothing else is probed."""
_Place = tuple[BrokerId, Channel]
ConnectionKey = tuple[str, BrokerId, Channel]
FETCH, APPEND, MAP = "fetch", "append", "map"
_MAP_KEY: ConnectionKey = (MAP, BrokerId(-1), LIVE)
"""The offset map's topic has one leader."""
_AnyConnection = FetchConnection | AppendConnection | MapChannel


class WireNetwork(WireQuestions):
    """See `heliostat.records.copier.network.Network`.

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
        super().__init__(partitions, source, target, producer_id)
        self._maps = maps
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._selector = selectors.DefaultSelector()
        self._context = ConnectionContext(partitions, settings, monotonic_s, producer_id)
        self._fetching: dict[_Place, FetchConnection] = {}
        self._appending: dict[_Place, AppendConnection] = {}
        self._room = AnswerRoom()
        self._paused: dict[ConnectionKey, FetchConnection] = {}
        """Whose answer waits for room: nothing is read from there, nor looked at."""
        self._lost: list[Event] = []
        self._overdue_at_s = 0.0
        self._source_conns: set[_Place] = set()
        self._map_watched: Connection | None = None
        self._secured: dict[ConnectionKey, _AnyConnection] = {}
        self._unsent: dict[ConnectionKey, FetchConnection | AppendConnection] = {}
        """Whose broker has not taken all that was sent."""
        self._probed_at_s: dict[tuple[str, BrokerId], float] = {}
        self._warned_at_s: dict[tuple[str, BrokerId], float] = {}

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

    @override
    def leaders(self) -> Leaders:
        """See `WireQuestions.leaders`; who is silent and leads no more is not waited for."""
        before = self._leaders
        found = super().leaders()
        for broker in _deposed(before.source, found.source):
            self._leave_silent(FETCH, self._source, broker, self._fetching)
        for broker in _deposed(before.target, found.target):
            self._leave_silent(APPEND, self._target, broker, self._appending)
        return found

    # -- requests ------------------------------------------------------------------------------

    def expect(self, conns: Iterable[_Place]) -> None:
        """Take note of what to open together, at the first use of one of them."""
        self._source_conns = set(conns)

    def open(self, target: Iterable[BrokerId]) -> None:
        """Open the connections of a round's beginning; a failure shows up again at their use.

        What a round begins with, ends and offset maps, is asked once for nothing: connections and
        versions are there then, and of the maps only what came since is left to read.
        """
        brokers = sorted(set(target))
        self._source.reach(broker for broker, _ in self._source_conns)
        self._target.reach(brokers)
        with contextlib.suppress(ConnectionLost):
            self._open_fetch_connections(self._source_conns)
        for broker in brokers:
            with contextlib.suppress(ConnectionLost):
                self._append_connection(broker, LIVE)
        self.target_ranges({each: index for index, each in self._leaders.target.items()}.values())
        self.offset_maps(())

    def can_fetch(self, broker: BrokerId, channel: Channel) -> bool:
        """No fetch is in flight there, and the broker has not asked for a pause (KIP-219)."""
        conn = self._fetching.get((broker, channel))
        return conn is None or conn.is_free

    def can_append(self, broker: BrokerId, channel: Channel) -> bool:
        """Fewer appends in flight there than allowed, and no pause asked for."""
        conn = self._appending.get((broker, channel))
        return conn is None or conn.is_free

    def is_appending(self, broker: BrokerId, channel: Channel) -> bool:
        """Something is in flight on that connection."""
        conn = self._appending.get((broker, channel))
        return conn is not None and conn.is_busy

    def fetch(self, broker: BrokerId, channel: Channel, wants: Sequence[Want]) -> None:
        """Send one fetch; where it can't be sent, `FetchLost` comes as an event."""
        try:
            conn = self._fetch_connection(broker, channel)
            conn.send(wants)
            self._note_unsent((FETCH, broker, channel), conn)
        except ConnectionLost as error:
            if (broker, channel) in self._fetching:
                self._drop((FETCH, broker, channel), str(error))
            else:
                self._lost.append(FetchLost(list(wants), str(error)))

    def append(self, broker: BrokerId, channel: Channel, sends: Sequence[Send]) -> None:
        """Send one produce request; where it can't be sent, `AppendLost` comes as an event."""
        try:
            conn = self._append_connection(broker, channel)
            conn.send(sends)
            self._note_unsent((APPEND, broker, channel), conn)
        except ConnectionLost as error:
            if (broker, channel) in self._appending:
                self._drop((APPEND, broker, channel), str(error))
            else:
                self._lost.append(AppendLost(list(sends), str(error)))

    def held_bytes(self) -> int:
        """See `Network`; the buffers as they are, an eighth larger at most."""
        return self._room.held_bytes

    def copy_unsent(self) -> None:
        """See `Network`; also for brokers that hang."""
        for conn in self._unsent.values():
            conn.connection.copy_unsent(self._room.hold)

    def send_on(self) -> None:
        """Go on where a broker takes more; nothing waits for one that does not."""
        for key, conn in list(self._unsent.items()):
            try:
                conn.connection.send_on()
            except ConnectionLost as error:
                self._drop(key, str(error))
                continue
            if not conn.connection.has_unsent:
                del self._unsent[key]
                self._selector.modify(conn.connection, selectors.EVENT_READ, key)

    def send_no_more(self) -> None:
        """Close connections whose broker has not taken all: nothing lands behind a round (I10)."""
        for key in [each for each in self._unsent if each[0] == APPEND]:
            self._drop(key, "the round's time was over before the broker took it")

    def _note_unsent(self, key: ConnectionKey, conn: FetchConnection | AppendConnection) -> None:
        if conn.connection.has_unsent:
            self._unsent[key] = conn
            events = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(conn.connection, events, key)

    def _fetch_connection(self, broker: BrokerId, channel: Channel) -> FetchConnection:
        conn = self._fetching.get((broker, channel))
        if conn is None:
            # A broker that was away has mostly closed them all.
            others = (each for each in self._source_conns if each[0] == broker)
            try:
                self._open_fetch_connections({(broker, channel), *others})
            except ConnectionLost:
                if (broker, channel) not in self._fetching:
                    raise
            conn = self._fetching[broker, channel]
        return conn

    def _open_fetch_connections(self, conns: Iterable[_Place]) -> None:
        """Open those that are missing, several at once: one takes a second on a long line.

        Raises
        ------
        ConnectionLost
            One can't be opened; others may be open all the same.
        """
        wanted = sorted(each for each in conns if each not in self._fetching)
        versions: dict[BrokerId, int] = {}
        silent: ConnectionLost | None = None
        for broker in {broker for broker, _ in wanted}:
            try:
                versions[broker] = self._source.fetch_version(broker)
            except ConnectionLost as error:
                silent = error
        missing = [each for each in wanted if each[0] in versions]
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
                    self._add_fetch_connection(key, connection, versions[key[0]])
        if (why := lost or silent) is not None:
            raise why

    def _dialed(self, broker: BrokerId) -> Connection | ConnectionLost:
        try:
            return self._source.open_data(broker)
        except ConnectionLost as error:
            return error

    def _add_fetch_connection(self, key: _Place, connection: Connection, version: int) -> None:
        broker, channel = key
        bytes_max = self._settings.fetch_bytes_max
        if channel.traffic is Traffic.SPARSE:
            conn: FetchConnection = WatchConnection(
                broker, channel, connection, version, self._context
            )
        else:
            if channel.traffic is Traffic.BACKLOG:
                bytes_max = min(bytes_max, BACKLOG_FETCH_BYTES_MAX)
            conn = FetchConnection(connection, version, self._context, bytes_max)
        connection.buffer_for = self._room.buffer_for
        self._fetching[key] = conn
        self._watch((FETCH, broker, channel), conn)

    def _append_connection(self, broker: BrokerId, channel: Channel) -> AppendConnection:
        conn = self._appending.get((broker, channel))
        if conn is None:
            version = self._target.produce_version(broker)
            conn = AppendConnection(self._target.open_data(broker), version, self._context)
            self._appending[broker, channel] = conn
            self._watch((APPEND, broker, channel), conn)
        return conn

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

    def wait(self, timeout_s: float, room_bytes: int) -> Iterable[Event]:
        """Answers that came within `timeout_s`, and requests that will not be answered."""
        if self._room.give(room_bytes):
            self._go_on()
        self._drop_overdue()
        events, self._lost = self._lost, []
        if not self._fetching and not self._appending and self._map_watched is None:
            if not events:
                self._selector.select(timeout_s)
            return events
        for key in self._readable(0.0 if events else timeout_s):
            conn = self._conn(key)
            try:
                frame = conn.connection.pump()
                if frame is not None:
                    events.extend(conn.take(frame))
                elif isinstance(conn, FetchConnection) and conn.connection.waits_for_room:
                    self._pause(key, conn)
            except (ConnectionLost, ProtocolError) as error:
                self._drop(key, str(error))
        events.extend(self._lost)
        self._lost = []
        return events

    def _pause(self, key: ConnectionKey, conn: FetchConnection) -> None:
        """Leave an answer with its broker, which stops sending: it is told no more of it."""
        self._selector.unregister(conn.connection)
        self._secured.pop(key, None)
        self._paused[key] = conn

    def _go_on(self) -> None:
        for key, conn in self._paused.items():
            conn.go_on()
            self._watch(key, conn)
        self._paused.clear()

    def _readable(self, timeout_s: float) -> Iterable[ConnectionKey]:
        """Whom to read from; secured connections may hold what no selector sees."""
        held = [key for key, conn in self._secured.items() if conn.connection.has_held()]
        found = self._selector.select(0.0 if held else timeout_s)
        readable = (key.data for key, events in found if events & selectors.EVENT_READ)
        return dict.fromkeys([*held, *readable]) if held else readable

    def _conn(self, key: ConnectionKey) -> _AnyConnection:
        side, broker, channel = key
        if side == MAP:
            return self._maps
        if side == FETCH:
            return self._fetching[broker, channel]
        return self._appending[broker, channel]

    def _watch(self, key: ConnectionKey, conn: _AnyConnection) -> None:
        self._selector.register(conn.connection, selectors.EVENT_READ, key)
        if conn.connection.settings.security != PLAINTEXT:
            self._secured[key] = conn

    def _drop_overdue(self) -> None:
        """Give up connections on which an answer is overdue: a broker that hangs closes nothing."""
        now_s = self._monotonic_s()
        if now_s < self._overdue_at_s:
            return
        self._overdue_at_s = now_s + OVERDUE_EVERY_S
        limit_s = self._settings.produce_timeout_s + ANSWER_SLACK_S
        overdue: list[ConnectionKey] = [
            (FETCH, *key) for key, conn in self._fetching.items() if conn.is_overdue(limit_s)
        ]
        overdue += [
            (APPEND, *key) for key, conn in self._appending.items() if conn.is_overdue(limit_s)
        ]
        if self._maps.is_overdue(limit_s):
            overdue.append(_MAP_KEY)
        for key in overdue:
            self._drop(key, "no answer in time")
        self._look_for_silence(now_s)

    def _look_for_silence(self, now_s: float) -> None:
        """Have brokers probed that owe an answer; tell of those that don't answer that either."""
        sides = (
            (FETCH, self._source, self._fetching, self._leaders.source),
            (APPEND, self._target, self._appending, self._leaders.target),
        )
        for side, cluster, conns, leaders in sides:
            for broker in {key[0] for key, conn in conns.items() if conn.is_silent(SILENT_S)}:
                if now_s >= self._probed_at_s.get((side, broker), 0.0):
                    self._probed_at_s[side, broker] = now_s + AGAIN_S
                    cluster.doubt(broker)
                silence = cluster.silence_of(broker, TOLD_AFTER_S)
                if silence is not None and now_s >= self._warned_at_s.get((side, broker), 0.0):
                    self._warned_at_s[side, broker] = now_s + AGAIN_S
                    led = {index for index, leader in leaders.items() if leader == broker}
                    if side == APPEND:  # some may have no leader any more
                        lines_there = (self._appending[key] for key in conns if key[0] == broker)
                        led = led.union(*(conn.under_way for conn in lines_there))
                    self._lost.append(Unanswered(sorted(led), silence, side == APPEND))

    def _leave_silent(
        self, side: str, cluster: WireCluster, broker: BrokerId, conns: Iterable[_Place]
    ) -> None:
        """Wait no longer for a broker that has lost partitions to others meanwhile."""
        if cluster.silence_of(broker, 0.0) is None:
            return
        for place in [each for each in conns if each[0] == broker]:
            self._drop((side, *place), "the broker does not answer, and others lead by now")

    def _drop(self, key: ConnectionKey, reason: str) -> None:
        """Close a connection; what was under way on it is lost."""
        side, broker, channel = key
        conn = self._conn(key)
        self._secured.pop(key, None)
        self._unsent.pop(key, None)
        if side == MAP:
            self._unwatch_map()
        else:
            if self._paused.pop(key, None) is None:
                self._selector.unregister(conn.connection)
            conn.connection.close()
        if side == FETCH:
            del self._fetching[broker, channel]
        elif side == APPEND:
            del self._appending[broker, channel]
        self._lost.append(conn.give_up(reason))


def _deposed(before: Mapping[int, BrokerId], now: Mapping[int, BrokerId]) -> set[BrokerId]:
    """Brokers that led a partition which another one leads now."""
    return {broker for index, broker in before.items() if now.get(index, broker) != broker}
