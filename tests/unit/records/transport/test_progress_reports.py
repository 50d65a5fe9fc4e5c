"""Thinned reports: what is written, how much, and that a late reader has everything in time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from heliostat.merge.own_end import OwnNote
from heliostat.names import LaneId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.ops.process_use import ProcessUse
from heliostat.ops.request_times import SIDE_NUMBERS
from heliostat.records.copier.lane import LineUse, PartitionReport, PartitionState, RoundReport
from heliostat.records.transport.progress_reports import (
    MOVED_EVERY_S,
    REASON_CHARACTERS_MAX,
    REFRESH_S,
    ROWS_PER_RECORD,
    ROWS_PER_STEP,
    Thinning,
    decode_progress,
    encode_progress,
)

NOW_MS = 1_700_000_000_000
LANE_PARTITIONS = 5_000
MESSAGE_BYTES_MAX = 1_048_588
"""Kafka's default limit of a batch."""


def row(number: int, *, position: int = 5, reason: str = "") -> PartitionReport:
    source = TopicPartition(TopicName(f"lsst.sal.topic-{number // 26:05d}"), PartitionId(number))
    return PartitionReport(
        source=source,
        target=source,
        state=PartitionState.RETRYING if reason else PartitionState.COPYING,
        position=position,
        high_watermark=position,
        records=position,
        bytes=position * 700,
        last_timestamp_ms=NOW_MS - 10,
        caught_up_ms=NOW_MS,
        since_ms=NOW_MS - 60_000,
        code="LOST" if reason else "",
        reason=reason,
        target_end=position,
    )


def rows(count: int = LANE_PARTITIONS) -> list[PartitionReport]:
    return [row(number) for number in range(count)]


def encoded(chosen: list[PartitionReport], **more: bool) -> list[bytes]:
    report = RoundReport(LaneId(3), 7, 2, 10, 7_000, "", [], [0, 4])
    report.lane_partitions, report.number, report.plan = len(chosen), 9, 8
    report.lost = [(row(4).source, 5, 7)]
    return list(encode_progress(report, chosen, NOW_MS, **{"is_whole": True, **more}))


def test_what_a_process_has_used_and_latencies_of_topics_are_read_back() -> None:
    """Both stand in the first record of a report alone: they are counted once."""
    report = RoundReport(LaneId(3), 7, 2, 10, 7_000, "", [])
    report.process = ProcessUse(1.25, 1 << 30, 9, 10, 11)
    report.topic_latency = [(TopicName("t"), ((0, 3), (9, 1))), (TopicName("u"), ())]
    report.requests = list(range(2 * SIDE_NUMBERS))
    first, *others = [
        decode_progress(json.loads(each)).report
        for each in encode_progress(report, rows(ROWS_PER_RECORD + 1), NOW_MS, is_whole=True)
    ]
    assert first.process == report.process
    assert first.topic_latency == report.topic_latency
    assert first.requests == report.requests
    rest = [(each.process, each.topic_latency, each.requests) for each in others]
    assert rest == [(None, [], [])]


@pytest.mark.parametrize(
    "odd",
    [
        {"process": ["x", 1, 2, 3, 4]},
        {"process": [1.0, 2]},
        {"topics_latency": [["t", [999, 1]]]},
        {"requests": ["x"]},
    ],
)
def test_odd_figures_of_others_make_no_report(odd: dict[str, object]) -> None:
    report = RoundReport(LaneId(3), 7, 2, 10, 7_000, "", [])
    (record,) = encode_progress(report, [], NOW_MS, is_whole=True)
    with pytest.raises((LookupError, TypeError, ValueError)):
        decode_progress({**json.loads(record), **odd})


def nothing() -> None:
    """A pause that takes no time."""


