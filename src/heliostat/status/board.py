"""How a link fares, put together from what its lanes and its driver wrote to the target.

The driver's own view and `heliostat status` from any other machine read the same records.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heliostat.errors import HeliostatError
from heliostat.invariants import first_generation
from heliostat.names import LaneId, LinkName, TopicPartition
from heliostat.ops.latency import LatencyHistogram
from heliostat.records.copier.lane import PartitionReport, PartitionSpec, RoundReport
from heliostat.records.transport.progress_reports import Progress, decode_progress
from heliostat.state.link_state import DRIVER_KEY
from heliostat.state.stops import has_passed_stops
from heliostat.status.rows import NO_ROUND, Round, Row, is_old, missing_records
from heliostat.status.sums import Sums, problems_of
from heliostat.status.values import MAX_LAG_S, HeldBack, LinkStatus, Problem

LANE_PREFIX = "lane/"
NO_LANE = LaneId(-1)
WINDOW_S = 5.0
"""Rates are averages over about so long."""
RATE_MIN = 0.1
"""Records a second; lanes are told nothing of partitions with less."""
BACKLOG_S = 60.0
"""A minute: about how long a packing of lanes stays as it is."""
RECORD_BYTES_GUESS = 500
"""Of a partition of which nothing was copied yet."""
MOVED_WITHIN_S = 5.0
"""What a lane copied that there is no more is another's by then; else it is copied no more."""
SILENT_AFTER_S = 10.0
"""A lane reports every second; after this silence its figures are old news."""


@dataclass(slots=True)
class _Lane:
    """What was last heard of a lane."""

    newest: Progress
    whole: Round = NO_ROUND
    """The newest round of which all partitions were heard."""
    first_ms: int = 0
    latency: dict[Round, list[int]] = field(default_factory=dict)
    """Counts heard so far of the newest two rounds."""
    recent: deque[tuple[int, dict[TopicPartition, tuple[int, int]], list[int]]] = field(
        default_factory=deque
    )
    """What came within `WINDOW_S`: when, records and bytes by partition, latency counts."""

    @property
    def round(self) -> Round:
        return _round_of(self.newest.report)

    @property
    def seconds(self) -> float:
        """What `recent` covers."""
        return min(WINDOW_S, (self.newest.at_ms - self.first_ms) / 1000)

    def forget_old(self) -> None:
        """Keep only what the rates are made of."""
        while self.recent and self.newest.at_ms - self.recent[0][0] >= WINDOW_S * 1000:
            self.recent.popleft()


