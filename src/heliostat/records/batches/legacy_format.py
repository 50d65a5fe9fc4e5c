"""Messages in the formats of Kafka before 0.11 (magic 0 and 1), found in old segments.

Brokers return them as they are stored; since 4.0 nothing converts them (KIP-724), and brokers
accept only v2 record batches. A message is single, or its value wraps compressed messages:

    offset 8 | length 4 | CRC-32 of what follows 4 | magic 1 | attributes 1 | timestamp 8 (magic 1)
    | key length 4 | key | value length 4 | value

Wrapped messages of magic 1 count their offsets from the first one; the wrapper has the offset of
the last (KIP-31). If the wrapper says LogAppendTime, its timestamp holds for all of them (KIP-32).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from heliostat.errors import BatchError
from heliostat.records.batches.batch import MAGIC_AT, Codec, claimed_size
from heliostat.records.batches.codecs import decompress
from heliostat.records.batches.joining import SourceRecords
from heliostat.records.batches.varints import varint

OLD_MAGICS = (0, 1)
RECORDS_AT_ONCE_MAX = 5_000
"""Records of one new batch before it is split to size."""
BYTES_AT_ONCE_MAX = 512 * 1024
DELTA_MAX = (1 << 31) - 2
"""A batch counts its offsets in an int32; after compaction the next one may be further away."""
NO_TIMESTAMP = -1
"""What readers see of a message of magic 0."""
_ATTRIBUTES_AT = 17
_LOG_APPEND_TIME = 8
_HEAD = struct.Struct(">qiIbb")
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_UINT = struct.Struct("<I")
_CRC_FROM = 16
_CODECS = {0: Codec.NONE, 1: Codec.GZIP, 2: Codec.SNAPPY, 3: Codec.LZ4}
_NULL = varint(-1)
_NO_HEADERS = varint(0)


@dataclass(frozen=True, slots=True)
class OldRun:
    """Messages encoded as v2 records, in order of their offsets."""

    records: SourceRecords
    codec: Codec
    """Codec that they were compressed with."""
    base_offset: int
    """Source offset that their offset deltas count from."""
    deltas: int
    """One more than the last delta."""


@dataclass(frozen=True, slots=True)
class OldMessages:
    """The messages of an answer that are in an old format."""

    runs: Sequence[OldRun]
    next_offset: int
    """Source offset after them."""
    end: int
    """Where in the data the first byte after them is."""


class _Message(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class _Run:
    codec: Codec
    base_offset: int
    base_timestamp: int
    body: bytearray
    count: int = 0
    last_offset: int = -1


def read_old(view: memoryview, place: int, end: int, position: int, last: int = -1) -> OldMessages:
    """Read consecutive messages of old formats, beginning at `place`.

    Parameters
    ----------
    view, place, end
        The answer's bytes; the last message may be cut.
    position
        First offset that is wanted; earlier ones are left out.
    last
        Offset of the message before them in the answer; -1 if there is none.

    Raises
    ------
    BatchError
        A message is not valid, or the offsets, which no checksum covers, do not ascend.
    """
    runs: list[_Run] = []
    next_offset = position
    while end - place > MAGIC_AT and view[place + MAGIC_AT] in OLD_MAGICS:
        size = claimed_size(view, place, end)
        if size is None or size <= _ATTRIBUTES_AT:
            raise BatchError("a message claims to be shorter than its header")
        if place + size > end:
            break
        codec = _CODECS.get(view[place + _ATTRIBUTES_AT] & 7)
        if codec is None:
            raise BatchError("a message's codec is not known")
        for message in _messages(view[place : place + size]):
            if message.offset <= last:
                # One of the two is wrong; skipped as already read, this one would be lost silently.
                raise BatchError(f"a message claims offset {message.offset} after {last}")
            last = message.offset
            if message.offset >= next_offset:
                _add(runs, codec, message)
                next_offset = message.offset + 1
        place += size
    else:
        after = _LONG.unpack_from(view, place)[0] if end - place > MAGIC_AT else last + 1
        if after <= last:  # a v2 batch follows
            raise BatchError(f"a message claims offset {last}, the batch after it {after}")
        return _done(runs, next_offset, place)
    return _done(runs, next_offset, end)  # the rest is cut off and comes with the next fetch


def _messages(data: memoryview) -> list[_Message]:
    """Return a message, or those packed in it."""
    _, _, crc, magic, attributes = _HEAD.unpack_from(data)
    if crc32(data[_CRC_FROM:]) != crc:
        raise BatchError("a message's checksum does not match its bytes")
    try:
        outer = _message(data, magic)
        codec = _CODECS[attributes & 7]
        if codec is Codec.NONE:
            return [outer]
        packed = outer.value or b""
        if codec is Codec.LZ4 and magic == 0:
            packed = _with_right_checksum(packed)
        messages = list(_unpacked(memoryview(decompress(codec, packed)), magic))
    except struct.error as error:
        raise BatchError("a message of an old format can't be read", why=str(error)) from error
    if magic == 0 or not messages:
        return messages
    first = outer.offset - messages[-1].offset
    stamped = bool(attributes & _LOG_APPEND_TIME)
    return [
        _Message(
            first + message.offset,
            outer.timestamp_ms if stamped else message.timestamp_ms,
            message.key,
            message.value,
        )
        for message in messages
    ]


def _unpacked(data: memoryview, magic: int) -> Iterator[_Message]:
    """Yield consecutive messages, none of which may be compressed itself."""
    position = 0
    while position < len(data):
        size = claimed_size(data, position, len(data))
        if size is None or not _HEAD.size <= size <= len(data) - position:
            raise BatchError("a packed message's length is wrong")
        message = data[position : position + size]
        if message[MAGIC_AT] != magic or message[_ATTRIBUTES_AT] & 7:
            raise BatchError("a packed message is of another format, or itself compressed")
        yield _message(message, magic)
        position += size


def _message(data: memoryview, magic: int) -> _Message:
    (offset,) = _LONG.unpack_from(data)
    position, timestamp = _HEAD.size, NO_TIMESTAMP
    if magic:
        (timestamp,) = _LONG.unpack_from(data, position)
        position += _LONG.size
    key, position = _content(data, position)
    value, _ = _content(data, position)
    return _Message(offset, timestamp, key, value)


def _content(data: memoryview, position: int) -> tuple[bytes | None, int]:
    """Return a key or a value, and the index after it."""
    (size,) = _INT.unpack_from(data, position)
    position += _INT.size
    if size < 0:
        return None, position
    if position + size > len(data):
        raise BatchError("a message claims more bytes than there are")
    return bytes(data[position : position + size]), position + size


_LZ4_FLAGS_AT = 4
_LZ4_HAS_SIZE = 8
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_WORD = 0xFFFFFFFF


def _with_right_checksum(frame: bytes) -> bytes:
    """Return the LZ4 frame with its header checksum as LZ4 specifies it.

    For messages of magic 0 Kafka computed it over the wrong bytes (KAFKA-3160, KIP-57).
    """
    if len(frame) <= _LZ4_FLAGS_AT:
        raise BatchError("a message's LZ4 frame is cut")
    end = _LZ4_FLAGS_AT + 2 + (8 if frame[_LZ4_FLAGS_AT] & _LZ4_HAS_SIZE else 0)
    checksum = _short_xxh32(frame[_LZ4_FLAGS_AT:end]) >> 8 & 0xFF
    return frame[:end] + bytes([checksum]) + frame[end + 1 :]


def _short_xxh32(data: bytes) -> int:
    """Return XXH32 with seed 0 of fewer than 16 bytes."""
    first_prime, two, three, four, five = _PRIMES
    digest = (five + len(data)) & _WORD
    words = len(data) // _UINT.size * _UINT.size
    for (word,) in _UINT.iter_unpack(data[:words]):
        digest = _rotated(digest + word * three, 17) * four & _WORD
    for byte in data[words:]:
        digest = _rotated(digest + byte * five, 11) * first_prime & _WORD
    digest = (digest ^ digest >> 15) * two & _WORD
    digest = (digest ^ digest >> 13) * three & _WORD
    return digest ^ digest >> 16


def _rotated(number: int, bits: int) -> int:
    number &= _WORD
    return (number << bits | number >> 32 - bits) & _WORD


def _add(runs: list[_Run], codec: Codec, message: _Message) -> None:
    offset, timestamp, key, value = message
    run = runs[-1] if runs else None
    if (
        run is None
        or run.codec is not codec
        or run.count >= RECORDS_AT_ONCE_MAX
        or len(run.body) >= BYTES_AT_ONCE_MAX
        or offset - run.base_offset > DELTA_MAX
    ):
        run = _Run(codec, offset, timestamp, bytearray())
        runs.append(run)
    rest = varint(timestamp - run.base_timestamp) + varint(offset - run.base_offset)
    rest += _sized(key) + _sized(value) + _NO_HEADERS
    run.body += varint(1 + len(rest)) + b"\0" + rest
    run.count += 1
    run.last_offset = offset


def _sized(content: bytes | None) -> bytes:
    return _NULL if content is None else varint(len(content)) + content


def _done(runs: list[_Run], next_offset: int, end: int) -> OldMessages:
    old_runs = [
        OldRun(
            SourceRecords(bytes(run.body), run.count, run.base_timestamp, None, is_sparse=True),
            run.codec,
            run.base_offset,
            run.last_offset - run.base_offset + 1,
        )
        for run in runs
    ]
    return OldMessages(old_runs, next_offset, end)
