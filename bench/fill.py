"""The source data: batches of one exact shape, sent raw, so that filling takes seconds.

A load generator that goes through a producer lets its timing decide where batches end; here every
batch has the scenario's number of records. Half of each value is random and half repeats, so that
lz4 roughly halves it; 64 different batches take turns.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from wire import Connection

CODEC_IDS = {"none": 0, "lz4": 3}
DISTINCT_BATCHES = 64
IN_FLIGHT = 5
SEED = 20_260
REPEATED = b"heliostat"
Headers = Sequence[tuple[str, bytes]]
Values = Callable[[random.Random, int], bytes]


def half_random(random_bytes: random.Random, size: int) -> bytes:
    """Return a value of this size."""
    half = size // 2
    return random_bytes.randbytes(half) + repeated(size - half)


def repeated(size: int) -> bytes:
    """Return text that repeats itself."""
    return (REPEATED * (size // len(REPEATED) + 1))[:size]


def framed(begins: bytes) -> Values:
    """Return values that begin with these bytes."""

    def value(random_bytes: random.Random, size: int) -> bytes:
        return begins + half_random(random_bytes, size)[len(begins) :]

    return value


def no_headers(_number: int) -> Headers:
    """Return the headers of a record that has none."""
    return []


def fill(
    bootstrap: str,
    topic: str,
    *,
    partitions: int,
    records: int,
    record_bytes: int,
    batch_records: int,
    codec: str,
    headers: Callable[[int], Headers] = no_headers,
    values: Values = half_random,
) -> int:
    """Append at least `records` records, equally many to each partition; return how many.

    `headers` returns those of a batch's record of that number; `values` a value of a size.
    """
    random_bytes = random.Random(SEED)  # noqa: S311 - seeded, to be the same each time
    now_ms = time.time_ns() // 1_000_000
    batches = [
        _batch(random_bytes, record_bytes, batch_records, codec, now_ms, headers, values)
        for _ in range(DISTINCT_BATCHES)
    ]
    each = math.ceil(records / partitions / batch_records)
    with Connection(bootstrap) as source:
        for number in range(each):
            if number >= IN_FLIGHT:
                source.receive_produce()
            source.send_produce(
                topic,
                [(p, batches[(number + p) % DISTINCT_BATCHES]) for p in range(partitions)],
            )
        for _ in range(min(each, IN_FLIGHT)):
            source.receive_produce()
    return each * partitions * batch_records


def _batch(  # noqa: PLR0917 - a batch's shape
    random_bytes: random.Random,
    record_bytes: int,
    batch_records: int,
    codec: str,
    now_ms: int,
    headers: Callable[[int], Headers],
    values: Values,
) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODEC_IDS[codec],
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2 * (record_bytes + 100) * batch_records + 1024,
    )
    for number in range(batch_records):
        value = values(random_bytes, record_bytes)
        builder.append(number, now_ms, None, value, headers(number))
    return bytes(builder.build())
