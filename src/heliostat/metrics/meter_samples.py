"""Samples of what a driver and its lanes have counted and used, from their reports; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heliostat.metrics import families as f
from heliostat.metrics.text import Samples, labels
from heliostat.ops.process_use import ProcessUse
from heliostat.ops.request_times import BOUNDS_S, SIDE_NUMBERS
from heliostat.status.values import LinkStatus

DRIVEN = frozenset({"running", "paused", "stopped"})
"""States of a link whose driver reports."""
CODES_MAX = 100
"""Most codes of errors with series of their own, the most frequent: a broker may answer any."""
BEATS_MAX = 50
"""Most origins of heartbeats with series of their own."""


def write_meters(samples: Samples, labelled: str, status: LinkStatus) -> None:
    """Add what the driver has counted, and its lanes.

    Parameters
    ----------
    labelled
        Labels of the link.
    """
    meters: Mapping[str, Any] = status.driver.get("meters", {})
    errors = sorted(meters.get("errors", ()), key=lambda row: -row[2])
    for code, side, count in errors[:CODES_MAX]:
        samples.add(f.ERRORS, f'{labelled},side="{side}",class="{code}"', count)
    for side, request, seconds, counts in meters.get("admin", ()):
        of_request = f'{labelled},side="{side}",request="{request}"'
        samples.add_histogram(f.ADMIN_SECONDS, of_request, BOUNDS_S, counts, seconds)
    ends: Sequence[tuple[str, str, int]] = status.driver.get("round_ends", ())
    if status.driver:
        by_result = {"ended": 0, "failed": 0}
        for result, reason, count in ends[:CODES_MAX]:
            by_result[result] = by_result.get(result, 0) + count
            samples.add(f.LANE_RESTARTS, f'{labelled},reason="{reason}"', count)
        for result, count in by_result.items():
            samples.add(f.ROUNDS, f'{labelled},result="{result}"', count)
    gaps: Mapping[str, Any] = status.driver.get("gaps", {})
    for reason, count in gaps.get("skipped", {}).items():
        samples.add(f.RECORDS_SKIPPED, f'{labelled},reason="{reason}"', count)
    samples.add(f.GAPS, labelled, gaps.get("rows"))
    samples.add(f.GAP_RECORDS, labelled, gaps.get("records_lost"))
    samples.add(f.DEAD_LETTERS, labelled, gaps.get("dead_letters"))
    _write_groups(samples, labelled, status)
    _write_beats(samples, labelled, status)


def write_configuration(samples: Samples, labelled: str, status: LinkStatus) -> None:
    """Add by what configuration a link goes; an older driver does not tell it."""
    configuration: Mapping[str, Any] = status.driver.get("configuration", {})
    if not configuration or status.state not in DRIVEN:
        return
    samples.add(f.CONFIGURATION_LIVE, labelled, configuration["live_ms"] / 1000)
    samples.add(f.CONFIGURATION_REFUSED, labelled, int(configuration["refused"]))
    samples.add(f.CONFIGURATION_HELD, labelled, configuration["held"])


def write_requests(samples: Samples, labelled: str, numbers: Sequence[int]) -> None:
    """Add how long lanes' requests took, by the sums of `RoundReport.requests`."""
    for place, (side, api) in enumerate((("source", "fetch"), ("target", "produce"))):
        its = numbers[place * SIDE_NUMBERS : (place + 1) * SIDE_NUMBERS] or [0] * SIDE_NUMBERS
        *counts, took_ms, throttled_ms = its
        of_side = f'{labelled},side="{side}"'
        of_api = f'{of_side},api="{api}"'
        samples.add_histogram(f.REQUEST_SECONDS, of_api, BOUNDS_S, counts, took_ms / 1000)
        samples.add(f.THROTTLE_SECONDS, of_side, throttled_ms / 1000)


def write_schemas(samples: Samples, labelled: str, schemas: Mapping[str, Any]) -> None:
    """Add what was done and waited for, by `SchemaPart.report`; an older driver told neither."""
    samples.add(f.SCHEMAS_COPIED, labelled, schemas.get("copied"))
    if waits := schemas.get("waits"):
        *counts, took_ms, _ = waits
        samples.add_histogram(f.SCHEMA_WAIT_SECONDS, labelled, BOUNDS_S, counts, took_ms / 1000)


