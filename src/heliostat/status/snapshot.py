"""The status of a link at one moment, built from its reports and its state; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from heliostat.handover.held_back import HeldBack
from heliostat.handover.unfenced import Unfenced
from heliostat.invariants import first_generation
from heliostat.names import LaneId, LinkName, TopicPartition
from heliostat.ops.latency import LatencyHistogram
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.state.stops import has_passed_stops
from heliostat.status.alarms import Alarm, Alarms
from heliostat.status.lag import Ends, Reading, is_lost_as_lag, lag_of, loss_of
from heliostat.status.loss import LOSS_NOT_KNOWN, loss_from, rereads_of
from heliostat.status.progress_watch import Standstill, reported
from heliostat.status.reports import LaneReports, Reports
from heliostat.status.rows import PartitionRow
from heliostat.status.sums import SILENT, STOPPED, Sums, is_starting, line_of, state_shown
from heliostat.status.values import MAX_LAG_S, LinkStatus, PartitionStatus
from heliostat.wishes.wish import WishedState

NO_LANE = LaneId(-1)
SILENT_AFTER_S = 10.0
"""A lane reports every second; after this silence its figures are outdated."""
FIRST_REPORT_WITHIN_S = 30.0
"""A worker starts, and compiles its code in a fresh installation, before it reports."""
DRIVER_SILENT_AFTER_S = 5.0
"""The driver reports every second, whatever its lanes do."""
FAILED_TOLD_S = 15.0
"""Where rounds fail again and again, a lane is in trouble for so long after the last failure."""
ENDED_STATES = ("ended", "stopped")
"""What a driver reports at its end; versions before 0.3 called it stopped."""
NO_ENDS: Ends = MappingProxyType({})

Stops = Mapping[TopicPartition, PartitionReport]
"""The stops in the link's state, by source partition."""


