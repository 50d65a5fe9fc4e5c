"""When rows of the offset map are written, and whose answers count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import CopySettings, PartitionSpec
from heliostat.records.copier.map_writer import MapWriter
from heliostat.records.copier.network import LogRange, MapLost, MapWrite, MapWritten
from heliostat.records.copier.partition_copy import PartitionCopy

P = TopicPartition(TopicName("t"), PartitionId(0))


class Line:
    """A network that takes rows and answers nothing by itself."""

    def __init__(self) -> None:
        self.sent: list[MapWrite] = []
        self.room = 9

    def can_write_map(self) -> bool:
        return True

    def write_map(self, writes: Sequence[MapWrite]) -> Sequence[MapWrite]:
        self.sent += writes[: self.room]
        return writes[: self.room]


class Behind:
    """A partition with a batch that waits for its break."""

    def __init__(self, *, is_held: bool = False) -> None:
        spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
        self.item = PartitionCopy(0, spec, CopySettings(), 7, 0, holds_old=is_held)
        self.line = Line()
        network: Any = self.line
        self.writer = MapWriter([self.item], network)
        self.begin()

    def begin(self) -> None:
        self.item.begin_at(LogRange(Offset(0), Offset(0)), None, OffsetMap(), 0)
        self.item.fetches._queue(
            ConvertedBatch(0, 1, (), 9, 0, source_ahead=4, breaks=(Break(0, 4),))
        )
        self.writer.note(self.item)

    def write(self, *, may: bool = True) -> int:
        self.writer.write(lambda: may)
        return len(self.line.sent)


def test_nothing_is_written_while_earlier_rounds_may_send() -> None:
    """Given a round that takes over / when the others have ended / then it reads again (I10)."""
    one = Behind(is_held=True)
    assert one.write() == 0
    one.item.appends.holds_old = False
    one.writer.release([one.item], 0)
    assert one.item.must_find_end
    one.begin()
    assert one.write() == 1


def test_nothing_is_written_without_a_lease() -> None:
    one = Behind()
    assert one.write(may=False) == 0
    assert one.write() == 1


def test_an_answer_counts_for_its_own_attempt_only() -> None:
    """Given a row in flight / when all is read again / then its answer makes nothing durable.

    The source may have been compacted meanwhile: the row may not be what is needed now.
    """
    one = Behind()
    one.write()
    one.item.map_lost("cut", 0.0, 0)
    one.begin()
    assert one.writer.take(MapWritten(one.line.sent), 0.0, 0) == []
    assert one.item.next_send(0.0, 0) is None
    one.write()
    assert one.writer.take(MapWritten(one.line.sent[1:]), 0.0, 0) == [one.item]
    assert one.item.next_send(0.0, 0) is not None


def test_a_mirrors_end_is_not_read_while_its_row_is_in_flight() -> None:
    """Given a row without an answer / when reading again / then that becomes durable first (I4).

    Otherwise it might land after that read, and replace breaks of others that it does not know.
    """
    one = Behind()
    one.write()
    one.item.look_again(0)
    assert not one.item.must_find_end
    one.writer.take(MapWritten(one.line.sent), 0.0, 0)
    assert one.item.must_find_end


def test_rows_are_in_flight_until_answered_or_given_up() -> None:
    one = Behind()
    for event in (MapLost, MapWritten):
        assert not one.writer.is_under_way
        one.write()
        assert one.writer.is_under_way
        one.writer.take(event(one.line.sent[-1:], *(["cut"] if event is MapLost else [])), 0.0, 0)
    assert not one.writer.is_under_way


def test_a_row_of_unknown_fate_is_written_again_unchanged() -> None:
    one = Behind()
    one.write()
    for times in (2, 3):
        one.writer.take(MapLost(one.line.sent[-1:], "cut"), 0.0, 0)
        assert not one.item.must_find_end
        assert one.write() == times
        assert one.line.sent[-1] == one.line.sent[0]
    one.writer.take(MapWritten(one.line.sent[-1:]), 0.0, 0)
    assert one.item.must_find_end
    assert one.write() == 3


def test_after_a_lost_row_no_longer_row_has_its_stamp() -> None:
    """Given a lost row and a further break / when written again / then with a later stamp.

    The lost one may still land, and replace the row with its stamp. An append is in flight, so that
    the partition can't read again at once.
    """
    one = Behind()
    one.item.appends.in_flight = 1
    one.write()
    one.item.fetches._queue(ConvertedBatch(1, 1, (), 9, 0, source_ahead=6, breaks=(Break(1, 7),)))
    one.writer.note(one.item)
    one.writer.take(MapLost(one.line.sent, "cut"), 0.0, 0)
    assert one.write() == 2
    one.writer.take(MapWritten(one.line.sent[-1:]), 0.0, 0)
    assert one.write() == 2
    one.item.appends.in_flight = 0
    one.begin()
    assert one.write() == 3
    first, again, later = (each.row for each in one.line.sent)
    assert first == again
    assert later.key.stamp > again.key.stamp


def test_rows_that_do_not_fit_beside_a_lost_one_wait() -> None:
    """Given a lost row, and room for one / then that one goes first, and the other is not lost."""
    one = Behind()
    other = Behind().item
    other.index = 1
    one.writer._partitions = [one.item, other]
    one.write()
    one.writer.take(MapLost(one.line.sent, "cut"), 0.0, 0)
    one.writer.note(other)
    one.line.room = 1
    one.write()
    assert [each.index for each in one.line.sent] == [0, 0]
    one.writer.take(MapWritten(one.line.sent[-1:]), 0.0, 0)
    one.write()
    assert [each.index for each in one.line.sent] == [0, 0, 1]