class StatusBoard:
    """Takes reports as they come and tells the status at any moment. No I/O; thread-safe.

    A report names only what changed. Two rounds of a lane may overlap: what an older one says never
    overwrites a newer one's word, but what it has copied counts.
    """

    def __init__(self, link: LinkName) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._lanes: dict[LaneId, _Lane] = {}
        self._rows: dict[TopicPartition, Row] = {}
        self._gone: dict[LaneId, int] = {}
        """Since when there is no such lane (wall ms); its partitions are heard of by others."""
        self._driver: dict[str, Any] = {}
        self._wanted_since: dict[LaneId, int] = {}
        """Lanes that the driver has given out, and since when (wall ms)."""
        self._instance: str | None = None
        """The driver whose lanes' reports these are."""
        self._stops: Mapping[TopicPartition, PartitionReport] = {}
        """What is written in the link's state."""

    def consume(self, key: str, value: Mapping[str, Any]) -> None:
        """Take one record of the progress topic."""
        if key == DRIVER_KEY:
            with self._lock:
                self._consume_driver(value)
        elif key.startswith(LANE_PREFIX):
            progress = decode_progress(value)
            with self._lock:
                self._consume_lane(progress)

    def know_stops(self, stops: Mapping[TopicPartition, PartitionReport]) -> None:
        """Take what stands stopped by the link's state: told where no lane of its driver tells."""
        with self._lock:
            self._stops = stops

    def forget(self) -> None:
        """Begin anew, but for what is not told by reports."""
        with self._lock:
            self._lanes, self._rows, self._gone, self._driver = {}, {}, {}, {}
            self._wanted_since = {}
            self._instance = None

    def is_complete(self) -> bool:
        """Whether all lanes that run, and all their partitions, were heard of."""
        with self._lock:
            lanes = {LaneId(int(lane)) for lane in self._driver.get("generations", ())}
            known = Counter(row.lane for row in self._rows.values())
            return lanes <= self._lanes.keys() and all(
                known[number] >= lane.newest.lane_partitions for number, lane in self._lanes.items()
            )

    def status(self, now_ms: int) -> LinkStatus:
        """The link as of now."""
        with self._lock:
            return self._status(now_ms)

    def reports(self) -> list[PartitionReport]:
        """What was last heard of each partition."""
        with self._lock:
            return [row.report for row in self._rows.values()]

    def reports_of(self, generations: Mapping[LaneId, int]) -> list[PartitionReport]:
        """What rounds of these plans said; older ones may not know what was decided since."""
        with self._lock:
            return [
                row.report
                for row in self._rows.values()
                if row.reported_in[0] == generations.get(row.lane)
            ]

    def load(self) -> dict[TopicPartition, float]:
        """Load by source partition, for packing lanes, in bytes a second.

        What was copied lately, and what lags as if it had to be copied within `BACKLOG_S`.
        """
        with self._lock:
            loads: dict[TopicPartition, float] = {}
            for partition, row in self._rows.items():
                item = row.report
                record_bytes = item.bytes / item.records if item.records else RECORD_BYTES_GUESS
                loads[partition] = missing_records(item) * record_bytes / BACKLOG_S
            for lane in self._lanes.values():
                for partition, (_, sent) in _sums(lane).items():
                    if partition in loads:
                        loads[partition] += sent / max(1.0, lane.seconds)
            return loads

    def rates(self, specs: Sequence[PartitionSpec]) -> tuple[tuple[int, float], ...]:
        """Of these partitions by their places: records a second, as last reported."""
        with self._lock:
            newest_ms = max((lane.newest.at_ms for lane in self._lanes.values()), default=0)
            found: list[tuple[int, float]] = []
            for place, spec in enumerate(specs):
                row = self._rows.get(spec.source)
                if row is None or row.rate < RATE_MIN:
                    continue
                rate = row.rate_now(newest_ms)
                if rate >= RATE_MIN:
                    found.append((place, round(rate, 2)))
            return tuple(found)

    def problems(self) -> list[Problem]:
        """Partitions that are not copied as they should be."""
        with self._lock:
            return problems_of(self._standing())

    def alarms(self, now_ms: int) -> dict[str, str]:
        """Lanes that are silent, transactions that are open for long: lines by what they are."""
        with self._lock:
            if self._state(now_ms) != "running":
                return {}
            found = {f"lane {n}": _silence(n, s) for n, s in self._silent_lanes(now_ms).items()}
            held = _held_back(self._driver, now_ms)
            return found | {item.key: item.text() for item in held if item.age_s > MAX_LAG_S}

    def held(self) -> dict[TopicPartition, int]:
        """Source partitions with records behind open transactions, and how many."""
        with self._lock:
            return {
                partition: row.report.open_records
                for partition, row in self._rows.items()
                if row.report.open_records
            }

    def positions(self) -> dict[TopicPartition, int]:
        """Source offsets below which all is at the target, or is a hole, as last reported."""
        with self._lock:
            return {partition: row.report.position for partition, row in self._rows.items()}

    # -- hearing -------------------------------------------------------------------------------

    @property
    def _has_begun(self) -> bool:
        """Whether the driver has looked at all topics once, and given lanes their partitions."""
        return bool(self._driver.get("turns", 1))

    def _consume_driver(self, value: Mapping[str, Any]) -> None:
        is_other = self._instance != value.get("instance")
        self._driver = dict(value)
        if self._driver.get("state") != "running" or not self._has_begun:
            return  # what was heard before is all there is to tell
        self._instance = value.get("instance")
        wanted = {LaneId(int(lane)) for lane in self._driver.get("generations", {})}
        at_ms = int(self._driver.get("at_ms", 0))
        known = {} if is_other else self._wanted_since
        self._wanted_since = {lane: known.get(lane, at_ms) for lane in wanted}
        since = {
            lane: self._gone.get(lane, at_ms) for lane in self._gone.keys() | self._lanes.keys()
        }
        self._gone = {lane: ms for lane, ms in since.items() if lane not in wanted}
        self._lanes = {lane: item for lane, item in self._lanes.items() if lane in wanted}
        # What lanes of a driver before this one copied may not be so any more.
        over = [
            lane
            for lane, ms in self._gone.items()
            if is_other or at_ms - ms >= MOVED_WITHIN_S * 1000
        ]
        if over:
            self._gone = {lane: ms for lane, ms in self._gone.items() if lane not in over}
            self._rows = {key: row for key, row in self._rows.items() if row.lane not in over}

    def _consume_lane(self, progress: Progress) -> None:
        report = progress.report
        its_round = _round_of(report)
        lane = self._lanes.get(report.lane)
        if lane is None:
            lane = self._lanes[report.lane] = _Lane(progress, first_ms=progress.at_ms)
        is_newest = its_round >= lane.round or is_old(lane.newest.at_ms, progress.at_ms)
        if is_newest:
            lane.newest = progress
        copied: dict[TopicPartition, tuple[int, int]] = {}
        for item in report.partitions:
            delta = self._consume_partition(lane, its_round, item, progress.at_ms)
            if delta != (0, 0):
                copied[item.source] = delta
        lane.recent.append((progress.at_ms, copied, _new_counts(lane, its_round, report)))
        lane.forget_old()
        if is_newest and progress.is_whole and its_round != lane.whole:
            was, lane.whole = lane.whole, its_round
            if was[0] != its_round[0]:
                self._drop_rows_before(report.lane, its_round)

    def _consume_partition(
        self, lane: _Lane, its_round: Round, item: PartitionReport, at_ms: int
    ) -> tuple[int, int]:
        """Take one row; records and bytes that are new in it."""
        row = self._rows.get(item.source)
        if row is None:
            if its_round >= lane.whole:  # otherwise it is no longer of this lane
                row = Row(lane.newest.report.lane, its_round, at_ms, item, its_round)
                row.counted[its_round] = (item.records, item.bytes)
                self._rows[item.source] = row
            return 0, 0
        records, size = row.counted.get(its_round, (0, 0))
        if its_round not in row.counted and its_round < min(row.counted):
            return 0, 0  # too old for us to know what of it was counted
        row.counted[its_round] = (item.records, item.bytes)
        if len(row.counted) > 2:
            del row.counted[min(row.counted)]
        if its_round >= row.round or is_old(row.at_ms, at_ms):
            row.replace(lane.newest.report.lane, its_round, item, at_ms)
        row.count(max(0, item.records - records), at_ms)
        return max(0, item.records - records), max(0, item.bytes - size)

    def _drop_rows_before(self, lane: LaneId, its_round: Round) -> None:
        """Forget partitions that a lane had before its plan changed."""
        self._rows = {
            key: row
            for key, row in self._rows.items()
            if row.lane != lane or row.round[0] >= its_round[0]
        }

    # -- telling -------------------------------------------------------------------------------

    def _status(self, now_ms: int) -> LinkStatus:
        state = self._state(now_ms)
        silent = self._silent_lanes(now_ms) if state == "running" else {}
        sums = Sums(now_ms)
        rows = self._standing()
        for row in rows:
            sums.add(row, is_heard=row.lane not in silent, is_own=self._is_own(row))
        latency = LatencyHistogram()
        for lane in self._lanes.values():
            for _, _, counts in lane.recent:
                latency.merge(counts)
            is_speaking = not _is_silent(lane.newest.at_ms, now_ms)
            if is_speaking and lane.seconds > 0 and state != "stopped":
                for partition, (records, size) in _sums(lane).items():
                    topic = sums.topics.get(partition.topic)
                    if topic is not None:
                        topic.records_per_s += records / lane.seconds
                        topic.bytes_per_s += size / lane.seconds
        topics = sorted(
            sums.topics.values(), key=lambda row: (-row.bytes_per_s, -row.lag_records, row.source)
        )
        lags = [row.lag_s for row in topics if row.lag_s is not None]
        return LinkStatus(
            link=self._link,
            at_ms=now_ms,
            state=state,
            topics=topics,
            partitions=sum(row.partitions for row in topics),
            records_per_s=sum(row.records_per_s for row in topics),
            bytes_per_s=sum(row.bytes_per_s for row in topics),
            lag_records=sum(row.lag_records for row in topics),
            lag_s=max(lags, default=None),
            latency_p50_ms=latency.percentile_ms(0.50),
            latency_p99_ms=latency.percentile_ms(0.99),
            states=dict(sums.states),
            problems=sorted(sums.problems, key=lambda item: (item.source, item.partition)),
            refused=dict(self._driver.get("refused", {})),
            notes=list(self._driver.get("notes", [])),
            lanes=[_lane(lane, now_ms) for _, lane in sorted(self._lanes.items())],
            driver=self._driver,
            heartbeat_age_s=_heartbeat_age_s(self._driver, now_ms),
            open_records=sum(row.open_records for row in topics),
            mapped=sum(row.mapped for row in topics),
            unknown=sum(row.unknown for row in topics) + self._unreported(len(rows)),
            held_back=_held_back(self._driver, now_ms),
            troubles=_troubles(self._driver) + [_silence(*item) for item in silent.items()],
        )

    def _standing(self) -> list[Row]:
        """What was heard of each partition; where that does not tell, what its state tells."""
        rows = {
            source: row
            for source, row in self._rows.items()
            if source not in self._stops or self._tells(row)
        }
        missing = (stop for source, stop in self._stops.items() if source not in rows)
        return [
            *rows.values(),
            *(Row(NO_LANE, NO_ROUND, stop.since_ms, stop, NO_ROUND) for stop in missing),
        ]

    def _tells(self, row: Row) -> bool:
        """Whether a lane of this driver has come to what stopped the partition, or past it."""
        item = row.report
        return self._is_own(row) and (item.state.is_stopped or has_passed_stops(item))

    def _is_own(self, row: Row) -> bool:
        """Whether it was told by a lane of the driver that is heard of, not of one before it."""
        return row.reported_in[0] >= first_generation(int(self._driver.get("claim") or 0))

    def _unreported(self, reported: int) -> int:
        """Partitions that the driver has given out and no lane has spoken of."""
        return max(0, int(self._driver.get("partitions", 0)) - reported)

    def _silent_lanes(self, now_ms: int) -> dict[LaneId, float]:
        """Lanes that should speak and have not for too long; for how many seconds."""
        claim = int(self._driver.get("claim") or 0)
        silent: dict[LaneId, float] = {}
        for lane, since_ms in self._wanted_since.items():
            known = self._lanes.get(lane)
            is_own = known is not None and known.newest.report.generation >= first_generation(claim)
            heard_ms = known.newest.at_ms if known is not None and is_own else since_ms
            if _is_silent(heard_ms, now_ms):
                silent[lane] = (now_ms - heard_ms) / 1000
        return silent

    def _state(self, now_ms: int) -> str:
        if self._driver.get("state") == "stopped":
            return "stopped"
        newest = max((lane.newest.at_ms for lane in self._lanes.values()), default=0)
        newest = max(newest, int(self._driver.get("at_ms", 0)))
        if not newest:
            return "unknown"
        return "silent" if _is_silent(newest, now_ms) else "running"