class Snapshot:
    """The newest reports, seen at one moment.

    Parameters
    ----------
    reports
        Reports of the driver and the lanes.
    stops
        The stops in the link's state.
    now_ms
        Wall time of the moment, in ms since the epoch.
    ends
        Where logs end, of partitions for which that was read.
    """

    def __init__(self, reports: Reports, stops: Stops, now_ms: int, ends: Ends = NO_ENDS) -> None:
        self._reports = reports
        self._stops = stops
        self._now_ms = now_ms
        self._ends = ends
        self.state = self._state()
        """`running`, `no_owner`, `silent`, or `unknown` if nothing was reported."""
        self.wish = _wish_of(reports.driver)
        """What is wished of a link that is not to run."""

    def alarms(self) -> Alarms | None:
        """Return silent lanes, long-open transactions and the like; None: the link does not run."""
        if self.state != "running":
            return None
        driver = self._reports.driver
        turns, waiting = driver.get("places", ""), driver.get("waiting", {})
        alarms = {
            f"lane {lane}": Alarm(text, f"lane {lane} reports", lane)
            for lane, text in self._silent_lanes().items()
            if str(lane) not in waiting
        }
        if turns:
            alarms["turns"] = Alarm(f"lanes take turns: {turns}", "lanes take turns no more")
        for lane, text in self._failing_lanes().items():
            alarms[f"rounds of lane {lane}"] = Alarm(text, f"lane {lane}: its round works", lane)
        alarms |= _standing_alarms(driver, self._now_ms)
        return Alarms(alarms, self._reports.wanted_since.keys())

    def standstills(self) -> list[Standstill]:
        """Return partitions that lag and move nothing, as far as their lanes report."""
        standstills = self._reports.progress.found()
        if not standstills or self.state != "running":
            return []
        current = {
            row.report.source for row, _, reading in self._rows() if reading is Reading.CURRENT
        }
        return [standstill for standstill in standstills if standstill.source in current]

    def status(self, link: LinkName) -> LinkStatus:
        """Return the whole status."""
        now_ms, state = self._now_ms, self.state
        silent = self._silent_lanes() if state == "running" else {}
        failing = self._failing_lanes() if state == "running" else {}
        sums = Sums(self._ends, _open_since_ms(self._reports.driver))
        rows, reported = self._rows(), 0
        for row, shown, reading in rows:
            until_ms = _holds_until_ms(self._reports, row, reading, now_ms)
            lag = sums.add(row, state=shown, reading=reading, until_ms=until_ms)
            # A former driver's partition may not be this one's: its lag answers for no other.
            reported += state != "running" or self._reports.is_own(row) or lag.unknown > 0
        lag, loss = sums.close(_unreported(self._reports, reported))
        absent = _without_mirror(self._reports.driver)
        latency = _latency(self._reports.lanes.values())
        reporting = {
            number: lane
            for number, lane in self._reports.lanes.items()
            if state == "running" and not _is_silent(lane.newest.at_ms, now_ms)
        }
        bytes_per_s = _add_rates(sums, reporting.values())
        topics = sorted(
            sums.topics.values(),
            key=lambda row: (-row.bytes_per_s, -(row.lag_records or 0), row.source),
        )
        return LinkStatus(
            link=link,
            at_ms=now_ms,
            state=self._state_shown(),
            topics=topics,
            partitions=sum(row.partitions for row in topics),
            records_per_s=sum(row.records_per_s for row in topics),
            bytes_per_s=sum(row.bytes_per_s for row in topics),
            lag_records=lag.records if topics else None,
            lag_s=lag.age_s if topics else None,
            latency_p50_ms=latency.percentile_ms(0.50),
            latency_p99_ms=latency.percentile_ms(0.99),
            source_line=line_of(lane.newest.report.source_line for lane in reporting.values()),
            target_line=line_of(lane.newest.report.target_line for lane in reporting.values()),
            states=dict(sums.states),
            problems=sorted(sums.problems, key=lambda item: (item.source, item.partition)),
            refused=dict(self._reports.driver.get("refused", {})),
            notes=[*self._reports.driver.get("notes", []), *_protection(self._reports.driver)],
            lanes=self._lanes(bytes_per_s),
            driver=self._reports.driver,
            owner=dict(self._reports.driver.get("owner", {})),
            heartbeat_age_s=_heartbeat_age_s(self._reports.driver, now_ms),
            open_records=sum(row.open_records for row in topics),
            mapped=sum(row.mapped for row in topics),
            unknown=lag.unknown,
            wish=self.wish,
            paused=list(self._reports.driver.get("wishes", {}).get("paused", ())),
            paused_count=int(self._reports.driver.get("wishes", {}).get("paused_count", 0)),
            limits=_limits(self._reports.driver),
            preferences=list(self._reports.driver.get("wishes", {}).get("preferences", ())),
            held_back=_held_back(self._reports.driver, now_ms),
            drift=self._reports.driver.get("drift"),
            would_be_lost=loss_from(loss, absent) if topics else LOSS_NOT_KNOWN,
            without_mirror=absent,
            rereads=rereads_of(self._reports.driver, now_ms, is_running=state == "running"),
            unfenced=_unfenced(self._reports.driver),
            troubles=[
                *_troubles(self._reports.driver),
                *silent.values(),
                *(text for lane, text in failing.items() if lane not in silent),
                *(_standstill_texts(self._reports.driver) if state == "running" else ()),
            ],
        )

    def _lanes(self, bytes_per_s: Mapping[LaneId, float]) -> list[dict[str, Any]]:
        if self.state == "no_owner" or self._state_shown() == WishedState.STOPPED.value:
            return []
        return [
            _lane(lane, self._now_ms, bytes_per_s.get(number, 0.0))
            for number, lane in sorted(self._reports.lanes.items())
        ]

    def partitions(self) -> list[PartitionStatus]:
        """Return all partitions, by topic and number."""
        statuses: list[PartitionStatus] = []
        open_since_ms = _open_since_ms(self._reports.driver)
        for row, shown, reading in self._rows():
            item = row.report
            ends, since_ms = self._ends.get(item.source), open_since_ms.get(item.source, -1)
            until_ms = _holds_until_ms(self._reports, row, reading, self._now_ms)
            lag = lag_of(item, reading, until_ms, ends)
            loss = lag
            if not is_lost_as_lag(item, reading):
                loss = loss_of(item, reading, until_ms, ends, since_ms)
            statuses.append(
                PartitionStatus(
                    source=item.source.topic,
                    partition=item.source.partition,
                    state=state_shown(item.state, shown),
                    records_per_s=round(row.rate_now(self._now_ms), 2),
                    lag_records=lag.records,
                    lag_s=lag.age_s,
                    is_bound=lag.unknown > 0,
                    position=item.position,
                    source_end=item.high_watermark,
                    target_end=item.target_end,
                    is_mapped=item.breaks > 0,
                    lane=self._lane_of(row),
                    code=item.code,
                    reason=item.reason,
                    since_ms=item.since_ms,
                    would_be_lost=loss_from(loss),
                )
            )
        return sorted(statuses, key=lambda status: (status.source, status.partition))

    def _lane_of(self, row: PartitionRow) -> LaneId:
        """Return the lane that copies a partition; `NO_LANE`: none does, it was one of a former."""
        is_copied = row.lane in self._reports.wanted_since and self._reports.is_own(row)
        return row.lane if is_copied and self.state != "no_owner" else NO_LANE

    def outdated(self) -> list[PartitionReport]:
        """Return the reports of partitions whose lag they don't tell."""
        return [
            row.report
            for row, _, reading in self._rows()
            if reading is not Reading.CURRENT or row.report.is_end_old
        ]

    def _rows(self) -> list[tuple[PartitionRow, str, Reading]]:
        """Return partitions' rows, the state to show if one is outdated, and how far it holds."""
        silent, failing = self._silent_lanes(), self._failing_lanes()
        rows: list[tuple[PartitionRow, str, Reading]] = []
        for row in standing(self._reports, self._stops):
            is_own = self._reports.is_own(row)
            if self.state == "no_owner" or self._state_shown() == WishedState.STOPPED.value:
                shown, reading = STOPPED, Reading.ENDED
            elif self.state != "running" or row.lane in silent:
                shown, reading = SILENT, Reading.OUTDATED
            elif is_starting(row, self._now_ms) or not (is_own or row.report.state.is_stopped):
                shown, reading = PartitionState.STARTING.value, Reading.OUTDATED
            elif row.lane in failing:
                shown, reading = PartitionState.RETRYING.value, Reading.OUTDATED
            else:
                shown, reading = "", Reading.CURRENT if is_own else Reading.OUTDATED
            rows.append((row, shown, reading))
        return rows

    def _failing_lanes(self) -> dict[LaneId, str]:
        """Return lanes whose rounds fail, with the reason: once, or again and again."""
        driver, texts = self._reports.driver, {}
        for row in driver.get("rounds", ()):
            ago_s = row.get("failed_s_ago")
            if ago_s is None:
                continue
            number, lately = LaneId(row["lane"]), row["failed_lately"]
            lane = self._reports.lanes.get(number)
            failed_ms = int(driver.get("at_ms", 0)) - int(ago_s * 1000)
            is_back = lane is not None and lane.newest.at_ms > failed_ms
            if not is_back or (lately > 1 and self._now_ms - failed_ms < FAILED_TOLD_S * 1000):
                times = "the last round" if lately == 1 else f"{lately} rounds within a minute"
                texts[number] = f"lane {number}: {times} failed: {row['why_failed']}"
        return texts

    def _silent_lanes(self) -> dict[LaneId, str]:
        """Return lanes that have not reported for too long, with a line about each."""
        first = first_generation(self._reports.claim)
        silent: dict[LaneId, str] = {}
        waiting: Mapping[str, str] = self._reports.driver.get("waiting", {})
        for lane, wanted_ms in self._reports.wanted_since.items():
            if str(lane) in waiting:
                turns = self._reports.driver.get("places") or "Spark runs fewer lanes at once"
                silent[lane] = f"lane {lane} {waiting[str(lane)]}: {turns}"
                continue
            lane_reports = self._reports.lanes.get(lane)
            if lane_reports is not None and lane_reports.newest.report.generation >= first:
                if _is_silent(lane_reports.newest.at_ms, self._now_ms):
                    silent[lane] = _silence(lane, (self._now_ms - lane_reports.newest.at_ms) / 1000)
            elif self._now_ms - wanted_ms > FIRST_REPORT_WITHIN_S * 1000:
                silent[lane] = _not_begun(lane, (self._now_ms - wanted_ms) / 1000)
        return silent

    def _state_shown(self) -> str:
        """Return what operators wish of a link that has an owner, else its state."""
        if self.state == "running" and self.wish:
            return str(self.wish["state"])
        return self.state

    def _state(self) -> str:
        if self._reports.driver.get("state") in ENDED_STATES:
            return "no_owner"
        driver_ms = int(self._reports.driver.get("at_ms", 0))
        if driver_ms:
            is_late = self._now_ms - driver_ms > DRIVER_SILENT_AFTER_S * 1000
            return "silent" if is_late else "running"
        newest = max((lane.newest.at_ms for lane in self._reports.lanes.values()), default=0)
        if not newest:
            return "unknown"
        return "silent" if _is_silent(newest, self._now_ms) else "running"


