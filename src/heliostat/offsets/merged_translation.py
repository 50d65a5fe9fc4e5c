"""Translates offsets of merged topics: the same record's place at both sides; pure.

Others write at the target as well. So an offset there may be of a record that is from elsewhere,
and an answer says where a record is, not where a consumer goes on (`heliostat groups` does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from heliostat.errors import Refused
from heliostat.merge.crossing import Crossing
from heliostat.merge.landed_log import UnknownPlaceError
from heliostat.names import Offset, TopicPartition
from heliostat.offsets.values import Answer, TranslatedPartition, Why


class MergedRun(NamedTuple):
    """Records that are side by side at the source, and count on among the link's own."""

    source: int
    number: int
    length: int | None
    target: Offset | None
    """Target offset of the first one; None: the target's log has it no more."""


class MergedPartition:
    """One partition of a merged topic.

    Parameters
    ----------
    partition
        The partition, as it was read.
    crossing
        What the link has carried of it.
    start, end
        The target's log, as of the same look.
    """

    def __init__(
        self, partition: TranslatedPartition, crossing: Crossing, start: Offset, end: Offset
    ) -> None:
        self._one = partition
        self._crossing = crossing
        self._start = start
        self._end = end

    @property
    def position(self) -> Offset:
        """Source offset below which all has landed, as far as known."""
        try:
            return max(self._crossing.at_source(self._end), self._one.passed)
        except UnknownPlaceError:
            return self._one.passed

    def landed(self) -> int | None:
        """Return how many records have landed; None: neither log nor note tells that."""
        try:
            return self._crossing.landed.count
        except UnknownPlaceError:
            return None

    def runs(self) -> list[MergedRun]:
        """Return the runs of records that the source has side by side, and where they begin.

        Raises
        ------
        Refused
            How many records have landed can't be told.
        """
        sent, landed = self._crossing.sent, self._crossing.landed
        try:
            numbered = replace(self._one, offsets=sent, end=Offset(landed.count))
            extents = [extent for extent in numbered.extents() if extent.length]
            return [MergedRun(*extent, self._place_of(extent.target)) for extent in extents]
        except UnknownPlaceError as error:
            raise Refused(f"{self._one.target}: {error}") from error

    def _place_of(self, number: int) -> Offset | None:
        place = self._crossing.landed.place_of(number)
        return place if self._crossing.landed.before(place) == number else None

    def to_target(self, offset: Offset) -> Answer:
        """Return the target offset of the record at a source offset, or of the next one."""
        return _answer(self._one.source, self._one.target, offset, self._to_target)

    def _to_target(self, offset: Offset) -> tuple[Offset | None, Why | None, str]:
        sent, landed = self._crossing.sent, self._crossing.landed
        if offset < self._one.begin:
            text = f"the link has begun with source offset {self._one.begin}"
            return None, Why.BELOW_START, text
        number = sent.target_of(offset)
        if number >= landed.count:
            if offset < self.position:
                return None, Why.HOLE, "no record at that offset or behind it has been carried"
            return None, Why.BEYOND, f"landed so far: what is before source offset {self.position}"
        place = landed.place_of(number)
        if landed.before(place) != number:
            text = f"the target's log begins at {self._start}, and has it no more"
            return None, Why.BELOW_START, text
        following = sent.source_of(number)
        if following != offset:
            text = f"no record at {offset} was carried; the next is source offset {following}"
            return place, Why.HOLE, text
        return place, None, ""

    def to_source(self, offset: Offset) -> Answer:
        """Return the source offset of the record at a target offset."""
        return _answer(self._one.target, self._one.source, offset, self._to_source)

    def _to_source(self, offset: Offset) -> tuple[Offset | None, Why | None, str]:
        if offset < self._start:
            return None, Why.BELOW_START, f"the target's log begins at {self._start}"
        if offset >= self._end:
            return None, Why.BEYOND, f"the target's log ends at {self._end}"
        landed = self._crossing.landed
        if landed.behind_run(offset) == offset:
            return None, Why.ELSEWHERE, "what is there did not come from the link's source"
        return self._crossing.sent.source_of(landed.before(offset)), None, ""


def _answer(
    here: TopicPartition,
    there: TopicPartition,
    offset: Offset,
    place_of: Callable[[Offset], tuple[Offset | None, Why | None, str]],
) -> Answer:
    """Return where an offset of one side is at the other, or that its place is not known."""
    try:
        to, why, text = place_of(offset)
    except UnknownPlaceError as error:
        to, why, text = None, Why.NOT_TOLD, str(error)
    asked = here.topic, here.partition, offset
    return Answer(*asked, there.topic, to, why, text, there.partition)
