"""A frame-aware proxy in front of one broker: cuts, delays, throttles, stalls, counts.

The broker advertises the proxy's address, so that every client connects through it::

    proxy = FaultProxy()
    cluster = Cluster.start("target", settings=proxy.settings)
    with proxy.serving(cluster.brokers[0].endpoint): ...

What it knows of Kafka: a frame begins with its size; a request continues with API key, version and
correlation id; a broker answers each connection's requests in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

from heliostat.names import Endpoint
from heliostat_sandbox.ports import LOOPBACK, free_ports

PRODUCE, FETCH = 0, 1
HEAD_BYTES = 8 * 1024
"""Bytes of a frame read before it is forwarded: topics are near the front."""
CHUNK_BYTES = 64 * 1024
QUEUED_CHUNKS_MAX = 64
"""Chunks in transit in one direction of a connection: 4 MiB, as on a long line."""
START_WITHIN_S = 10.0
CLIENT_ID_AT = 8
"""Offset of the client id, after API key, version and correlation id."""
_SIZE = struct.Struct(">i")
_API_KEY = struct.Struct(">h")


class Where(Enum):
    """At which byte a connection is cut."""

    REQUEST_SIZE = "in the request's size field"
    REQUEST_HEADER = "in the request's header"
    REQUEST_BODY = "in the request's body"
    REQUEST_SENT = "after the whole request"
    REQUEST_KEPT = "before the request, which stays in the network"
    ANSWER_SIZE = "in the answer's size field"
    ANSWER_HEADER = "in the answer's header"
    ANSWER_BODY = "in the answer's body"
    ANSWER_LOST = "before the answer, which the broker has sent"

    @property
    def is_request(self) -> bool:
        """Whether the request is cut, so that there is no answer, or none is waited for."""
        return self.name.startswith("REQUEST")

    def kept_of(self, frame_bytes: int) -> int:
        """Return how many bytes of a frame, its size field included, are still forwarded."""
        kept = {
            Where.REQUEST_SIZE: 2,
            Where.REQUEST_HEADER: 4 + 5,  # in the correlation id, after API key and version
            Where.REQUEST_SENT: frame_bytes,
            Where.REQUEST_KEPT: 0,
            Where.ANSWER_LOST: 0,
            Where.ANSWER_SIZE: 2,
            Where.ANSWER_HEADER: 4 + 2,  # in the correlation id
        }
        return kept.get(self, 4 + (frame_bytes - 4) // 2)


@dataclass(slots=True)
class Cut:
    """A planned cut: the next request with `api_key` that has one of `about` near its front."""

    api_key: int
    where: Where
    about: tuple[bytes, ...] = ()
    done: threading.Event = field(default_factory=threading.Event)
    kept: bytes = b""
    """The whole frame, for `REQUEST_KEPT`: it may be sent to the broker late."""

    def fits(self, head: bytes) -> bool:
        """Return whether a request that begins with `head` (after its size) is meant."""
        if _API_KEY.unpack_from(head)[0] != self.api_key:
            return False
        return not self.about or any(word in head for word in self.about)


class _Severed(Exception):
    """Ends a connection's tasks at a cut; not an error."""


