"""Count offsets without a record in short lags, so that the lag in records is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.names import OffsetRange, TopicPartition
from heliostat.verify.reader import LogReader
from heliostat.verify.schema_ids import Views
from heliostat.verify.stream import Batch, PartitionStream

COUNTED_MAX = 100
"""Offsets: a mirror with a greater lag does lag, whatever these offsets are."""
CROSSED_MAX = 100_000
"""The same where several sites write: of a topic's end all may be from elsewhere."""
TOGETHER = 100
"""Tails per fetch request."""
TAIL_BYTES = 64 * 1024
"""Bytes per tail in such an answer; the rest is fetched afterwards."""


def offsets_without_record(
    source: LogReader, tails: Iterable[OffsetRange], views: Callable[[TopicPartition], Views]
) -> int:
    """Count offsets in short tails that are markers, aborted, compacted or filtered out.

    Parameters
    ----------
    source
        Reader of the source's committed records.
    tails
        Source offsets not copied yet, by partition; long ones are left out.
    views
        How partitions of the source are seen.
    """
    short = iter([one for one in tails if len(one) <= _counted_max(views(one.partition))])
    found = 0
    while group := list(islice(short, TOGETHER)):
        try:
            first = source.fetch({one.partition: one.start for one in group}, TAIL_BYTES)
        except BrokerError:
            continue  # the log start moved while it was read: count each offset as a record
        for one in group:
            stream = PartitionStream(
                source, one.partition, one.start, one.end, first[one.partition]
            )
            try:
                found += len(one) - _records(views(one.partition).of_source(stream), one)
            except ConnectionLost:
                raise
            except HeliostatError:
                continue  # the same; comparing it tells why
    return found


def _counted_max(views: Views) -> int:
    return COUNTED_MAX if views.origin is None else CROSSED_MAX


def _records(batches: Iterable[Batch], tail: OffsetRange) -> int:
    return sum(len(batch.rows(tail.start, tail.end)) for batch in batches)