def _holds_until_ms(reports: Reports, row: PartitionRow, reading: Reading, now_ms: int) -> int:
    lane = reports.lanes.get(row.lane)
    if reading is not Reading.CURRENT or lane is None:
        return now_ms
    return row.holds_until_ms(now_ms, lane.newest.at_ms)


def _latency(lanes: Iterable[LaneReports]) -> LatencyHistogram:
    """Return the latencies within the window, of all lanes together."""
    latency = LatencyHistogram()
    for lane in lanes:
        for _, _, counts in lane.recent:
            latency.merge(counts)
    return latency


def _unreported(reports: Reports, reported: int) -> int:
    """Return the number of partitions assigned to lanes that no lane has reported."""
    return max(0, int(reports.driver.get("partitions", 0)) - reported)


def _add_rates(sums: Sums, lanes: Iterable[LaneReports]) -> dict[LaneId, float]:
    """Add what lanes copy a second to their topics; return the bytes of each lane."""
    bytes_per_s: dict[LaneId, float] = {}
    for lane in lanes:
        if lane.seconds <= 0:
            continue
        sent = lane.sums()
        of_lane = sum(size for _, size in sent.values()) / lane.seconds
        bytes_per_s[lane.newest.report.lane] = round(of_lane, 1)
        for partition, (records, size) in sent.items():
            topic = sums.topics.get(partition.topic)
            if topic is not None:
                topic.records_per_s += records / lane.seconds
                topic.bytes_per_s += size / lane.seconds
    return bytes_per_s


