"""Batches of a fetch answer that links have brought to its site: they don't go on from there.

They become batches without records, as compaction leaves them, in place and by their headers alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types

from heliostat.clusters.wire.scan import number_at
from heliostat.merge.producers import SiteProducers, Whose
from heliostat.ops.compiled import compiled, inlined
from heliostat.records.batches.batch import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    each_header,
    forget_records,
)

_SIZE_AT, _SIZE_FROM, _PRODUCER_AT = 8, 12, 43
"""Places in a batch's header: its length, what that is counted from, and its producer id."""
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INT = types.int64


class Sorted(NamedTuple):
    """How far an answer was sorted."""

    end: int
    """Where the first batch begins whose producer is unknown, or all that was to be sorted ends."""
    unknown: frozenset[int]
    """Producer ids from there on that must be judged first."""


@inlined(types.boolean(types.int64[::1], _INT))
def _is_in(ascending: Any, number: int) -> Any:
    """Return whether a number is among these."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low < len(ascending) and ascending[low] == number


@compiled(_INT(_BYTES, _INT, _INT, types.int64[::1]))
def _first_of_others(data: Any, position: int, end: int, site: Any) -> Any:
    """Return where the first batch begins that may not be the site's own, or is no sound one.

    `site` are producer ids of the site's own producers, ascending. `end`: there is no such batch.
    """
    while position + HEADER_BYTES <= end:
        size = _SIZE_FROM + number_at(data, position + _SIZE_AT, 4)
        if size < HEADER_BYTES or data[position + MAGIC_AT] != MAGIC:
            return position
        if position + size > end:
            break
        producer_id = number_at(data, position + _PRODUCER_AT, 8)
        if producer_id >= 0 and not _is_in(site, producer_id):
            return position
        position += size
    return end


def from_others(data: Any, begin: int, end: int, site: Any) -> int:
    """Return from where on `leave_crossed` has to look; see `_first_of_others`.

    Parameters
    ----------
    data
        The answer, as an array of bytes.
    """
    return int(_first_of_others(data, begin, end, site))


def leave_crossed(
    buffer: bytearray | memoryview, begin: int, end: int, producers: SiteProducers
) -> Sorted:
    """Empty the batches in `buffer[begin:end]` that a link has appended there.

    Raises
    ------
    BatchError
        As `batch.read_header`.
    """
    stop, unknown = end, set[int]()
    for start, header in each_header(buffer, begin, end):
        whose = producers.whose(header.producer_id)
        if whose is Whose.UNKNOWN and not header.is_control:
            stop = min(stop, start)
            unknown.add(header.producer_id)
        elif whose is Whose.LINK and header.records_count and not unknown:
            forget_records(buffer, start, header)
    return Sorted(stop, frozenset(unknown))