class FaultProxy:
    """Listens on its own port; faults are set from any thread and last until revoked.

    `counts` has what happened: `connections`, `requests <api key>`, `refused`, and each cut by
    its name.
    """

    def __init__(self) -> None:
        self.port = free_ports(1)[0]
        self.counts: Counter[str] = Counter()
        self.latency_s = 0.0
        """Delay of each chunk in each direction, in seconds."""
        self.bytes_per_s: float | None = None
        """Limit of each connection and direction; None is unlimited."""
        self._broker: Endpoint | None = None
        self._cuts: list[Cut] = []
        self._lock = threading.Lock()
        self._is_refusing = False
        self._held_client = b""
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._connections: set[_Connection] = set()
        self._serving: set[Any] = set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    @property
    def address(self) -> str:
        """Address for clients, `host:port`."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the broker behind it, which direct clients here."""
        return {"advertised.listeners": f"PLAINTEXT://{self.address}"}

    @contextlib.contextmanager
    def serving(self, broker: Endpoint) -> Iterator[Self]:
        """Forward connections to `broker` while the block runs."""
        self._broker = broker
        self._thread.start()
        try:
            self._call(self._open())
            yield self
        finally:
            self._call(self._shut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_WITHIN_S)
            self._loop.close()

    # -- faults --------------------------------------------------------------------------------

    def cut_next(self, api_key: int, where: Where, *about: bytes) -> Cut:
        """Cut the connection at the next request that fits; `done` is set when it was."""
        cut = Cut(api_key, where, about)
        with self._lock:
            self._cuts.append(cut)
        return cut

    def cut_all(self) -> None:
        """Cut every connection now."""
        self._call(self._sever_all())

    def refuse(self) -> None:
        """Cut every connection and accept none, until `accept`."""
        self._is_refusing = True
        self.cut_all()

    def accept(self) -> None:
        """Accept connections again."""
        self._is_refusing = False

    def hold(self, client: str = "") -> None:
        """Stall everything: connections stay open, nothing is forwarded, until `release`.

        Only for clients whose id begins with `client`; the others are unaffected.
        """
        self._held_client = client.encode()
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def release(self) -> None:
        """Forward again, beginning with the stalled bytes, as TCP does after a network outage."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def heal(self) -> None:
        """Revoke all faults."""
        self.latency_s, self.bytes_per_s = 0.0, None
        with self._lock:
            self._cuts.clear()
        self.accept()
        self.release()

    # -- inside --------------------------------------------------------------------------------

    def _call(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_WITHIN_S)

    async def _open(self) -> None:
        self._flowing.set()
        self._server = await asyncio.start_server(self._serve, LOOPBACK, self.port)

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._sever_all()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _sever_all(self) -> None:
        for connection in list(self._connections):
            connection.sever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            await self._pass_on(reader, writer)
        finally:
            writer.transport.abort()
            self._serving.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_refusing or self._broker is None:
            self.counts["refused"] += 1
            return
        try:
            to_broker = await asyncio.open_connection(self._broker.host, self._broker.port)
        except OSError:
            self.counts["broker away"] += 1
            return
        self.counts["connections"] += 1
        connection = _Connection(self, (reader, writer), to_broker)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def take_cut(self, head: bytes) -> Cut | None:
        """Return the cut for this request, if there is one, and remove it."""
        with self._lock:
            for cut in self._cuts:
                if cut.fits(head):
                    self._cuts.remove(cut)
                    return cut
        return None

    def give_back(self, cut: Cut) -> None:
        """Plan a cut again whose connection ended before: the next request that fits is cut."""
        with self._lock:
            self._cuts.append(cut)

    async def until_flowing(self, client: bytes) -> None:
        """Wait while what this client asks, or is answered, is held back."""
        if client.startswith(self._held_client):
            await self._flowing.wait()


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """One client's connection and the proxy's own to the broker."""

    def __init__(self, proxy: FaultProxy, client: Stream, broker: Stream) -> None:
        self._proxy = proxy
        self._client, self._broker = client, broker
        self._asked: deque[Cut | None] = deque()
        """For each unanswered request, how its answer is to be cut."""
        self._taken: list[Cut] = []
        self._client_id = b""
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Pass frames on in both directions until one side ends or a cut comes."""
        up: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED_CHUNKS_MAX)
        down: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED_CHUNKS_MAX)
        self._tasks = [
            asyncio.ensure_future(self._requests(up)),
            asyncio.ensure_future(self._answers(down)),
            asyncio.ensure_future(self._deliver(up, self._broker[1])),
            asyncio.ensure_future(self._deliver(down, self._client[1])),
        ]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.sever()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for cut in self._taken:
                if not cut.done.is_set():
                    self._proxy.give_back(cut)

    def sever(self) -> None:
        """End both sides at once."""
        for task in self._tasks:
            task.cancel()
        for _, writer in (self._client, self._broker):
            writer.close()

    async def _requests(self, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        async for size, head in _frames(self._client[0]):
            self._proxy.counts[f"requests {_API_KEY.unpack_from(head)[0]}"] += 1
            self._client_id = _client_id(head)
            cut = self._proxy.take_cut(head)
            if cut is not None:
                self._taken.append(cut)
            self._asked.append(None if cut is None or cut.where.is_request else cut)
            rest = _chunks(self._client[0], size - len(head))
            if cut is not None and cut.where.is_request:
                frame = await _whole(size, head, rest)
                await self._cut(cut, queue, self._broker[1], frame)
            await self._put(queue, _SIZE.pack(size) + head)
            async for chunk in rest:
                await self._put(queue, chunk)

    async def _answers(self, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        async for size, head in _frames(self._broker[0]):
            cut = self._asked.popleft()
            rest = _chunks(self._broker[0], size - len(head))
            if cut is not None:
                frame = await _whole(size, head, rest)
                await self._cut(cut, queue, self._client[1], frame)
            await self._put(queue, _SIZE.pack(size) + head)
            async for chunk in rest:
                await self._put(queue, chunk)

    async def _cut(
        self,
        cut: Cut,
        queue: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
        frame: bytes,
    ) -> None:
        """Pass on the beginning of a frame, then end the connection."""
        passes = cut.where.kept_of(len(frame))
        if passes:
            await self._put(queue, frame[:passes])
        if cut.where is Where.REQUEST_KEPT:
            cut.kept = frame
        await queue.join()
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        self._proxy.counts[cut.where.name] += 1
        cut.done.set()
        raise _Severed

    async def _put(self, queue: asyncio.Queue[tuple[float, bytes]], data: bytes) -> None:
        await queue.put((time.monotonic() + self._proxy.latency_s, data))

    async def _deliver(
        self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        """Hand chunks over when they are due, no faster than is allowed."""
        free_at_s = 0.0
        while True:  # ends with the connection, which cancels it
            due_s, data = await queue.get()
            rate = self._proxy.bytes_per_s
            if rate is not None:
                free_at_s = max(free_at_s, time.monotonic()) + len(data) / rate
                due_s = max(due_s, free_at_s)
            pause_s = due_s - time.monotonic()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            await self._proxy.until_flowing(self._client_id)
            writer.write(data)
            await writer.drain()
            queue.task_done()


def _client_id(head: bytes) -> bytes:
    """Return the client id in a request's head after its size (header v1, v2); empty for null."""
    [length] = _API_KEY.unpack_from(head, CLIENT_ID_AT) if len(head) >= CLIENT_ID_AT + 2 else (0,)
    return head[CLIENT_ID_AT + 2 : CLIENT_ID_AT + 2 + max(0, length)]


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, bytes]]:
    """Size and first bytes of each frame; whoever takes it reads the rest before the next."""
    while True:  # ends when the peer closes: IncompleteReadError
        size = _SIZE.unpack(await reader.readexactly(4))[0]
        yield size, await reader.readexactly(min(size, HEAD_BYTES))


async def _whole(size: int, head: bytes, rest: AsyncIterator[bytes]) -> bytes:
    return _SIZE.pack(size) + head + b"".join([chunk async for chunk in rest])


async def _chunks(reader: asyncio.StreamReader, left: int) -> AsyncIterator[bytes]:
    while left:
        chunk = await reader.readexactly(min(left, CHUNK_BYTES))
        left -= len(chunk)
        yield chunk
