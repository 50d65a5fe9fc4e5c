"""Logs that a real broker's cleaner compacts soon, and their records as readers see them.

Segments roll by the records' own timestamps, so that each batch of records that are younger than
the one before closes a segment; the last one is never cleaned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kafka.protocol.admin import IncrementalAlterConfigsRequest
from kafka.structs import TopicPartition
from support.consumers import open_consumer, place_of

from heliostat.clusters.admin.caller import Caller

CLEANED_WITHIN_S = 60.0
BACKOFF_MS = 100
"""Pause of the cleaner between two checks for work; 15 s by default."""
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "0",
}
"""Settings of a topic whose closed segments are cleaned at once, old tombstones too."""
_BROKER, _SET = 4, 0

Seen = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""A record as readers see it: offset, timestamp (ms), key, value, headers."""


def hurry_cleaner(bootstrap: str) -> None:
    """Let the cleaners of a cluster check for work all the time."""
    caller = Caller(bootstrap.split(","), "test", connect_timeout_s=30.0)
    try:
        operation = ("log.cleaner.backoff.ms", _SET, str(BACKOFF_MS))
        request = IncrementalAlterConfigsRequest(
            resources=[(_BROKER, "", [operation])], validate_only=False
        )
        [answer] = caller.send(request).responses
        assert answer.error_code == 0, answer
    finally:
        caller.close()


def read_committed(bootstrap: str, topic: str, partition: int = 0) -> list[Seen]:
    """Read a partition up to its last stable offset with kafka-python's own consumer."""
    consumer = open_consumer(
        bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        check_crcs=False,
    )
    try:
        one = TopicPartition(topic, partition)
        consumer.assign([one])
        end = consumer.end_offsets([one])[one]
        seen: list[Seen] = []
        deadline_s = time.monotonic() + CLEANED_WITHIN_S
        while (at := place_of(consumer, one)) < end:
            assert time.monotonic() < deadline_s, f"{one}: read up to {at} of {end}"
            for rows in consumer.poll(timeout_ms=500).values():
                seen += [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in rows]
        return seen
    finally:
        consumer.close()


def wait_cleaned(bootstrap: str, topic: str, is_enough: Callable[[list[Seen]], bool]) -> list[Seen]:
    """Wait until a partition's remaining records satisfy a condition; return them."""
    deadline_s = time.monotonic() + CLEANED_WITHIN_S
    while True:
        seen = read_committed(bootstrap, topic)
        if is_enough(seen):
            return seen
        assert time.monotonic() < deadline_s, f"{topic} was not cleaned: {offsets(seen)[:50]}"
        time.sleep(0.1)  # between two checks of a condition with a deadline


def offsets(seen: Iterable[Seen]) -> list[int]:
    """Return their offsets."""
    return [row[0] for row in seen]
