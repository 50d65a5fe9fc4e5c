"""Records of merged topics by where they are from: told by producer ids, compared by number.

A link's own batches at the target have its producer ids, and count its own records by their
sequence. What links have brought to the source is not the link's to copy: it is left out there.
Written for `verify` alone: nothing here is what copies.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Self

from heliostat.names import TopicPartition
from heliostat.verify.mapped import MovedBatch
from heliostat.verify.reader import FetchedPart, LogReader
from heliostat.verify.stream import Batch, PartitionStream

_WRITER_AT = 43  # KIP-98: producer id, producer epoch, base sequence
_WRITER = struct.Struct(">qhi")
_V2, _MAGIC_AT = 2, 16
SEQUENCES = 2**31
"""A sequence that is no less begins with 0 again."""
BACK_RECORDS = 1_000
"""Offsets of the first look back for a link's last batch; each further one takes four times."""


class LinkIds(NamedTuple):
    """Producer ids of links, read of their rows after the ends of both sides' logs."""

    at_source: frozenset[int]
    """Of all links that append there."""
    at_target: frozenset[int]
    """Of the link that is verified."""
    noted: Mapping[TopicPartition, int] = MappingProxyType({})
    """How many records it has appended, by source partition, of topics that may be compacted: its
    last batches may be gone there."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose records one partition has; travels to Spark's workers.

    Parameters
    ----------
    ids
        Producer ids of links.
    start, end
        Range of the target's log.
    number
        Number of the first own record in it.
    to_end
        Whether the log is read to its end, as what repeats a number may be anywhere.
    """

    ids: LinkIds
    start: int
    end: int
    number: int
    to_end: bool = True

    def of_site(
        self, batches: Iterable[Batch], passed: Callable[[Batch], None] | None = None
    ) -> Iterator[Batch]:
        """Yield what no link has brought to the source; `passed` is given the others."""
        for each in batches:
            if _writer(each)[0] not in self.ids.at_source:
                yield each
            elif passed is not None:
                passed(each)

    def from_(self, reader: LogReader, partition: TopicPartition, start: int) -> Self:
        """Return what is left of it where the target's log begins at a later offset by now."""
        first = next(_own(reader, partition, start, self.end, self.ids.at_target), None)
        number = self.number
        if first is not None:
            number = _nearest(_writer(first)[1], number) + max(0, start - first.base_offset)
        return replace(self, start=start, number=number)


def _writer(batch: Batch) -> tuple[int, int]:
    """Return producer id and sequence of a batch's first record; -1: nobody's."""
    if len(batch.data) < _WRITER_AT + _WRITER.size or batch.data[_MAGIC_AT] != _V2:
        return -1, -1
    producer_id, _, sequence = _WRITER.unpack_from(batch.data, _WRITER_AT)
    return producer_id, sequence


def _nearest(sequence: int, number: int) -> int:
    """Return the number with this sequence that is nearest to another one."""
    half = SEQUENCES // 2
    return max(0, number - half + (sequence - number + half) % SEQUENCES)


class OwnRecords:
    """A link's own batches in a target's log, with their numbers as offsets.

    Numbers never go back here: a batch that repeats some stands behind all before it, and what
    follows is moved.

    Parameters
    ----------
    stream
        The log, from the origin's start to its end.
    origin
        Whose records it has.
    start, end
        Numbers; batches wholly outside are left out.
    passed
        Is given all that is not the link's own.
    """

    def __init__(
        self,
        stream: PartitionStream,
        origin: Origin,
        start: int,
        end: int,
        passed: Callable[[Batch], None] | None = None,
    ) -> None:
        self._passed = passed
        self._stream = stream
        self._origin = origin
        self._start, self._end = start, end
        self.repeated_at: int | None = None
        """Place of the first record whose number was there before."""

    @property
    def holes(self) -> int:
        """Offsets of the log without a record, as far as it was read."""
        return self._stream.holes

    def __iter__(self) -> Iterator[Batch]:
        following = self._origin.number
        for batch in self._stream:
            producer_id, sequence = _writer(batch)
            if producer_id not in self._origin.ids.at_target:
                if self._passed is not None:
                    self._passed(batch)
                continue
            gone = max(0, self._origin.start - batch.base_offset)
            number = _nearest(sequence, following)
            if number >= self._end and not self._origin.to_end:
                return
            if number + gone < following:
                self.repeated_at = following if self.repeated_at is None else self.repeated_at
                number = following - gone
            following = number + batch.next_offset - batch.base_offset
            if following > self._start and number < self._end:
                shift = number - batch.base_offset
                fields = batch.records, batch.meaning, batch.data
                yield MovedBatch(number, following, *fields, shift)


def target_stream(
    reader: LogReader,
    partition: TopicPartition,
    start: int,
    stop: int,
    *,
    first: FetchedPart | None = None,
    origin: Origin | None = None,
) -> PartitionStream | OwnRecords:
    """Return a target's batches in `[start, stop)`: offsets, or numbers where sites are merged."""
    if origin is None:
        return PartitionStream(reader, partition, start, stop, first)
    whole = PartitionStream(reader, partition, origin.start, origin.end)
    return OwnRecords(whole, origin, start, stop)


class OwnRange(NamedTuple):
    """Numbers of a link's own records in a log: the first one, and that behind the last one."""

    start: int
    end: int


def own_range(
    reader: LogReader,
    partition: TopicPartition,
    log: tuple[int, int],
    own: frozenset[int],
    near: int,
) -> OwnRange | None:
    """Look up which own records a log has; None: it has none, and had others before.

    Parameters
    ----------
    reader
        Reads the target.
    partition
        Of the target.
    log
        First offset and end.
    own
        The link's producer ids.
    near
        About how many the link has copied, by its map: sequences begin anew after 2^31.
    """
    start, end = log
    last = _last_own(reader, partition, log, own)
    if last is None:
        return OwnRange(0, 0) if start == 0 else None
    behind = _nearest(_writer(last)[1], near) + last.next_offset - last.base_offset
    first = next(_own(reader, partition, start, end, own))
    number = behind - (behind - _writer(first)[1]) % SEQUENCES
    return OwnRange(number + max(0, start - first.base_offset), behind)


def _own(
    reader: LogReader, partition: TopicPartition, start: int, end: int, own: frozenset[int]
) -> Iterator[Batch]:
    batches = PartitionStream(reader, partition, start, end)
    return (each for each in batches if _writer(each)[0] in own)


def _last_own(
    reader: LogReader, partition: TopicPartition, log: tuple[int, int], own: frozenset[int]
) -> Batch | None:
    """Return the last own batch, looked for in longer and longer pieces from the end."""
    start, end = log
    size = BACK_RECORDS
    while end > start:
        begin = max(start, end - size)
        last: Batch | None = None
        for last in _own(reader, partition, begin, end, own):  # noqa: B007 - the last one counts
            pass
        if last is not None:
            return last
        end, size = begin, 4 * size
    return None
