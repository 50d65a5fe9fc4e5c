"""Batches of a fetch answer that links have brought to its site: they don't go on from there.

They become batches without records, as compaction leaves them, in place and by their headers alone.
"""

from __future__ import annotations

from typing import NamedTuple

from heliostat.merge.producers import SiteProducers, Whose
from heliostat.records.batches.batch import each_header, forget_records


class Sorted(NamedTuple):
    """How far an answer was sorted."""

    end: int
    """Where the first batch begins whose producer is unknown, or all that was to be sorted ends."""
    unknown: frozenset[int]
    """Producer ids from there on that must be judged first."""


def leave_crossed(
    buffer: bytearray | memoryview, at: int, end: int, producers: SiteProducers
) -> Sorted:
    """Empty the batches in `buffer[at:end]` that a link has appended there.

    Raises
    ------
    BatchError
        As `batch.read_header`.
    """
    stop, unknown = end, set[int]()
    for start, header in each_header(buffer, at, end):
        whose = producers.whose(header.producer_id)
        if whose is Whose.UNKNOWN and not header.is_control:
            stop = min(stop, start)
            unknown.add(header.producer_id)
        elif whose is Whose.LINK and header.records_count and not unknown:
            forget_records(buffer, start, header)
    return Sorted(stop, frozenset(unknown))
