"""Watches a lane's connections with one selector: which are readable, and which writable."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterable, Mapping

from heliostat.access import PLAINTEXT
from heliostat.names import BrokerId
from heliostat.records.copier.network import Channel
from heliostat.records.transport.append_connection import AppendConnection
from heliostat.records.transport.fetch_connection import FetchConnection
from heliostat.records.transport.offset_map_topic import MapChannel

ConnectionKey = tuple[str, BrokerId, Channel]
FETCH, APPEND, MAP = "fetch", "append", "map"
AnyConnection = FetchConnection | AppendConnection | MapChannel


class WatchedConnections:
    """Each connection is added once, under its own key, and removed before it is closed."""

    def __init__(self) -> None:
        self._poller = select.epoll() if hasattr(select, "epoll") else select.poll()
        # `selectors` would make an object for each event.
        self._wait_unit = 1.0 if hasattr(select, "epoll") else 1000.0
        self._keys: dict[int, ConnectionKey] = {}
        self._files: dict[ConnectionKey, int] = {}
        self._paused: dict[ConnectionKey, FetchConnection] = {}
        """Connections whose answer waits for room: neither watched nor read from."""
        self._secured: dict[ConnectionKey, AnyConnection] = {}
        self._unsent: dict[ConnectionKey, FetchConnection | AppendConnection] = {}
        self._wakers: set[int] = set()

    def close(self) -> None:
        """Stop watching; the connections stay open."""
        if hasattr(self._poller, "close"):
            self._poller.close()

    def add(self, key: ConnectionKey, conn: AnyConnection) -> None:
        """Watch a connection for answers."""
        file = self._files[key] = conn.connection.fileno()
        self._keys[file] = key
        self._poller.register(file, select.POLLIN)
        if conn.connection.settings.security != PLAINTEXT:
            self._secured[key] = conn

    def wake_by(self, file: int) -> None:
        """End waits also when this file, which is no connection, is readable."""
        self._wakers.add(file)
        self._poller.register(file, select.POLLIN)

    def remove(self, key: ConnectionKey) -> None:
        """Stop watching a connection, paused or not."""
        self._secured.pop(key, None)
        self._unsent.pop(key, None)
        if self._paused.pop(key, None) is None:
            self._forget(key)

    def _forget(self, key: ConnectionKey) -> None:
        file = self._files.pop(key)
        if self._keys.get(file) == key:  # else its number is another's: it was closed already
            del self._keys[file]
            with contextlib.suppress(OSError):
                self._poller.unregister(file)

    # -- answers -------------------------------------------------------------------------------

    def readable(self, timeout_s: float) -> Iterable[ConnectionKey]:
        """Return readable connections; secured ones may hold data that no selector sees."""
        held = [key for key, conn in self._secured.items() if conn.connection.has_held()]
        found = self._poller.poll(0.0 if held else timeout_s * self._wait_unit)
        if self._wakers:
            found = [pair for pair in found if pair[0] not in self._wakers]
        # Also where an error or the end waits, which reading finds.
        readable = [self._keys[file] for file, events in found if events & ~select.POLLOUT]
        return dict.fromkeys([*held, *readable]) if held else readable

    def pause(self, key: ConnectionKey, conn: FetchConnection) -> None:
        """Stop reading an answer, so that its broker stops sending (TCP flow control)."""
        self._forget(key)
        self._secured.pop(key, None)
        self._paused[key] = conn

    def go_on(self) -> None:
        """Watch paused connections again: there is room."""
        for key, conn in self._paused.items():
            conn.go_on()
            self.add(key, conn)
        self._paused.clear()

    # -- unsent bytes --------------------------------------------------------------------------

    @property
    def unsent(self) -> Mapping[ConnectionKey, FetchConnection | AppendConnection]:
        """Connections with bytes that the broker has not taken yet."""
        return self._unsent

    def note_unsent(self, key: ConnectionKey, conn: FetchConnection | AppendConnection) -> None:
        """Also watch for writability, if the broker has not taken all bytes."""
        if conn.connection.has_unsent:
            self._unsent[key] = conn
            events = select.POLLIN | select.POLLOUT
            self._poller.modify(self._files[key], events)

    def note_taken(self, key: ConnectionKey) -> None:
        """Note that the broker has taken all bytes."""
        del self._unsent[key]
        self._poller.modify(self._files[key], select.POLLIN)