def unreachable(link: LinkName, now_ms: int, error: HeliostatError) -> LinkStatus:
    """Of a link whose target does not tell how it fares."""
    status = StatusBoard(link).status(now_ms)
    status.state, status.troubles = "unreachable", [str(error)]
    return status


def _troubles(driver: Mapping[str, Any]) -> list[str]:
    """What a driver that runs tells; its loops whose last turn failed, or that miss their turns."""
    if driver.get("state") != "running":
        return []
    return list(driver.get("troubles", [])) + [
        f"{loop['name']}: {loop['last_error']}"
        if loop["failures_in_a_row"]
        else f"{loop['name']}: no turn came to its end for {loop['last_good_s_ago']:.0f} s"
        for loop in driver.get("loops", [])
        if loop["failures_in_a_row"] or loop["is_stale"]
    ]


def _is_silent(heard_ms: int, now_ms: int) -> bool:
    """Whether what was heard last is old news."""
    return now_ms - heard_ms > SILENT_AFTER_S * 1000


def _silence(lane: LaneId, seconds: float) -> str:
    return (
        f"lane {lane} has not been heard of for {seconds:.0f} s: whether anything of it is copied "
        "is not known (see Spark's page: its worker or executor may be gone, frozen or waiting)"
    )


def _held_back(driver: Mapping[str, Any], now_ms: int) -> list[HeldBack]:
    """Open transactions as the driver saw them last; their age grows on."""
    return [
        HeldBack(
            item["source"],
            item["partition"],
            item["first"],
            item["records"],
            item["producer_id"],
            item["transactional_id"],
            max(0.0, (now_ms - item["since_ms"]) / 1000),
        )
        for item in driver.get("held_back", [])
    ]


