"""An empty target on its way to the offset that its source begins at."""

from __future__ import annotations

import pytest

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.align import ALIGN_DELETE_EVERY, StartAlignment, is_short
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import LogRange

P = TopicPartition(TopicName("t"), PartitionId(0))


def spec(start: int) -> PartitionSpec:
    return PartitionSpec(P, P, None, None, Offset(start), 1 << 20, is_compacted=False)


def test_filler_records_are_deleted_when_all_are_acknowledged() -> None:
    """Given the last one in flight / then nothing is deleted: it could land after our records."""
    align = StartAlignment(spec(100), 7, 0, 0)
    assert align.delete_before(99, is_idle=True) is None
    assert align.delete_before(100, is_idle=False) is None
    assert align.delete_before(100, is_idle=True) == 100


def test_a_long_alignment_deletes_filler_records_in_between() -> None:
    align = StartAlignment(spec(10**9), 7, 0, 0)
    assert align.delete_before(ALIGN_DELETE_EVERY - 1, is_idle=False) is None
    assert align.delete_before(ALIGN_DELETE_EVERY, is_idle=False) == ALIGN_DELETE_EVERY


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 0, True),
        (0, 99, True),
        (0, 100, True),
        (0, 120, True),
        (99, 100, True),
        (100, 100, False),
        (100, 120, False),
        (110, 120, False),
    ],
)
def test_a_target_is_unaligned_until_it_has_the_offsets_without_padding(
    start: int, end: int, *, expected: bool
) -> None:
    """Given a source that begins at 100 / when the target is read / then aligned, or not."""
    assert is_short(spec(100), LogRange(Offset(start), Offset(end))) is expected
