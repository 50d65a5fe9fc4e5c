"""A partition that is tried again after a stop has forgotten why it stopped."""

from __future__ import annotations

import pytest
from unit.records.copier.test_partition_copy import (
    NOW_MS,
    OUT_OF_ORDER,
    OneMirror,
)

from heliostat.names import Offset
from heliostat.records.batches.converted import RefusedRecord, Stop, StopReason
from heliostat.records.copier.lane import PartitionState
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_leave import try_again
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.refused_appends import REFUSALS_MAX

STOPPED = (PartitionState.BLOCKED, "RECORD_REFUSED", "no")


def tried_again(item: PartitionCopy) -> None:
    """Stop it, and look again once what stopped it was mended."""
    item.stop(*STOPPED, NOW_MS)
    try_again(item, NOW_MS + 1)
    assert (item.phase, item.standing.code, item.standing.reason) == (Phase.FIND_END, "", "")
    assert item.standing.state is PartitionState.STARTING


def test_a_record_that_was_refused_may_be_taken_now() -> None:
    one = OneMirror()
    one.copy.fetches.refusal = RefusedRecord(12, "the target refuses it")
    tried_again(one.copy)
    one.begin(10)
    one.fetch(0.0, 0.0, 0.0, 0.0)
    assert (one.copy.fetches.stop, len(one.copy.appends.queue)) == (None, 4)


def test_a_log_end_at_which_appends_were_refused_may_be_ours_again() -> None:
    """Given appends that were refused for their sequence / then that end is no foreign one."""
    one = OneMirror()
    one.fetch(0.0)
    batch = one.copy.appends.queue[0]
    for _ in range(REFUSALS_MAX):
        one.copy.refusals.verdict(batch, OUT_OF_ORDER, "", -1)
    assert one.copy.refusals.is_foreign_end(Offset(10))
    tried_again(one.copy)
    one.begin(10)
    assert one.copy.phase is Phase.COPY


def test_an_offset_that_was_out_of_range_is_asked_for_anew() -> None:
    one = OneMirror()
    one.copy.fetches.out_of_range()
    assert one.copy.fetches.needs_source_range
    tried_again(one.copy)
    assert not one.copy.fetches.needs_source_range
    one.begin(10)
    assert one.copy.want(0.0) is not None


def test_a_batch_that_was_found_corrupt_is_fetched_again() -> None:
    """Given a damaged batch that was fetched as often as may be / then it is tried anew."""
    one, damaged = OneMirror(), Stop(StopReason.CORRUPT, 12, "its checksum is wrong")
    while one.copy.refusals.may_pass(damaged):
        pass
    tried_again(one.copy)
    assert one.copy.refusals.may_pass(damaged)


@pytest.mark.parametrize("state", [PartitionState.GAP, PartitionState.DIVERGED])
def test_what_is_tried_again_knows_no_end_of_either_side(state: PartitionState) -> None:
    one = OneMirror()
    one.copy.progress.high_watermark = 50
    one.copy.stop(state, "X", "", NOW_MS)
    try_again(one.copy, NOW_MS)
    found = one.copy.progress
    assert (found.position, found.high_watermark, found.target_end) == (-1, -1, -1)
