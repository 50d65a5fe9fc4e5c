"""Messages of formats v0 and v1, which brokers before 0.11 wrote and 3.x may still have.

A message is a single one or wraps compressed ones (KIP-31, KIP-32); aiokafka's codec reads both,
except LZ4 in v0, whose frames have a wrong header checksum (KIP-57).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from zlib import crc32

import cramjam
from aiokafka.errors import KafkaError as CodecError
from aiokafka.record.legacy_records import LegacyRecordBatch

from heliostat.errors import BatchError
from heliostat.verify.stream_values import ConsumedRecord, DecodedBatch

NO_TIMESTAMP_MS = -1
"""Timestamp that readers see in v0, which has none (`RecordBatch.NO_TIMESTAMP`)."""
_CRC_AT, _CRC_FROM = 12, 16
_ATTRIBUTES_AT, _CODEC_BITS, _LZ4 = 17, 7, 3
_KEY_AT = 18
_SIZE_AT, _BEHIND_SIZE = 8, 12
_NO_MEANING = (-1, -1, -1)
_FRAME_DESCRIPTOR_AT = 4
_HAS_BLOCK_CHECKSUMS, _HAS_CONTENT_SIZE = 0x10, 0x08
_STORED_BIT = 1 << 31


class OldBatch(DecodedBatch):
    """One message, or the messages it wraps; these formats can't be appended to a target."""

    __slots__ = ()


def old_batch(data: bytes, magic: int) -> OldBatch:
    """Read one message of format v0 or v1.

    Raises
    ------
    BatchError
        Its CRC does not hold, or it cannot be decoded.
    """
    crc = int.from_bytes(data[_CRC_AT:_CRC_FROM], "big")
    if crc32(data[_CRC_FROM:]) != crc:  # before decoding: the codec trusts the lengths within
        raise BatchError("CRC does not hold", magic=magic)
    try:
        rows: tuple[ConsumedRecord, ...] = tuple(
            (
                record.offset,
                NO_TIMESTAMP_MS if record.timestamp is None else record.timestamp,
                record.key,
                record.value,
                [],
            )
            for message in _messages(data, magic)
            for record in LegacyRecordBatch(message, magic)
        )
    except (
        *(CodecError, ValueError, IndexError, RuntimeError, MemoryError),
        *(struct.error, cramjam.DecompressionError),
    ) as error:
        raise BatchError(f"messages cannot be decoded: {error}", magic=magic) from error
    last = int.from_bytes(data[:8], "big")
    first = rows[0][0] if rows else last
    return OldBatch(first, last + 1, len(rows), _NO_MEANING, data, rows)


def _messages(data: bytes, magic: int) -> Iterator[bytes]:
    """Yield messages that the codec can read: the message itself, or those that it wraps."""
    if magic or data[_ATTRIBUTES_AT] & _CODEC_BITS != _LZ4:
        yield data
        return
    key_bytes = max(0, struct.unpack_from(">i", data, _KEY_AT)[0])
    inner = b"".join(_lz4_blocks(data[_KEY_AT + 4 + key_bytes + 4 :]))
    at = 0
    while at < len(inner):
        end = at + _BEHIND_SIZE + struct.unpack_from(">I", inner, at + _SIZE_AT)[0]
        yield inner[at:end]
        at = end


def _lz4_blocks(frame: bytes) -> Iterator[bytes]:
    """Yield the decompressed blocks of an LZ4 frame, ignoring the header's checksum."""
    flags, sizes = frame[_FRAME_DESCRIPTOR_AT : _FRAME_DESCRIPTOR_AT + 2]
    block_bytes_max = 1 << 8 + 2 * (sizes >> 4 & 7)
    at = _FRAME_DESCRIPTOR_AT + 3 + (8 if flags & _HAS_CONTENT_SIZE else 0)
    while size := struct.unpack_from("<I", frame, at)[0]:
        at += 4
        block = frame[at : at + (size & ~_STORED_BIT)]
        at += len(block) + (4 if flags & _HAS_BLOCK_CHECKSUMS else 0)
        if size & _STORED_BIT:
            yield block
        else:
            room = bytearray(block_bytes_max)
            made = cramjam.lz4.decompress_block_into(block, room, output_len=block_bytes_max)
            yield bytes(room[:made])
