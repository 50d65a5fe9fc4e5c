"""Which of two topics keeps its records for a shorter time, or fewer of them; pure."""

from __future__ import annotations

from collections.abc import Mapping

RETENTION_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes")
"""Settings of topics by which brokers delete old records."""
_MS_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_BYTE_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_ENDLESS = -1
"""Kafka's value for "no limit"."""


def kept_shorter(source: Mapping[str, str | None], target: Mapping[str, str | None]) -> str | None:
    """How much less the target keeps than the source, for people; None if it doesn't.

    Parameters
    ----------
    source, target
        Settings in effect, by name; one that is missing is not compared.
    """
    if "delete" not in (target.get("cleanup.policy") or "delete"):
        return None
    if "delete" not in (source.get("cleanup.policy") or "delete"):
        source = {**source, "retention.ms": str(_ENDLESS), "retention.bytes": str(_ENDLESS)}
    differences: list[str] = []
    for key, readable in (("retention.ms", readable_ms), ("retention.bytes", _readable_bytes)):
        ours, theirs = _number(target.get(key)), _number(source.get(key))
        if ours is None or theirs is None or ours == _ENDLESS:
            continue
        if theirs == _ENDLESS or ours < theirs:
            limit = "no limit" if theirs == _ENDLESS else readable(theirs)
            differences.append(f"{key} {readable(ours)} instead of {limit}")
    return ", ".join(differences) or None


def readable_ms(milliseconds: int) -> str:
    """The duration in the largest unit that divides it."""
    return _readable(milliseconds, _MS_UNITS, "ms")


def _readable_bytes(count: int) -> str:
    return _readable(count, _BYTE_UNITS, "bytes")


def _readable(number: int, units: tuple[tuple[int, str], ...], smallest: str) -> str:
    for size, unit in units:
        if number >= size and number % size == 0:
            return f"{number // size} {unit}"
    return f"{number} {smallest}"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
