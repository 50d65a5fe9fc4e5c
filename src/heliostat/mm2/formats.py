"""MirrorMaker 2's own records, byte for byte: heartbeats, checkpoints and offset syncs.

Classes `Heartbeat`, `Checkpoint` and `OffsetSync` of `org.apache.kafka.connect.mirror`, 4.3.0.
Numbers are big-endian, a text is its length in bytes as an int16, then UTF-8. Values of heartbeats
and checkpoints begin with an int16, the version of their schema: 0. Java's readers take any version
for 0; we refuse others rather than misread them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from heliostat.errors import ProtocolError
from heliostat.names import Alias, Offset, PartitionId, TopicName, TopicPartition

VERSION = 0
TEXT_BYTES_MAX = 32_767
"""The length is an int16 (`Type.STRING`)."""
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_HEARTBEAT = struct.Struct(">hq")
_OFFSETS = struct.Struct(">qq")
_CHECKPOINT = struct.Struct(">hqq")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign that a flow between two clusters is alive."""

    source: Alias
    target: Alias
    timestamp_ms: int

    def key(self) -> bytes:
        """Return the bytes of the record's key."""
        return _text(self.source) + _text(self.target)

    def value(self) -> bytes:
        """Return the bytes of the record's value."""
        return _HEARTBEAT.pack(VERSION, self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Decode a record.

        Raises
        ------
        ProtocolError
            It is not a heartbeat.
        """
        reader = _Reader(key, "heartbeat")
        source, target = Alias(reader.text()), Alias(reader.text())
        body = _Reader(value, "heartbeat")
        body.version()
        return cls(source, target, body.int64())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset at the source, and the one at which it continues at the target.

    Parameters
    ----------
    group
        The consumer group.
    partition
        Partition at the target, with the mirror's name.
    upstream, downstream
        Committed offset at the source, and the corresponding one at the target.
    metadata
        Metadata that the group committed with the offset.
    """

    group: str
    partition: TopicPartition
    upstream: Offset
    downstream: Offset
    metadata: str = ""

    def key(self) -> bytes:
        """Return the bytes of the record's key."""
        return _text(self.group) + _partition(self.partition)

    def value(self) -> bytes:
        """Return the bytes of the record's value."""
        return _CHECKPOINT.pack(VERSION, self.upstream, self.downstream) + _text(self.metadata)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Decode a record.

        Raises
        ------
        ProtocolError
            It is not a checkpoint.
        """
        reader = _Reader(key, "checkpoint")
        group, partition = reader.text(), reader.partition()
        body = _Reader(value, "checkpoint")
        body.version()
        upstream, downstream = Offset(body.int64()), Offset(body.int64())
        return cls(group, partition, upstream, downstream, body.text())


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A record's offsets at both sides; `partition` has the source topic's name."""

    partition: TopicPartition
    upstream: Offset
    downstream: Offset

    def key(self) -> bytes:
        """Return the bytes of the record's key."""
        return _partition(self.partition)

    def value(self) -> bytes:
        """Return the bytes of the record's value; this class alone has no version."""
        return _OFFSETS.pack(self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """Decode a record.

        Raises
        ------
        ProtocolError
            It is not an offset sync.
        """
        partition = _Reader(key, "offset sync").partition()
        body = _Reader(value, "offset sync")
        return cls(partition, Offset(body.int64()), Offset(body.int64()))


def _text(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > TEXT_BYTES_MAX:
        raise ProtocolError("a text is too long for MirrorMaker 2's records", bytes=len(encoded))
    return _INT16.pack(len(encoded)) + encoded


def _partition(partition: TopicPartition) -> bytes:
    return _text(partition.topic) + _INT32.pack(partition.partition)


class _Reader:
    """Takes values from the front of a record's key or value."""

    def __init__(self, data: bytes | None, kind: str) -> None:
        self._kind = kind
        if data is None:
            raise self._wrong("it is null")
        self._data = data
        self._at = 0

    def version(self) -> None:
        """Read the version of the schema, and check that it is ours."""
        version = self._number(_INT16)
        if version != VERSION:
            raise self._wrong(f"its version is {version}")

    def int64(self) -> int:
        return self._number(_INT64)

    def text(self) -> str:
        length = self._number(_INT16)
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise self._wrong("it is cut off")
        try:
            text = self._data[self._at : end].decode()
        except UnicodeDecodeError as error:
            raise self._wrong("a text is not UTF-8") from error
        self._at = end
        return text

    def partition(self) -> TopicPartition:
        topic = TopicName(self.text())
        return TopicPartition(topic, PartitionId(self._number(_INT32)))

    def _number(self, kind: struct.Struct) -> int:
        if self._at + kind.size > len(self._data):
            raise self._wrong("it is cut off")
        (number,) = kind.unpack_from(self._data, self._at)
        self._at += kind.size
        return int(number)

    def _wrong(self, why: str) -> ProtocolError:
        return ProtocolError(f"a record is no {self._kind} of MirrorMaker 2: {why}")
