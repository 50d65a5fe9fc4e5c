"""What a link's driver and its lanes have reported so far; pure.

A report contains only what changed. Rounds that failed may still report: an older one's report
never replaces a newer one's, but the records it copied count.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heliostat.invariants import first_generation
from heliostat.names import LaneId, TopicPartition
from heliostat.ops.latency import LatencyHistogram
from heliostat.ops.process_use import ProcessUse
from heliostat.records.copier.lane import PartitionReport, RoundReport
from heliostat.records.transport.progress_reports import LaneProgress
from heliostat.status.latencies import TopicLatencies
from heliostat.status.progress_watch import ProgressWatch
from heliostat.status.rows import PartitionRow, RoundId, is_old

WINDOW_S = 5.0
"""Rates are averages over about this time."""
MOVED_WITHIN_S = 5.0
"""Partitions of a lane that no longer exists have moved to another lane within this time; otherwise
they are no longer copied."""

Copied = dict[TopicPartition, tuple[int, int]]
"""Records and bytes by source partition."""


@dataclass(slots=True)
class LaneReports:
    """The last reports of a lane."""

    newest: LaneProgress
    whole: int = -1
    """The newest generation of the lane's plan of which all partitions were reported."""
    first_ms: int = 0
    latency: dict[RoundId, list[int]] = field(default_factory=dict)
    """Counts reported so far of the newest two rounds."""
    requests: dict[RoundId, list[int]] = field(default_factory=dict)
    """The same of requests."""
    recent: deque[tuple[int, Copied, list[int]]] = field(default_factory=deque)
    """Reports within `WINDOW_S`: time (ms), records and bytes by partition, latency counts."""

    @property
    def seconds(self) -> float:
        """Seconds that `recent` covers."""
        return min(WINDOW_S, (self.newest.at_ms - self.first_ms) / 1000)

    process: ProcessUse | None = None
    """What its process has used, as last reported."""

    def forget_old(self) -> None:
        """Drop what is older than the rates' window."""
        while self.recent and self.newest.at_ms - self.recent[0][0] >= WINDOW_S * 1000:
            self.recent.popleft()

    def sums(self) -> Copied:
        """Return records and bytes copied within the window, by partition."""
        sums: Copied = {}
        for _, copied, _ in self.recent:
            for partition, (records, size) in copied.items():
                was = sums.get(partition, (0, 0))
                sums[partition] = (was[0] + records, was[1] + size)
        return sums


def _new_counts(
    counts_by_round: dict[RoundId, list[int]], its_round: RoundId, reported: list[int]
) -> list[int]:
    """Return what of a round's counts was not reported before; note them in `counts_by_round`."""
    was = counts_by_round.get(its_round)
    if was is None and counts_by_round and its_round < min(counts_by_round):
        return []
    counts_by_round[its_round] = reported
    if len(counts_by_round) > 2:
        del counts_by_round[min(counts_by_round)]
    if was is None:
        return reported
    was = [*was, *([0] * (len(reported) - len(was)))]
    return [max(0, count - old) for count, old in zip(reported, was, strict=False)]


@dataclass(slots=True)
class Totals:
    """What was copied since reading began; it never becomes less."""

    copied: Copied = field(default_factory=dict)
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    """Records by latency, without backlog."""
    requests: list[int] = field(default_factory=list)
    """As `RoundReport.requests`; empty: none were counted."""

    def add(self, news: News) -> None:
        """Add what a report tells anew."""
        for partition, (records, size) in news.copied.items():
            was = self.copied.get(partition, (0, 0))
            self.copied[partition] = (was[0] + records, was[1] + size)
        self.latency.merge(news.latency)
        if news.requests:
            before = self.requests or [0] * len(news.requests)
            self.requests = [old + new for old, new in zip(before, news.requests, strict=True)]

    def copy(self) -> Totals:
        """Return them as they are now."""
        return Totals(dict(self.copied), LatencyHistogram(self.latency.counts), self.requests)


