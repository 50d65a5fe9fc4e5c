"""How a link fares, put together from what its lanes and its driver wrote to the target.

The driver's own view and `heliostat status` from any other machine read the same records.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from heliostat.clusters.recent_records import RecentRecords
from heliostat.link.state import DRIVER_KEY
from heliostat.names import LaneId, LinkName, TopicName, TopicPartition
from heliostat.ops.latency import LatencyHistogram
from heliostat.records.lane import PartitionReport, RoundReport
from heliostat.records.state_channel import report_from_json

LANE_PREFIX = "lane/"
WINDOW_S = 5.0
"""Rates are averages over about so long."""
LOOK_BACK_MS = 15_000
LOOK_FURTHER_BACK_MS = 3_600_000
BACKLOG_S = 60.0
"""A minute: about how long a packing of lanes stays as it is."""
RECORD_BYTES_GUESS = 500
"""Of a partition of which nothing was copied yet."""
SILENT_AFTER_S = 10.0
"""A lane reports every second; after this silence its figures are old news."""


@dataclass(slots=True)
class TopicStatus:
    """One topic; rates per second, lag in records and seconds (None: not known)."""

    source: str
    target: str
    partitions: int = 0
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    lag_records: int = 0
    lag_s: float | None = None
    states: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Problem:
    """A partition that is not copying."""

    source: str
    partition: int
    state: str
    code: str
    reason: str
    since_ms: int
    position: int


@dataclass(slots=True)
class LinkStatus:
    """A link at one moment."""

    link: str
    at_ms: int
    state: str
    """`running`, `silent` (no lane has reported for 10 s), `stopped` or `unknown`."""
    topics: list[TopicStatus]
    partitions: int
    records_per_s: float
    bytes_per_s: float
    lag_records: int
    lag_s: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    states: dict[str, int]
    problems: list[Problem]
    refused: dict[str, str]
    lanes: list[dict[str, Any]]
    driver: dict[str, Any]

    @property
    def is_in_sync(self) -> bool:
        """Nothing lags, nothing is broken or refused."""
        return self.state == "running" and not (self.lag_records or self.problems or self.refused)

    def to_json(self) -> dict[str, Any]:
        """All of it, as plain JSON."""
        return asdict(self)


@dataclass(slots=True)
class _Heard:
    """The last reports of one lane, oldest first."""

    reports: deque[tuple[RoundReport, int]] = field(default_factory=lambda: deque(maxlen=16))

    @property
    def newest(self) -> tuple[RoundReport, int]:
        return self.reports[-1]

    def earlier(self) -> tuple[RoundReport, int] | None:
        """The report about `WINDOW_S` before the newest."""
        _, now_ms = self.newest
        older = [item for item in self.reports if now_ms - item[1] >= WINDOW_S * 1000]
        return older[-1] if older else (self.reports[0] if len(self.reports) > 1 else None)


class StatusBoard:
    """Takes reports as they come and tells the status at any moment. Pure: no I/O."""

    def __init__(self, link: LinkName) -> None:
        self._link = link
        self._lanes: dict[LaneId, _Heard] = {}
        self._driver: dict[str, Any] = {}

    def hear(self, key: str, value: Mapping[str, Any]) -> None:
        """Take one record of the progress topic."""
        if key == DRIVER_KEY:
            self._driver = dict(value)
            wanted = {LaneId(int(lane)) for lane in self._driver.get("generations", {})}
            if self._driver.get("state") == "running":
                for lane in set(self._lanes) - wanted:
                    del self._lanes[lane]
        elif key.startswith(LANE_PREFIX):
            report, at_ms = report_from_json(dict(value))
            self._lanes.setdefault(report.lane, _Heard()).reports.append((report, at_ms))

    def status(self, now_ms: int) -> LinkStatus:
        """The link as of now."""
        topics: dict[TopicName, TopicStatus] = {}
        problems: list[Problem] = []
        states: Counter[str] = Counter()
        latency = LatencyHistogram()
        for heard in self._lanes.values():
            self._add_lane(heard, topics, problems, states, now_ms)
            latency.merge(_recent_latency(heard))
        rows = sorted(topics.values(), key=lambda row: (-row.bytes_per_s, row.source))
        lags = [row.lag_s for row in rows if row.lag_s is not None]
        return LinkStatus(
            link=self._link,
            at_ms=now_ms,
            state=self._state(now_ms),
            topics=rows,
            partitions=sum(row.partitions for row in rows),
            records_per_s=sum(row.records_per_s for row in rows),
            bytes_per_s=sum(row.bytes_per_s for row in rows),
            lag_records=sum(row.lag_records for row in rows),
            lag_s=max(lags, default=None),
            latency_p50_ms=latency.percentile_ms(0.50),
            latency_p99_ms=latency.percentile_ms(0.99),
            states=dict(states),
            problems=sorted(problems, key=lambda item: (item.source, item.partition)),
            refused=dict(self._driver.get("refused", {})),
            lanes=[_lane(heard, now_ms) for _, heard in sorted(self._lanes.items())],
            driver=self._driver,
        )

    def load(self) -> dict[TopicPartition, float]:
        """Load by source partition, for packing lanes, in bytes a second.

        What was copied lately, and what lags as if it had to be copied within `BACKLOG_S`.
        """
        loads: dict[TopicPartition, float] = {}
        for heard in self._lanes.values():
            report, at_ms = heard.newest
            earlier = heard.earlier()
            is_same_round = earlier is not None and earlier[0].round_number == report.round_number
            before = {item.source: item.bytes for item in earlier[0].partitions} if earlier else {}
            seconds = max(0.001, (at_ms - earlier[1]) / 1000) if earlier else 1.0
            for item in report.partitions:
                sent = item.bytes - before.get(item.source, item.bytes) if is_same_round else 0
                record_bytes = item.bytes / item.records if item.records else RECORD_BYTES_GUESS
                backlog = _lag_records(item) * record_bytes / BACKLOG_S
                loads[item.source] = max(0, sent) / seconds + backlog
        return loads

    def _state(self, now_ms: int) -> str:
        if self._driver.get("state") == "stopped":
            return "stopped"
        newest = max((heard.newest[1] for heard in self._lanes.values()), default=0)
        newest = max(newest, int(self._driver.get("at_ms", 0)))
        if not newest:
            return "unknown"
        return "running" if now_ms - newest <= SILENT_AFTER_S * 1000 else "silent"

    def _add_lane(
        self,
        heard: _Heard,
        topics: dict[TopicName, TopicStatus],
        problems: list[Problem],
        states: Counter[str],
        now_ms: int,
    ) -> None:
        report, at_ms = heard.newest
        earlier = heard.earlier()
        before = {item.source: item for item in earlier[0].partitions} if earlier else {}
        is_same_round = earlier is not None and earlier[0].round_number == report.round_number
        seconds = (at_ms - earlier[1]) / 1000 if earlier else 0.0
        is_live = now_ms - at_ms <= SILENT_AFTER_S * 1000
        for item in report.partitions:
            topic = item.source.topic
            row = topics.setdefault(topic, TopicStatus(topic, item.target.topic))
            row.partitions += 1
            row.states[item.state.value] = row.states.get(item.state.value, 0) + 1
            states[item.state.value] += 1
            lag = _lag_records(item)
            row.lag_records += lag
            lag_s = _lag_s(item, lag, now_ms)
            if lag_s is not None:
                row.lag_s = lag_s if row.lag_s is None else max(row.lag_s, lag_s)
            was = before.get(item.source)
            if was is not None and seconds > 0 and is_live and was.position >= 0:
                row.records_per_s += max(0, item.position - was.position) / seconds
                sent = item.bytes - was.bytes if is_same_round else item.bytes
                row.bytes_per_s += max(0, sent) / seconds
            if item.reason:
                problems.append(
                    Problem(
                        topic,
                        item.source.partition,
                        item.state.value,
                        item.code,
                        item.reason,
                        item.since_ms,
                        item.position,
                    )
                )


def _lag_records(item: PartitionReport) -> int:
    if item.position < 0 or item.source_end < 0:
        return 0
    return max(0, item.source_end - item.position)


def _lag_s(item: PartitionReport, lag_records: int, now_ms: int) -> float | None:
    """Age of what is missing: of the last copied record, but not older than when it was level."""
    if lag_records == 0:
        return 0.0 if item.source_end >= 0 else None
    seen = max(item.last_timestamp_ms, item.caught_up_ms)
    return max(0.0, (now_ms - seen) / 1000) if seen >= 0 else None


def _recent_latency(heard: _Heard) -> list[int]:
    report, _ = heard.newest
    earlier = heard.earlier()
    if earlier is None or earlier[0].round_number != report.round_number:
        return report.latency_ms
    old = [*earlier[0].latency_ms, *([0] * len(report.latency_ms))]
    return [count - was for count, was in zip(report.latency_ms, old, strict=False)]


def _lane(heard: _Heard, now_ms: int) -> dict[str, Any]:
    report, at_ms = heard.newest
    return {
        "lane": report.lane,
        "generation": report.generation,
        "round": report.round_number,
        "partitions": len(report.partitions),
        "records_in_round": report.records,
        "heard_s_ago": round((now_ms - at_ms) / 1000, 1),
    }


class StatusReader:
    """Follows a link's progress topic.

    Parameters
    ----------
    link
        Whose status.
    progress
        Its progress topic; closed by whoever opened it.
    board
        What to feed; a new one by default.
    """

    def __init__(
        self, link: LinkName, progress: RecentRecords, board: StatusBoard | None = None
    ) -> None:
        self.board = board or StatusBoard(link)
        self._progress = progress

    def begin(self, now_ms: int) -> None:
        """Read what was written in the last seconds, or the last hour if that is nothing."""
        for back_ms in (LOOK_BACK_MS, LOOK_FURTHER_BACK_MS):
            self._progress.seek(now_ms - back_ms)
            if self.read(2.0):
                break
        while self.read(0.2):  # ends: reports come once a second, a poll returns thousands
            pass

    def read(self, timeout_s: float) -> int:
        """Take what has come; how many records that was."""
        records = self._progress.poll(timeout_s)
        for record in records:
            self.board.hear(record.key, record.value)
        return len(records)
