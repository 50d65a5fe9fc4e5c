"""A long line before brokers: a proxy that delivers each byte half a round trip later.

    python -m heliostat_sandbox.far_line --round-trip-ms 150 15001:16001 15002:16002

listens on 15001 and forwards to 16001. Each direction of a connection has a window: so many bytes
are on the line at most, as with TCP, whose rate is a window a round trip. A connection is open one
round trip after the client asked for it. One thread moves all bytes: they are copied by the
kernel only, from a socket into the window's ring and from there into the other socket.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import itertools
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from heliostat_sandbox.exchanges import ExchangeLog
from heliostat_sandbox.ports import LOOPBACK
from heliostat_sandbox.process import OwnProcess
from heliostat_sandbox.settings import Ports

Watch = Callable[[memoryview], None]
WINDOW_BYTES = 16 * 1024 * 1024
"""What Linux allows a tuned host (`tcp_rmem`'s maximum on machines for long lines)."""
SOCKET_BYTES = 1024 * 1024
"""Buffers of the proxy's own sockets: small beside the window, as they come on top of it."""
CHUNK_BYTES = 256 * 1024
"""Read at once; each has a due time of its own."""
RING_FIRST_BYTES = 64 * 1024
"""A window's memory begins small and doubles as it fills: most connections carry little."""
BACKLOG = 128
LOOK_S = 0.2
END_WITHIN_S = 5.0


class Ring:
    """Bytes in order, in memory that is used again and grows up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray(min(limit, RING_FIRST_BYTES))
        self._first = 0
        self.size = 0

    def place(self, most: int) -> memoryview:
        """Return memory to read into, one piece of at most `most` bytes; empty if full."""
        if self.size == len(self._bytes) < self._limit:
            self._grow()
        capacity = len(self._bytes)
        if self.size == capacity:
            return memoryview(b"")
        begin = (self._first + self.size) % capacity
        end = capacity if begin >= self._first else self._first
        return memoryview(self._bytes)[begin : min(end, begin + most)]

    def filled(self, count: int) -> None:
        """Keep `count` bytes that were read into `place`."""
        self.size += count

    def head(self, count: int) -> memoryview:
        """Return the oldest bytes, one piece of at most `count`."""
        end = min(self._first + min(count, self.size), len(self._bytes))
        return memoryview(self._bytes)[self._first : end]

    def drop(self, count: int) -> None:
        """Forget the oldest `count` bytes."""
        self._first = (self._first + count) % len(self._bytes)
        self.size -= count

    def _grow(self) -> None:
        ordered = self._bytes[self._first :] + self._bytes[: self._first]
        longer = min(self._limit, 2 * len(ordered))
        self._bytes = ordered + bytearray(longer - len(ordered))
        self._first = 0


@dataclass(frozen=True, slots=True)
class FarLine:
    """How far away clients are.

    Parameters
    ----------
    round_trip_ms
        How long an answer takes at least.
    window_bytes
        Bytes on the line at most, of each direction of a connection.
    exchanges
        File in which requests are noted, see `exchanges`; None: they are not. Of connections
        without TLS.
    """

    round_trip_ms: float
    window_bytes: int = WINDOW_BYTES
    exchanges: Path | None = None


def start_line(line: FarLine, brokers: Sequence[Ports], folder: Path) -> OwnProcess:
    """Start the process of the line before these brokers; it waits for none of them."""
    folder.mkdir()
    pairs = [
        f"{port}:{broker.by_listener[listener]}"
        for broker in brokers
        for listener, port in broker.lines.items()
    ]
    command = (
        *(sys.executable, "-m", "heliostat_sandbox.far_line"),
        *("--round-trip-ms", str(line.round_trip_ms)),
        *("--window-bytes", str(line.window_bytes)),
        *(() if line.exchanges is None else ("--exchanges", str(line.exchanges))),
        *pairs,
    )
    return OwnProcess.start(
        command, output=folder / "line.out", folder=folder, dies_with_owner=True
    )


def end_line(process: OwnProcess) -> None:
    """End it at once."""
    process.signal(signal.SIGKILL)
    process.wait(END_WITHIN_S)


@dataclass(slots=True, eq=False)
class Direction:
    """One direction of a connection: bytes on the line, and when each piece of them arrives."""

    source: socket.socket
    target: socket.socket
    ring: Ring
    window_bytes: int
    delay_s: float
    open_s: float
    """When the sender's first bytes can leave it (s, monotonic)."""
    watch: Watch | None = None
    """Sees all bytes as they come."""
    due: deque[tuple[float, int]] = field(default_factory=deque)
    """When a piece arrives (s, monotonic), and its bytes; none: the sender has closed its side."""
    has_ended: bool = False
    is_done: bool = False
    """Whether the receiver has been told of the end."""
    is_full: bool = False
    """Whether the sender waits for room in the window."""
    acknowledged: deque[tuple[float, int]] = field(default_factory=deque)
    """When the sender learns what the receiver has taken (s, monotonic), and its bytes."""
    unacknowledged_bytes: int = 0
    """The sum of those."""
    planned_s: float = inf
    """When it is looked at next (s, monotonic)."""

    def take(self, now_s: float) -> None:
        """Read what the sender has sent, as far as it fits the window."""
        while self.acknowledged and self.acknowledged[0][0] <= now_s:
            self.unacknowledged_bytes -= self.acknowledged.popleft()[1]
        due_s = max(now_s, self.open_s) + self.delay_s
        while not self.has_ended:
            room = self.window_bytes - self.ring.size - self.unacknowledged_bytes
            memory = self.ring.place(min(room, CHUNK_BYTES))
            self.is_full = not memory
            if self.is_full:
                return
            try:
                count = self.source.recv_into(memory)
                if self.watch is not None:
                    self.watch(memory[:count])
            except BlockingIOError:
                return
            finally:
                memory.release()
            self.has_ended = not count
            self.ring.filled(count)
            self.due.append((due_s, count))

    def deliver(self, now_s: float) -> bool:
        """Send what has arrived; return whether the receiver took it all."""
        while self.due and self.due[0][0] <= now_s:
            due_s, count = self.due[0]
            if not count:
                self.target.shutdown(socket.SHUT_WR)
                self.is_done = True
            else:
                piece = self.ring.head(count)
                try:
                    sent = self.target.send(piece)
                except BlockingIOError:
                    return False
                finally:
                    piece.release()
                self.ring.drop(sent)
                self.acknowledged.append((now_s + self.delay_s, sent))
                self.unacknowledged_bytes += sent
                if sent < count:
                    self.due[0] = (due_s, count - sent)
                    continue
            self.due.popleft()
        return True

    def next_s(self) -> float:
        """Return when there is something to do (s, monotonic); infinity: nothing is on the line."""
        acknowledged_s = self.acknowledged[0][0] if self.is_full and self.acknowledged else inf
        return min(self.due[0][0] if self.due else inf, acknowledged_s)


@dataclass(slots=True, eq=False)
class Connection:
    """A client's connection and the one to the broker."""

    client: socket.socket
    broker: socket.socket
    forth: Direction
    back: Direction

    def ways(self, number: int) -> tuple[Direction, Direction]:
        """Return the direction that begins at this end, and the other one."""
        is_client = number == self.client.fileno()
        return (self.forth, self.back) if is_client else (self.back, self.forth)

    @property
    def is_done(self) -> bool:
        """Whether both sides have closed, and know it of each other."""
        return self.forth.is_done and self.back.is_done


class Line:
    """Moves bytes between clients and brokers until it is stopped.

    Parameters
    ----------
    pairs
        Ports: to listen on, and of the broker behind it.
    round_trip_s
        How long an answer takes at least (s).
    window_bytes
        Bytes on the line at most, of each direction of a connection.
    log
        Notes requests.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[int, int]],
        round_trip_s: float,
        window_bytes: int,
        log: ExchangeLog | None = None,
    ) -> None:
        self._log = log
        self._round_trip_s = round_trip_s
        self._window_bytes = window_bytes
        self._poll = select.epoll()
        self._listeners: dict[int, tuple[socket.socket, int]] = {}
        self._ends: dict[int, Connection] = {}
        self._arrivals: list[tuple[float, int, Connection, Direction]] = []
        """A heap: when the oldest piece of a direction arrives."""
        self._numbers = itertools.count()
        for port, behind in pairs:
            listener = socket.create_server((LOOPBACK, port), backlog=BACKLOG)
            listener.setblocking(False)
            self._listeners[listener.fileno()] = (listener, behind)
            self._poll.register(listener, select.EPOLLIN)

    def serve(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Forward until stopped, which is looked at every `LOOK_S`."""
        while not is_stopped():
            wait_s = self._arrivals[0][0] - time.monotonic() if self._arrivals else LOOK_S
            for number, what in self._poll.poll(max(0.0, min(wait_s, LOOK_S))):
                if number in self._listeners:
                    self._accept(*self._listeners[number])
                elif number in self._ends:
                    self._move(number, what)
            now_s = time.monotonic()
            while self._arrivals and self._arrivals[0][0] <= now_s:
                planned_s, _, connection, way = heapq.heappop(self._arrivals)
                if planned_s == way.planned_s:
                    way.planned_s = inf
                self._deliver(connection, way, now_s)

    def close(self) -> None:
        """Close everything."""
        for connection in set(self._ends.values()):
            self._forget(connection)
        for listener, _ in self._listeners.values():
            listener.close()
        self._poll.close()

    def _accept(self, listener: socket.socket, behind: int) -> None:
        with contextlib.suppress(BlockingIOError):
            client, _ = listener.accept()
            try:
                broker = socket.create_connection((LOOPBACK, behind))
            except OSError:  # nobody listens there: the client sees its connection closed
                client.close()
                return
            delay_s, open_s = self._round_trip_s / 2, time.monotonic() + self._round_trip_s
            window = self._window_bytes
            watches = (None, None) if self._log is None else self._log.watch()
            ways = ((client, broker), (broker, client))
            directions = [
                Direction(*ends, Ring(window), window, delay_s, open_s, watch)
                for ends, watch in zip(ways, watches, strict=True)
            ]
            connection = Connection(client, broker, *directions)
            for end in (client, broker):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
                self._ends[end.fileno()] = connection
                # Each event is told once, so that an end that has hung up is not told for ever.
                self._poll.register(end, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def _move(self, number: int, what: int) -> None:
        """Read from an end that has sent something, write to one that has room again."""
        connection = self._ends[number]
        from_it, to_it = connection.ways(number)
        now_s = time.monotonic()
        if what & ~select.EPOLLOUT:
            self._take(connection, from_it, now_s)
        if what & select.EPOLLOUT and number in self._ends:
            self._deliver(connection, to_it, now_s)

    def _take(self, connection: Connection, way: Direction, now_s: float) -> None:
        try:
            way.take(now_s)
        except OSError:  # one side is gone: so is the other
            self._forget(connection)
            return
        self._expect(connection, way)

    def _deliver(self, connection: Connection, way: Direction, now_s: float) -> None:
        if connection.client.fileno() not in self._ends:
            return
        try:
            is_taken = way.deliver(now_s)
        except OSError:
            self._forget(connection)
            return
        if way.is_full:
            self._take(connection, way, now_s)
        if connection.is_done:
            self._forget(connection)
        elif is_taken:
            self._expect(connection, way)

    def _expect(self, connection: Connection, way: Direction) -> None:
        next_s = way.next_s()
        if next_s < way.planned_s:
            way.planned_s = next_s
            heapq.heappush(self._arrivals, (next_s, next(self._numbers), connection, way))

    def _forget(self, connection: Connection) -> None:
        for end in (connection.client, connection.broker):
            if self._ends.pop(end.fileno(), None) is not None:
                self._poll.unregister(end)
            end.close()


def main() -> None:
    """Run a line until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="+", metavar="PORT:BEHIND")
    parser.add_argument("--round-trip-ms", type=float, required=True)
    parser.add_argument("--window-bytes", type=int, default=WINDOW_BYTES)
    parser.add_argument("--exchanges", type=Path)
    given = parser.parse_args()
    pairs = [(int(port), int(behind)) for port, behind in (p.split(":") for p in given.pairs)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.ExitStack() as files:
        log = given.exchanges and ExchangeLog(files.enter_context(given.exchanges.open("w")))
        Line(pairs, given.round_trip_ms / 1000, given.window_bytes, log).serve()


if __name__ == "__main__":
    main()