def standing(reports: Reports, stops: Stops) -> list[PartitionRow]:
    """Return a row for each partition: its report, or else its stop in the link's state."""
    rows = {
        source: row
        for source, row in reports.rows.items()
        if source not in stops or _has_reached_stop(reports, row)
    }
    missing = (stop for source, stop in stops.items() if source not in rows)
    return [
        *rows.values(),
        *(PartitionRow(NO_LANE, -1, stop.since_ms, stop, -1) for stop in missing),
    ]


def _has_reached_stop(reports: Reports, row: PartitionRow) -> bool:
    """Whether a lane of this driver has stopped the partition too, or got past the stop."""
    item = row.report
    return reports.is_own(row) and (item.state.is_stopped or has_passed_stops(item))


def _troubles(driver: Mapping[str, Any]) -> list[str]:
    """Return troubles that a running driver reports, and its loops that fail or are stale."""
    if driver.get("state") != "running":
        return []
    return list(driver.get("troubles", [])) + [
        f"{loop['name']}: {loop['last_error']}"
        if loop["failures_in_a_row"]
        else f"{loop['name']}: no turn was completed for {loop['last_good_s_ago']:.0f} s"
        for loop in driver.get("loops", [])
        if loop["failures_in_a_row"] or loop["is_stale"]
    ]


def _standstill_texts(driver: Mapping[str, Any]) -> list[str]:
    """Return a line for each partition that moves nothing, as far as the report names them."""
    texts = [standstill.text() for standstill in reported(driver)]
    more = int(driver.get("no_progress", {}).get("count", 0)) - len(texts)
    return [*texts, *([f"and {more} more partitions have not moved"] if more > 0 else [])]


