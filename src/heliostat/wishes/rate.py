"""Bytes a second as people write them: `20MB/s`, `1.5 MiB/s`, `none`."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {
    "B": 1,
    "kB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}
NONE = "none"
RATE_MIN, RATE_MAX = 1_000, 1_000_000_000_000
"""A kilobyte a second is less than most batches have; to copy nothing, pause."""
_RATE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?(B|kB|MB|GB|KiB|MiB|GiB)/s", re.ASCII)


def rate_of(text: str) -> int | None:
    """Return the bytes a second that a text says; None: no limit.

    Raises
    ------
    ValueError
        It is not a rate; its text says why.
    """
    if text == NONE:
        return None
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no limit: it is {NONE}, or a number and one of "
            f"{', '.join(f'{unit}/s' for unit in UNITS)}, as 20MB/s"
        )
    rate = int(Decimal(match[1]) * UNITS[match[2]])
    if not RATE_MIN <= rate <= RATE_MAX:
        raise ValueError(
            f"{text!r} is no limit between 1 kB/s and 1000 GB/s: to copy nothing, `heliostat pause`"
        )
    return rate


def rate_text(bytes_per_s: int | None) -> str:
    """Return a rate as people write it, exactly."""
    if bytes_per_s is None:
        return NONE
    for unit in ("GB", "MB", "kB"):
        if bytes_per_s >= UNITS[unit] and bytes_per_s % (UNITS[unit] // 100) == 0:
            return f"{Decimal(bytes_per_s) / UNITS[unit]:f} {unit}/s"
    return f"{bytes_per_s} B/s"
