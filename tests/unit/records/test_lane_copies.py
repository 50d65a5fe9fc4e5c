"""What a lane learns of its partitions from the source's ends."""

from __future__ import annotations

import pytest

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.lane_copies import begin, source_stands
from heliostat.records.network import LogRange, Tail
from heliostat.records.offset_map import OffsetMap
from heliostat.records.partition_copy import PartitionCopy
from heliostat.records.partition_report import at_end_of_round

P = TopicPartition(TopicName("t"), PartitionId(0))
OFFSET_OUT_OF_RANGE = 1


@pytest.mark.parametrize(
    ("start", "end", "state", "code"),
    [
        (0, 100, PartitionState.COPYING, ""),
        (100, 100, PartitionState.COPYING, ""),
        (100, 200, PartitionState.COPYING, ""),
        (101, 200, PartitionState.GAP, "SOURCE_OVERTOOK"),
        (0, 99, PartitionState.GAP, "SOURCE_TRUNCATED"),
    ],
)
def test_a_refused_offset_is_a_gap_only_outside_of_the_log(
    start: int, end: int, state: PartitionState, code: str
) -> None:
    """Given a fetch from 100 out of range / when the source's range is asked / then by that."""
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, needs_keys=False)
    copy = PartitionCopy(0, spec, CopySettings(), 7, 0)
    copy.begin_at(LogRange(Offset(0), Offset(100)), Tail(7, 99), OffsetMap(), 0)
    copy.fetch_failed(OFFSET_OUT_OF_RANGE, "", 0.0, 0)
    assert copy.want(0.0) is None
    source_stands(copy, LogRange(Offset(start), Offset(end)), 0)
    assert (copy.state, copy.code) == (state, code)
    assert (copy.want(0.0) is None) == state.is_stopped


def test_what_the_target_has_lost_is_noted_wherever_it_was_copied_again() -> None:
    """Given 100 acknowledged / when the target ends before, twice / then from the lowest place."""
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, needs_keys=False)
    copy = PartitionCopy(0, spec, CopySettings(), 7, 0)

    def begins(end: int) -> None:
        begin(copy, LogRange(Offset(0), Offset(end)), Tail(7, end - 1), OffsetMap(), 0)

    copy.copied_to, copy.copied_end = 100, 100
    begins(100)
    assert at_end_of_round([copy], "deadline")[1] == []
    for end, lost in ((70, (70, 100)), (70, (70, 100)), (50, (50, 100)), (60, (50, 100))):
        begins(end)
        assert at_end_of_round([copy], "deadline")[1] == [(0, *lost)]
        assert at_end_of_round([copy], "")[1] == []


def test_what_stands_stopped_is_not_copied_again() -> None:
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, needs_keys=False)
    copy = PartitionCopy(0, spec, CopySettings(), 7, 0)
    copy.copied_to, copy.copied_end = 100, 100
    begin(copy, LogRange(Offset(0), Offset(70)), Tail(-1, -1), OffsetMap(), 0)
    assert (copy.code, copy.lost) == ("FOREIGN_TAIL", None)
