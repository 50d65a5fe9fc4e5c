"""Stops that a person must decide on, kept in the state topic: known while no lane tells of them.

    stop/<source topic>/<partition>    what its lane said last, while it has not said that it copies

A new driver's lanes take seconds to find a stop again, and while no driver runs nobody looks: a
status of that time names what is written here.

I7  What stands stopped is told as such until it is seen to be copied, or is copied no more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

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
"""New stops; None where one is over."""


class StopBook:
    """The stops of a link as they are written; safe to use from several threads.

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
        """All of them; never changed in place."""
        return self._known

    def begin(self, known: Stops) -> None:
        """Go on from what was written before."""
        with self._lock:
            self._known = dict(known)

    def restore(self) -> None:
        """Write all of it into a state topic that was made anew."""
        with self._lock:
            if self._known:
                self._put(self._known)

    def keep(
        self, reports: Iterable[PartitionReport], is_mirrored: Callable[[TopicPartition], bool]
    ) -> None:
        """Write what has changed.

        Parameters
        ----------
        reports
            Of rounds that know what was decided.
        is_mirrored
            Whether a source partition still has a mirror that the link copies, or refuses to.
        """
        with self._lock:
            self._write(changed_stops(self._known, reports, is_mirrored))

    def foresee(self, specs: Iterable[PartitionSpec]) -> None:
        """Write which partitions their lane will find without their offset map."""
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
    known: Mapping[TopicPartition, PartitionReport],
    reports: Iterable[PartitionReport],
    is_mirrored: Callable[[TopicPartition], bool],
) -> dict[TopicPartition, PartitionReport | None]:
    """What is to be written; a stop that lasts keeps the time since which it does."""
    changed: dict[TopicPartition, PartitionReport | None] = {
        source: None for source in known if not is_mirrored(source)
    }
    for report in reports:
        was = known.get(report.source)
        if report.state.is_stopped:
            if was is not None and (was.state, was.code) == (report.state, report.code):
                report = replace(report, since_ms=was.since_ms)  # noqa: PLW2901  # the same stop
            if was is None or stop_row(was) != stop_row(report):
                changed[report.source] = report
        elif was is not None and has_passed_stops(report):
            changed[report.source] = None
    return changed


def has_passed_stops(report: PartitionReport) -> bool:
    """Whether it shows that its lane has come past whatever may have stopped it before.

    A gap is found by a first fetch only, whose answer tells where the source ends; and who retries
    may not have come to it.
    """
    is_copying = report.state is PartitionState.COPYING and report.is_known
    return is_copying or report.state is PartitionState.ALIGNING


def stop_row(stop: PartitionReport) -> dict[str, Any]:
    """As JSON, for the state topic."""
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
    """Its key in the state topic."""
    return f"{STOP_PREFIX}{source.topic}/{source.partition}"


def stops_in(rows: Mapping[str, Mapping[str, Any]]) -> Stops:
    """The stops that a state topic's latest values name."""
    found = (_stop(key, row) for key, row in rows.items() if key.startswith(STOP_PREFIX))
    return {stop.source: stop for stop in found}


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
    """What is told of a partition that nobody looks at: where its source ends is not known."""
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
