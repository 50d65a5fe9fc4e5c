"""Records into another topic, each with a header that says where it stood.

What is there already, by that header, is not written again: who was cut short goes on.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from heliostat.errors import BrokerError
from heliostat.exporting.exported import ExportedRecord
from heliostat.exporting.origin import Origin
from heliostat.names import ClusterId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.encode import NewRecord, encode_batch
from heliostat.verify.stream import ConsumedRecord

BATCH_BYTES, BATCH_RECORDS = 256 << 10, 1_000


class TopicLog(Protocol):
    """What is needed of the topic."""

    def end(self, partition: TopicPartition) -> Offset:
        """Return the log's end."""
        ...

    def records(
        self, partition: TopicPartition, start: Offset, stop: Offset
    ) -> Iterable[ConsumedRecord]:
        """Yield all records with offsets in `[start, stop)`."""
        ...

    def append(self, partition: TopicPartition, batch: bytes) -> Offset | BrokerError:
        """Append a batch; return its base offset, or why not."""
        ...


@dataclass(slots=True)
class OffsetSet:
    """Offsets, as ranges `[start, end)`: those in a row take no memory."""

    ranges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, offset: int) -> None:
        """Take an offset."""
        if offset in self:
            return
        if self.ranges and self.ranges[-1][1] == offset:
            self.ranges[-1] = (self.ranges[-1][0], offset + 1)
        else:
            insort(self.ranges, (offset, offset + 1))

    def __contains__(self, offset: int) -> bool:
        number = bisect_right(self.ranges, (offset, 1 << 63)) - 1
        return number >= 0 and offset < self.ranges[number][1]


class TopicCopy:
    """Writes records into a topic; for one thread.

    Parameters
    ----------
    log
        The cluster with the topic.
    topic, partitions
        The topic, and how many it has: a partition's records go to one of them, in order.
    cluster
        Where the records come from.
    """

    def __init__(
        self, log: TopicLog, topic: TopicName, partitions: int, cluster: ClusterId
    ) -> None:
        self._log = log
        self._topic = topic
        self._partitions = partitions
        self._cluster = cluster
        self._there: dict[TopicPartition, dict[TopicPartition, OffsetSet]] = {}
        """By partition of this topic: which records of which partition are there."""

    def write(self, records: Iterable[ExportedRecord]) -> int:
        """Write records of one partition that are not there yet; return how many were written.

        Raises
        ------
        ConnectionLost, BrokerError
            The cluster does not answer, or refuses; what was written stays.
        """
        written = 0
        for some in _batches(records):
            source = some[0].partition
            place = TopicPartition(self._topic, PartitionId(source.partition % self._partitions))
            there = self._known(place).setdefault(source, OffsetSet())
            missing = [record for record in some if record.offset not in there]
            if not missing:
                continue
            batch = encode_batch([self._marked(record) for record in missing], codec=Codec.LZ4)
            answer = self._log.append(place, batch)
            if isinstance(answer, BrokerError):
                raise answer
            for record in missing:
                there.add(record.offset)
            written += len(missing)
        return written

    def _known(self, place: TopicPartition) -> dict[TopicPartition, OffsetSet]:
        if place not in self._there:
            there: dict[TopicPartition, OffsetSet] = {}
            for record in self._log.records(place, Offset(0), self._log.end(place)):
                origin = Origin.of(record[4])
                if origin is not None and origin.cluster == self._cluster:
                    there.setdefault(origin.partition, OffsetSet()).add(origin.offset)
            self._there[place] = there
        return self._there[place]

    def _marked(self, record: ExportedRecord) -> NewRecord:
        origin = Origin(self._cluster, record.partition, record.offset)
        headers = (*record.headers, origin.header)
        return NewRecord(record.key, record.value, record.timestamp_ms, headers)


def _batches(records: Iterable[ExportedRecord]) -> Iterator[list[ExportedRecord]]:
    some: list[ExportedRecord] = []
    size = 0
    for record in records:
        some.append(record)
        size += record.size
        if size >= BATCH_BYTES or len(some) >= BATCH_RECORDS:
            yield some
            some, size = [], 0
    if some:
        yield some
