"""Records with the time they were sent: written by `load.py`, read by `watch.py`.

The first bytes of a value, behind a schema's id if it has one, are a mark, the clock when it was
sent and a number that no other record of the run has. Clocks are `CLOCK_MONOTONIC`, which all
processes of a machine share and which is never stepped.
"""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from awscrt import checksums
from fill import Headers

MARK = b"\xf0stamped"
HEAD = struct.Struct(">8sqq")
"""Mark, nanoseconds, number."""
STAMP = re.compile(re.escape(MARK) + b"(.{16})", re.DOTALL)
SEED_NUMBER = -1
"""Number of the one record in each partition before a replicator starts; it is in no figure."""
BATCH_HEADER_BYTES = 61
SEED = 20_261


@dataclass(frozen=True, slots=True)
class Stream:
    """A topic under load: `share` of all records go to it, spread over its partitions."""

    topic: str
    partitions: int
    share: float
    value_bytes: int
    schema_id: int = 0
    """Of the schema that values begin with; 0: none."""


def frame(schema_id: int) -> bytes:
    """Return what values with a schema begin with: Confluent's zero byte and id; 0: nothing."""
    return b"\0" + schema_id.to_bytes(4, "big") if schema_id else b""


def frames(streams: Sequence[Stream]) -> list[bytes]:
    """Return what values of each partition begin with."""
    return [frame(each.schema_id) for each in streams for _ in range(each.partitions)]


def write_streams(file: Path, streams: Sequence[Stream]) -> None:
    """Write the streams for the other processes."""
    rows = [(s.topic, s.partitions, s.share, s.value_bytes, s.schema_id) for s in streams]
    file.write_text(json.dumps(rows))


def read_streams(file: Path) -> list[Stream]:
    """Read the file of `write_streams`."""
    return [Stream(*row) for row in json.loads(file.read_text())]


def places(streams: Sequence[Stream]) -> list[tuple[str, int]]:
    """Return all topics' partitions; the position here is a partition's index in every file."""
    return [(each.topic, p) for each in streams for p in range(each.partitions)]


def tails(streams: Sequence[Stream]) -> list[bytes]:
    """Return the rest of each topic's values after the head, half of it random."""
    chance = random.Random(SEED)  # noqa: S311 - seeded, to be the same each time
    found = []
    for each in streams:
        size = max(0, each.value_bytes - HEAD.size)
        found.append(chance.randbytes(size // 2) + bytes(size - size // 2))
    return found


def value(stamp_ns: int, number: int, tail: bytes) -> bytes:
    """Return one value."""
    return HEAD.pack(MARK, stamp_ns, number) + tail


def found_in(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield clock and number of each record in uncompressed batches."""
    for match in STAMP.finditer(data):
        yield struct.unpack(">qq", match[1])


def batch(values: Sequence[bytes], now_ms: int, headers: Headers = ()) -> bytes:
    """Encode one uncompressed v2 batch of records with null keys (KIP-98's layout).

    Every record has the same headers.
    """
    records = []
    tail = _varint(len(headers)) + b"".join(
        _varint(len(part)) + part for name, each in headers for part in (name.encode(), each)
    )
    for delta, each in enumerate(values):
        body = b"".join((b"\0\0", _varint(delta), b"\x01", _varint(len(each)), each, tail))
        records.append(_varint(len(body)) + body)
    last = len(values) - 1
    covered = struct.pack(">hiqqqhii", 0, last, now_ms, now_ms, -1, -1, -1, len(values))
    covered += b"".join(records)
    head = struct.pack(">qiib", 0, len(covered) + 9, -1, 2)
    return head + struct.pack(">I", checksums.crc32c(covered)) + covered


def whole(data: bytes) -> tuple[int, int | None]:
    """Return the size of the whole batches at the front of `data`, and the offset after them."""
    at, following = 0, None
    while at + BATCH_HEADER_BYTES <= len(data):
        base, size = struct.unpack_from(">qi", data, at)
        if at + 12 + size > len(data):
            break
        following = base + int(struct.unpack_from(">i", data, at + 23)[0]) + 1
        at += 12 + size
    return at, following


def _varint(number: int) -> bytes:
    """Encode a non-negative number as a zigzag varint."""
    rest = number << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
