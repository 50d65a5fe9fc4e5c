"""What a link has appended to one merged partition, as far as one round knows.

Where it goes on is decided by `heliostat.merge.own_end`; here is what that needs to be read of the
target's log, stretch by stretch, so that a lane is not held up by a long one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import NamedTuple

from heliostat.merge.own_end import BatchPlace, OwnNote, own_batches
from heliostat.names import Offset
from heliostat.records.batches.batch import HEADER, MAGIC, MAGIC_AT, BatchHeader
from heliostat.records.transport.single_batches import each_batch

PLACES_MAX = 4096
"""Batches whose places are kept: the newest are compared with the source after a doubt."""
NOBODY = -1


class OwnPlace(NamedTuple):
    """Where records of one batch are."""

    number: int
    """Of the first one."""
    records: int
    offset: Offset
    """Target offset of the first one."""


class LogStretch:
    """Batches of the target's log from an offset on, read piece by piece.

    Parameters
    ----------
    begin
        Its first offset.
    epoch
        Leader epoch in which it is read: after an election it is read anew.
    """

    def __init__(self, begin: Offset, epoch: int) -> None:
        self.begin = begin
        self.epoch = epoch
        self.next = begin
        """Offset to read next."""
        self.batches: list[BatchPlace] = []
        """Those of the link; others' side by side count as one."""

    def take(self, data: bytes, own: Collection[int]) -> None:
        """Take what was read at `next`."""
        for batch in each_batch(data):
            if batch[MAGIC_AT] != MAGIC:
                return
            header = BatchHeader._make(HEADER.unpack_from(batch))
            if header.next_offset <= self.next:
                continue
            self._add(header, own)
            self.next = Offset(header.next_offset)

    def _add(self, header: BatchHeader, own: Collection[int]) -> None:
        is_own = header.producer_id in own and not header.is_control
        producer_id = header.producer_id if is_own else NOBODY
        place = BatchPlace(
            producer_id, header.base_sequence, header.base_offset, header.next_offset
        )
        last = self.batches[-1] if self.batches else None
        is_more = not is_own and last is not None and last.producer_id == NOBODY
        if last is not None and is_more and last.next_offset >= place.offset:
            self.batches[-1] = last._replace(next_offset=place.next_offset)
        else:
            self.batches.append(place)


class OwnLog:
    """The link's own records in one partition of the target.

    Parameters
    ----------
    note
        What is durable of them.
    """

    def __init__(self, note: OwnNote) -> None:
        self.note = note
        """What is true of the log by now; reports have it."""
        self.count: int | None = None
        """How many have landed; None: that is to be found out."""
        self.epoch = -1
        """Leader epoch as of the last look."""
        self.stretch: LogStretch | None = None
        self._places: list[OwnPlace] = []

    def stands_at(self, number: int | None, epoch: int) -> None:
        """Take how many have landed, as a look has shown."""
        self.count, self.epoch = number, epoch
        self.note = self.note._replace(is_closed=False)  # something may be sent from now on
        if number is not None:
            self._places = [each for each in self._places if each.number < number]

    def landed(self, number: int, records: int, offset: int) -> None:
        """Take where a batch has landed, by the broker's answer."""
        if number != self.count:
            return
        self._keep(OwnPlace(number, records, Offset(offset)))
        self.count = number + records
        self.note = OwnNote(self.count, Offset(offset + records), self.epoch)

    def stands_alone(self, end: Offset, epoch: int) -> None:
        """Take it that below `end` are all that have landed, and that none is under way."""
        if self.count is not None and end >= self.note.complete_to:
            self.note = OwnNote(self.count, end, epoch)

    def learn(self, own: Collection[int]) -> None:
        """Take where the stretch that was read has own records."""
        known = {each.number for each in self._places}
        batches = () if self.stretch is None else self.stretch.batches
        for number, batch in own_batches(batches, own, self.note.number):
            if number not in known:
                records = batch.next_offset - batch.offset
                self._keep(OwnPlace(number, records, Offset(batch.offset)))
        self._places.sort()

    def _keep(self, place: OwnPlace) -> None:
        self._places.append(place)
        if len(self._places) > 2 * PLACES_MAX:
            del self._places[:PLACES_MAX]

    def place_of(self, number: int) -> OwnPlace | None:
        """Return the batch that has a record; None: it is not known."""
        at = bisect_right(self._places, number, key=lambda each: each.number) - 1
        if at < 0:
            return None
        found = self._places[at]
        return found if number < found.number + found.records else None
