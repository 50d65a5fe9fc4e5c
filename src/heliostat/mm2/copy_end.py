"""Find where a copy ends in its source, by contents alone; no I/O.

Whatever tool made the copy, it read the source in order, and after a restart began again at or
before the place that it had reached. So the target's log is made of *runs*: consecutive records of
the source, where each run begins no later than one past the highest record copied before. The
resume point is one past the highest source record at the target.

Nothing else is assumed: not where the copy began, nor that any position was committed. Records at
the target that the source's retention has deleted must come right before the source's first one.
If records are altered, lacking, out of order, or equal so that two ends are possible, the result is
a reason in place of a resume point.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from heliostat.clusters.plain_records import PlainRecord
from heliostat.clusters.record_digest import digest_of
from heliostat.mm2.resume_point import NoResumePoint, ResumePoint, begin_map
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap

DIGEST_BYTES = 8
"""The chance that one of 10**8 records is taken for another is less than 1 in 1,000."""
ORIGIN_HEADERS = frozenset({"__replicator_id"})
"""Headers that a copying tool adds to say where a record comes from: Replicator's provenance."""


@dataclass(slots=True)
class Stretch:
    """Records of one log in order, from `start` on: 16 bytes each.

    Parameters
    ----------
    start, end
        The offsets that were read, end exclusive.
    reaches_start
        Whether nothing older is readable.
    """

    start: int
    end: int
    reaches_start: bool
    offsets: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("Q"))
    first_time_ms: int | None = None
    """The lowest timestamp of its records; None: it has none."""

    def extend(self, records: Iterable[PlainRecord], *, with_timestamps: bool) -> None:
        """Add records; what a copying tool notes of their origin is left out."""
        for record in records:
            headers = [header for header in record.headers if header[0] not in ORIGIN_HEADERS]
            stamp = record.timestamp_ms if with_timestamps else None
            digest = digest_of(record.key, record.value, headers, stamp)
            self.offsets.append(record.offset)
            self.digests.append(int.from_bytes(digest[:DIGEST_BYTES], "big"))
            if self.first_time_ms is None or record.timestamp_ms < self.first_time_ms:
                self.first_time_ms = record.timestamp_ms

    def __len__(self) -> int:
        return len(self.offsets)


class NotOfTheSource(NoResumePoint):
    """The target's last record is not at the source: no longer stretch can change that."""


def find_end_of_copy(
    source: Stretch, target: Stretch, *, is_equal_before: bool = False
) -> ResumePoint | NoResumePoint:
    """Find the resume point of one partition.

    Parameters
    ----------
    source
        What the source has from the oldest record of `target` on: none that is equal to one of
        `target` may be left out.
    target
        The last records of the copy.
    is_equal_before
        Whether offsets are equal before these, if they are equal there.
    """
    if not len(target):
        return NoResumePoint("no record is left at the target to compare with")
    try:
        return _Runs(source, target).resume_point(is_equal_before=is_equal_before)
    except _Wrong as wrong:
        return wrong.reason


class _Wrong(Exception):
    """Carries a `NoResumePoint`."""

    def __init__(self, text: str, kind: type[NoResumePoint] = NoResumePoint) -> None:
        super().__init__(text)
        self.reason = kind(text)


ABSENT, REPEATED = -1, -2
"""In place of an index at the source: no record there is equal, or several are."""


