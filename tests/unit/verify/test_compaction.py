"""Differences that compaction explains, on lists: all others must be found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from typing_extensions import override

from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.verify import compaction
from heliostat.verify.align import Findings, Holes, explain
from heliostat.verify.compaction import Cleaning, CleaningRule, Compacted, Judged, judge
from heliostat.verify.places import EXACT, Places
from heliostat.verify.stream import ConsumedRecord

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
BOTH = CleaningRule(Cleaning(True, DAY_MS), Cleaning(True, DAY_MS), NOW_MS)
OLD_MS = NOW_MS - 5 * DAY_MS


def row(offset: int, key: bytes | None, value: bytes | None, at_ms: int = OLD_MS) -> ConsumedRecord:
    return (offset, at_ms + offset, key, value, [])


@dataclass
class Lists(compaction.Logs):
    """Two logs; records after the compared range are separate."""

    one: list[ConsumedRecord]
    two: list[ConsumedRecord]
    one_later: list[ConsumedRecord] = field(default_factory=list)
    two_later: list[ConsumedRecord] = field(default_factory=list)

    @override
    def source(self) -> Iterator[ConsumedRecord]:
        return iter(self.one)

    @override
    def target(self) -> Iterator[ConsumedRecord]:
        return iter(self.two)

    @override
    def source_later(self) -> Iterator[ConsumedRecord]:
        return iter(self.one_later)

    @override
    def target_later(self) -> Iterator[ConsumedRecord]:
        return iter(self.two_later)

    @override
    def source_row(self, offset: int) -> ConsumedRecord | None:
        return next((each for each in self.one if each[0] == offset), None)

    @override
    def target_row(self, offset: int) -> ConsumedRecord | None:
        return next((each for each in self.two if each[0] == offset), None)


def judged(
    logs: Lists, places: Places = EXACT, rule: CleaningRule = BOTH, stop: int = 1 << 40
) -> Judged:
    return judge(logs, places, rule, stop)


def counts(found: Findings) -> dict[str, int]:
    names = ("lost", "doubled", "reordered", "different", "moved")
    return {name: getattr(found, name) for name in names if getattr(found, name)}


A1, A2, B1, GONE_A = row(0, b"a", b"1"), row(2, b"a", b"2"), row(1, b"b", b"1"), row(3, b"a", None)


@pytest.mark.parametrize(
    ("one", "two", "explained"),
    [
        # At one side only, with a newer one of the key at the side that lacks it: proved.
        ([A1, B1, A2], [B1, A2], Compacted(compacted_target=1)),
        ([B1, A2], [A1, B1, A2], Compacted(compacted_source=1)),
        # The newer one is at the side that has it still; and is a tombstone that may have gone.
        ([A1, A2, GONE_A], [], Compacted(compacted_target=2, expired_target=1)),
        ([], [A1, GONE_A], Compacted(compacted_source=1, expired_source=1)),
        # A tombstone alone.
        ([B1, GONE_A], [B1], Compacted(expired_target=1)),
        ([B1], [B1, GONE_A], Compacted(expired_source=1)),
        # Each side lacks another one.
        ([A1, B1, GONE_A], [B1, A2, GONE_A], Compacted(1, 1)),
        # A cleaner drops what has no key.
        ([row(0, None, b"x"), B1], [B1], Compacted(expired_target=1)),
    ],
)
def test_differences_that_compaction_explains(
    one: list[ConsumedRecord], two: list[ConsumedRecord], explained: Compacted
) -> None:
    found = judged(Lists(one, two))
    assert found.findings.is_clean
    assert found.compacted == explained
    assert found.findings.records == len(one)


@pytest.mark.parametrize(
    ("one", "two", "finding"),
    [
        # The newest record of a key, with a value, is never compacted away.
        ([A1, B1, A2], [A1, B1], {"lost": 1}),
        ([A1, B1], [A1, B1, A2], {"different": 1}),
        ([A1, B1, A2], [B1], {"lost": 1}),
        # A tombstone younger than delete.retention.ms.
        ([B1, row(3, b"a", None, NOW_MS - 1_000)], [B1], {"lost": 1}),
        # Contents that differ in one place.
        ([A1, B1], [A1, row(1, b"b", b"other")], {"different": 1}),
        ([A1, B1], [A1, row(1, b"a", b"1")], {"different": 1}),
        ([A1, B1], [A1, row(1, b"b", b"1", OLD_MS + 1)], {"different": 1}),
        ([A1, B1], [A1, (*B1[:4], [("h", b"")])], {"different": 1}),
    ],
)
def test_differences_that_compaction_does_not_explain(
    one: list[ConsumedRecord], two: list[ConsumedRecord], finding: dict[str, int]
) -> None:
    assert counts(judged(Lists(one, two)).findings) == finding


def test_a_later_record_may_supersede_one_compared() -> None:
    assert judged(Lists([A1, B1], [B1])).findings.lost == 1
    newer = judged(Lists([A1, B1], [B1], two_later=[row(9, b"a", b"9")]))
    assert newer.findings.is_clean
    assert newer.compacted == Compacted(compacted_target=1)
    other_side = judged(Lists([A1, B1], [B1], one_later=[row(9, b"a", b"9")]))
    assert other_side.findings.lost == 1  # the target did not have that one yet


def test_a_side_that_does_not_compact_explains_nothing() -> None:
    only_source = CleaningRule(Cleaning(True, DAY_MS), Cleaning(), NOW_MS)
    assert counts(judged(Lists([A1, B1, A2], [B1, A2]), rule=only_source).findings) == {"lost": 1}
    assert judged(Lists([B1, A2], [A1, B1, A2]), rule=only_source).findings.is_clean
    assert not CleaningRule(Cleaning(), Cleaning(), NOW_MS).matters


def test_nothing_after_the_targets_end_was_compacted() -> None:
    found = judged(Lists([A1, B1, A2, GONE_A], [A1, B1]), stop=2)
    assert counts(found.findings) == {"lost": 2}
    assert found.compacted == Compacted()


def test_a_record_without_a_place_is_lost_whatever_is_newer() -> None:
    """The map says it was never to be copied, and the source has it."""
    places = Places((1,), (2,))  # no place for source offset 1
    found = judged(Lists([A1, row(1, b"a", b"x"), A2], [A1, (1, *A2[1:])]), places)
    assert counts(found.findings) == {"lost": 1}
    assert found.findings.differences[0].source_offset == 1


def test_findings_are_named_and_the_rest_counted() -> None:
    rows = [row(n, b"%d" % n, b"v") for n in range(100)]
    found = judged(Lists(rows, [])).findings
    assert found.lost == 100
    assert [one.source_offset for one in found.differences] == list(range(20))
    assert "key=b'0'" in (found.differences[0].source or "")


# -- logs that are really compacted ----------------------------------------------------------------


def compacted(
    rows: list[ConsumedRecord], upto: int, *, drop_tombstones: bool
) -> list[ConsumedRecord]:
    """What a cleaner leaves of the records before an offset."""
    newest = {each[2]: each[0] for each in rows if each[0] < upto}
    return [
        each
        for each in rows
        if each[0] >= upto
        or (newest[each[2]] == each[0] and not (drop_tombstones and each[3] is None))
    ]


def history(count: int, chance: random.Random, keys: int) -> list[ConsumedRecord]:
    return [
        row(n, b"key-%d" % chance.randrange(keys), chance.choice([b"%d" % n, b"%d" % n, None]))
        for n in range(count)
    ]


def mirror_of(rows: list[ConsumedRecord]) -> tuple[list[ConsumedRecord], Places]:
    """The copy of a log with holes, and its map."""
    built = OffsetMap()
    for target, each in enumerate(rows):
        built.add(Break(target, each[0]))
    return [(n, *each[1:]) for n, each in enumerate(rows)], Places.of(built.breaks())


LENGTH = 90
CUT = st.integers(0, LENGTH)


@dataclass
class Mirrored:
    source: list[ConsumedRecord]
    target: list[ConsumedRecord]
    places: Places

    def judged(self) -> Judged:
        return judged(Lists(self.source, self.target), self.places)


def mirrored(
    seed: int, before: int, source_cut: int, target_cut: int, *, drops: tuple[bool, bool]
) -> Mirrored:
    """A log compacted before it was copied, and then at each side on its own."""
    chance = random.Random(seed)
    whole = history(LENGTH, chance, chance.choice([3, 20, 60]))
    copied = compacted(whole, before, drop_tombstones=False)
    target, places = mirror_of(copied)
    source = compacted(copied, source_cut, drop_tombstones=drops[0])
    target = compacted(target, min(target_cut, len(target)), drop_tombstones=drops[1])
    return Mirrored(source, target, places)


DROPS = st.tuples(st.booleans(), st.booleans())


@examples(100)
@given(st.integers(0, 999), CUT, CUT, CUT, DROPS)
def test_sides_that_compact_independently_are_equal(
    seed: int, before: int, source_cut: int, target_cut: int, drops: tuple[bool, bool]
) -> None:
    both = mirrored(seed, before, source_cut, target_cut, drops=drops)
    found = both.judged()
    assert found.findings.is_clean, found.findings.differences
    gone = found.compacted
    one_side = {both.places.place_of(each[0]) for each in both.source} ^ {
        each[0] for each in both.target
    }
    assert len(one_side) == (
        gone.compacted_source + gone.compacted_target + gone.expired_source + gone.expired_target
    )


FAULTS = ["lost", "doubled", "swapped", "altered", "map"]


@examples(150)
@given(st.integers(0, 999), CUT, CUT, CUT, st.sampled_from(FAULTS))
def test_a_fault_of_the_copier_is_found_through_compaction(
    seed: int, before: int, source_cut: int, target_cut: int, fault: str
) -> None:
    """The fault happens when records are copied; both sides compact afterwards."""
    chance = random.Random(seed)
    whole = history(LENGTH, chance, chance.choice([20, 60]))
    copied = compacted(whole, before, drop_tombstones=False)
    right, places = mirror_of(copied)
    at = chance.randrange(len(right) - 1)
    wrong = [each[1:] for each in right]
    if fault == "lost":
        del wrong[at]
    elif fault == "doubled":
        wrong.insert(at, wrong[at])
    elif fault == "swapped":
        wrong[at], wrong[at + 1] = wrong[at + 1], wrong[at]
    elif fault == "altered":
        wrong[at] = (*wrong[at][:2], b"altered", wrong[at][3])
    elif places.is_exact:
        return
    else:
        row_at = chance.randrange(len(places.targets))
        moved = [source + (n == row_at) for n, source in enumerate(places.sources)]
        places = Places(places.targets, tuple(moved))
    target = [(n, *each) for n, each in enumerate(wrong)]
    source = compacted(copied, source_cut, drop_tombstones=False)
    left = compacted(target, min(target_cut, len(target)), drop_tombstones=False)
    found = judged(Lists(source, left), places)
    there = {each[0]: each[1:] for each in left}
    both = [(each[1:], there.get(places.place_of(each[0]) or 0)) for each in source]
    bears_witness = any(two is not None and one != two for one, two in both)
    assert not (found.findings.is_clean and bears_witness)
    if source_cut == target_cut == 0:  # nothing was compacted since: no fault has a place to hide
        assert not found.findings.is_clean


def test_many_keys_are_checked_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    copied = history(3_000, chance, 700)
    target, places = mirror_of(copied)
    source = compacted(copied, 2_500, drop_tombstones=True)
    del target[2_000:2_003]
    at_once = judged(Lists(source, target), places)
    monkeypatch.setattr(compaction, "KEYS_MAX", 30)
    shared = judged(Lists(source, target), places)
    assert shared.compacted == at_once.compacted
    assert shared.findings == at_once.findings
    assert shared.findings.records == len(source)


def test_compaction_does_not_hide_the_name_of_a_fault() -> None:
    """Once a fault is found, it is named among holes that compaction explains."""
    chance = random.Random(4)
    copied = history(3_000, chance, 2_000)
    target, places = mirror_of(copied)
    wrong = [each[1:] for each in target]
    del wrong[2_700]
    source = compacted(copied, 1_000, drop_tombstones=False)
    left = compacted([(n, *each) for n, each in enumerate(wrong)], 2_000, drop_tombstones=False)
    assert not judged(Lists(source, left), places).findings.is_clean
    holes = Holes(True, True, (0, 0), (3_000, 2_999))
    named = explain(source, left, 3_000, lambda _: {}, places=places, holes=holes)
    assert counts(named) == {"lost": 1, "moved": 299}
    assert named.differences[0].source_offset == 2_700
