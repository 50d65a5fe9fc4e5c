"""Record batches as the model of a log needs them: with holes, markers and delete horizons.

Written from the format (KIP-98, KIP-534), so that the product's own encoder is not what
makes the input of its own tests.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from aiokafka.record._crecords.cutil import crc32c_cython
from aiokafka.record.default_records import DefaultRecordBatch

HEADER = struct.Struct(">qiibIhiqqqhii")
TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x10, 0x20, 0x40
ABORT, COMMIT = 0, 1
GZIP = 1
_CODEC = 0x07
_CRC_FROM = 21
_LENGTH_FRAME = 12


@dataclass(frozen=True, slots=True)
class Fields:
    """A batch's header, as far as a log looks at it."""

    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    epoch: int
    sequence: int
    count: int

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


@dataclass(frozen=True, slots=True)
class Kept:
    """A record by its distance from the batch's base offset."""

    delta: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


@lru_cache(maxsize=20_000)
def fields_of(data: bytes) -> Fields:
    _, _, _, _, _, attributes, last, base_ms, max_ms, pid, epoch, sequence, count = (
        HEADER.unpack_from(data, 0)
    )
    return Fields(attributes, last, base_ms, max_ms, pid, epoch, sequence, count)


@lru_cache(maxsize=20_000)
def is_whole(data: bytes) -> bool:
    """Whether it is one batch, no more and no less."""
    return (
        len(data) >= HEADER.size
        and len(data) == _LENGTH_FRAME + struct.unpack_from(">i", data, 8)[0]
    )


@lru_cache(maxsize=20_000)
def is_crc_valid(data: bytes) -> bool:
    """Whether what its CRC covers is what was sent."""
    return bool(crc32c_cython(data[_CRC_FROM:]) == struct.unpack_from(">I", data, 17)[0])


@lru_cache(maxsize=20_000)
def records_of(data: bytes) -> tuple[Kept, ...]:
    """All records; for a marker its one control record."""
    base = struct.unpack_from(">q", data, 0)[0]
    return tuple(
        Kept(r.offset - base, r.timestamp, r.key, r.value, tuple(r.headers))
        for r in DefaultRecordBatch(data)
    )


def encode(fields: Fields, records: Sequence[Kept]) -> bytes:
    """A batch at base offset 0, plain or gzip as its attributes say; the count is the records'."""
    codec = fields.attributes & _CODEC
    assert codec in {0, GZIP}
    fields = replace(fields, count=len(records))
    body = b"".join(_record(each, fields.base_timestamp) for each in records)
    if codec and records:
        body = gzip.compress(body, 1)
    size = HEADER.size + len(body) - _LENGTH_FRAME
    made = bytearray(
        HEADER.pack(
            *(0, size, -1, 2, 0, fields.attributes, fields.last_delta),
            *(fields.base_timestamp, fields.max_timestamp, fields.producer_id, fields.epoch),
            *(fields.sequence, fields.count),
        )
        + body
    )
    struct.pack_into(">I", made, 17, crc32c_cython(bytes(made[_CRC_FROM:])))
    return bytes(made)


def marker(producer_id: int, epoch: int, timestamp_ms: int, kind: int) -> bytes:
    """The control batch that ends a transaction (`EndTransactionMarker`)."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    fields = Fields(
        TRANSACTIONAL | CONTROL, 0, timestamp_ms, timestamp_ms, producer_id, epoch, -1, 1
    )
    return encode(fields, [Kept(0, timestamp_ms, key, value)])


def control_kind(data: bytes) -> int:
    """`ABORT` or `COMMIT` of a marker; -1 where a cleaner has taken its record."""
    for record in records_of(data):
        assert record.key is not None
        return int(struct.unpack(">h", record.key[2:4])[0])
    return -1


def with_holes(data: bytes, kept: Sequence[Kept], horizon_ms: int | None = None) -> bytes:
    """What a cleaner leaves of a batch: offsets, producer and sequence as they were.

    With a delete horizon the base timestamp holds it, and the records count from there (KIP-534).
    """
    fields = fields_of(data)
    base_ms = fields.base_timestamp
    attributes = fields.attributes
    if horizon_ms is not None:
        base_ms, attributes = horizon_ms, attributes | DELETE_HORIZON
    max_ms = max((each.timestamp for each in kept), default=-1)
    made = replace(fields, attributes=attributes, base_timestamp=base_ms, max_timestamp=max_ms)
    return encode(made, kept)


def at_offset(data: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """As a broker stores it; neither field is under the CRC."""
    stored = bytearray(data)
    struct.pack_into(">q", stored, 0, base_offset)
    struct.pack_into(">i", stored, _LENGTH_FRAME, leader_epoch)
    return bytes(stored)


def _record(record: Kept, base_timestamp: int) -> bytes:
    body = bytearray(b"\x00")
    _put(body, record.timestamp - base_timestamp)
    _put(body, record.delta)
    _put_bytes(body, record.key)
    _put_bytes(body, record.value)
    _put(body, len(record.headers))
    for name, value in record.headers:
        _put_bytes(body, name.encode())
        _put_bytes(body, value)
    framed = bytearray()
    _put(framed, len(body))
    return bytes(framed + body)


def _put_bytes(out: bytearray, data: bytes | None) -> None:
    _put(out, -1 if data is None else len(data))
    out += data or b""


def _put(out: bytearray, value: int) -> None:
    """A zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
