"""`carry` as the product runs it, and once more with each index of its compiled loops checked."""

from __future__ import annotations

from typing import Any

from support.checked_indexes import with_checked_indexes

from heliostat.records.batches import convert as as_it_runs
from heliostat.records.batches.converted import CarryOutcome

compiled_bytes, reencode, joining, carry_checked = with_checked_indexes(
    "heliostat.records.batches.compiled_bytes",
    "heliostat.records.batches.reencode",
    "heliostat.records.batches.joining",
    "heliostat.records.batches.convert",
)


def carry(buffer: bytearray, start: int, end: int, *more: Any) -> CarryOutcome:
    """As `batches.convert.carry`; both ways leave the same, in the buffer as well."""
    copy = bytearray(buffer)
    checked = carry_checked.carry(copy, start, end, *more)
    outcome = as_it_runs.carry(buffer, start, end, *more)
    assert checked == outcome
    assert copy == buffer
    return outcome
