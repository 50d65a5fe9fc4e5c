"""`convert` as the product runs it, and once more with index checks in its compiled loops."""

from __future__ import annotations

from typing import Any

from support.checked_indexes import with_checked_indexes

from heliostat.records.batches import convert as as_it_runs
from heliostat.records.batches.converted import ConvertOutcome

compiled_bytes, reencode, joining, batch_maker_checked, convert_checked = with_checked_indexes(
    "heliostat.records.batches.compiled_bytes",
    "heliostat.records.batches.reencode",
    "heliostat.records.batches.joining",
    "heliostat.records.batches.batch_maker",
    "heliostat.records.batches.convert",
)


def convert(buffer: bytearray, start: int, end: int, *more: Any) -> ConvertOutcome:
    """As `batches.convert.convert`; both runs must give the same, in the buffer as well."""
    copy = bytearray(buffer)
    checked = convert_checked.convert(copy, start, end, *more)
    outcome = as_it_runs.convert(buffer, start, end, *more)
    assert checked == outcome
    assert copy == buffer
    return outcome
