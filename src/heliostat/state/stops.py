"""Stops that a person must decide on, kept in the state topic for times without lane reports.

    stop/<source topic>/<partition>    its lane's last report, until one shows that it copies again

A new driver's lanes take seconds to find a stop again, and without a driver no lane looks: then a
status shows these rows.

I7  A stopped partition is shown as stopped until it is seen to be copied, or is no longer copied.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from heliostat.clusters.foreign_records import NOT_A_ROW
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import (
    PartitionCode,
    PartitionReport,
    PartitionSpec,
    PartitionState,
)

STOP_PREFIX = "stop/"
Stops = dict[TopicPartition, PartitionReport]
"""By source partition."""
Changed = Mapping[TopicPartition, PartitionReport | None]
"""New stops, by source partition; None where a stop has ended."""


class StopBook:
    """The stops of a link as written. Thread-safe.

    Parameters
    ----------
    put
        Makes changes durable.
    """

    def __init__(self, put: Callable[[Changed], None]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._known: Stops = {}

    @property
    def known(self) -> Stops:
        """All stops; never modified in place."""
        return self._known

    def begin(self, stops: Stops) -> None:
        """Start with the stops that were written before."""
        with self._lock:
            self._known = dict(stops)

    def restore(self) -> None:
        """Write all stops to a recreated state topic."""
        with self._lock:
            if self._known:
                self._put(self._known)

    def keep(
        self, reports: Iterable[PartitionReport], is_mirrored: Callable[[TopicPartition], bool]
    ) -> None:
        """Write the stops that have changed.

        Parameters
        ----------
        reports
            Reports of rounds that know all decisions so far.
        is_mirrored
            Returns whether a source partition still has a mirror, copied or refused.
        """
        with self._lock:
            self._write(changed_stops(self._known, reports, is_mirrored))

    def foresee(self, specs: Iterable[PartitionSpec]) -> None:
        """Write stops for partitions without their offset map, before their lanes find them."""
        reports = [_without_map(spec) for spec in specs if spec.map_lost]
        with self._lock:
            new = (report for report in reports if report.source not in self._known)
            self._write(changed_stops(self._known, new, lambda _: True))

    def _write(self, changed: Changed) -> None:
        if not changed:
            return
        self._put(changed)
        merged = {**self._known, **changed}
        self._known = {source: stop for source, stop in merged.items() if stop is not None}


def changed_stops(
    stops: Mapping[TopicPartition, PartitionReport],
    reports: Iterable[PartitionReport],
    is_mirrored: Callable[[TopicPartition], bool],
) -> dict[TopicPartition, PartitionReport | None]:
    """Return the stops to write; a stop that lasts keeps its start time."""
    changed: dict[TopicPartition, PartitionReport | None] = {
        source: None for source in stops if not is_mirrored(source)
    }
    for report in reports:
        was = stops.get(report.source)
        if report.state.is_stopped:
            if was is not None and (was.state, was.code) == (report.state, report.code):
                report = replace(report, since_ms=was.since_ms)  # noqa: PLW2901  # the same stop
            if was is None or stop_row(was) != stop_row(report):
                changed[report.source] = report
        elif was is not None and has_passed_stops(report):
            changed[report.source] = None
    return changed


def has_passed_stops(report: PartitionReport) -> bool:
    """Whether a report shows that its lane has got past whatever stopped the partition before.

    Only a first fetch, whose answer shows where the source ends, finds a gap; a lane that retries
    may not have got that far.
    """
    is_copying = report.state is PartitionState.COPYING and report.is_known
    return is_copying or report.state is PartitionState.ALIGNING


def stop_row(stop: PartitionReport) -> dict[str, Any]:
    """Return a stop as JSON, for the state topic."""
    return {
        "target": stop.target.topic,
        "target_partition": stop.target.partition,
        "state": stop.state.value,
        "code": stop.code,
        "reason": stop.reason,
        "position": stop.position,
        "since_ms": stop.since_ms,
    }


def stop_key(source: TopicPartition) -> str:
    """Return the key of a stop in the state topic."""
    return f"{STOP_PREFIX}{source.topic}/{source.partition}"


def sound_stops_in(rows: Mapping[str, Mapping[str, Any]]) -> Stops:
    """Return the stops in a state topic's latest values, without what others wrote there.

    A stop that is not known is found again by its lane.
    """
    stops: Stops = {}
    for key, row in rows.items():
        if key.startswith(STOP_PREFIX):
            with contextlib.suppress(*NOT_A_ROW):
                stop = _stop(key, row)
                stops[stop.source] = stop
    return stops


def _stop(key: str, row: Mapping[str, Any]) -> PartitionReport:
    topic, _, number = key.removeprefix(STOP_PREFIX).rpartition("/")
    return _report(
        TopicPartition(TopicName(topic), PartitionId(int(number))),
        TopicPartition(TopicName(row["target"]), PartitionId(row["target_partition"])),
        PartitionState(row["state"]),
        row["code"],
        row["reason"],
        position=row["position"],
        since_ms=row["since_ms"],
    )


def _without_map(spec: PartitionSpec) -> PartitionReport:
    code = PartitionCode.OFFSET_MAP_LOST
    return _report(spec.source, spec.target, PartitionState.BLOCKED, code, spec.map_lost)


def _report(
    source: TopicPartition,
    target: TopicPartition,
    state: PartitionState,
    code: str,
    reason: str,
    *,
    position: int = -1,
    since_ms: int = 0,
) -> PartitionReport:
    """Build the report of a partition that no lane looks at: the source's end is unknown."""
    return PartitionReport(
        source,
        target,
        state,
        position,
        high_watermark=-1,
        records=0,
        bytes=0,
        last_timestamp_ms=-1,
        caught_up_ms=-1,
        since_ms=since_ms,
        code=code,
        reason=reason,
    )