@pytest.mark.thorough
def test_the_first_report_is_whole_and_an_idle_lane_writes_a_thirtieth_a_second() -> None:
    """Given 5,000 idle partitions / over 35 s / then 1/30 a second, and each within 30 s."""
    thinning, idle = Thinning(), rows()
    assert len(thinning.choose(idle, 0.0, whole=True, pause=nothing)) == LANE_PARTITIONS
    seen: dict[TopicPartition, int] = {}
    for second in range(1, 62):
        level = [replace(item, caught_up_ms=NOW_MS + second) for item in idle]
        chosen = thinning.choose(level, float(second), whole=False, pause=nothing)
        assert len(chosen) <= LANE_PARTITIONS / REFRESH_S + 2
        for item in chosen:
            assert second - seen.get(item.source, 0) <= REFRESH_S + 1
            seen[item.source] = second
    assert len(seen) == LANE_PARTITIONS


def test_a_change_is_written_at_once_and_once() -> None:
    """Given one partition that moved / when chosen twice / then written the first time only."""
    thinning = Thinning(refresh_s=1e9)
    thinning.choose(rows(100), 0.0, whole=True, pause=nothing)
    thinning.choose([], 1.0, whole=False, pause=nothing)
    moved = row(70, position=6)
    assert moved in thinning.choose([moved], 2.0, whole=False, pause=nothing)
    assert moved not in thinning.choose([moved], 3.0, whole=False, pause=nothing)


def test_of_many_that_move_each_is_written_every_five_seconds_but_problems_at_once() -> None:
    """Given 1,000 that move each second / then some 200 are written, none later than after 5 s."""
    thinning = Thinning(refresh_s=1e9)
    still = rows(1_000)
    thinning.choose(still, 0.0, whole=True, pause=nothing)
    written = dict.fromkeys((item.source for item in still), 0)
    for second in range(1, 31):
        moved = [replace(item, position=100 + second) for item in still]
        moved[7] = replace(moved[7], reason=f"trouble {second}")
        chosen = thinning.choose(moved, float(second), whole=False, pause=nothing)
        assert moved[7] in chosen
        assert 0 < len(chosen) <= 310
        for item in chosen:
            assert second - written[item.source] <= MOVED_EVERY_S
            written[item.source] = second
            assert item.position == 100 + second
    assert min(written.values()) >= 30 - MOVED_EVERY_S


def test_the_last_report_holds_all_that_moved() -> None:
    """Given 1,000 that moved, most not written yet / when the round ends / then all are."""
    thinning = Thinning(refresh_s=1e9)
    thinning.choose(rows(1_000), 0.0, whole=True, pause=nothing)
    moved = [replace(item, position=101) for item in rows(1_000)]
    some = thinning.choose(moved, 1.0, whole=False, pause=nothing)
    rest = thinning.choose([], 1.1, whole=False, pause=nothing, is_last=True)
    assert len(some) <= 310
    assert {item.source for item in (*some, *rest)} == {item.source for item in moved}
    assert all(item.position == 101 for item in rest)


def test_a_whole_report_forgets_what_the_lane_has_given_up() -> None:
    """Given 100 rows / when a whole report has 60 / then the others are not written any more."""
    thinning = Thinning()
    thinning.choose(rows(100), 0.0, whole=True, pause=nothing)
    thinning.choose(
        [replace(each, position=6) for each in rows(100)], 0.1, whole=False, pause=nothing
    )
    left = [row(number, position=7) for number in range(40, 100)]
    assert thinning.choose(left, 1.0, whole=True, pause=nothing) == left
    assert len(thinning.choose([], 40.0, whole=False, pause=nothing, is_last=True)) == 60


