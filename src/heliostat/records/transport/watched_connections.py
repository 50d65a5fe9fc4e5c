"""A lane's connections as one selector sees them: whom to read from, and who takes more."""

from __future__ import annotations

import selectors
from collections.abc import Iterable, Mapping

from heliostat.access import PLAINTEXT
from heliostat.clusters.wire.connection import Connection
from heliostat.names import BrokerId
from heliostat.records.copier.network import Channel
from heliostat.records.transport.append_connection import AppendConnection
from heliostat.records.transport.fetch_connection import FetchConnection
from heliostat.records.transport.offset_map_topic import MapChannel

ConnectionKey = tuple[str, BrokerId, Channel]
FETCH, APPEND, MAP = "fetch", "append", "map"
AnyConnection = FetchConnection | AppendConnection | MapChannel


class WatchedConnections:
    """Each is added once, under a key of its own, and removed before it is closed."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._paused: dict[ConnectionKey, FetchConnection] = {}
        """Whose answer waits for room: nothing is read from there, nor looked at."""
        self._secured: dict[ConnectionKey, AnyConnection] = {}
        self._unsent: dict[ConnectionKey, FetchConnection | AppendConnection] = {}

    def close(self) -> None:
        """Watch nothing any more; the connections stay as they are."""
        self._selector.close()

    def add(self, key: ConnectionKey, conn: AnyConnection) -> None:
        """Watch it for answers."""
        self._selector.register(conn.connection, selectors.EVENT_READ, key)
        if conn.connection.settings.security != PLAINTEXT:
            self._secured[key] = conn

    def remove(self, key: ConnectionKey, connection: Connection) -> None:
        """Watch it no more, paused or not."""
        self._secured.pop(key, None)
        self._unsent.pop(key, None)
        if self._paused.pop(key, None) is None:
            self._selector.unregister(connection)

    # -- answers -------------------------------------------------------------------------------

    def readable(self, timeout_s: float) -> Iterable[ConnectionKey]:
        """Whom to read from; secured connections may hold what no selector sees."""
        held = [key for key, conn in self._secured.items() if conn.connection.has_held()]
        found = self._selector.select(0.0 if held else timeout_s)
        readable = (key.data for key, events in found if events & selectors.EVENT_READ)
        return dict.fromkeys([*held, *readable]) if held else readable

    def pause(self, key: ConnectionKey, conn: FetchConnection) -> None:
        """Leave an answer with its broker, which stops sending: it is told no more of it."""
        self._selector.unregister(conn.connection)
        self._secured.pop(key, None)
        self._paused[key] = conn

    def go_on(self) -> None:
        """Watch again what was paused: there is room."""
        for key, conn in self._paused.items():
            conn.go_on()
            self.add(key, conn)
        self._paused.clear()

    # -- what the broker has not taken ---------------------------------------------------------

    @property
    def unsent(self) -> Mapping[ConnectionKey, FetchConnection | AppendConnection]:
        """Those whose broker has not taken all that was sent."""
        return self._unsent

    def note_unsent(self, key: ConnectionKey, conn: FetchConnection | AppendConnection) -> None:
        """Be told when its broker takes more, if it has not taken all."""
        if conn.connection.has_unsent:
            self._unsent[key] = conn
            events = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(conn.connection, events, key)

    def note_taken(self, key: ConnectionKey) -> None:
        """Its broker has taken all."""
        conn = self._unsent.pop(key)
        self._selector.modify(conn.connection, selectors.EVENT_READ, key)