def _heartbeat_age_s(driver: Mapping[str, Any], now_ms: int) -> float | None:
    """From its own timestamp until now, so that it grows on where the driver has fallen silent."""
    beat_ms = driver.get("interchange", {}).get("heartbeat", {}).get("timestamp_ms")
    return None if beat_ms is None else max(0.0, (now_ms - beat_ms) / 1000)


def _round_of(report: RoundReport) -> Round:
    return report.generation, report.round_number


def _new_counts(lane: _Lane, its_round: Round, report: RoundReport) -> list[int]:
    """Latency counts that were not heard before."""
    was = lane.latency.get(its_round)
    if was is None and lane.latency and its_round < min(lane.latency):
        return []
    lane.latency[its_round] = report.latency_ms
    if len(lane.latency) > 2:
        del lane.latency[min(lane.latency)]
    if was is None:
        return report.latency_ms
    was = [*was, *([0] * (len(report.latency_ms) - len(was)))]
    return [max(0, count - old) for count, old in zip(report.latency_ms, was, strict=False)]


def _sums(lane: _Lane) -> dict[TopicPartition, tuple[int, int]]:
    """Records and bytes within the window."""
    sums: dict[TopicPartition, tuple[int, int]] = {}
    for _, copied, _ in lane.recent:
        for partition, (records, size) in copied.items():
            was = sums.get(partition, (0, 0))
            sums[partition] = (was[0] + records, was[1] + size)
    return sums


def _lane(lane: _Lane, now_ms: int) -> dict[str, Any]:
    report = lane.newest.report
    return {
        "lane": report.lane,
        "generation": report.generation,
        "round": report.round_number,
        "partitions": lane.newest.lane_partitions,
        "records_in_round": report.records,
        "heard_s_ago": round((now_ms - lane.newest.at_ms) / 1000, 1),
    }
