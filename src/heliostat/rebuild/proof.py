"""Whether a mirror's records came one by one from its source, and at which offsets; no I/O.

Three ways to align the mirror with its source are tried: the map by its rows, else equal offsets,
else the only map that both logs allow (`alignment`). The result is judged by the rules of `verify`:
in the range that both sides could have, each record of either side must be where it belongs, or log
cleaning must explain why it is not. If one can't be explained, or if there is nothing to compare,
nothing is proved.

I6  A source record that the mirror lacks would be passed in silence: so there is no proof, unless
    the ledger has it as a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, Protocol

from typing_extensions import override

from heliostat.gaps.ledger import CopyNote
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break
from heliostat.rebuild.alignment import Contents, NotAligned, align
from heliostat.verify.align import Difference
from heliostat.verify.compaction import CleaningRule, Logs, judge
from heliostat.verify.mapped import without
from heliostat.verify.places import EXACT, Places
from heliostat.verify.reader import Bounds
from heliostat.verify.stream_values import ConsumedRecord

ALIKE_AFTER = 500
"""Source records after the mirror's last searched for an equal one (`MapKeeper` does as well)."""


class Rows(Protocol):
    """Both sides of one partition, readable repeatedly; rows in offset order."""

    def source(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Yield what a `read_committed` consumer sees at offsets `[start, stop)`."""

    def target(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Yield all records at offsets `[start, stop)`."""


@dataclass(frozen=True, slots=True)
class MirrorStanding:
    """What is known of one partition before its records are read.

    Parameters
    ----------
    source, target
        Start and end of both logs; the target's end was read first.
    places
        Its map by the stored rows; None: there are no rows, or not all of them.
    is_filled
        Whether by these rows the source's holes are filled, so that offsets are equal.
    rule
        How both sides are cleaned, by retention and compaction.
    recorded
        Source offsets `[start, end)` that the ledger has as gaps.
    noted
        How far it was copied, by the ledger.
    """

    source: Bounds
    target: Bounds
    rule: CleaningRule
    places: Places | None = None
    is_filled: bool = False
    recorded: tuple[tuple[int, int], ...] = ()
    noted: CopyNote | None = None


class Kind(StrEnum):
    """What a proved mirror is."""

    EXACT = "exact"
    MAPPED = "mapped"
    FILLED = "filled"


class Proof(NamedTuple):
    """Proof that a mirror's partition is a copy of its source's."""

    kind: Kind
    start: Offset
    """Source offset that corresponds to the mirror's log start."""
    position: Offset
    """Source offset at which copying continues."""
    compared: int
    """Records that are equal at both sides."""
    breaks: tuple[Break, ...] | None = None
    """The map to write; None: the stored one is right."""


class NotProved(Exception):
    """Why there is no proof, in words; and the first target offset that differs, if any."""

    def __init__(self, text: str, at: int | None = None) -> None:
        super().__init__(text)
        self.at = at


def prove(rows: Rows, standing: MirrorStanding) -> Proof:
    """Show that all a mirror's partition holds is its source's, record by record, in order.

    Raises
    ------
    NotProved
        It can't be shown.
    """
    told = standing.places
    try:
        if standing.is_filled:
            return _held(rows, standing, EXACT, Kind.FILLED)
        if told is not None and not told.is_exact:
            return _held(rows, standing, told, Kind.MAPPED)
        return _held(rows, standing, EXACT, Kind.EXACT)
    except NotProved as error:
        if standing.is_filled:
            raise
        return _aligned(rows, standing, error)


def _aligned(rows: Rows, standing: MirrorStanding, before: NotProved) -> Proof:
    """Prove it by the only map that both logs allow."""
    source, target = standing.source, standing.target
    try:
        breaks = align(
            Contents.of(without(rows.source(source.start, source.end), standing.recorded)),
            Contents.of(rows.target(target.start, target.end)),
            is_compacted=standing.rule.source.compacts,
        )
    except NotAligned as error:
        raise NotProved(f"{before}; at other offsets: {error}", before.at) from error
    kind = Kind.MAPPED if breaks else Kind.EXACT
    return _held(rows, standing, Places.of(breaks), kind)._replace(breaks=tuple(breaks))


def _held(rows: Rows, standing: MirrorStanding, places: Places, kind: Kind) -> Proof:
    """Compare every record with the other side's at the offset that `places` gives."""
    source, target = standing.source, standing.target
    position = places.source_at(target.end)
    low, high = max(source.start, places.source_at(target.start)), min(source.end, position)
    proof = Proof(kind, Offset(places.source_at(target.start)), Offset(position), 0)
    if low >= high:
        _refuse_unlike_ends(standing, position)
        return proof
    logs = _Logs(rows, standing, places, (low, high))
    judged = judge(logs, places, standing.rule, target.end)
    findings = judged.findings
    if not findings.is_clean:
        raise _differs(findings.differences, places)
    if position > source.end:
        raise _goes_beyond(standing, places.target_at(source.end))
    if not findings.matched or logs.last is None:
        raise NotProved("no record is left that both sides hold: nothing shows whose it is")
    _refuse_unclear_end(logs, standing, places, findings.matched, kind)
    return proof._replace(compared=findings.matched)


class _Logs(Logs):
    """Source offsets `[low, high)` and their target offsets; see `verify.compaction.Logs`."""

    def __init__(
        self, rows: Rows, standing: MirrorStanding, places: Places, stretch: tuple[int, int]
    ) -> None:
        self._rows, self._standing, self._places = rows, standing, places
        self._low, self._high = stretch
        self._target_end = min(places.target_at(self._high), standing.target.end)
        self.last: ConsumedRecord | None = None
        """The target's last record in that range, once all were read."""

    @override
    def source(self) -> Iterator[ConsumedRecord]:
        """Yield the source's records of the range, except recorded gaps."""
        return without(self._rows.source(self._low, self._high), self._standing.recorded)

    @override
    def target(self) -> Iterator[ConsumedRecord]:
        """Yield the target's records of the range."""
        low = max(self._places.target_at(self._low), self._standing.target.start)
        rows = self._rows.target(low, self._target_end)
        for row in without(rows, self._places.lost_source_ranges()):
            self.last = row
            yield row

    @override
    def source_later(self) -> Iterator[ConsumedRecord]:
        """Yield later source records, which may have superseded cleaned ones."""
        if not self._standing.rule.matters:
            return iter(())
        return self._rows.source(self._high, self._standing.source.end)

    @override
    def target_later(self) -> Iterator[ConsumedRecord]:
        """Yield later target records, which may have superseded cleaned ones."""
        if not self._standing.rule.matters:
            return iter(())
        return self._rows.target(self._target_end, self._standing.target.end)

    @override
    def source_row(self, offset: int) -> ConsumedRecord | None:
        """Read one record of the source, if it is there."""
        return next(self._rows.source(offset, offset + 1), None)

    @override
    def target_row(self, offset: int) -> ConsumedRecord | None:
        """Read one record of the target, if it is there."""
        return next(self._rows.target(offset, offset + 1), None)

    def has_alike_after(self, row: ConsumedRecord, offset: int) -> bool:
        """Return whether an equal record comes soon after a source offset."""
        after = self._rows.source(offset + 1, self._standing.source.end)
        return any(each[1:] == row[1:] for each in islice(after, ALIKE_AFTER))


def _refuse_unlike_ends(standing: MirrorStanding, position: int) -> None:
    """Refuse, as no record is on both sides, unless both are empty or the ledger proves the end."""
    source, target, noted = standing.source, standing.target, standing.noted
    if position > source.end:
        raise _goes_beyond(standing, target.start)
    if target.start == target.end and source.start == source.end == position:
        return  # nothing can be lost or doubled
    if noted is not None and noted.end == target.end and noted.offset >= position:
        return
    raise NotProved(
        f"no record is left that both sides hold: the mirror has offsets {target.start} to "
        f"{target.end}, which is source offset {position}, and the source {source.start} to "
        f"{source.end}"
    )


def _refuse_unclear_end(
    logs: _Logs, standing: MirrorStanding, places: Places, matched: int, kind: Kind
) -> None:
    """Refuse if it is not clear which source record is the mirror's last: copying continues there.

    If offsets seem equal and no map says otherwise, a later equal record could be it as well;
    unless the mirror has every source record from offset 0 on, without a hole.
    """
    assert logs.last is not None
    offset = places.source_at(logs.last[0])
    if standing.rule.matters and logs.source_row(offset) is None:
        raise NotProved(
            f"the source has cleaned away the mirror's last record, target offset "
            f"{logs.last[0]}: nothing shows where it ended",
            logs.last[0],
        )
    is_whole = standing.source.start == 0 and matched == standing.target.end
    if kind is Kind.EXACT and not is_whole and logs.has_alike_after(logs.last, offset):
        raise NotProved(
            f"the mirror's last record, target offset {logs.last[0]}, is equal to others after "
            f"source offset {offset}: it could be one of them",
            logs.last[0],
        )


def _goes_beyond(standing: MirrorStanding, at: int) -> NotProved:
    return NotProved(
        f"target offset {at} and what follows is not at the source, which ends at "
        f"{standing.source.end}",
        at,
    )


def _differs(differences: list[Difference], places: Places) -> NotProved:
    if not differences:
        return NotProved("both sides differ, but the differing records are gone by now; try again")
    first = differences[0]
    if first.target_offset is None:
        assert first.source_offset is not None
        at = places.target_at(first.source_offset)
        return NotProved(f"source offset {first.source_offset} is missing, target offset {at}", at)
    at = first.target_offset
    if first.source_offset is None:
        return NotProved(f"target offset {at} is no record of the source's", at)
    field = first.field or "content"
    return NotProved(
        f"target offset {at} has another {field} than source offset {first.source_offset}", at
    )
