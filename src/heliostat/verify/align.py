"""The slow half: what happened to records where two sides differ.

Contents (all but the offset) of both sides are aligned in windows, patience-diff style: contents
that occur once on each side are anchors, what is between them is aligned again. Rows left over
on one side are then judged by content: a leftover of the target that is missing elsewhere was
*reordered*, one that repeats a source record is *doubled*, one that takes the place of a leftover
of the source is *different*; leftovers of the source that remain are *lost*.

Memory is bounded: large fields are kept as digests, windows grow up to `WINDOW_ROWS_MAX`, and at
most `LEFTOVERS_MAX` rows wait to be judged by content; beyond that they are judged by place alone.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from heliostat.verify.matching import match
from heliostat.verify.places import EXACT, Places
from heliostat.verify.stream import ConsumedRecord

FIELD_BYTES_MAX = 64  # longer fields are kept as length, digest and beginning
SHOWN_BYTES = 24  # of a field in a report
WINDOW_ROWS_MIN = 256  # enough to explain one altered record
WINDOW_ROWS_MAX = 131_072  # about 80 MB a side; a rewritten stretch longer than this isn't resynced
WINDOW_GROWTH = 4
LEFTOVERS_MAX = 200_000  # about 120 MB; a 1 MB batch sent twice leaves some thousand
DIFFERENCES_KEPT_MAX = 20  # listed per partition; all are counted

FIELDS = ("timestamp", "key", "value", "header")


class Slim(NamedTuple):
    """A long field: equal only to one of the same length and BLAKE2b-128 digest."""

    length: int
    digest: bytes
    head: bytes


Field = bytes | Slim | None
Content = tuple[int, Field, Field, tuple[tuple[str, Field], ...]]
"""Timestamp (ms), key, value, headers."""
Placed = tuple[int, Content]
"""Offset and content."""


def slim(data: bytes | None) -> Field:
    """Return a short field as it is, a long one as a digest; null stays null, empty stays empty."""
    if data is None or len(data) <= FIELD_BYTES_MAX:
        return data
    return Slim(len(data), blake2b(data, digest_size=16).digest(), bytes(data[:SHOWN_BYTES]))


def placed(row: ConsumedRecord) -> Placed:
    """Shorten a row to what alignment needs."""
    offset, timestamp, key, value, headers = row
    return offset, (
        timestamp,
        slim(key),
        slim(value),
        tuple((name, slim(data)) for name, data in headers),
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding; `kind` is lost, doubled, reordered, different, foreign or moved.

    A *doubled* record has the source offset that it repeats, a *foreign* one has none (no source
    record equals it; it counts as different), a *moved* one is right but at another offset.
    """

    kind: str
    field: str | None
    source_offset: int | None
    target_offset: int | None
    source: str | None
    target: str | None
    shows_at: int
    """The first source offset that it concerns."""

    @property
    def place(self) -> tuple[int, int]:
        """Sort key: first source offset; a moved record comes after the finding that moved it."""
        return self.shows_at, int(self.kind == "moved")

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        row = asdict(self)
        del row["shows_at"]
        return row