def _open_since_ms(driver: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return since when the first open transaction of partitions is open, as last seen."""
    since_ms: dict[TopicPartition, int] = {}
    for item in driver.get("held_back", ()):
        partition = TopicPartition(item["source"], item["partition"])
        since_ms[partition] = min(item["since_ms"], since_ms.get(partition, item["since_ms"]))
    return since_ms


def _without_mirror(driver: Mapping[str, Any]) -> int:
    """Return how many selected topics have no mirror, by the last reconciliation."""
    counts: Mapping[str, int] = driver.get("topics") or {"refused": len(driver.get("refused", ()))}
    return sum(counts.get(state, 0) for state in ("refused", "waiting"))


def _unfenced(driver: Mapping[str, Any]) -> Unfenced | None:
    row = driver.get("wishes", {}).get("unfenced")
    return Unfenced.from_json(row) if row else None


def _wish_of(driver: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the wish for a link that is not to run, by its driver's report; None: it is to."""
    wish: dict[str, Any] | None = driver.get("wishes", {}).get("link")
    return wish


def _is_silent(reported_ms: int, now_ms: int) -> bool:
    """Whether the last report is outdated."""
    return now_ms - reported_ms > SILENT_AFTER_S * 1000


def _silence(lane: LaneId, seconds: float) -> str:
    return (
        f"lane {lane} has not reported for {seconds:.0f} s: it is unknown whether its partitions "
        "are copied (see Spark's page: its worker or executor may be gone, frozen or waiting)"
    )


def _not_begun(lane: LaneId, seconds: float) -> str:
    return (
        f"lane {lane} has not begun after {seconds:.0f} s: Spark has no core for it, or its worker "
        "still starts (see Spark's page)"
    )


def _limits(driver: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the limits that operators wish, with what was used of each."""
    nothing = {"used_bytes_per_second": 0, "throttled_s": 0.0}
    uses = {use["topic"]: use for use in driver.get("limits", ())}
    wished = driver.get("wishes", {}).get("limits", ())
    return [{**limit, **nothing, **uses.get(limit["topic"], {})} for limit in wished]


def _standing_alarms(driver: Mapping[str, Any], now_ms: int) -> dict[str, Alarm]:
    """Return alarms about partitions that move nothing, and about transactions open for long."""
    alarms = {
        f"no progress of {standstill.source}": Alarm(
            standstill.text(), f"{standstill.source} does not stand still any more"
        )
        for standstill in reported(driver)
    }
    for item in _held_back(driver, now_ms):
        if item.age_s > MAX_LAG_S:
            alarms[item.key] = Alarm(item.text(), item.ended_text())
    return alarms


def _held_back(driver: Mapping[str, Any], now_ms: int) -> list[HeldBack]:
    """Return open transactions as the driver last saw them, with their age at `now_ms`."""
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
    """Return the heartbeat's age by its own timestamp: it grows even if the driver is silent."""
    beat_ms = driver.get("interchange", {}).get("heartbeat", {}).get("timestamp_ms")
    return None if beat_ms is None else max(0.0, (now_ms - beat_ms) / 1000)


def _lane(lane: LaneReports, now_ms: int, bytes_per_s: float) -> dict[str, Any]:
    report = lane.newest.report
    return {
        "lane": report.lane,
        "generation": report.generation,
        "round": report.round_number,
        "partitions": lane.newest.report.lane_partitions,
        "records_in_round": report.records,
        "heard_s_ago": round((now_ms - lane.newest.at_ms) / 1000, 1),
        "bytes_per_s": bytes_per_s,
        "process": None if lane.process is None else lane.process._asdict(),
    }


def _protection(driver: Mapping[str, Any]) -> list[str]:
    """Return what of the mirrors is protected, and what can't be."""
    protection = driver.get("protection")
    if not protection:
        return []
    lines = [f"{protection['protected']} of {protection['mirrors']} mirrors are protected"]
    lines += [f"can't be protected: {problem['text']}" for problem in protection["cannot"]]
    return [*lines, *([protection["behind"]] if protection["behind"] else ())]
