"""A status as a line of a monitoring plugin: Nagios, Icinga, Zabbix and Checkmk read it; pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from heliostat.status.values import LinkStatus

WORDS_MAX = 300
"""Longest text before the figures."""


class Service(IntEnum):
    """What a plugin answers, as its exit code."""

    OK = 0
    WARNING = 1
    """The target may lack more than it should, and the link works on it."""
    CRITICAL = 2
    """Something is not copied until somebody does something, or nobody copies."""
    UNKNOWN = 3
    """It can't be found out."""


_WORSE = (Service.OK, Service.WARNING, Service.UNKNOWN, Service.CRITICAL)
"""From the best to the worst."""
_UNKNOWN_STATES = ("unreachable", "unknown")


def service_of(status: LinkStatus, max_lag_s: float) -> Service:
    """Return the state of a link as a service."""
    if status.state in _UNKNOWN_STATES:
        return Service.UNKNOWN
    stopped = any(item.is_stopped for item in status.problems)
    is_wished = status.state in {"paused", "stopped"}
    if not (is_wished or status.state == "running") or stopped or status.troubles:
        return Service.CRITICAL
    if is_wished:
        return Service.WARNING
    return Service.OK if status.is_in_sync(max_lag_s) else Service.WARNING


def nagios_line(statuses: Sequence[LinkStatus], max_lag_s: float) -> tuple[Service, str]:
    """Return the worst service, and the line: what is wrong, `|`, and performance data."""
    services = [(service_of(status, max_lag_s), status) for status in statuses]
    worst = max((service for service, _ in services), key=_WORSE.index, default=Service.UNKNOWN)
    wrong = [
        f"{status.link}: {', '.join(status.why_not_in_sync(max_lag_s))}"
        for service, status in services
        if service is not Service.OK
    ]
    words = "; ".join(wrong) or f"{len(services)} links in sync"
    figures = " ".join(_figures(status, max_lag_s) for status in statuses)
    return worst, f"{line_of(worst, words)} | {figures}" if figures else line_of(worst, words)


def line_of(service: Service, words: str) -> str:
    """Return a line without figures: in one line, without the character that begins those."""
    text = " ".join(words.split()).replace("|", "/")
    if len(text) > WORDS_MAX:
        text = text[: WORDS_MAX - 1] + "…"
    return f"HELIOSTAT {service.name} - {text}"


def _figures(status: LinkStatus, max_lag_s: float) -> str:
    """Return a link's performance data; `U` is what plugins write for what is not known."""
    name = status.link
    records = "U" if status.lag_records is None else f"{status.lag_records}"
    age = "U" if status.lag_s is None else f"{status.lag_s:.1f}s"
    return (
        f"'{name}_lag_records'={records};;;0 '{name}_lag_seconds'={age};{max_lag_s:g};;0 "
        f"'{name}_records_per_second'={status.records_per_s:.1f};;;0 "
        f"'{name}_partitions'={status.partitions};;;0 '{name}_unknown'={status.unknown};;;0 "
        f"'{name}_problems'={len(status.problems)};;;0"
    )
