"""Which records of a fetch answer belong to aborted transactions.

The answer lists them (KIP-98, `FetchResponse.AbortedTransaction`): a producer id and the first
offset of its transaction, which ends at that producer's abort marker. As a batch has one producer,
nothing has to be decompressed to leave them out (`CompletedFetch`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from heliostat.errors import BatchError
from heliostat.records.batches.batch import (
    HEADER_BYTES,
    BatchHeader,
    each_header,
    forget_records,
)
from heliostat.records.batches.crc import Buffer
from heliostat.records.batches.varints import read_varint

ABORT = 0
"""Type of a control record (`ControlRecordType`): 0 aborts, 1 commits."""
_MARKER_KEY_BYTES = 4
"""Version and type, two bytes each."""


class Aborted(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int


class AbortedTransactions:
    """The aborted transactions of one answer; ask about batches in order, repeats are allowed.

    An answer of a megabyte may hold thousands of batches of one producer, and hundreds of its
    aborted transactions. So nothing here scans all of them: a lane that did needed longer for an
    answer than its round lasts, and never got past it.

    Parameters
    ----------
    aborted
        As the broker listed them.
    """

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._first_offsets: dict[int, list[int]] = {}
        self._abort_markers: dict[int, list[int]] = {}
        for item in aborted:
            self._first_offsets.setdefault(item.producer_id, []).append(item.first_offset)
        for firsts in self._first_offsets.values():
            firsts.sort()

    @property
    def none_aborted(self) -> bool:
        """Whether all transactions of this answer were committed."""
        return not self._first_offsets

    def has_aborted(self, header: BatchHeader) -> bool:
        """Return whether the batch belongs to an aborted transaction."""
        if not header.is_transactional or header.producer_id not in self._first_offsets:
            return False
        markers = self._abort_markers.get(header.producer_id, [])
        before = bisect_left(markers, header.base_offset)
        ended = markers[before - 1] if before else -1  # what began before it is over
        firsts = self._first_offsets[header.producer_id]
        index = bisect_right(firsts, ended)
        return index < len(firsts) and firsts[index] <= header.last_offset

    def take_marker(self, view: Buffer, position: int, header: BatchHeader) -> None:
        """Note the marker in the control batch at `position`.

        Raises
        ------
        BatchError
            It holds no marker.
        """
        if marker_type(view, position + HEADER_BYTES, position + header.size) == ABORT:
            markers = self._abort_markers.setdefault(header.producer_id, [])
            if not markers or markers[-1] < header.base_offset:
                markers.append(header.base_offset)


def forget_aborted(
    buffer: bytearray | memoryview, start: int, end: int, aborted: Sequence[Aborted]
) -> None:
    """Leave the batches of aborted transactions in `buffer[start:end]` without records.

    So what no reader sees goes into no pipeline, and nothing waits for its schema. What is wrong
    with a batch is left to those who convert it.
    """
    if not aborted:
        return
    transactions = AbortedTransactions(aborted)
    try:
        for position, header in each_header(buffer, start, end):
            if header.is_control and header.records_count:
                transactions.take_marker(buffer, position, header)
            elif header.records_count and transactions.has_aborted(header):
                forget_records(buffer, position, header)
    except BatchError:
        return


def marker_type(view: Buffer, position: int, end: int) -> int:
    """Return the type of the marker whose control record is `view[position:end]`.

    Raises
    ------
    BatchError
        There is no marker.
    """
    try:
        _, position = read_varint(view, position)  # length
        _, position = read_varint(view, position + 1)  # timestamp, after the attributes
        _, position = read_varint(view, position)  # offset
        size, position = read_varint(view, position)
    except IndexError:
        size = -1
    if size < _MARKER_KEY_BYTES or position + size > end:
        raise BatchError("a control batch has no marker in it")
    return int.from_bytes(view[position + 2 : position + 4], "big", signed=True)