def test_records_read_back_and_a_topic_is_named_once() -> None:
    """Given thousands of rows / when encoded / then they read back, small, each record alone."""
    records = encoded(sorted(rows(), key=lambda item: item.source))
    assert len(records) == -(-LANE_PARTITIONS // ROWS_PER_RECORD)
    read = [decode_progress(json.loads(record)) for record in records]
    assert [item for part in read for item in part.report.partitions] == rows()
    assert [part.is_whole for part in read] == [False] * (len(read) - 1) + [True]
    assert (read[0].report.lane, read[0].report.generation, read[0].at_ms) == (3, 7, NOW_MS)
    assert {(part.report.number, part.report.plan) for part in read} == {(9, 8)}
    assert {part.report.lane_partitions for part in read} == {LANE_PARTITIONS}
    lost = [each for part in read for each in part.report.lost]
    assert lost == [(row(4).source, 5, 7)]  # once
    assert sum(map(len, records)) < 130 * LANE_PARTITIONS
    topics = json.loads(records[0])["topics"]
    assert len(topics) < ROWS_PER_RECORD / 26 + ROWS_PER_RECORD / ROWS_PER_STEP + 2


@pytest.mark.parametrize("target_end", [-1, 4, 5, 6])
def test_the_targets_end_reads_back(target_end: int) -> None:
    """Given holes, or an end that is not known / when encoded / then it reads back, and alone."""
    told = replace(row(1, position=5), target_end=target_end)
    [record] = encoded([told])
    assert decode_progress(json.loads(record)).report.partitions == [told]


def test_a_record_of_reasons_stays_below_the_brokers_limit() -> None:
    """Given partitions that all have long reasons / when encoded / then no record is too large."""
    broken = [row(number, reason="x" * 5_000) for number in range(LANE_PARTITIONS)]
    records = encoded(broken)
    assert max(map(len, records)) < MESSAGE_BYTES_MAX
    first = decode_progress(json.loads(records[0])).report.partitions[0]
    assert first.reason == "x" * REASON_CHARACTERS_MAX


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_report_without_rows_still_has_the_rounds_figures(is_whole: bool) -> None:
    """Given no rows / when encoded / then there is one record with the round's figures."""
    [record] = encoded([], is_whole=is_whole)
    progress = decode_progress(json.loads(record))
    assert (progress.report.records, progress.report.partitions) == (10, [])
    assert progress.is_whole is is_whole


def test_steps_are_small() -> None:
    """Given 5,000 rows / when chosen and encoded / then there is a pause every 64 rows."""
    pauses: list[int] = []
    chosen = Thinning().choose(rows(), 0.0, whole=True, pause=lambda: pauses.append(0))
    assert len(pauses) >= LANE_PARTITIONS / ROWS_PER_STEP
    pauses.clear()
    report = RoundReport(LaneId(3), 7, 2, 10, 7_000, "", [], [])
    for _ in encode_progress(
        report,
        chosen,
        NOW_MS,
        is_whole=True,
        pause=lambda: pauses.append(0),
    ):
        pass
    assert len(pauses) >= LANE_PARTITIONS / ROWS_PER_STEP


def test_partitions_with_another_number_at_the_target_are_written_with_both() -> None:
    """Given a fan-in / when a report is written / then it is read back with the target's number."""
    shared = [
        replace(row(n), target=TopicPartition(TopicName("t"), PartitionId(2 * n + 1)))
        for n in (0, 1)
    ]
    (record,) = encoded(shared)
    assert decode_progress(json.loads(record)).report.partitions == shared


def test_the_lines_to_both_sides_are_in_every_record_and_reports_without_them_are_read() -> None:
    assert decode_progress(json.loads(encoded(rows(1))[0])).report.source_line is None
    report = RoundReport(LaneId(3), 7, 2, 10, 7_000, "", [])
    report.target_line = LineUse(150, 4_000_000)
    chosen = rows(ROWS_PER_RECORD + 1)
    for record in encode_progress(report, chosen, NOW_MS, is_whole=False):
        decoded = decode_progress(json.loads(record)).report
        assert (decoded.source_line, decoded.target_line) == (None, report.target_line)


@pytest.mark.parametrize("is_end_old", [False, True])
def test_what_a_link_has_appended_to_a_merged_partition_reads_back(is_end_old: bool) -> None:
    told = replace(row(1), own=OwnNote(3, Offset(17), 2), is_end_old=is_end_old)
    [record] = encoded([told])
    assert decode_progress(json.loads(record)).report.partitions == [told]
