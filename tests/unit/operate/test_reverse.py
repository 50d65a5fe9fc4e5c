"""What stands in the way of copying back: lost records, others in their place, and a tail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from heliostat.clusters.plain_records import LogBounds, PlainReader, PlainRecord
from heliostat.handover.promotion import PartitionPromotion
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate.reversing.logs import COMPARED, LogEndsCompared

OLD = TopicPartition(TopicName("t"), PartitionId(0))
NEW = TopicPartition(TopicName("src.t"), PartitionId(0))


class Log:
    """A log as a consumer sees it: values by offset, holes left out."""

    def __init__(self, values: Mapping[int, str], start: int = 0) -> None:
        self.values = values
        self.start = start

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        end = max(self.values, default=-1) + 1
        return {each: LogBounds(Offset(self.start), Offset(end)) for each in partitions}

    def read(self, _: TopicPartition, start: int, end: int) -> Iterator[PlainRecord]:
        for offset, value in sorted(self.values.items()):
            if start <= offset < end:
                yield PlainRecord(offset, 7, b"k", value.encode(), ())


def compared(old: Log, new: Log) -> LogEndsCompared:
    return LogEndsCompared(cast("PlainReader", old), cast("PlainReader", new))


def values(text: str, start: int = 0) -> dict[int, str]:
    return dict(enumerate(text, start))


def promotion(source_end: int, target_end: int) -> PartitionPromotion:
    return PartitionPromotion(Offset(source_end), Offset(target_end))


@pytest.mark.parametrize(
    ("old", "new", "given", "old_end", "words"),
    [
        (Log(values("abc")), Log(values("abcxy")), promotion(3, 3), 3, ""),
        (Log(values("abcd")), Log(values("abc")), promotion(3, 3), 4, ""),
        (Log({0: "a", 2: "b", 4: "c"}), Log(values("abc")), promotion(5, 3), 6, ""),
        (Log({1: "b", 2: "c"}, 1), Log(values("abc")), promotion(3, 3), 3, ""),
        (Log({}, 3), Log(values("abc")), promotion(3, 3), 3, ""),
        (Log(values("ab")), Log(values("abc")), promotion(3, 3), 2, "has lost records"),
        (Log(values("abX")), Log(values("abc")), promotion(3, 3), 3, "are others than in src.t-0"),
        (Log(values("aXc")), Log(values("abc")), promotion(3, 3), 3, "are others than in src.t-0"),
    ],
)
def test_logs_must_be_equal_below_the_promotion(
    old: Log, new: Log, given: PartitionPromotion, old_end: int, words: str
) -> None:
    """Given both logs / when their ends are compared / then what differs is told, holes are not."""
    why = compared(old, new).difference(OLD, NEW, given, Offset(old_end))
    assert words in why
    assert bool(why) == bool(words)


def test_no_more_than_the_last_records_are_read() -> None:
    """Given long logs / when a record far below the end differs / then `verify` finds it."""
    many: dict[int, Any] = values("a" * (COMPARED + 1))
    other = {**many, 0: "b"}
    ends = promotion(COMPARED + 1, COMPARED + 1)
    assert not compared(Log(many), Log(other)).difference(OLD, NEW, ends, Offset(COMPARED + 1))
    other = {**many, 1: "b"}
    assert compared(Log(many), Log(other)).difference(OLD, NEW, ends, Offset(COMPARED + 1))


@pytest.mark.parametrize(
    ("old", "old_end", "tail"),
    [
        (Log(values("abc")), 3, 0),
        (Log(values("abc")), 5, 0),  # markers, and records of aborted transactions
        (Log({**values("abc"), 4: "d"}), 6, 2),
    ],
)
def test_a_tail_is_what_a_reader_of_committed_records_sees(
    old: Log, old_end: int, tail: int
) -> None:
    """Given offsets behind the promotion / when none can be read / then they are no tail."""
    assert compared(old, Log({})).tail(OLD, 3, old_end) == tail
