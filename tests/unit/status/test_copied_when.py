"""When a record was copied, by reports of an hour: what is told is always true, and narrow."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from unit.status.test_truth import LEVEL

from heliostat.clusters.recent_records import Recent
from heliostat.names import LaneId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import RoundReport
from heliostat.records.transport.progress_reports import Thinning, encode_progress
from heliostat.status.copied_when import Sighting, copied_between, search

T0_S = 1_700_000_000
P = TopicPartition(TopicName("t0"), PartitionId(0))


class Progress:
    """A progress topic that a lane has filled."""

    def __init__(self, records: list[Recent]) -> None:
        self._records = records
        self._at = 0
        self.read = 0

    def newest(self) -> tuple[int, Offset] | None:
        if not self._records:
            return None
        return self._records[-1].timestamp_ms, Offset(len(self._records))

    def seek(self, from_ms: int) -> None:
        self._at = bisect_left(self._records, from_ms, key=lambda record: record.timestamp_ms)

    def poll(self, timeout_s: float) -> list[Recent]:
        assert timeout_s
        found = self._records[self._at : self._at + 5]
        self._at += len(found)
        self.read += len(found)
        return found


def lane_of(topics: int, seconds: int, busy: int, rng: random.Random) -> tuple[Progress, list[int]]:
    """What a lane reports, each second, and the second at which each offset of `t0` was copied.

    Of its partitions `busy` move in each second; `t0` in some.
    """
    names = [TopicPartition(TopicName(f"t{n}"), PartitionId(0)) for n in range(topics)]
    thinning, copied_at, records = Thinning(), list[int](), list[Recent]()
    positions = dict.fromkeys(names, 0)
    for second in range(seconds):
        for name in rng.sample(names[1:], busy):
            positions[name] += 7
        if rng.random() < 0.1:
            count = rng.randrange(1, 4)
            positions[P] += count
            copied_at += [T0_S + second] * count
        rows = [
            replace(LEVEL, source=name, target=name, position=at, high_watermark=at)
            for name, at in positions.items()
        ]
        chosen = thinning.choose(rows, float(second), whole=second == 0, pause=lambda: None)
        report = RoundReport(LaneId(0), 1, 0, 0, 0, "", [], lane_partitions=topics, plan=1)
        at_ms = (T0_S + second) * 1000
        for body in encode_progress(report, chosen, at_ms, is_whole=second == 0):
            records.append(Recent("lane/0", json.loads(body), at_ms, len(records)))
        driver: dict[str, Any] = {"state": "running", "at_ms": at_ms}
        records.append(Recent("driver", driver, at_ms, len(records)))
    return Progress(records), copied_at


@pytest.mark.parametrize(
    ("topics", "busy", "seconds", "width_s"),
    [(3, 1, 3_000, 2.0), (3, 1, 20, 2.0), (130, 120, 400, 6.5)],
)
def test_what_is_told_holds_the_time_at_which_it_was_copied(
    topics: int, busy: int, seconds: int, width_s: float
) -> None:
    """A partition that moves once in ten seconds, in a quiet lane or one where much moves."""
    progress, copied_at = lane_of(topics, seconds, busy, random.Random(7))
    widths: list[float] = []
    offsets = range(0, len(copied_at), max(1, len(copied_at) // 40))
    for offset in offsets:
        found = search(progress, P, Offset(offset))
        if found is None:
            assert copied_at[offset] > T0_S + seconds - 8, "not reported yet"
            continue
        assert found[0] <= copied_at[offset] <= found[1]
        if 40 < copied_at[offset] - T0_S < seconds - 20:
            widths.append(found[1] - found[0])
    assert max(widths, default=0.0) <= width_s
    assert progress.read / len(offsets) < 1_000  # of thousands


def test_what_no_report_has_passed_is_not_told() -> None:
    progress, copied_at = lane_of(3, 100, 1, random.Random(1))
    assert search(progress, P, Offset(len(copied_at))) is None
    assert search(progress, TopicPartition(TopicName("x"), PartitionId(0)), Offset(0)) is None
    assert search(Progress([]), P, Offset(0)) is None


def test_what_others_write_there_is_passed() -> None:
    progress, copied_at = lane_of(3, 100, 1, random.Random(1))
    odd = [Recent("lane/0", {"topics": 7}, T0_S * 1000, 0), Recent("x", {}, T0_S * 1000, 1)]
    mixed = Progress([*odd, *progress._records])
    found = search(mixed, P, Offset(0))
    assert found is not None
    assert found[0] <= copied_at[0] <= found[1]


def row(at_s: float, position: int, lane: int = 0) -> Sighting:
    return Sighting(at_s, lane, position, frozenset({("t0", 0)}))


def test_a_lane_that_was_silent_narrows_nothing() -> None:
    """It may have been copied at any time of the silence, or before it."""
    rows = [row(100, 5), *(row(at_s, -1) for at_s in range(101, 120)), row(160, 9)]
    rows += [row(at_s, -1) for at_s in range(161, 180)]
    assert copied_between(rows, Offset(7)) == (100, 160)
    steady = [row(100, 5), *(row(at_s, -1) for at_s in range(101, 160)), row(160, 9)]
    steady += [row(at_s, -1) for at_s in range(161, 180)]
    assert copied_between(steady, Offset(7)) == (159, 160)
    assert all(b.at_s >= a.at_s for a, b in pairwise(steady))


def test_what_was_copied_before_the_first_report_has_no_beginning() -> None:
    assert copied_between([row(100, 9)], Offset(7)) == (0.0, 100)
    assert copied_between([row(100, 5)], Offset(7)) is None
