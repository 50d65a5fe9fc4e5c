"""Count offsets without a record in short lags, so that the lag in records is right."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from heliostat.errors import BrokerError
from heliostat.names import OffsetRange
from heliostat.verify.reader import LogReader
from heliostat.verify.stream import PartitionStream

COUNTED_MAX = 100
"""Offsets: a mirror with a greater lag does lag, whatever these offsets are."""
TOGETHER = 100
"""Tails per fetch request."""
TAIL_BYTES = 64 * 1024
"""Bytes per tail in such an answer; the rest is fetched afterwards."""


def offsets_without_record(source: LogReader, tails: Iterable[OffsetRange]) -> int:
    """Count offsets in short tails that are markers, aborted or compacted: nothing to copy.

    Parameters
    ----------
    source
        Reader of the source's committed records.
    tails
        Source offsets not copied yet, by partition; long ones are left out.
    """
    short = iter([one for one in tails if len(one) <= COUNTED_MAX])
    found = 0
    while group := list(islice(short, TOGETHER)):
        try:
            first = source.fetch({one.partition: one.start for one in group}, TAIL_BYTES)
            for one in group:
                start, end = one.start, one.end
                stream = PartitionStream(source, one.partition, start, end, first[one.partition])
                found += len(one) - sum(len(batch.rows(start, end)) for batch in stream)
        except BrokerError:
            continue  # the log start moved while it was read: count each offset as a record
    return found