def write_processes(
    samples: Samples, labelled: str, status: LinkStatus, *, with_driver: bool
) -> None:
    """Add what the workers of a link's lanes have used, and its driver with Spark's JVM."""
    if status.state not in DRIVEN:
        return  # nobody tells what they have now
    meters: Mapping[str, Any] = status.driver.get("meters", {})
    processes: Mapping[str, Sequence[Any]] = meters.get("processes", {}) if with_driver else {}
    for name, use in sorted(processes.items()):
        _write_use(samples, labelled, f'process="{name}"', ProcessUse(*use))
    for lane in status.lanes:
        worker = f'process="worker",lane="{lane["lane"]}"'
        if lane.get("process") is not None:
            _write_use(samples, labelled, worker, ProcessUse(**lane["process"]))


def _write_use(samples: Samples, link: str, part: str, use: ProcessUse) -> None:
    labelled = f"{link},{part}"
    samples.add(f.PART_CPU, labelled, use.cpu_s)
    samples.add(f.PART_MEMORY, labelled, use.memory_bytes)
    samples.add(f.PART_SOCKETS, labelled, use.sockets)
    for direction, size in (("read", use.read_bytes), ("written", use.written_bytes)):
        samples.add(f.PART_BYTES, f'{link},direction="{direction}",{part}', size)


def _write_groups(samples: Samples, labelled: str, status: LinkStatus) -> None:
    measured: Sequence[Sequence[Any]] = status.driver.get("groups", {}).get("measured", ())
    if status.rereads is not None:
        samples.add(f.GROUPS_REREAD, labelled, status.rereads.records)
    for group, lag, published_ms, *reread in measured:  # an older driver tells no rereads
        of_group = f"{labelled},{labels({'group': group})}"
        samples.add(f.GROUP_LAG, of_group, lag)
        samples.add(f.GROUP_REREAD, of_group, reread[0] if reread else None)
        at_s = None if published_ms is None else published_ms / 1000
        samples.add(f.GROUP_PUBLISHED, of_group, at_s)


def _write_beats(samples: Samples, labelled: str, status: LinkStatus) -> None:
    beats: Sequence[Sequence[Any]] = status.driver.get("interchange", {}).get("beats", ())
    for origin, hops, beat_ms in beats[:BEATS_MAX]:
        age_s = max(0.0, (status.at_ms - beat_ms) / 1000)
        from_there = labels({"hops": hops, "origin": origin})
        samples.add(f.UPSTREAM_BEAT_AGE, f"{labelled},{from_there}", age_s)


RIGHTS_STATES = {
    "in_step": "in_step",
    "kept_ready": "kept_ready",
    "somebody_elses": "foreign",
    "refused": "refused_count",
    "failed": "failed_count",
}
"""Parts of the driver's report, by how they are called."""


def write_rights(samples: Samples, labelled: str, driver: Mapping[str, Any]) -> None:
    """Add rights that follow the source, and how mirrors are protected, by the driver's report."""
    rights, protection = driver.get("access") or {}, driver.get("protection")
    if "at_ms" in rights:
        for state, key in RIGHTS_STATES.items():
            samples.add(f.RIGHTS, f'{labelled},state="{state}"', rights.get(key))
        samples.add(f.RIGHTS_WAITING, labelled, rights.get("waiting"))
        for what in ("made", "removed"):
            samples.add(f.RIGHTS_CHANGED, f'{labelled},what="{what}"', rights.get(what))
        samples.add(f.RIGHTS_COMPARED, labelled, rights["at_ms"] / 1000)
    if protection:
        count = protection["protected"]
        samples.add(f.MIRRORS_PROTECTED, labelled, count)
        samples.add(f.MIRRORS_UNPROTECTED, labelled, protection["mirrors"] - count)
        samples.add(f.PROTECTION_RULES, labelled, protection["rules"])
