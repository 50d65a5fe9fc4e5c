"""Whether both logs of a partition are equal up to a promotion, and what lies behind it; pure.

Places are the link's offset map's, and either side may have cleaned records away. What the old
source has must be at the new primary, and the other way round: an election at the old source may
have cut its log and put others there, or nothing. From the promotion it is looked back until an
equal record proves all that is before it, see `heliostat.rescue.crossing`.

Leader epochs are asked first: what they say was cut away is gone, whatever is there now. Where the
new primary has deleted all that could be compared, they alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from heliostat.gaps.source_truncation import Divergence
from heliostat.handover.promotion import PartitionPromotion
from heliostat.names import Offset, TopicPartition
from heliostat.offsets.offset_map import OffsetMap
from heliostat.operate.reversing.values import Evidence
from heliostat.rescue.crossing import CrossingFacts, uncrossed
from heliostat.rescue.look import LogHabits, place_of
from heliostat.verify.stream import ConsumedRecord

COPIED_WHOLE = "with `--tail recreate` the topic is made anew there, and copied whole"


@dataclass(frozen=True, slots=True)
class LogSide:
    """One side of a partition: its committed records.

    Parameters
    ----------
    start, end
        First offset, and the last stable one.
    rows
        Yields the records with offsets in `[start, stop)`, as they are compared.
    """

    partition: TopicPartition
    start: Offset
    end: Offset
    habits: LogHabits
    rows: Callable[[int, int], Iterable[ConsumedRecord]]

    def read(self, start: int, stop: int | None) -> Iterable[ConsumedRecord]:
        """Yield records as far as there are any; None: to the end."""
        start, stop = max(start, self.start), self.end if stop is None else min(stop, self.end)
        return self.rows(start, stop) if start < stop else ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing both logs of a partition has shown.

    Parameters
    ----------
    why
        How they differ below the promotion; empty if they don't.
    evidence
        What shows that they don't.
    tail
        How many records of the old source there may be behind it.
    must_stay
        Whether the old source's log is not to be replaced either.
    """

    why: str = ""
    evidence: Evidence = Evidence.RECORDS
    tail: int = 0
    must_stay: bool = False


@dataclass(frozen=True, slots=True)
class BothEnds:
    """Both logs of a partition, and all that they are compared by.

    Parameters
    ----------
    old_end
        Log end of the old source, whatever is committed.
    offsets
        The link's map, whose target was the new primary.
    has_epoch, truncated
        Whether the old source's leader epochs say anything, and what it lost by them.
    """

    old: LogSide
    new: LogSide
    promotion: PartitionPromotion
    old_end: Offset
    offsets: OffsetMap
    has_epoch: bool = False
    truncated: Divergence | None = None

    def compare(self) -> Comparison:
        """Return whether both are equal up to the promotion, and what lies behind it.

        Raises
        ------
        ConnectionLost, BrokerError, BatchError
            A log can't be read.
        """
        ended, at_old, at_new = self.promotion, self.old.partition, self.new.partition
        if self.old_end < ended.source_end:
            return Comparison(
                f"{at_old} ends at {self.old_end}, and was copied up to {ended.source_end}: the "
                f"old source has lost records; {COPIED_WHOLE}"
            )
        if self.old.end < self.old_end:
            why = f"{at_old} can't be read from offset {self.old.end} on"
            return Comparison(f"{why}: a transaction is open, or a replica lags", must_stay=True)
        if self.new.end < ended.target_end:
            why = f"{at_new} ends at {self.new.end}, and the mirror ended at {ended.target_end}"
            return Comparison(f"{why}: the new primary has lost records", must_stay=True)
        if self.truncated is not None:
            first = self.truncated.at
            return Comparison(
                f"the leader epochs of {at_old} say that it lost records that were copied"
                f"{'' if first is None else f', from offset {first} on'}: others may be there "
                f"now; {COPIED_WHOLE}"
            )
        return self._by_contents()

    def _by_contents(self) -> Comparison:
        ended, at_old, at_new = self.promotion, self.old.partition, self.new.partition
        forth = uncrossed(self._facts(), _Logs(self.old.read, self.new.read), self._place)
        if forth.first < ended.source_end:
            return Comparison(
                f"records of {at_old} from offset {forth.first} on are others than in {at_new}: an "
                f"election at the old source may have replaced them; {COPIED_WHOLE}"
            )
        back = uncrossed(self._facts_back(), _Logs(self._copies, self.old.read), self._place_back)
        if back.first < ended.target_end:
            return Comparison(
                f"{at_old} lacks records that {at_new} has from offset {back.first} on: an "
                f"election at the old source may have cut them away; {COPIED_WHOLE}"
            )
        is_whole = self.old.start >= self._first_compared()
        if not forth.is_proved and not is_whole and not self.has_epoch:
            return Comparison(
                f"nothing is left in {at_new} that records of {at_old} could be compared with, and "
                f"no leader epoch shows that they are those that were copied; {COPIED_WHOLE}"
            )
        evidence = Evidence.RECORDS
        if not forth.is_proved and not (is_whole and forth.compared):
            evidence = Evidence.NOTHING_THERE if is_whole else Evidence.LEADER_EPOCHS
        return Comparison("", evidence, self._tail())

    def _tail(self) -> int:
        """Return 0 as well if there are only markers, and records of aborted transactions."""
        first = next(iter(self.old.read(self.promotion.source_end, None)), None)
        return 0 if first is None else self.old_end - first[0]

    def _place(self, offset: int) -> int | None:
        return place_of(self.offsets, offset)

    def _place_back(self, offset: int) -> int | None:
        """Return where the record of a mirror's offset was at the source; None: it is no copy."""
        if self.offsets.is_filled:
            return offset
        source = self.offsets.source_of(offset)
        return source if source >= 0 and self.offsets.target_of(source) == offset else None

    def _copies(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Yield the new primary's records, but those of a tail that was kept before."""
        for record in self.new.read(start, stop):
            if self._place_back(record[0]) is not None:
                yield record

    def _first_compared(self) -> Offset:
        """Return the offset of the old source below which the new primary has deleted all."""
        first = self.new.start
        if not self.offsets.is_filled:
            first = self.offsets.source_of(max(first, self.offsets.known_from))
        return min(first, self.promotion.source_end)

    def _has_own_times(self) -> bool:
        return self.old.habits.has_own_times or self.new.habits.has_own_times

    def _facts(self) -> CrossingFacts:
        return CrossingFacts(
            max(self.old.start, self._first_compared()),
            self.old.end,
            self.new.start,
            self.promotion.source_end,
            self.promotion.target_end,
            self.new.habits.compacts,
            self._has_own_times(),
        )

    def _facts_back(self) -> CrossingFacts:
        """Return them for the other way round: what the new primary has is looked for."""
        start = self.old.start
        if not self.offsets.is_filled:
            start = self.offsets.target_of(start)
        return CrossingFacts(
            max(self.new.start, start),
            self.new.end,
            self.old.start,
            self.promotion.target_end,
            self.promotion.source_end,
            self.old.habits.compacts,
            self._has_own_times(),
        )


@dataclass(frozen=True, slots=True)
class _Logs:
    """Both logs, from one side; see `heliostat.rescue.crossing.PartitionLogs`."""

    source: Callable[[int, int], Iterable[ConsumedRecord]]
    target: Callable[[int, int | None], Iterable[ConsumedRecord]]
