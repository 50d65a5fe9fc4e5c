"""The pipeline of the benchmark: records filtered by a header, and another header dropped.

MirrorMaker 2 has keys, values and headers as bytes, so few of Connect's transforms work there: it
can change no field of a value and insert no header (`ByteArrayConverter` takes no text).
"""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from fill import Headers, repeated
from stamped import frame

SKIPPED = 10
"""One record in so many has the header by which it is filtered out."""
DROPPED: Headers = (("secret", b"0123456789"),)
"""The header that is dropped."""
DROP: tuple[dict[str, Any], ...] = ({"drop_headers": ["secret"]},)
DROP_SQL: tuple[dict[str, Any], ...] = (
    {"set": {"headers": "filter(headers, h -> h.key != 'secret')"}},
)
"""Only the header goes: each record sent is one that arrives."""
STEPS: tuple[dict[str, Any], ...] = (
    {"drop_with_header": {"name": "skip"}},
    *DROP,
)
SQL: tuple[dict[str, Any], ...] = (
    {"where": "NOT exists(headers, h -> h.key = 'skip')"},
    *DROP_SQL,
)
"""The same as expressions: all records are rows of Spark."""
NAME = "somebody's name"
AVRO: tuple[dict[str, Any], ...] = (
    *STEPS,
    {"avro_fields": {"mask": {"name": None}, "drop": ["id"]}},
)
"""And fields of Avro records: MirrorMaker 2 does no such thing, and has `TRANSFORMS` alone."""
AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Piped",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"], "default": None},
            {"name": "content", "type": "bytes"},
        ],
    }
)
JSON: tuple[dict[str, Any], ...] = (
    *STEPS,
    {"json_fields": {"mask": {"name": None}, "drop": ["id"]}},
)
"""The same with fields of JSON objects."""
_TRANSFORMS = "org.apache.kafka.connect.transforms"
_OF = "A->B."
TRANSFORMS = {
    f"{_OF}transforms": "skip,drop",
    f"{_OF}predicates": "skipped",
    f"{_OF}predicates.skipped.type": f"{_TRANSFORMS}.predicates.HasHeaderKey",
    f"{_OF}predicates.skipped.name": "skip",
    f"{_OF}transforms.skip.type": f"{_TRANSFORMS}.Filter",
    f"{_OF}transforms.skip.predicate": "skipped",
    f"{_OF}transforms.drop.type": f"{_TRANSFORMS}.DropHeaders",
    f"{_OF}transforms.drop.headers": "secret",
}
"""The same for MirrorMaker 2."""
TRANSFORMS_DROP = {
    f"{_OF}transforms": "drop",
    f"{_OF}transforms.drop.type": f"{_TRANSFORMS}.DropHeaders",
    f"{_OF}transforms.drop.headers": "secret",
}
"""The same as `DROP`."""


def headers_of(number: int) -> Headers:
    """Return the headers of a batch's record of this number."""
    skip = [("skip", b"1")] if number % SKIPPED == 0 else []
    return [*DROPPED, *skip]


def dropped(_number: int) -> Headers:
    """Return the headers of a record of which none is filtered out."""
    return [*DROPPED]


def json_value(random_bytes: random.Random, size: int) -> bytes:
    """Return a JSON object of this size, half of it random."""
    number = random_bytes.randrange(10**9, 10**10)
    begins = b'{"id":%d,"name":"%s","content":"' % (number, NAME.encode())
    half = size // 2 - len(begins)
    noise = base64.b64encode(random_bytes.randbytes(half))[:half]
    return begins + noise + repeated(size - size // 2 - 2) + b'"}'


def left(records: int, batch_records: int) -> int:
    """Return how many of the records, in whole batches, are not filtered out."""
    skipped = len(range(0, batch_records, SKIPPED))
    return records // batch_records * (batch_records - skipped)


def avro_begins(schema_id: int, record_bytes: int) -> bytes:
    """Return what values of `record_bytes` begin with, to be records of `AVRO_SCHEMA`.

    Numbers are zigzag varints (Avro's specification): two bytes for the size of a content of 64 to
    8,191 bytes.
    """
    fields = b"\x54" + b"\x02" + bytes([2 * len(NAME)]) + NAME.encode()
    begins = frame(schema_id) + fields
    size = 2 * (record_bytes - len(begins) - 2)
    return begins + bytes([size & 0x7F | 0x80, size >> 7])
