"""The requests that the benchmark itself sends, each over one blocking socket.

Old, non-flexible versions that Kafka 4.3 still serves (Produce 8, Fetch 4, ListOffsets 2), written
here and not taken from the package: the benchmark must not share code with what it measures, and
reading the ends of a few partitions twenty times a second must cost next to nothing.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from typing_extensions import Buffer

PRODUCE, FETCH, LIST_OFFSETS = (0, 8), (1, 4), (2, 2)
"""(api key, version) of each request; layouts in the `common/message` schemas of Apache Kafka."""

LATEST, EARLIEST = -1, -2
TIMEOUT_S = 60.0
"""A loopback broker under full load answers within seconds; longer means it is gone."""
UNKNOWN_TOPIC = 3
NO_ERROR = 0


class WireError(Exception):
    """The broker closed the connection or answered with an error."""


@dataclass(slots=True)
class Reader:
    """Reads one answer, field by field."""

    data: bytes
    at: int = 0

    def take(self, layout: str) -> tuple[int, ...]:
        """Read the next numbers, big-endian, by a `struct` layout."""
        values = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return values

    def one(self, layout: str) -> int:
        """Read the next single number."""
        return self.take(layout)[0]

    def text(self) -> str:
        """Read the next string, with an int16 length before it."""
        return self.blob(self.one("h")).decode()

    def blob(self, size: int) -> bytes:
        """Read the next `size` bytes; none for a null's -1."""
        size = max(size, 0)
        self.at += size
        return self.data[self.at - size : self.at]


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Connection:
    """One connection to one broker; requests are answered in the order they were sent."""

    def __init__(self, bootstrap: str, client_id: str = "bench") -> None:
        host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = _text(client_id)
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, api: tuple[int, int], body: Sequence[Buffer]) -> None:
        """Send a request and don't wait; `body` in pieces that are not copied together."""
        self._sent += 1
        head = struct.pack(">hhi", *api, self._sent) + self._client
        size = len(head) + sum(len(memoryview(piece)) for piece in body)
        pieces = [memoryview(piece) for piece in (struct.pack(">i", size), head, *body)]
        while pieces:
            done = self._socket.sendmsg(pieces[:64])
            while pieces and done >= len(pieces[0]):
                done -= len(pieces.pop(0))
            if done:
                pieces[0] = pieces[0][done:]

    def receive(self) -> Reader:
        """Wait for the next answer, without its correlation id."""
        size = struct.unpack(">i", self._exactly(4))[0]
        return Reader(self._exactly(size), at=4)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise WireError("the broker closed the connection")
            at += got
        return bytes(data)

    def ends(self, topics: Mapping[str, int], timestamp: int = LATEST) -> dict[str, dict[int, int]]:
        """Return end offsets (or first ones) by topic and partition.

        Parameters
        ----------
        topics
            Partition counts by topic name. Partitions that do not exist yet are left out.
        timestamp
            `LATEST` or `EARLIEST`.
        """
        body = struct.pack(">ibi", -1, 0, len(topics))
        for topic, partitions in topics.items():
            body += _text(topic) + struct.pack(">i", partitions)
            body += b"".join(struct.pack(">iq", p, timestamp) for p in range(partitions))
        self.send(LIST_OFFSETS, [body])
        answer = self.receive()
        answer.one("i")  # throttle
        found: dict[str, dict[int, int]] = {}
        for _ in range(answer.one("i")):
            topic = answer.text()
            for _ in range(answer.one("i")):
                partition, error, _, offset = answer.take("ihqq")
                if error == NO_ERROR:
                    found.setdefault(topic, {})[partition] = offset
        return found

    def readable(self, timeout_s: float) -> bool:
        """Return whether an answer has begun to arrive; wait at most `timeout_s` for one."""
        return bool(select.select([self._socket], [], [], timeout_s)[0])

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
        """Fetch raw record batches from `offset` on; the last one may be truncated."""
        self.send_fetch({topic: {partition: offset}}, wait_ms=500, min_bytes=0, max_bytes=max_bytes)
        _, _, error, data = next(self.receive_fetch())
        if error != NO_ERROR:
            raise WireError(f"fetch of {topic}-{partition} at {offset}: error {error}")
        return data

    def send_fetch(
        self,
        positions: Mapping[str, Mapping[int, int]],
        *,
        wait_ms: int,
        min_bytes: int,
        max_bytes: int,
    ) -> None:
        """Ask for what follows these offsets, without a session; don't wait."""
        body = [struct.pack(">iiiibi", -1, wait_ms, min_bytes, max_bytes, 0, len(positions))]
        for topic, partitions in positions.items():
            body.append(_text(topic) + struct.pack(">i", len(partitions)))
            body += [struct.pack(">iqi", *place, max_bytes) for place in partitions.items()]
        self.send(FETCH, [b"".join(body)])

    def receive_fetch(self) -> Iterator[tuple[str, int, int, bytes]]:
        """Wait for the answer to a fetch: topic, partition, error, raw batches."""
        answer = self.receive()
        answer.one("i")  # throttle
        for _ in range(answer.one("i")):
            topic = answer.text()
            for _ in range(answer.one("i")):
                partition, error, _, _, aborted = answer.take("ihqqi")
                answer.blob(16 * max(aborted, 0))
                yield topic, partition, error, answer.blob(answer.one("i"))

    def send_produce(self, topic: str, batches: Iterable[tuple[int, Buffer]]) -> None:
        """Send one batch for each of some partitions of a topic, acks=all; don't wait."""
        self.send_produce_many({topic: batches})

    def send_produce_many(self, topics: Mapping[str, Iterable[tuple[int, Buffer]]]) -> None:
        """Send one batch for each of some partitions of some topics, acks=all; don't wait."""
        body: list[Buffer] = [struct.pack(">hhii", -1, -1, 30_000, len(topics))]
        for topic, batches in topics.items():
            parts = list(batches)
            body.append(_text(topic) + struct.pack(">i", len(parts)))
            for partition, batch in parts:
                body.append(struct.pack(">ii", partition, len(memoryview(batch))))
                body.append(batch)
        self.send(PRODUCE, body)

    def receive_produce(self) -> None:
        """Wait for the answer to the oldest produce request; raise if a batch was refused."""
        answer = self.receive()
        for _ in range(answer.one("i")):
            topic = answer.text()
            for _ in range(answer.one("i")):
                partition, error = answer.take("ih")
                if error != NO_ERROR:
                    raise WireError(f"append to {topic}-{partition}: error {error}")
                answer.take("qqq")  # base offset, append time, log start
                for _ in range(max(answer.one("i"), 0)):
                    answer.one("i")
                    answer.blob(answer.one("h"))
                answer.blob(answer.one("h"))
