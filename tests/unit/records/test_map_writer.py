"""When rows of the offset map are written, and whose answers count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.carried import CarriedBatch
from heliostat.records.lane import CopySettings, PartitionSpec
from heliostat.records.map_writer import MapWriter
from heliostat.records.network import LogRange, MapWrite, MapWritten
from heliostat.records.offset_map import Break, OffsetMap
from heliostat.records.partition_copy import PartitionCopy

P = TopicPartition(TopicName("t"), PartitionId(0))


class Line:
    """A network that takes rows and answers nothing by itself."""

    def __init__(self) -> None:
        self.sent: list[MapWrite] = []

    def can_write_map(self) -> bool:
        return True

    def write_map(self, writes: Sequence[MapWrite]) -> Sequence[MapWrite]:
        self.sent += writes
        return writes


class Behind:
    """A partition with a batch that waits for its break."""

    def __init__(self, *, is_held: bool = False) -> None:
        spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, needs_keys=False)
        self.item = PartitionCopy(0, spec, CopySettings(), 7, 0)
        self.line = Line()
        network: Any = self.line
        self.writer = MapWriter([self.item], network, is_held=is_held)
        self.begin()

    def begin(self) -> None:
        self.item.begin_at(LogRange(Offset(0), Offset(0)), None, OffsetMap(), 0)
        self.item._queue(CarriedBatch(0, 1, (), 9, 0, source_ahead=4, breaks=(Break(0, 4),)))
        self.writer.note(self.item)

    def write(self, *, may: bool = True) -> int:
        self.writer.write(lambda: may)
        return len(self.line.sent)


def test_nothing_is_written_while_rounds_before_may_send() -> None:
    """Given a round that takes over / when the others have ended / then it looks anew (I10)."""
    one = Behind(is_held=True)
    assert one.write() == 0
    one.writer.release(0)
    assert one.item.must_find_end
    one.begin()
    assert one.write() == 1


def test_nothing_is_written_behind_the_deadline() -> None:
    one = Behind()
    assert one.write(may=False) == 0
    assert one.write() == 1


def test_an_answer_counts_for_its_own_attempt_only() -> None:
    """Given a row under way / when all is looked at anew / then its answer makes nothing durable.

    The source may have been compacted meanwhile: the row may not say what is needed now.
    """
    one = Behind()
    one.write()
    one.item.map_lost("cut", 0.0, 0)
    one.begin()
    assert one.writer.take(MapWritten(one.line.sent), 0.0, 0) == []
    assert one.item.next_send(0) is None
    one.write()
    assert one.writer.take(MapWritten(one.line.sent[1:]), 0.0, 0) == [one.item]
    assert one.item.next_send(0) is not None