@dataclass(slots=True)
class Findings:
    """Findings in one partition."""

    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    different: int = 0
    foreign: int = 0
    """Target records that equal no source record; part of `different`."""
    moved: int = 0
    matched: int = 0
    records: int = 0
    """Source records below the end that were read."""
    differences: list[Difference] = field(default_factory=list)
    """The first ones by offset, at most `DIFFERENCES_KEPT_MAX`."""

    @property
    def offsets_equal(self) -> bool:
        """Whether each copied record is at its place, and none is there twice."""
        return not (self.lost or self.doubled or self.reordered or self.moved)

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings."""
        return self.offsets_equal and not self.different

    def add(self, difference: Difference) -> None:
        """Count a finding and keep it if it is among the first."""
        self.count(difference.kind, 1)
        kept = self.differences
        if len(kept) < DIFFERENCES_KEPT_MAX:
            kept.append(difference)
            kept.sort(key=lambda one: one.place)
        elif difference.place < kept[-1].place:
            kept[-1] = difference
            kept.sort(key=lambda one: one.place)

    def count(self, kind: str, number: int) -> None:
        """Count findings that are not shown."""
        setattr(self, kind, getattr(self, kind) + number)
        self.different += number * (kind == "foreign")


FindContents = Callable[[set[Content]], Mapping[Content, int]]
"""Returns those of the given contents that the source has, with the first offset of each."""


@dataclass(slots=True)
class _Gap:
    """Rows between two matches; `is_last` at the end, where the source may only be ahead."""

    source: list[Placed]
    target: list[Placed]
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Holes:
    """Holes that compaction may have left: which sides compact, and where rows begin and end.

    Between two matching records, a compacted log may lack as many records as it lacks offsets.
    `compaction.judge` decides which of them may be gone; here they are only left out, so that the
    other differences are named correctly.
    """

    source_compacts: bool = False
    target_compacts: bool = False
    starts: tuple[int, int] = (0, 0)
    """First source and target offset."""
    stops: tuple[int, int] = (0, 0)
    """Source and target offset after the last row."""


class _Window:
    """Rows of one side that are not aligned yet."""

    def __init__(self, rows: Iterable[ConsumedRecord], end: int) -> None:
        self._rows: Iterator[ConsumedRecord] = iter(rows)
        self._end = end
        self.count = 0  # rows below the end
        self.waiting: list[Placed] = []
        self.finished = False

    def fill(self, size: int) -> None:
        while not self.finished and len(self.waiting) < size:
            row = next(self._rows, None)
            if row is None:
                self.finished = True
            else:
                self.count += row[0] < self._end
                self.waiting.append(placed(row))


class _Explainer:
    def __init__(
        self, end: int, find_in_source: FindContents, places: Places, holes: Holes, *, is_cut: bool
    ) -> None:
        self.end = end
        self.places = places
        self.holes = holes
        self.matched_last = (holes.starts[0] - 1, holes.starts[1] - 1)
        self.is_cut = is_cut
        self.find_in_source = find_in_source
        self.findings = Findings()
        self.gaps: list[_Gap] = []
        self.leftovers = 0

    def run(self, source: _Window, target: _Window) -> Findings:
        size = WINDOW_ROWS_MIN
        while True:
            source.fill(size)
            target.fill(size)
            if target.finished and not target.waiting:
                self._finish_source(source)
                break
            whole = source.finished and target.finished
            pairs = match(
                [content for _, content in source.waiting],
                [content for _, content in target.waiting],
            )
            if not pairs and not whole and size < WINDOW_ROWS_MAX:
                size *= WINDOW_GROWTH
                continue
            cut = pairs[-1] if pairs else (len(source.waiting) - 1, len(target.waiting) - 1)
            if whole:
                cut = (len(source.waiting) - 1, len(target.waiting) - 1)
            self._commit(source, target, pairs, cut, is_last=whole)
            size = WINDOW_ROWS_MIN
            if whole:
                break
        self._judge()
        self.findings.records = source.count
        return self.findings

    def _add(
        self, kind: str, field_name: str | None, source: Placed | None, target: Placed | None
    ) -> None:
        difference = finding(kind, field_name, source, target, self.places)
        if not (self.is_cut and difference.place[0] >= self.end):
            self.findings.add(difference)

    def _finish_source(self, source: _Window) -> None:
        """Count the rest of the source as lost below the end; above it is not copied yet."""
        while source.waiting and source.waiting[0][0] < self.end:
            rest = [row for row in source.waiting if row[0] < self.end]
            self._keep(_Gap(rest, [], is_last=True))
            source.waiting = source.waiting[len(rest) :]
            source.fill(WINDOW_ROWS_MIN)

    def _commit(
        self,
        source: _Window,
        target: _Window,
        pairs: list[tuple[int, int]],
        cut: tuple[int, int],
        *,
        is_last: bool,
    ) -> None:
        """Take all rows up to `cut`, inclusive on both sides, out of the windows."""
        before_source = before_target = 0
        for index_source, index_target in pairs:
            gap = _Gap(
                source.waiting[before_source:index_source],
                target.waiting[before_target:index_target],
            )
            one, two = source.waiting[index_source], target.waiting[index_target]
            self._keep(self._without_compacted(gap, one[0], two[0]))
            self._matched(one, two)
            before_source, before_target = index_source + 1, index_target + 1
        rest = _Gap(
            source.waiting[before_source : cut[0] + 1],
            target.waiting[before_target : cut[1] + 1],
            is_last=is_last,
        )
        self._keep(self._without_compacted(rest, *self.holes.stops) if is_last else rest)
        del source.waiting[: cut[0] + 1]
        del target.waiting[: cut[1] + 1]

    def _without_compacted(self, gap: _Gap, next_source: int, next_target: int) -> _Gap:
        """Leave out as many rows as the other side may have lost by compaction."""
        before_source, before_target = self.matched_last
        first = self.places.target_at(before_source + 1)
        gone_target = next_target - before_target - 1 - len(gap.target)
        gone_source = self.places.target_at(next_source) - first - len(gap.source)
        if self.holes.target_compacts:
            gap.source = gap.source[max(0, gone_target) :]
        if self.holes.source_compacts:
            gap.target = gap.target[max(0, gone_source) :]
        return gap

    def _matched(self, source: Placed, target: Placed) -> None:
        self.findings.matched += 1
        self.matched_last = source[0], target[0]
        if self.places.place_of(source[0]) != target[0]:
            self._add("moved", None, source, target)

    def _keep(self, gap: _Gap) -> None:
        size = len(gap.source) + len(gap.target)
        if not size:
            return
        if self.leftovers + size > LEFTOVERS_MAX:
            self._judge_by_place(gap)
            return
        self.leftovers += size
        self.gaps.append(gap)

    def _judge(self) -> None:
        self._take_reordered()
        self._take_doubled()
        for gap in self.gaps:
            self._judge_by_place(gap)

    def _take_reordered(self) -> None:
        """Report leftovers with the same content on both sides: the record is elsewhere."""
        missing: dict[Content, deque[Placed]] = defaultdict(deque)
        for gap in self.gaps:
            for row in gap.source:
                missing[row[1]].append(row)
        found: set[int] = set()
        for gap in self.gaps:
            rest: list[Placed] = []
            for row in gap.target:
                waiting = missing.get(row[1])
                if waiting:
                    source = waiting.popleft()
                    found.add(source[0])
                    self._add("reordered", None, source, row)
                else:
                    rest.append(row)
            gap.target = rest
        for gap in self.gaps:
            gap.source = [row for row in gap.source if row[0] not in found]

    def _take_doubled(self) -> None:
        """Report leftovers of the target that repeat a source record."""
        wanted = {content for gap in self.gaps for _, content in gap.target}
        known = self.find_in_source(wanted) if wanted else {}
        for gap in self.gaps:
            rest: list[Placed] = []
            for row in gap.target:
                if row[1] in known:
                    original = (known[row[1]], row[1])
                    self._add("doubled", None, original, row)
                else:
                    rest.append(row)
            gap.target = rest

    def _judge_by_place(self, gap: _Gap) -> None:
        """Report a leftover in the place of a missing record as that record, altered."""
        source, target = list(gap.source), list(gap.target)
        for row in target:
            partner = _most_alike(row, source, self.places, rows_after=len(target))
            if partner is None:
                self._add("foreign", None, None, row)
                continue
            for missing in source[:partner]:
                self._lost(missing, gap)
            other = source[partner]
            del source[: partner + 1]
            self._add("different", content_field(other[1], row[1]), other, row)
        for missing in source:
            self._lost(missing, gap)

    def _lost(self, row: Placed, gap: _Gap) -> None:
        if gap.is_last and row[0] >= self.end:
            return  # not copied yet
        self._add("lost", None, row, None)


ALIKE_ROWS_MAX = 16  # candidates for what an altered record was before


def _most_alike(
    row: Placed, source: list[Placed], places: Places, *, rows_after: int
) -> int | None:
    """Return the index of the source row that `row` most probably was.

    The row at the same place wins, then the one with the most equal fields.
    """
    if not source:
        return None
    if places.place_of(source[0][0]) == row[0] or len(source) == rows_after:
        return 0
    candidates = source[:ALIKE_ROWS_MAX]

    def likeness(index: int) -> tuple[int, int]:
        other = candidates[index]
        same = sum(a == b and a not in (None, ()) for a, b in zip(other[1], row[1], strict=True))
        return same + 2 * (places.place_of(other[0]) == row[0]), -index

    return max(range(len(candidates)), key=likeness)


def content_field(source: Content, target: Content) -> str:
    """Return the field that differs; of several the first of key, value, header, timestamp."""
    order = ("key", "value", "header", "timestamp")
    differing = {name for name, a, b in zip(FIELDS, source, target, strict=True) if a != b}
    return next(name for name in order if name in differing)


def finding(
    kind: str,
    field_name: str | None,
    source: Placed | None,
    target: Placed | None,
    places: Places,
) -> Difference:
    """Return a finding about a record of one side or both."""
    shows = [] if source is None or kind == "doubled" else [source[0]]
    if target is not None:
        shows.append(places.source_at(target[0]))
    return Difference(
        kind=kind,
        field=field_name,
        source_offset=None if source is None else source[0],
        target_offset=None if target is None else target[0],
        source=None if source is None else _shown(source[1], field_name),
        target=None if target is None else _shown(target[1], field_name),
        shows_at=min(shows),
    )


def _shown(content: Content, field_name: str | None) -> str:
    timestamp, key, value, headers = content
    shown = {
        "timestamp": str(timestamp),
        "key": _shown_field(key),
        "value": _shown_field(value),
        "header": "[" + ", ".join(f"{name}={_shown_field(data)}" for name, data in headers) + "]",
    }
    if field_name is not None:
        return shown[field_name]
    return " ".join(f"{name}={shown[name]}" for name in ("key", "value", "timestamp"))


def _shown_field(data: Field) -> str:
    if data is None:
        return "null"
    if isinstance(data, Slim):
        return f"{data.head!r}... ({data.length} bytes, blake2b {data.digest.hex()[:12]})"
    return repr(data[:SHOWN_BYTES]) + ("" if len(data) <= SHOWN_BYTES else f"... ({len(data)})")


def explain(
    source: Iterable[ConsumedRecord],
    target: Iterable[ConsumedRecord],
    end: int,
    find_in_source: FindContents,
    *,
    is_cut: bool = False,
    places: Places = EXACT,
    holes: Holes | None = None,
) -> Findings:
    """Explain what happened to the records from the first difference on.

    Parameters
    ----------
    source, target
        Rows in offset order, from the same record to the end that each side had when reading
        began: a record that moved may be after the compared range.
    end
        End of the compared range, in source offsets: what the target lacks from there on is not
        lost but not copied yet.
    find_in_source
        Looks contents up in all of the source's range.
    is_cut
        Whether the end was given by the caller: then differences after it are not counted.
    places
        The offset map.
    holes
        Holes that compaction may have left; none by default.
    """
    explainer = _Explainer(end, find_in_source, places, holes or Holes(), is_cut=is_cut)
    return explainer.run(_Window(source, end), _Window(target, end))
