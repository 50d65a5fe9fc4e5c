"""Compress and decompress the records of a batch as Kafka's clients do, up to a size limit.

gzip is the standard library's; snappy in xerial framing (what Java writes) or raw (librdkafka);
lz4 in frames with independent blocks (KIP-57); zstd in frames (KIP-110).
"""

from __future__ import annotations

import struct
import zlib

import cramjam

from heliostat.errors import BatchError
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.crc import Buffer

DECOMPRESSED_BYTES_MAX = 512 * 1024 * 1024
"""A 10 MiB batch at a ratio of 50; more would be a bomb that exhausts a worker's memory."""
_ROOM_BYTES_MIN = 64 * 1024
_ROOM_RATIO = 8
"""First buffer size for data that does not state its size, in multiples of its compressed size."""
_GZIP_WBITS = 31
_ZSTD_LEVEL = 3
_LZ4_LEVEL = 0
"""As Kafka's Java client does by default (KIP-390): zstd 3, lz4 fast; gzip's is zlib's own."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT = struct.Struct(">i")


class TooMuch(BatchError):
    """Decompressed, it would be larger than `DECOMPRESSED_BYTES_MAX`."""


def compress(codec: Codec, body: Buffer) -> bytes:
    """Compress `body` with `codec` so that every Kafka client can read it."""
    match codec:
        case Codec.NONE:
            return bytes(body)
        case Codec.GZIP:
            deflater = zlib.compressobj(wbits=_GZIP_WBITS)
            return deflater.compress(body) + deflater.flush()
        case Codec.SNAPPY:
            return _compress_snappy(memoryview(body))
        case Codec.LZ4:
            frame = cramjam.lz4.Compressor(
                level=_LZ4_LEVEL, content_checksum=False, block_linked=False
            )
            frame.compress(bytes(body))
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(body, level=_ZSTD_LEVEL))


def decompress(codec: Codec, body: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Decompress `body`.

    Raises
    ------
    TooMuch
        It is larger than `bytes_max`.
    BatchError
        It is not valid for `codec`.
    """
    if codec is Codec.NONE:
        return bytes(body)
    try:
        match codec:
            case Codec.GZIP:
                return _decompress_gzip(body, bytes_max)
            case Codec.SNAPPY:
                return _decompress_snappy(bytes(body), bytes_max)
            case Codec.LZ4:
                return _decompress_frames(cramjam.lz4, bytes(body), bytes_max)
            case Codec.ZSTD:
                return _decompress_frames(cramjam.zstd, bytes(body), bytes_max)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise BatchError(
            "a batch's records can't be decompressed", codec=codec.name, cause=str(error)
        ) from error


def _too_much(codec: str, bytes_max: int) -> TooMuch:
    return TooMuch("a batch decompresses to more than is allowed", codec=codec, max=bytes_max)


def _decompress_gzip(body: Buffer, bytes_max: int) -> bytes:
    """Decompress all members of gzip data; together they may have `bytes_max`."""
    parts: list[bytes] = []
    size = 0
    rest: Buffer = body
    while len(rest):
        inflater = zlib.decompressobj(wbits=_GZIP_WBITS)
        part = inflater.decompress(rest, bytes_max - size + 1)
        size += len(part)
        if size > bytes_max:
            raise _too_much("GZIP", bytes_max)
        if not inflater.eof:
            raise BatchError("a batch's records can't be decompressed", codec="GZIP", cause="cut")
        parts.append(part)
        rest = inflater.unused_data
    return b"".join(parts)


def _decompress_snappy(body: bytes, bytes_max: int) -> bytes:
    if not body.startswith(_XERIAL_MAGIC):
        return _snappy_block(body, bytes_max)
    parts: list[bytes] = []
    position = len(_XERIAL_HEADER)
    while position < len(body):
        length = _INT.unpack_from(body, position)[0]
        position += _INT.size
        if not 0 <= length <= len(body) - position:
            raise BatchError("a snappy block claims more bytes than there are", length=length)
        part = _snappy_block(body[position : position + length], bytes_max)
        bytes_max -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _snappy_block(block: bytes, bytes_max: int) -> bytes:
    size: int = cramjam.snappy.decompress_raw_len(block)
    if size > bytes_max:
        raise _too_much("SNAPPY", bytes_max)
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_snappy(body: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for position in range(0, len(body), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(body[position : position + _XERIAL_BLOCK_BYTES]))
        parts += (_INT.pack(len(block)), block)
    return b"".join(parts)


def _decompress_frames(library: object, body: bytes, bytes_max: int) -> bytes:
    """Decompress into a buffer that grows up to the limit: frames need not state their size."""
    into = library.decompress_into  # type: ignore[attr-defined]  # a module without stubs
    room = min(bytes_max, max(_ROOM_BYTES_MIN, _ROOM_RATIO * len(body)))
    while True:
        output = bytearray(room)
        try:
            return bytes(memoryview(output)[: into(body, output)])
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
        if room >= bytes_max:
            raise _too_much("LZ4 or ZSTD", bytes_max)
        room = min(bytes_max, room * _ROOM_RATIO)
