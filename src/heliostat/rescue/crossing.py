"""Which committed records of a returned source are not at the target, by contents; pure.

A record crossed if the target has an equal one where the link's offset map puts it. From where the
mirror ended nothing crossed. Before that an unclean election at the source may have put other
records at offsets that were copied. Such an election cuts a log and goes on, so both logs are equal
up to one place: records that are equal prove all that is before them. So it is looked back from the
mirror's end, further and further, until an equal record stands before the first that is not.

A target that compacts may have cleaned a record away: it crossed if a later record there has its
key, or a tombstone of the source, which may be gone there itself; but not while an earlier record
of its key is still there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from heliostat.clusters.record_digest import digest_of
from heliostat.names import Offset
from heliostat.verify.stream import ConsumedRecord

LOOK_BACK, LOOK_BACK_FACTOR = 2_000, 8
"""Source offsets: at first, and how many times as many if none of these is equal."""
Place = Callable[[int], int | None]
"""Target offset of the record at a source offset; None where the map has a hole."""


class PartitionLogs(Protocol):
    """Both sides of a partition, which can be read from any place."""

    def source(self, start: int, stop: int) -> Iterable[ConsumedRecord]:
        """Yield the source's committed records with offsets in `[start, stop)`."""
        ...

    def target(self, start: int, stop: int | None) -> Iterable[ConsumedRecord]:
        """Yield the target's records with offsets in `[start, stop)`; None: to its end."""
        ...


@dataclass(frozen=True, slots=True)
class CrossingFacts:
    """What must be known of a partition before its logs are compared.

    Parameters
    ----------
    source_start, source_end
        Where the source's log begins, and where its committed records end.
    target_start
        Where the target's log begins.
    mirror_end
        Source offset that would have been copied next when the mirror was given away.
    target_end
        The target's log end then.
    compacts
        Whether the target compacts.
    has_own_times
        Whether the target stamps its own times.
    truncated_from
        Source offset from which on its leader epochs say that it lost what was copied; None: they
        say nothing of the kind.
    """

    source_start: Offset
    source_end: Offset
    target_start: Offset
    mirror_end: Offset
    target_end: Offset
    compacts: bool = False
    has_own_times: bool = False
    truncated_from: Offset | None = None


@dataclass(frozen=True, slots=True)
class Uncrossed:
    """Where a partition's tail begins, and what of it is at the target all the same.

    Parameters
    ----------
    first
        All committed records of the source from here on never crossed, but those in `equal`.
    equal
        Source offsets `[start, end)` of records that are at the target, in order.
    compared
        Records of the source that were compared.
    is_proved
        Whether an equal record stands before the first that is not at the target.
    """

    first: Offset
    equal: tuple[tuple[int, int], ...] = ()
    compared: int = 0
    is_proved: bool = False

    def holds(self, offset: int) -> bool:
        """Return whether a record of the source at this offset never crossed."""
        if offset < self.first:
            return False
        number = bisect_right(self.equal, (offset, inf)) - 1
        return number < 0 or offset >= self.equal[number][1]


@dataclass(slots=True)
class _Looked:
    """What one look from an offset on has shown."""

    compared: int = 0
    first: int | None = None
    """First source offset whose record is not at the target."""
    equal: list[tuple[int, int]] = field(default_factory=list)
    cleaned: dict[bytes, list[tuple[int, int]]] = field(default_factory=dict)
    """Places, with source offsets, of records that the target may have cleaned away, by key."""
    remaining: set[bytes] = field(default_factory=set)
    """Keys of equal records, if the target compacts."""

    @property
    def proves(self) -> bool:
        """Whether an equal record stands before the first that is not."""
        return bool(self.equal) and (self.first is None or self.equal[0][0] < self.first)

    def is_equal(self, offset: int) -> None:
        if self.equal and self.equal[-1][1] == offset:
            self.equal[-1] = (self.equal[-1][0], offset + 1)
        else:
            self.equal.append((offset, offset + 1))

    def differs(self, offset: int) -> None:
        self.first = offset if self.first is None else min(self.first, offset)

    def may_be_cleaned(self, key: bytes, target_offset: int, record: ConsumedRecord) -> None:
        """Take a record that a compacted target lacks."""
        if record[3] is not None:
            self.cleaned.setdefault(key, []).append((target_offset, record[0]))
        elif key in self.remaining:  # a tombstone goes last
            self.differs(record[0])
        else:  # by itself, and with all that is before it
            self.cleaned.pop(key, None)

    def equal_from(self, first: int) -> tuple[tuple[int, int], ...]:
        """Return the equal ranges from an offset on."""
        return tuple((max(start, first), end) for start, end in self.equal if end > first)


