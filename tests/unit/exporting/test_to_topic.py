"""Records in another topic: each is written once, however often it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from heliostat.errors import BrokerError
from heliostat.exporting.exported import CREATE_TIME, ExportedRecord
from heliostat.exporting.origin import Origin
from heliostat.exporting.to_topic import OffsetSet, TopicCopy
from heliostat.names import ClusterId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.verify.stream import ConsumedRecord

INTO = TopicName("kept")


@dataclass
class Log:
    rows: dict[TopicPartition, list[ConsumedRecord]] = field(default_factory=dict)
    takes: int = 1_000

    def end(self, partition: TopicPartition) -> Offset:
        return Offset(len(self.rows.get(partition, ())))

    def records(
        self, partition: TopicPartition, start: Offset, stop: Offset
    ) -> Iterable[ConsumedRecord]:
        return self.rows.get(partition, [])[start:stop]

    def append(self, partition: TopicPartition, batch: bytes) -> Offset | BrokerError:
        self.takes -= 1
        if self.takes < 0:
            return BrokerError("full", kafka_code=56)
        log = self.rows.setdefault(partition, [])
        for row in DefaultRecordBatch(batch):
            log.append((len(log), row.timestamp, row.key, row.value, list(row.headers)))
        return Offset(len(log))


def records(partition: int, *offsets: int) -> list[ExportedRecord]:
    place = TopicPartition(TopicName("orders"), PartitionId(partition))
    return [
        ExportedRecord(place, Offset(n), 5 + n, CREATE_TIME, None, b"%d" % n, (("a", b""),))
        for n in offsets
    ]


def copy(log: Log) -> TopicCopy:
    return TopicCopy(log, INTO, 2, ClusterId("east"))


def test_records_are_written_once_by_their_origin() -> None:
    """Given a copy that is cut short / when it is begun again / then what is there is left out."""
    log = Log(takes=1)
    wanted = records(3, *range(0, 3000, 2))
    with pytest.raises(BrokerError):
        copy(log).write(wanted)
    log.takes = 1_000
    assert copy(log).write(wanted) == 500
    assert copy(log).write(wanted) == 0
    assert copy(log).write(records(1, 0, 2)) == 2  # another partition, the same offsets
    rows = log.rows[TopicPartition(INTO, PartitionId(1))]
    origins = [Origin.of(row[4]) for row in rows]
    assert [origin.offset for origin in origins if origin] == [*range(0, 3000, 2), 0, 2]
    assert rows[0][1:] == (5, None, b"0", [("a", b""), ("heliostat.origin", b"east/orders/3/0")])


def test_a_set_of_offsets_holds_what_was_added() -> None:
    """Given offsets in any order / when asked / then they are in it, and no others."""
    offsets = OffsetSet()
    for offset in (5, 6, 7, 1, 9, 2, 6):
        offsets.add(offset)
    assert [n for n in range(12) if n in offsets] == [1, 2, 5, 6, 7, 9]
    assert (5, 8) in offsets.ranges
