"""The two requests that sandbox and load generator send themselves: Metadata and Produce.

Old, non-flexible versions that Kafka 4.3 still serves, written here and not shared with the copier:
the code that makes test data must not have the copier's bugs. Layouts: MetadataRequest.json v1 and
ProduceRequest.json v7 of Apache Kafka.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heliostat.clusters.wire.connection import Connection, DialSettings
from heliostat.errors import ProtocolError
from heliostat.names import BrokerId, Endpoint

PRODUCE, PRODUCE_VERSION = 0, 7
METADATA, METADATA_VERSION = 3, 1
CLIENT_ID = "heliostat-sandbox"
ANSWER_TIMEOUT_S = 5.0
"""A broker on loopback answers a metadata request in milliseconds, a busy one in a second."""
CORRELATION_BYTES = 4

_HEADER = struct.Struct(">hhih")
_TOPIC_HEAD = struct.Struct(">h")
_PRODUCE_HEAD = struct.Struct(">hhi")  # transactional id (null), acks, timeout in ms
_PARTITION_HEAD = struct.Struct(">ii")  # partition, size of the batch
_PARTITION_ANSWER = struct.Struct(">ihqqq")  # partition, error, base, append time, log start

Part = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic in the metadata: Kafka's error code (0: no error) and leader by partition."""

    error: int
    leaders: Mapping[int, BrokerId]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Brokers that are registered and unfenced, and the requested topics."""

    brokers: Mapping[BrokerId, Endpoint]
    topics: Mapping[str, TopicFacts]


@dataclass(frozen=True, slots=True)
class AppendAnswer:
    """A broker's answer for one batch; `error` is Kafka's code, 0 for none."""

    topic: str
    partition: int
    error: int
    base_offset: int


def ask_metadata(
    endpoint: Endpoint, topics: Sequence[str], timeout_s: float = ANSWER_TIMEOUT_S
) -> ClusterFacts:
    """Return metadata of the cluster and of `topics`, as the broker at `endpoint` has it.

    Raises
    ------
    ConnectionLost, ProtocolError
        It does not answer, or its answer is malformed.
    """
    settings = DialSettings(CLIENT_ID, connect_timeout_s=timeout_s, request_timeout_s=timeout_s)
    body = struct.pack(">i", len(topics)) + b"".join(map(_string, topics))
    with contextlib.closing(Connection(endpoint, settings)) as connection:
        header = request_header(METADATA, METADATA_VERSION, connection.next_correlation_id())
        connection.send([header, body])
        frame = connection.receive(timeout_s)
    try:
        return _read_metadata(_Reader(frame.buffer, CORRELATION_BYTES))
    except (IndexError, struct.error, ValueError) as error:
        raise ProtocolError("a metadata answer is malformed", broker=str(endpoint)) from error


def request_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Encode a request header v1."""
    client = CLIENT_ID.encode()
    return _HEADER.pack(api_key, version, correlation_id, len(client)) + client


def encode_produce(
    batches: Mapping[str, Sequence[tuple[int, Part]]], *, acks: int, timeout_ms: int
) -> list[Part]:
    """Encode the body of a produce request: by topic, one batch (never two) per partition."""
    parts: list[Part] = []
    head = bytearray(_PRODUCE_HEAD.pack(-1, acks, timeout_ms))
    head += struct.pack(">i", len(batches))
    for topic, items in batches.items():
        head += _string(topic) + struct.pack(">i", len(items))
        for partition, batch in items:
            head += _PARTITION_HEAD.pack(partition, len(batch))
            if len(batch) < 4096:  # copying a small batch is cheaper than one more buffer
                head += batch
            else:
                parts += (head, batch)
                head = bytearray()
    parts.append(head)
    return parts


def decode_produce(buffer: Part) -> list[AppendAnswer]:
    """Decode the answers for all batches of one request.

    Raises
    ------
    ProtocolError
        The bytes do not follow the format.
    """
    found: list[AppendAnswer] = []
    reader = _Reader(buffer, CORRELATION_BYTES)
    try:
        for _ in range(reader.int32()):
            topic = reader.string() or ""
            for _ in range(reader.int32()):
                partition, error, base, _time, _start = reader.take(_PARTITION_ANSWER)
                found.append(AppendAnswer(topic, partition, error, base))
    except (IndexError, struct.error, ValueError) as error:
        raise ProtocolError("a produce answer is malformed", why=str(error)) from error
    return found


def _read_metadata(reader: _Reader) -> ClusterFacts:
    brokers: dict[BrokerId, Endpoint] = {}
    for _ in range(reader.int32()):
        broker = BrokerId(reader.int32())
        brokers[broker] = Endpoint(reader.string() or "", reader.int32())
        reader.string()  # rack
    reader.int32()  # controller
    topics: dict[str, TopicFacts] = {}
    for _ in range(reader.int32()):
        error = reader.int16()
        name = reader.string() or ""
        reader.skip(1)  # is internal
        leaders: dict[int, BrokerId] = {}
        for _ in range(reader.int32()):
            reader.int16()  # error; a partition without a leader has -1 below
            partition, leader = reader.int32(), reader.int32()
            leaders[partition] = BrokerId(leader)
            for _ in range(2):  # replicas, in-sync replicas
                reader.skip(4 * reader.int32())
        topics[name] = TopicFacts(error, leaders)
    return ClusterFacts(brokers, topics)


class _Reader:
    """Reader of one answer's fields, in order."""

    __slots__ = ("at", "buffer")

    def __init__(self, buffer: Part, at: int) -> None:
        self.buffer = buffer
        self.at = at

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        values: tuple[int, ...] = layout.unpack_from(self.buffer, self.at)
        self.at += layout.size
        return values

    def skip(self, size: int) -> None:
        self.at += size

    def int16(self) -> int:
        return self.take(_INT16)[0]

    def int32(self) -> int:
        return self.take(_INT32)[0]

    def string(self) -> str | None:
        size = self.int16()
        if size < 0:
            return None
        self.at += size
        return bytes(self.buffer[self.at - size : self.at]).decode()


_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


def _string(text: str) -> bytes:
    raw = text.encode()
    return _TOPIC_HEAD.pack(len(raw)) + raw