def uncrossed(facts: CrossingFacts, logs: PartitionLogs, place: Place) -> Uncrossed:
    """Return where a partition's tail begins.

    Raises
    ------
    ConnectionLost, BrokerError, BatchError
        A log can't be read.
    """
    stop = min(facts.mirror_end, facts.source_end)
    back = LOOK_BACK
    while True:  # ends at the log's start at the latest
        start = max(facts.source_start, stop - back)
        looked = _look(facts, logs, place, start, stop)
        if looked.proves or start <= facts.source_start:
            break
        back *= LOOK_BACK_FACTOR
    first = facts.mirror_end if looked.first is None else Offset(looked.first)
    if not looked.proves and facts.truncated_from is not None:
        first = min(first, facts.truncated_from)
    equal = looked.equal_from(first)
    return Uncrossed(Offset(first), equal, looked.compared, looked.proves)


def _look(
    facts: CrossingFacts, logs: PartitionLogs, place: Place, start: int, stop: int
) -> _Looked:
    looked = _Looked()
    if start >= stop:
        return looked
    there = _Following(logs, place, start, facts.target_end)
    for record in logs.source(start, stop):
        target_offset = place(record[0])
        if target_offset is not None and target_offset < facts.target_start:
            continue  # it was deleted there since: nothing shows what it was
        looked.compared += 1
        if target_offset is None:  # the source had no record there when it was copied
            looked.differs(record[0])
            continue
        counterpart = there.record_at(target_offset)
        if counterpart is not None and _digest(record, facts) == _digest(counterpart, facts):
            looked.is_equal(record[0])
            if facts.compacts and record[2] is not None:
                looked.remaining.add(record[2])
        elif counterpart is None and facts.compacts and record[2] is not None:
            looked.may_be_cleaned(record[2], target_offset, record)
        else:
            looked.differs(record[0])
    if looked.cleaned:
        _judge_cleaned(looked, logs.target(_first_place(place, start), None))
    return looked


class _Following:
    """The target's records, read once beside the source's."""

    def __init__(self, logs: PartitionLogs, place: Place, start: int, stop: int) -> None:
        begin = min(_first_place(place, start), stop)
        self._records: Iterator[ConsumedRecord] = iter(logs.target(begin, stop))
        self._next: ConsumedRecord | None = next(self._records, None)

    def record_at(self, offset: int) -> ConsumedRecord | None:
        """Return the record at a target offset, which is never below the last one asked for."""
        while self._next is not None and self._next[0] < offset:
            self._next = next(self._records, None)
        return self._next if self._next is not None and self._next[0] == offset else None


def _first_place(place: Place, start: int) -> int:
    """Return the target offset from which on records from a source offset on can stand."""
    for offset in range(start, start + LOOK_BACK):
        if (target := place(offset)) is not None:
            return target
    return 0


def _judge_cleaned(looked: _Looked, there: Iterable[ConsumedRecord]) -> None:
    """Take records for others' if no later record of the target has their key."""
    for offset, _, key, _, _ in there:
        if key is not None and key in looked.cleaned:
            remaining = [row for row in looked.cleaned.pop(key) if row[0] > offset]
            if remaining:
                looked.cleaned[key] = remaining
            if not looked.cleaned:
                return
    for rows in looked.cleaned.values():
        for _, source_offset in rows:
            looked.differs(source_offset)


def _digest(record: ConsumedRecord, facts: CrossingFacts) -> bytes:
    _, timestamp_ms, key, value, headers = record
    return digest_of(key, value, headers, None if facts.has_own_times else timestamp_ms)
