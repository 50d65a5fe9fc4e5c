"""What rows that come back from a pipeline may not be: the same words for link, trial and verify.

A row is of a record that was given, in its order and once, in its partition, with a timestamp that
brokers take and headers that have names. Where rows have other offsets or partitions, any of them
may be of another record: then no record is named, and whoever asks tries fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.errors import TransformFailed
from heliostat.names import TopicPartition
from heliostat.records.rows.row_times import WHY_NOT_TAKEN, not_taken, times_ms

NO_PLACE = "a row came back without its partition or offset"
OTHER_PARTITION = "a row came back with another partition"
UNKNOWN_OFFSET = "a row came back with an offset that no record has"
NO_MARK = "a row of partition -1 did not come back as it was"
OUT_OF_ORDER = "rows came back out of order or more than once"
NO_TIMESTAMP = "a row came back without a timestamp"
NO_HEADERS = "a row came back whose headers, or the key of one, are null"


def misplaced(partition: int, given: Any, rows: pa.Table) -> str:
    """Return why nobody can say which records some rows are of; empty: each says it.

    Parameters
    ----------
    partition, given
        The partition, and the offsets of its records that went in (numpy).
    rows
        What came back: partition, offset, and the columns that may have changed.
    """
    if rows["partition"].null_count or rows["offset"].null_count:
        return NO_PLACE
    if (rows["partition"].to_numpy() != partition).any():
        return OTHER_PARTITION
    return "" if np.isin(rows["offset"].to_numpy(), given).all() else UNKNOWN_OFFSET


def wrong_rows(rows: pa.Table) -> dict[int, str]:
    """Return what is wrong with rows that are not `misplaced`, by offset; the first one first."""
    offsets = rows["offset"].to_numpy()
    reasons: dict[int, tuple[int, str]] = {}
    for why, places in _wrong(offsets, rows):
        for place in places.tolist():
            reasons.setdefault(int(offsets[place]), (place, why))
    return {offset: why for offset, (_, why) in sorted(reasons.items(), key=lambda pair: pair[1])}


def _wrong(offsets: Any, rows: pa.Table) -> Iterator[tuple[str, Any]]:
    """Yield what may be wrong, and the places of the rows in which it is."""
    yield OUT_OF_ORDER, np.flatnonzero(offsets[1:] <= np.maximum.accumulate(offsets)[:-1]) + 1
    if "timestamp" in rows.column_names:
        times = rows["timestamp"].combine_chunks()
        is_there = _is_there(times)
        yield NO_TIMESTAMP, np.flatnonzero(~is_there)
        there = np.flatnonzero(is_there)
        yield WHY_NOT_TAKEN, there[not_taken(times_ms(times.drop_null()))]
    if "headers" in rows.column_names:
        lists = rows["headers"].combine_chunks()
        wrong = ~_is_there(lists)
        parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
        wrong[parents[~_is_there(pc.list_flatten(lists).field(0))]] = True
        yield NO_HEADERS, np.flatnonzero(wrong)


def _is_there(column: pa.Array) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)


def wrong_row(source: TopicPartition, given: Any, rows: pa.Table) -> TransformFailed | None:
    """Return what is wrong with rows; None: nothing.

    Its context has the offset of the first record that is to blame: those before it are sound. It
    has none where any record may be the one. See `misplaced` for the parameters.
    """
    place: dict[str, Any] = {"topic": source.topic, "partition": source.partition}
    if why := misplaced(source.partition, given, rows):
        if len(given) == 1:
            place["offset"] = int(given[0])
        return TransformFailed(why, **place)
    for offset, why in wrong_rows(rows).items():
        return TransformFailed(why, **place, offset=offset)
    return None
