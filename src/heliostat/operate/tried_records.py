"""The records that a pipeline is tried with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.names import ClusterId, PartitionId, TopicName, TopicPartition
from heliostat.records.batches.encode import NewRecord, encode_batch

if TYPE_CHECKING:
    from heliostat.records.rows.to_rows import Chunk
    from heliostat.verify.reader import LogReader

NO_CLUSTER = ClusterId("(the source cluster's id)")
"""Of made-up records."""


@dataclass(frozen=True, slots=True)
class LastRecords:
    """Those that have so many offsets before the end of each partition."""

    count: int


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Records with these values and with key and headers in common, in partition 0 from 0 on."""

    values: tuple[bytes | None, ...]
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def chunks_of(
    config: Config, link: LinkConfig, topic: TopicName, source: LastRecords | MadeUp
) -> tuple[ClusterId, list[Chunk]]:
    """Return the source cluster's id, and the batches of some records of a topic.

    Raises
    ------
    Refused
        The topic is not at the source, or its batches can't be read.
    ConnectionLost, BrokerError
        The source does not answer or refuses; of made-up records it is not asked.
    """
    if isinstance(source, MadeUp):
        return NO_CLUSTER, list(_made_up(topic, source))
    # Only here: its client takes long to load.
    from heliostat.verify.read_requests import Isolation
    from heliostat.verify.reader import LogReader

    access = config.clusters[link.source].access()
    with LogReader(access, Isolation.READ_COMMITTED) as reader:
        chunks = list(_last(reader, link, topic, source.count))
        return ClusterId(reader.cluster_id), chunks


def _made_up(topic: TopicName, source: MadeUp) -> Iterator[Chunk]:
    from heliostat.records.rows.to_rows import Chunk

    now_ms = time.time_ns() // 1_000_000
    records = [NewRecord(source.key, value, now_ms, source.headers) for value in source.values]
    if records:
        yield Chunk(0, TopicPartition(topic, PartitionId(0)), encode_batch(records))


def _last(reader: LogReader, link: LinkConfig, topic: TopicName, count: int) -> Iterator[Chunk]:
    from heliostat.records.batches.aborted import Aborted, forget_aborted
    from heliostat.records.batches.batch import next_offset
    from heliostat.records.rows.to_rows import Chunk, whole_batches

    view = reader.topics([topic]).get(topic)
    if view is None:
        raise Refused(f"topic {topic} is not at {link.source}, or can't be described there")
    partitions = [TopicPartition(topic, PartitionId(number)) for number in sorted(view.leaders)]
    for partition, bounds in reader.bounds(partitions).items():
        position = max(bounds.start, bounds.end - count)
        while position < bounds.end:
            fetched = reader.fetch({partition: position})[partition]
            data = bytearray(fetched.data)
            end, error = whole_batches(memoryview(data), 0, len(data))
            if error is not None or not end:
                text = "its batches can't be read" if error is None else error.text
                raise Refused(f"{partition} at offset {position}: {text}")
            forget_aborted(data, 0, end, [Aborted(*transaction) for transaction in fetched.aborted])
            yield Chunk(0, partition, memoryview(data)[:end], position, bounds.end)
            position = next_offset(data, 0, end) or bounds.end
