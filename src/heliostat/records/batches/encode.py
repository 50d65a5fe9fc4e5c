"""The small batches that Heliostat's tasks write and read themselves (state, progress)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from heliostat.errors import BatchError
from heliostat.records.batches.batch import HEADER_BYTES, Codec, check_crc, each_header, pack_header
from heliostat.records.batches.codecs import compress, decompress
from heliostat.records.batches.crc import Buffer
from heliostat.records.batches.varints import read_varint, varint

NO_PRODUCER = -1
"""Producer id and sequence of a batch that a broker does not check for duplicates."""
_NULL = varint(-1)


class NewRecord(NamedTuple):
    """A record to write."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()


def encode_batch(
    records: Sequence[tuple[bytes | None, bytes | None, int] | NewRecord],
    *,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER,
    sequence: int = NO_PRODUCER,
) -> bytes:
    """Encode one batch to append, by default without a producer id.

    Parameters
    ----------
    records
        At least one, as a `NewRecord` or (key, value, timestamp in ms).
    codec
        Codec to compress it with.
    producer_id, sequence
        By which the broker appends it once, however often it is sent (KIP-98).
    """
    base_timestamp = records[0][2]
    body = bytearray()
    for index, given in enumerate(records):
        key, value, timestamp, headers = NewRecord(*given)
        record = b"\0" + varint(timestamp - base_timestamp) + varint(index)
        record += _sized(key) + _sized(value) + varint(len(headers))
        for name, content in headers:
            record += _sized(name.encode()) + _sized(content)
        body += varint(len(record)) + record
    packed = compress(codec, body)
    header = pack_header(
        packed,
        records=len(records),
        codec=codec,
        base_timestamp=base_timestamp,
        max_timestamp=max(row[2] for row in records),
        producer_id=producer_id,
        base_sequence=sequence,
    )
    return header + packed


def decode_batches(buffer: Buffer) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """Read all whole batches of `buffer`, except control batches; record headers are left out.

    Returns
    -------
    Iterator[tuple[int, int, bytes | None, bytes | None]]
        (offset, timestamp in ms, key, value) of each record.

    Raises
    ------
    BatchError
        A batch is not valid.
    """
    for position, header in each_header(buffer, 0, len(buffer)):
        check_crc(buffer, position, header)
        if not header.is_control:
            packed = memoryview(buffer)[position + HEADER_BYTES : position + header.size]
            body = decompress(header.codec, packed)
            record_at = 0
            for _ in range(header.records_count):
                delta, timestamp, key, value, record_at = _read_record(body, record_at)
                timestamp += header.base_timestamp
                if header.is_log_append_time:
                    timestamp = header.max_timestamp
                yield header.base_offset + delta, timestamp, key, value


def _sized(content: bytes | None) -> bytes:
    return _NULL if content is None else varint(len(content)) + content


def _read_record(body: bytes, position: int) -> tuple[int, int, bytes | None, bytes | None, int]:
    """Return offset delta, timestamp delta, key, value and end of the record at `position`."""
    try:
        length, position = read_varint(body, position)
        end = position + length
        timestamp, position = read_varint(body, position + 1)
        delta, position = read_varint(body, position)
        key, position = _read_sized(body, position)
        value, position = _read_sized(body, position)
    except IndexError:
        position, end = 1, 0
    if not position <= end <= len(body):
        raise BatchError("a record does not end where its length says")
    return delta, timestamp, key, value, end


def _read_sized(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position)
    if length < 0:
        return None, position
    return body[position : position + length], position + length
