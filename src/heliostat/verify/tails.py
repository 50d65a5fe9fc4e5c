"""How many records the target is behind, where that is little: offsets may hold no record."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from heliostat.errors import BrokerError
from heliostat.names import OffsetRange
from heliostat.verify.reader import LogReader
from heliostat.verify.stream import PartitionStream

COUNTED_MAX = 100
"""Offsets: a mirror that is further behind lags, whatever they hold."""
TOGETHER = 100
"""Tails a request."""
TAIL_BYTES = 64 * 1024
"""A tail's share of such an answer; the rest is fetched after."""


def offsets_without_record(source: LogReader, tails: Iterable[OffsetRange]) -> int:
    """How many offsets of short tails are markers, aborted or compacted: nothing to be copied.

    Parameters
    ----------
    source
        Reads committed records only.
    tails
        What the target is behind; long ones are left out.
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
            continue  # a log that moves on while it is read: the offsets stand for records
    return found
