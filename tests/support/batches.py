"""Record batches made and read by aiokafka's codec, which shares no code with ours."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

from aiokafka.record._crecords.cutil import crc32c_cython
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
SOURCE_PRODUCER = 4711
LOG_APPEND_TIME = 8
TRANSACTIONAL = 16
CONTROL = 32
DELETE_HORIZON = 64


@dataclass(frozen=True)
class Record:
    """A record as a reader sees it."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class StoredBatch:
    """A batch as a source stores it; `append_time` makes it LogAppendTime."""

    base_offset: int
    records: tuple[Record, ...]
    codec: int = 0
    append_time: int | None = None
    more_attributes: int = 0
    producer_id: int = SOURCE_PRODUCER
    deltas: tuple[int, ...] | None = None
    """Offset deltas of the records that compaction left; None: all."""
    last_delta: int | None = None
    """Offset delta of the last record before compaction."""

    @property
    def seen(self) -> list[tuple[int, Record]]:
        """Return offsets and records as the source's readers see them."""
        return read(self.encode(), self.base_offset)

    def encode(self) -> bytes:
        """Return the bytes that its broker stores."""
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=self.codec,
            is_transactional=0,
            producer_id=self.producer_id,
            producer_epoch=3,
            base_sequence=99,
            batch_size=2**30,
        )
        places = self.deltas or range(len(self.records))
        for place, record in zip(places, self.records, strict=True):
            builder.append(
                place,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
        batch = builder.build()
        attributes = struct.unpack_from(">h", batch, 21)[0] | self.more_attributes
        if self.append_time is not None:
            attributes |= LOG_APPEND_TIME
            struct.pack_into(">q", batch, 35, self.append_time)
        last = len(self.records) - 1 if self.deltas is None else max(self.deltas)
        return changed(
            batch,
            base_offset=self.base_offset,
            leader_epoch=7,
            attributes=attributes,
            last_offset_delta=last if self.last_delta is None else self.last_delta,
        )

    @property
    def next_offset(self) -> int:
        """First offset after it."""
        return self.base_offset + header_of(self.encode())["last_offset_delta"] + 1


def marker(base_offset: int, producer_id: int, *, commits: bool) -> StoredBatch:
    """Return a transaction's end marker."""
    key = struct.pack(">hh", 0, 1 if commits else 0)
    record = Record(1, key, struct.pack(">hi", 0, 3))
    return StoredBatch(
        base_offset, (record,), more_attributes=CONTROL | TRANSACTIONAL, producer_id=producer_id
    )


_FIELDS = (
    *("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"),
    "records_count",
)


def header_of(batch: bytes) -> dict[str, int]:
    """Return the header's fields by name."""
    return dict(zip(_FIELDS, HEADER.unpack_from(batch), strict=True))


def changed(batch: bytes | bytearray, *, keep_crc: bool = False, **fields: int) -> bytes:
    """Return the batch with other header fields, and with their CRC unless `keep_crc`."""
    header = header_of(bytes(batch)) | fields
    made = bytearray(HEADER.pack(*header.values()) + batch[HEADER_BYTES:])
    if not keep_crc and "crc" not in fields:
        struct.pack_into(">I", made, 17, crc32c_cython(bytes(made[21:])))
    return bytes(made)


def is_crc_valid(batch: bytes) -> bool:
    """Return whether its CRC is correct."""
    return bool(DefaultRecordBatch(batch).validate_crc())


def read(batch: bytes, base_offset: int) -> list[tuple[int, Record]]:
    """Return offsets and records as readers of a log see them that has it at `base_offset`."""
    records = DefaultRecordBatch(changed(batch, keep_crc=True, base_offset=base_offset))
    return [
        (item.offset, Record(item.timestamp, item.key, item.value, tuple(item.headers)))
        for item in records
    ]


def encode_all(batches: list[StoredBatch]) -> bytearray:
    """Encode the batches as a fetch answer has them."""
    assert all(a.base_offset + len(a.records) == b.base_offset for a, b in pairwise(batches))
    return bytearray(b"".join(batch.encode() for batch in batches))