class News(NamedTuple):
    """What a lane's report tells anew."""

    copied: Copied
    latency: list[int]
    """Counts of records by latency bucket."""
    codes: list[str]
    """Of each partition that got into trouble, why."""
    requests: list[int]
    """Of requests, as `RoundReport.requests`; empty: not told."""


class Reports:
    """The newest reports of one link. Not thread-safe."""

    def __init__(self) -> None:
        self.driver: dict[str, Any] = {}
        """The driver's last report."""
        self.lanes: dict[LaneId, LaneReports] = {}
        self.rows: dict[TopicPartition, PartitionRow] = {}
        self.wanted_since: dict[LaneId, int] = {}
        """Lanes that the driver runs, and since when (wall ms)."""
        self.topic_latency = TopicLatencies()
        self.progress = ProgressWatch()
        self._gone: dict[LaneId, int] = {}
        """Lanes that no longer exist, and since when (wall ms)."""
        self._instance: str | None = None
        """Instance of the driver whose lanes wrote these reports."""

    @property
    def claim(self) -> int:
        """Claim number of the reporting driver; 0: not known."""
        return int(self.driver.get("claim") or 0)

    def is_complete(self) -> bool:
        """Return whether all running lanes, and all their partitions, have reported."""
        lanes = {LaneId(int(lane)) for lane in self.driver.get("generations", ())}
        row_counts = Counter(row.lane for row in self.rows.values())
        return lanes <= self.lanes.keys() and all(
            row_counts[number] >= lane.newest.report.lane_partitions
            for number, lane in self.lanes.items()
        )

    def is_own(self, row: PartitionRow) -> bool:
        """Whether the row is from a lane of the reporting driver, not of an earlier one."""
        return row.reported_in >= first_generation(self.claim)

    @property
    def _has_begun(self) -> bool:
        """Whether the driver has completed its first reconciliation, and packed lanes."""
        return bool(self.driver.get("turns", 1))

    def steering(self) -> tuple[object, ...]:
        """Return what operators and owners change; no figure that changes by itself."""
        driver, wishes = self.driver, self.driver.get("wishes", {})
        orders = tuple((order["id"], order["stage"]) for order in wishes.get("orders", ()))
        named = (driver.get("instance"), driver.get("state"), wishes.get("answered"))
        return (*named, orders, len(self.rows))

    def take_driver(self, value: Mapping[str, Any]) -> None:
        """Process the driver's report: add its lanes, and drop lanes that are gone."""
        is_other = self._instance != value.get("instance")
        self.driver = dict(value)
        if self.driver.get("state") != "running" or not self._has_begun:
            if is_other and self.driver.get("state") == "running":
                self.wanted_since = {}  # the lanes of the one before need not report any more
            return  # keep what was reported before: there is nothing newer
        if (self.driver.get("wishes", {}).get("link") or {}).get("state") == "stopped":
            self.wanted_since = {}  # there are no lanes, and what they reported stands
            return
        self._instance = value.get("instance")
        wanted = {LaneId(int(lane)) for lane in self.driver.get("generations", {})}
        at_ms = int(self.driver.get("at_ms", 0))
        wanted_since = {} if is_other else self.wanted_since
        self.wanted_since = {lane: wanted_since.get(lane, at_ms) for lane in wanted}
        since = {
            lane: self._gone.get(lane, at_ms) for lane in self._gone.keys() | self.lanes.keys()
        }
        self._gone = {lane: ms for lane, ms in since.items() if lane not in wanted}
        self.lanes = {lane: item for lane, item in self.lanes.items() if lane in wanted}
        # Reports of an earlier driver's lanes may no longer be true.
        if is_other:
            self.rows = {key: row for key, row in self.rows.items() if row.lane not in self._gone}
            self._gone = {}
        self._drop_left(at_ms)

    def take_lane(self, progress: LaneProgress) -> News:
        """Process a lane's report; return what it tells anew."""
        report = progress.report
        its_round = _round_of(report)
        lane = self.lanes.get(report.lane)
        if lane is None:
            lane = self.lanes[report.lane] = LaneReports(progress, first_ms=progress.at_ms)
        is_newest = report.plan >= lane.newest.report.plan or is_old(
            lane.newest.at_ms, progress.at_ms
        )
        if is_newest:
            lane.newest = progress
            lane.process = report.process or lane.process
        self.topic_latency.take(report.topic_latency, progress.at_ms)
        copied: Copied = {}
        codes = [item.code for item in report.partitions if self._is_trouble(item)]
        for item in report.partitions:
            delta = self._take_partition(lane, report, item, progress.at_ms)
            if delta != (0, 0):
                copied[item.source] = delta
        counts = _new_counts(lane.latency, its_round, report.latency_ms)
        requests: list[int] = []
        if report.requests:  # only the first record of a report has them
            requests = _new_counts(lane.requests, its_round, report.requests)
        lane.recent.append((progress.at_ms, copied, counts))
        lane.forget_old()
        if is_newest and progress.is_whole and report.plan != lane.whole:
            lane.whole = report.plan
            self._leave_rows_before(report, progress.at_ms)
            self._drop_left(progress.at_ms)
        return News(copied, counts, codes, requests)

    def _is_trouble(self, item: PartitionReport) -> bool:
        """Whether a partition has got into trouble, by a report that was not taken yet."""
        if not item.code:
            return False
        row = self.rows.get(item.source)
        return row is None or row.report.code != item.code

    def _take_partition(
        self, lane: LaneReports, report: RoundReport, item: PartitionReport, at_ms: int
    ) -> tuple[int, int]:
        """Process one row; return the newly copied records and bytes."""
        its_round, plan = _round_of(report), report.plan
        row = self.rows.get(item.source)
        if row is None:
            if plan >= lane.whole:  # otherwise it is no longer of this lane
                row = PartitionRow(report.lane, plan, at_ms, item, plan)
                row.counted[its_round] = (item.records, item.bytes)
                self.rows[item.source] = row
            return 0, 0
        records, size = row.counted.get(its_round, (0, 0))
        if its_round not in row.counted and its_round < min(row.counted):
            return 0, 0  # too old: what was counted of it is no longer known
        row.counted[its_round] = (item.records, item.bytes)
        if len(row.counted) > 2:
            del row.counted[min(row.counted)]
        is_left = row.lane == report.lane and plan < lane.whole
        if (plan >= row.plan and not is_left) or is_old(row.at_ms, at_ms):
            row.replace(report.lane, plan, item, at_ms)
            self.progress.take(item, at_ms)
        row.count(max(0, item.records - records), at_ms)
        return max(0, item.records - records), max(0, item.bytes - size)

    def _leave_rows_before(self, report: RoundReport, at_ms: int) -> None:
        """Note which partitions a lane had before its plan changed: another may report them."""
        for row in self.rows.values():
            if row.lane == report.lane and row.plan < report.plan and not row.left_ms:
                row.left_ms = at_ms

    def _drop_left(self, now_ms: int) -> None:
        """Forget partitions that no lane has reported since theirs gave them up, or ended.

        At once where lanes have reported as many others as there are: these have not moved.
        """
        left_ms = {
            key: row.left_ms or self._gone.get(row.lane, 0) for key, row in self.rows.items()
        }
        count = self.driver.get("partitions")
        are_all = count is not None and sum(not ms for ms in left_ms.values()) >= int(count)
        before_ms = now_ms - (0 if are_all else MOVED_WITHIN_S * 1000)
        for key, ms in left_ms.items():
            if 0 < ms <= before_ms:
                del self.rows[key]
        self._gone = {lane: ms for lane, ms in self._gone.items() if ms > before_ms}
        self.progress.keep(self.rows.keys())


def _round_of(report: RoundReport) -> RoundId:
    return report.generation, report.round_number
