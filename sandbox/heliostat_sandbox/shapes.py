"""Records of a load, and their encoding in batches."""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from awscrt import checksums

from heliostat.errors import SandboxError
from heliostat.names import TopicName

Record = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""Timestamp in ms, key, value, headers."""

CODECS: Mapping[str, int] = MappingProxyType(
    {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
)
"""Names of Kafka's `compression.type`, and their bits in a batch's attributes."""
BATCH_BYTES_MAX = 64 * 1024 * 1024
"""Far above any `message.max.bytes`: let the broker refuse large batches."""
POOL_BYTES_MAX = 256 * 1024
"""Random bytes kept for each shape; values are slices at random places."""

_CRC = struct.Struct(">I")
_PRODUCER = struct.Struct(">qhi")  # producer id, epoch, base sequence
_CRC_AT, _CRC_FROM, _PRODUCER_AT = 17, 21, 43
_SEQUENCE_MODULUS = 1 << 31


class Shape(Protocol):
    """Makes the records of one topic; the same random state and numbers give the same records."""

    def record(self, chance: random.Random, number: int, now_ms: int) -> Record:
        """Return record `number` (from 0) of the topic, made at `now_ms`."""
        ...


class Timestamps(Enum):
    """Timestamps of the records."""

    NOW = "now"
    AGED = "aged"
    """Always `age_ms` ago."""
    RANDOM = "random"
    """Anywhere in the last `age_ms`, in no order."""


@dataclass(frozen=True, slots=True)
class GenericShape:
    """Records of any kind.

    Parameters
    ----------
    value_bytes
        Size of each value.
    keys
        None: null keys; 0: empty keys; n: one of n different keys.
    headers
        Headers of every record; names may repeat, values may be null.
    tombstones, empties
        Fractions of records with a null value, and with an empty value.
    timestamps, age_ms
        See `Timestamps`; age in ms.
    entropy
        Fraction of each value that can't be compressed.
    """

    value_bytes: int = 500
    keys: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    tombstones: float = 0.0
    empties: float = 0.0
    timestamps: Timestamps = Timestamps.NOW
    age_ms: int = 0
    entropy: float = 0.5
    _pool: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    def record(self, chance: random.Random, number: int, now_ms: int) -> Record:
        """Return record `number`; its value begins with the number, so that no two are equal."""
        key = None if self.keys is None else b""
        if self.keys:
            key = b"key-%d" % chance.randrange(self.keys)
        draw = chance.random()
        value: bytes | None
        if draw < self.tombstones:
            value = None
        elif draw < self.tombstones + self.empties:
            value = b""
        else:
            value = self._value(chance, number)
        return self._timestamp_ms(chance, now_ms), key, value, self.headers

    def _value(self, chance: random.Random, number: int) -> bytes:
        head = b"%016d" % number
        rest = self.value_bytes - len(head)
        if rest <= 0:
            return head[len(head) - self.value_bytes :]
        noise = int(rest * self.entropy)
        if not self._pool:
            self._pool.append(chance.randbytes(min(POOL_BYTES_MAX, 4 * noise) + noise))
        pool = self._pool[0]
        at = chance.randrange(len(pool) - noise + 1)
        return head + pool[at : at + noise] + bytes(rest - noise)

    def _timestamp_ms(self, chance: random.Random, now_ms: int) -> int:
        match self.timestamps:
            case Timestamps.NOW:
                return now_ms
            case Timestamps.AGED:
                return now_ms - self.age_ms
            case Timestamps.RANDOM:
                return now_ms - chance.randint(0, self.age_ms)


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """The load on one topic.

    Parameters
    ----------
    topic, partitions, configs
        Name, number of partitions and settings with which it is created if it does not exist.
    rate_hz
        Records per second over all partitions.
    shape
        Makes the records.
    batch_records
        Records in each batch.
    codec
        Codec of each batch: none, gzip, snappy, lz4 or zstd.
    """

    topic: TopicName
    partitions: int = 1
    rate_hz: float = 1.0
    shape: Shape = field(default_factory=GenericShape)
    batch_records: int = 1
    codec: str = "none"
    configs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise SandboxError("no such codec", codec=self.codec, known=list(CODECS))
        if self.partitions < 1 or self.batch_records < 1 or self.rate_hz < 0:
            raise SandboxError("a load needs partitions, batches and a rate", topic=self.topic)


def encode_batch(records: Sequence[Record], codec: str = "none") -> bytes:
    """Encode one v2 batch like a producer without idempotence."""
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, BATCH_BYTES_MAX)
    for offset, (timestamp_ms, key, value, headers) in enumerate(records):
        builder.append(offset, timestamp_ms, key, value, list(headers))  # tuples are refused
    return bytes(builder.build())


def with_producer(batch: bytes, producer_id: int, sequence: int) -> bytearray:
    """Set what Java producers send by default in a batch: producer id, epoch 0, base sequence."""
    patched = bytearray(batch)
    _PRODUCER.pack_into(patched, _PRODUCER_AT, producer_id, 0, sequence % _SEQUENCE_MODULUS)
    crc = checksums.crc32c(memoryview(patched)[_CRC_FROM:])
    _CRC.pack_into(patched, _CRC_AT, crc)
    return patched