class _Runs:
    """A copy's records, with the index of each at the source if that is unique."""

    def __init__(self, source: Stretch, target: Stretch) -> None:
        self._source, self._target = source, target
        ours = np.frombuffer(source.digests, np.uint64)
        theirs = np.frombuffer(target.digests, np.uint64)
        values, first, counts = np.unique(ours, return_index=True, return_counts=True)
        self._ours, self._theirs = ours, theirs
        if len(values):
            row = np.minimum(np.searchsorted(values, theirs), len(values) - 1)
            place = np.where(counts[row] > 1, REPEATED, first[row])
            self._places = np.where(values[row] == theirs, place, ABSENT)
        else:
            self._places = np.full(len(theirs), ABSENT)
        self._repeated: dict[int, list[int]] = {}
        for index in np.flatnonzero(np.isin(ours, values[counts > 1])).tolist():
            self._repeated.setdefault(int(ours[index]), []).append(index)

    def resume_point(self, *, is_equal_before: bool) -> ResumePoint:
        """Return the resume point; raises `_Wrong` if there is none."""
        self._refuse_foreign_end()
        before = self._refuse_foreign_records()
        highest = self._highest()
        begins, lowest = self._beginning(before)
        breaks, placed = self._in_order(begins, lowest)
        if placed != highest - lowest + 1:
            raise self._unclear(highest)
        offsets = OffsetMap()
        first, end = breaks[0], Offset(self._target.end)
        is_all = self._target.reaches_start and begins == 0
        if is_all or (is_equal_before and begins == before):
            begin_map(offsets, *first, is_all=is_all)
        else:
            offsets.add(Break(0, max(0, first.source - 1)))
        for place in breaks:
            offsets.add(place)
        goes_on_at = Offset(self._source.offsets[highest] + 1)
        offsets.add(Break(end, goes_on_at))
        compared = len(self._target) - begins
        doubled = compared - placed
        return ResumePoint(goes_on_at, end, offsets, first, compared, doubled)

    def _refuse_foreign_end(self) -> None:
        if self._places[-1] != ABSENT:
            return
        last = self._target.offsets[-1]
        raise _Wrong(
            f"the target's last record, offset {last}, is not at the source with the same key, "
            "value, headers and timestamp: it was altered on the way, or somebody else wrote it, "
            "or the source has deleted or compacted it",
            NotOfTheSource,
        )

    def _refuse_foreign_records(self) -> int:
        """Return how many records at the beginning the source has no more; refuse any other."""
        absent = self._places == ABSENT
        if not absent.any():
            return 0
        before = int(np.argmin(absent))  # the first that is not absent; the last one isn't
        gone = self._theirs[:before]
        last_of_each = np.flatnonzero(absent[:-1] & ~absent[1:])
        has_deleted = self._source.reaches_start and self._source.start > 0
        ends_well = has_deleted and (self._theirs[last_of_each + 1] == self._ours[0]).all()
        if not ends_well or not np.isin(self._theirs[absent], gone).all():
            skipped = before if before and ends_well else 0
            wrong = self._target.offsets[int(np.flatnonzero(absent[skipped:])[0]) + skipped]
            raise _Wrong(
                f"target offset {wrong} is not at the source with the same key, value, headers and "
                "timestamp: it was altered on the way, somebody else wrote it, or a side has "
                "compacted its log"
            )
        return before

    def _highest(self) -> int:
        """Return the index of the highest source record at the target.

        After the highest of the records that occur once at the source come only repeated ones. As
        many of these have landed as follow it at the target in the source's order, unless they may
        as well begin a later run.
        """
        highest = int(self._places.max(initial=ABSENT))
        if highest < 0:
            raise _Wrong(
                "all records that both sides have occur more than once at the source: more than "
                "one place fits"
            )
        longest = max(
            self._run(int(place) + 1, highest + 1)
            for place in np.flatnonzero(self._places == highest)
        )
        landed = self._ours[highest + 1 : highest + 1 + longest]
        if len(np.unique(landed)) < longest or np.isin(landed, self._ours[: highest + 1]).any():
            raise self._unclear(highest)
        return highest + longest

    def _unclear(self, highest: int) -> _Wrong:
        return _Wrong(
            f"records after source offset {self._source.offsets[highest]} are equal to others, so "
            "it can't be known which of them the target's last records are"
        )

    def _run(self, place: int, index: int) -> int:
        longest = min(len(self._theirs) - place, len(self._ours) - index)
        copies = self._theirs[place : place + longest]
        unequal = np.flatnonzero(copies != self._ours[index : index + longest])
        return int(unequal[0]) if len(unequal) else longest

    def _beginning(self, before: int) -> tuple[int, int]:
        """Return the first record whose place is certain, and that place."""
        begins = int(np.flatnonzero(self._places[before:] >= 0)[0]) + before
        lowest = int(self._places[begins])
        while begins > before and lowest and self._theirs[begins - 1] == self._ours[lowest - 1]:
            begins, lowest = begins - 1, lowest - 1
        if before and (begins, lowest) != (before, 0):
            raise _Wrong(
                f"target offset {self._target.offsets[before - 1]} is not at the source, and it is "
                "not clear that the source's retention has deleted it"
            )
        return begins, lowest

    def _in_order(self, begins: int, lowest: int) -> tuple[list[Break], int]:
        """Return the place of each first copy, where places are not consecutive, and their number.

        Copies of what came before are passed over.
        """
        breaks: list[Break] = []
        placed, expected, after = 0, lowest, -1
        ours, offsets = self._source.digests, self._source.offsets
        for place in range(begins, len(self._target)):
            digest = self._target.digests[place]
            if expected == len(ours) or ours[expected] != digest:
                if not self._is_copied(place, digest, expected):
                    raise _Wrong(
                        f"source offset {offsets[expected]} is not at the target before target "
                        f"offset {self._target.offsets[place]}, which is a later record: not all "
                        "in between was copied, the order is another one, or a side has compacted "
                        "its log"
                    )
                continue
            target, source = self._target.offsets[place], offsets[expected]
            if not breaks or source - target != after:
                breaks.append(Break(target, source))
                after = source - target
            placed, expected = placed + 1, expected + 1
        return breaks, placed

    def _is_copied(self, place: int, digest: int, expected: int) -> bool:
        """Whether an earlier source record is equal, so that this can be another copy of it."""
        index = int(self._places[place])
        if index == ABSENT:
            return True  # deleted at the source: `_refuse_foreign_records` has seen to it
        if index != REPEATED:
            return index < expected
        return bisect_left(self._repeated[digest], expected) > 0
