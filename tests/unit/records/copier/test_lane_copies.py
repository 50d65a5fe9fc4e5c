"""What a lane learns of its partitions from the source's ends."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support.one_partition import lane_spec

from heliostat.access import access_of
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.records.batches.converted import ConvertedBatch
from heliostat.records.copier.lane import CopySettings, PartitionSpec, PartitionState
from heliostat.records.copier.lane_copies import (
    any_old,
    ask_high_watermarks,
    copies_of,
    went_wrong,
)
from heliostat.records.copier.network import AppendLost, LastBatch, LogRange, Send
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_report import lost_since

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
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
    copy = PartitionCopy(0, spec, CopySettings(), 7, 0)
    copy.begin_at(LogRange(Offset(0), Offset(100)), LastBatch(7, 99), OffsetMap(), 0)
    copy.fetch_failed(OFFSET_OUT_OF_RANGE, "", 0.0, 0)
    assert copy.want(0.0) is None
    copy.source_stands(LogRange(Offset(start), Offset(end)), 0)
    assert (copy.standing.state, copy.standing.code) == (state, code)
    assert (copy.want(0.0) is None) == state.is_stopped


@pytest.mark.parametrize("is_refused", [False, True])
def test_the_sources_end_shows_nothing_before_a_fetch_was_answered(is_refused: bool) -> None:
    """Given a stop of an earlier round / when the end is asked for first / then it stays a stop."""
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
    copy = PartitionCopy(0, spec, CopySettings(), 7, 0)
    copy.begin_at(LogRange(Offset(0), Offset(100)), LastBatch(7, 99), OffsetMap(), 0)
    network: Any = SimpleNamespace(
        source_ranges=lambda _, **__: {0: LogRange(Offset(101), Offset(200))},
        source_times=lambda _: {},
    )
    if is_refused:
        copy.fetch_failed(OFFSET_OUT_OF_RANGE, "", 0.0, 0)
    ask_high_watermarks(network, [copy], 0.0, 0)
    assert copy.progress.high_watermark == (200 if is_refused else -1)
    assert copy.standing.state is (PartitionState.GAP if is_refused else PartitionState.COPYING)


@pytest.mark.parametrize("waits_for", [(), ("0/1/0",)])
def test_each_round_doubts_what_is_not_noted_and_has_not_begun(waits_for: tuple[str, ...]) -> None:
    """Given rounds submitted before the first one's report / then they compare as well."""
    partitions = [TopicPartition(P.topic, PartitionId(number)) for number in range(3)]
    specs = (
        PartitionSpec(each, each, None, None, Offset(0), 1 << 20, is_compacted=False)
        for each in partitions
    )
    lane = replace(lane_spec(access_of("s:1"), access_of("t:1"), *specs), waits_for=waits_for)
    copies = copies_of(replace(lane, copied=((0, 40, 3, 40), (1, -1, -1, -1))), 0.0, 0)
    assert [each.doubts.is_unnoted for each in copies] == [False, False, True]
    assert [each.fetches.epochs.named for each in copies] == [3, -1, -1]
    assert (copies[1].progress.copied_to, copies[1].progress.copied_end) == (
        copies[2].progress.copied_to,
        copies[2].progress.copied_end,
    )


def test_a_loss_at_the_target_is_noted_wherever_it_was_copied_again() -> None:
    """Given 100 acknowledged / when the target ends before, twice / then from the lowest offset."""
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
    copy = PartitionCopy(0, spec, CopySettings(), 7, 0)

    def begins(end: int) -> None:
        copy.begin(
            LogRange(Offset(0), Offset(end)), LastBatch(7, end - 1), OffsetMap(), 0, now_s=0.0
        )

    copy.progress.copied_to, copy.progress.copied_end = 100, 100
    begins(100)
    assert lost_since([copy]) == []
    for end, lost in ((70, (70, 100)), (50, (50, 70)), (60, None), (40, (40, 60))):
        begins(end)
        copy.progress.copied_to = copy.progress.copied_end = max(end, 60)  # it is copied again
        assert lost_since([copy]) == ([] if lost is None else [(P, *lost)])
        assert lost_since([copy]) == []


@pytest.mark.parametrize(("fills", "before_s"), [(range(3), 8.0), (range(0), 7.5)])
def test_markers_whose_answer_was_lost_are_waited_for(fills: range, before_s: float) -> None:
    """Given a lost connection / then the end is read once what was in flight has landed."""
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
    copy = PartitionCopy(0, spec, CopySettings(), 7, 0)
    copy.begin_at(LogRange(Offset(0), Offset(0)), None, OffsetMap(), 0)
    batch = ConvertedBatch(0, 1, (), 9, 0, fills=fills)
    copy.appends.in_flight = 1
    went_wrong([copy], AppendLost([Send(0, 0, batch)], "cut"), 7.0, 0)
    assert copy.must_find_end
    assert (copy.standing.not_before_s >= 8.0) is bool(fills)
    assert 7.0 < copy.standing.not_before_s <= before_s


def test_a_stopped_partition_is_not_copied() -> None:
    spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
    copy = PartitionCopy(0, spec, CopySettings(), 7, 0)
    copy.progress.copied_to, copy.progress.copied_end = 100, 100
    copy.begin(LogRange(Offset(0), Offset(70)), LastBatch(-1, -1), OffsetMap(), 0, now_s=0.0)
    assert (copy.standing.code, copy.progress.lost) == ("FOREIGN_TAIL", None)


def test_one_old_batch_makes_its_connection_wait_for_what_is_in_flight() -> None:
    """Given partitions of one connection / when the next batch of any is old / then it must be the

    first on its connection: a request after others lands that much later (I4).
    """
    now_ms, day_ms = 1_800_000_000_000, 86_400_000
    items = {}
    for index, age_ms in enumerate((0, day_ms, 0)):
        spec = PartitionSpec(P, P, None, None, Offset(0), 1 << 20, is_compacted=False)
        items[index] = PartitionCopy(index, spec, CopySettings(), 7, now_ms)
        items[index].appends.put(ConvertedBatch(0, 1, (), 5, now_ms - age_ms))
        items[index].appends.put(ConvertedBatch(1, 1, (), 5, now_ms - day_ms))
    assert any_old(items, now_ms)
    assert not any_old({0: items[0], 2: items[2]}, now_ms), "only the next ones count"
    assert not any_old({}, now_ms)
