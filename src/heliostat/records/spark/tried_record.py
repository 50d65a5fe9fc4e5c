"""What a pipeline makes of one record, as a trial shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from heliostat.records.rows.row_names import BACK

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]
"""Content of a row by column, see `heliostat.records.rows.layout`."""


@dataclass(frozen=True, slots=True)
class TriedRecord:
    """One record.

    Parameters
    ----------
    before
        The record.
    after
        What the pipeline makes of it; None: nothing, it is filtered out, or the pipeline fails.
    error
        Why the pipeline fails at it; empty: it does not.
    """

    before: Row
    after: Row | None
    error: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether it comes out, and not as it was."""
        return self.after is not None and any(
            self.before[each] != self.after[each] for each in BACK
        )


def shown_rows(rows: pa.Table) -> list[Row]:
    """Return rows as Python's values; Arrow would load pandas for their times."""
    import pyarrow as pa

    columns = {
        name: list(map(_time, rows[name].cast(pa.int64()).to_pylist()))
        if name == "timestamp"
        else rows[name].to_pylist()
        for name in rows.column_names
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _time(time_us: int | None) -> datetime | str | None:
    """Return a time; one that Python's calendar has not is told as what it is."""
    if time_us is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return f"{time_us} us"
