"""A lane's connections to brokers of both clusters, opened at first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId
from heliostat.records.copier.network import DIALS_AT_ONCE, LIVE, Channel, Event, Traffic
from heliostat.records.transport.append_connection import AppendConnection
from heliostat.records.transport.fetch_connection import (
    ConnectionContext,
    FetchConnection,
    WatchConnection,
)
from heliostat.records.transport.offset_map_topic import MapChannel
from heliostat.records.transport.watched_connections import (
    APPEND,
    FETCH,
    MAP,
    AnyConnection,
    ConnectionKey,
    WatchedConnections,
)

BACKLOG_FETCH_BYTES_MAX = 8 * 1024 * 1024
"""Most bytes of one answer for partitions far behind: live ones wait milliseconds while it is
received. More where a long line needs more, see `LineFit`."""
BrokerChannel = tuple[BrokerId, Channel]
MAP_KEY: ConnectionKey = (MAP, BrokerId(-1), LIVE)
"""Its broker is a placeholder: the offset map's topic has one leader."""


class LaneConnections:
    """Opens, finds and drops a lane's connections; all open ones are watched.

    Parameters
    ----------
    source, target
        Both clusters.
    maps
        Channel of the offset map's topic, which opens its connection itself.
    context
        Partitions, settings and clock of the lane.
    watched
        Selector that watches the connections.
    buffer_for
        Returns a buffer for a fetch's answer of that many bytes, see `Connection.buffer_for`.
    """

    def __init__(
        self,
        source: WireCluster,
        target: WireCluster,
        maps: MapChannel,
        context: ConnectionContext,
        watched: WatchedConnections,
        *,
        buffer_for: Callable[[int], memoryview | None],
    ) -> None:
        self.fetching: dict[BrokerChannel, FetchConnection] = {}
        self.appending: dict[BrokerChannel, AppendConnection] = {}
        self._source = source
        self._target = target
        self._maps = maps
        self._map_watched: Connection | None = None
        self._context = context
        self._watched = watched
        self._buffer_for = buffer_for
        self._expected: set[BrokerChannel] = set()

    def close(self) -> None:
        """Close all connections; whether appends in flight happen stays unknown."""
        for fetching in self.fetching.values():
            fetching.connection.close()
        for appending in self.appending.values():
            appending.close()
        self._maps.close()

    def of(self, key: ConnectionKey) -> AnyConnection:
        """Return the open connection of that key."""
        side, broker, channel = key
        if side == MAP:
            return self._maps
        if side == FETCH:
            return self.fetching[broker, channel]
        return self.appending[broker, channel]

    def overdue(self, limit_s: float) -> list[ConnectionKey]:
        """Return the connections whose answer has been due for longer than `limit_s`."""
        found: list[ConnectionKey] = [
            (FETCH, *key) for key, conn in self.fetching.items() if conn.is_overdue(limit_s)
        ]
        found += [
            (APPEND, *key) for key, conn in self.appending.items() if conn.is_overdue(limit_s)
        ]
        if self._maps.is_overdue(limit_s):
            found.append(MAP_KEY)
        return found

    def drop(self, key: ConnectionKey, reason: str) -> Event:
        """Close a connection; the event names the requests lost with it."""
        side, broker, channel = key
        conn = self.of(key)
        if side == MAP:
            self.unwatch_map()
        else:
            self._watched.remove(key)
            conn.connection.close()
        if side == FETCH:
            del self.fetching[broker, channel]
        elif side == APPEND:
            del self.appending[broker, channel]
        return conn.give_up(reason)

    def watch_map(self) -> None:
        """Watch the offset map's connection, which may have been replaced since the last write.

        Raises
        ------
        BrokerError, ConnectionLost, OffsetMapLost
            It can't be opened.
        """
        connection = self._maps.connection
        if self._map_watched is not connection:
            self.unwatch_map()
            self._map_watched = connection
            self._watched.add(MAP_KEY, self._maps)

    def unwatch_map(self) -> None:
        """Stop watching the offset map's connection, which its owner closes."""
        if self._map_watched is not None:
            self._watched.remove(MAP_KEY)
            self._map_watched = None

    # -- to the source -------------------------------------------------------------------------

    def expect(self, places: Iterable[BrokerChannel]) -> None:
        """Note which connections to open together when one of them is first used."""
        self._expected = set(places)

    def reach_expected(self) -> None:
        """Connect to the brokers of expected connections in parallel, see `WireCluster.reach`."""
        self._source.reach(broker for broker, _ in self._expected)

    def open_expected(self) -> None:
        """Open the expected connections.

        Raises
        ------
        ConnectionLost
            One can't be opened; others may be open nevertheless.
        """
        self._open_fetch_connections(self._expected)

    def to_source(self, broker: BrokerId, channel: Channel) -> FetchConnection:
        """Return the connection for fetches, opened if needed; raises `ConnectionLost`."""
        conn = self.fetching.get((broker, channel))
        if conn is None:
            # A broker that was down has usually closed all of its connections.
            others = (each for each in self._expected if each[0] == broker)
            try:
                self._open_fetch_connections({(broker, channel), *others})
            except ConnectionLost:
                if (broker, channel) not in self.fetching:
                    raise
            conn = self.fetching[broker, channel]
        return conn

    def _open_fetch_connections(self, places: Iterable[BrokerChannel]) -> None:
        """Open missing connections in parallel: over a long distance each takes a second."""
        wanted = sorted(each for each in places if each not in self.fetching)
        versions: dict[BrokerId, int] = {}
        silent: ConnectionLost | None = None
        for broker in {broker for broker, _ in wanted}:
            try:
                versions[broker] = self._source.fetch_version(broker)
            except ConnectionLost as error:
                silent = error
        missing = [each for each in wanted if each[0] in versions]
        lost: ConnectionLost | None = None
        # The first one alone: if it fails, the others would fail too.
        for some in (missing[:1], missing[1:]):
            if not some or lost is not None:
                break
            with ThreadPoolExecutor(min(len(some), DIALS_AT_ONCE)) as pool:
                dialed = list(pool.map(self._dialed, [broker for broker, _ in some]))
            for place, connection in zip(some, dialed, strict=True):
                if isinstance(connection, ConnectionLost):
                    lost = connection
                else:
                    self._add_fetch_connection(place, connection, versions[place[0]])
        if (why := lost or silent) is not None:
            raise why

    def _dialed(self, broker: BrokerId) -> Connection | ConnectionLost:
        try:
            return self._source.open_data(broker)
        except ConnectionLost as error:
            return error

    def _add_fetch_connection(
        self, place: BrokerChannel, connection: Connection, version: int
    ) -> None:
        broker, channel = place
        if channel.traffic is Traffic.SPARSE:
            conn: FetchConnection = WatchConnection(
                broker, channel, connection, version, self._context
            )
        else:
            bytes_max = min(self._context.settings.fetch_bytes_max, BACKLOG_FETCH_BYTES_MAX)
            conn = FetchConnection(connection, version, self._context, bytes_max)
        connection.buffer_for = self._buffer_for
        self.fetching[place] = conn
        self._watched.add((FETCH, broker, channel), conn)

    # -- to the target -------------------------------------------------------------------------

    def to_target(self, broker: BrokerId, channel: Channel) -> AppendConnection:
        """Return the connection for appends, opened if needed; raises `ConnectionLost`."""
        conn = self.appending.get((broker, channel))
        if conn is None:
            version = self._target.produce_version(broker)
            conn = AppendConnection(self._target.open_data(broker), version, self._context)
            self.appending[broker, channel] = conn
            self._watched.add((APPEND, broker, channel), conn)
        return conn
