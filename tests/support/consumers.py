"""Consumers of kafka-python for tests.

kafka-python waits 305 s for an answer by default, and its client sometimes misses one (3.0.12): a
test that read twice took 11 minutes instead of 20 s.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer
from kafka.structs import TopicPartition

ANSWER_MS = 10_000
PLACE_WITHIN_MS = 60_000


def open_consumer(bootstrap: str, **settings: Any) -> KafkaConsumer:
    """Open a consumer that asks again soon if no answer comes; the caller closes it."""
    return KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), **{"request_timeout_ms": ANSWER_MS, **settings}
    )


def place_of(consumer: KafkaConsumer, partition: TopicPartition) -> int:
    """Return where a consumer stands; kafka-python would ask the group's coordinator for ever."""
    found = consumer.position(partition, timeout_ms=PLACE_WITHIN_MS)
    assert found is not None, f"{partition}: no position within {PLACE_WITHIN_MS / 1000:g} s"
    return int(found)
