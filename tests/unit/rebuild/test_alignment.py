"""The offset map derived from the contents of two logs, or why there is none."""

from __future__ import annotations

import random

import pytest

from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.rebuild.alignment import Contents, NotAligned, align

Log = dict[int, str]


def contents(log: Log) -> Contents:
    return Contents.of((at, 5, b"k", value.encode(), ()) for at, value in log.items())


def aligned(source: Log, target: Log, *, is_compacted: bool = False) -> list[Break]:
    return align(contents(source), contents(target), is_compacted=is_compacted)


def why_not(source: Log, target: Log, *, is_compacted: bool = False) -> str:
    with pytest.raises(NotAligned) as caught:
        aligned(source, target, is_compacted=is_compacted)
    return str(caught.value)


def letters(text: str, start: int = 0, step: int = 1) -> Log:
    return {start + step * number: each for number, each in enumerate(text)}


@pytest.mark.parametrize("is_compacted", [False, True])
def test_holes_of_the_source_are_breaks(*, is_compacted: bool) -> None:
    found = aligned(
        {0: "a", 2: "b", 3: "c", 9: "d", 10: "e"}, letters("abcd"), is_compacted=is_compacted
    )
    assert found == [Break(1, 2), Break(3, 9)]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_equal_offsets_have_no_break(*, is_compacted: bool) -> None:
    assert aligned(letters("abc", 7), letters("ab", 7), is_compacted=is_compacted) == []


def test_repeating_records_are_placed_if_only_one_way_is_left() -> None:
    """As many at the target as the source has between two known records."""
    assert aligned({0: "a", 2: "x", 4: "x", 6: "b", 8: "c"}, letters("axxb")) == [
        Break(1, 2),
        Break(2, 4),
        Break(3, 6),
    ]


def test_an_ambiguous_record_is_refused_and_named() -> None:
    text = why_not({0: "a", 2: "x", 4: "x", 6: "x", 8: "b"}, letters("axxb"))
    assert "target offset 1 may be source offset 2 or 4" in text
    assert "target offset 1 may be source offset 2 or 4" in why_not(
        {0: "a", 2: "x", 4: "x"}, letters("ax")
    )
    assert "target offset 0" in why_not(letters("xxxx", step=2), letters("xx"))


def test_a_record_that_the_source_lacks_is_refused_and_named() -> None:
    assert "like target offset 1 before source offset 4" in why_not(
        {0: "a", 2: "b", 4: "c"}, letters("a?c")
    )
    assert "like target offset 2 at all" in why_not({0: "a", 2: "b"}, letters("ab?"))
    assert "like target offset 1 before source offset 2" in why_not(
        {0: "a", 2: "c", 4: "b"}, letters("abc")
    )
    assert "no record any more" in why_not(letters("ab"), {})
    assert "at all" in why_not({}, letters("ab"))


def test_records_expired_at_the_source_keep_the_distance_of_later_ones() -> None:
    """Where the true one was smaller, a reader is sent back too far: it misses nothing."""
    assert aligned({6: "c", 8: "d"}, letters("abcd")) == [Break(0, 4), Break(3, 8)]
    # The source's first record is not the one after those that it lacks.
    assert "like target offset 1" in why_not({4: "x", 6: "c", 8: "d"}, letters("abcd"))


def test_records_expired_at_the_target_keep_the_distance_of_later_ones() -> None:
    assert aligned({0: "a", 2: "b", 4: "c", 8: "d"}, letters("cd", 2)) == [Break(0, 2), Break(3, 8)]


def test_a_mirror_that_was_emptied_and_copied_again_goes_back_once() -> None:
    """As by a decision to restart; not where it still holds earlier records."""
    assert aligned(letters("ab"), letters("ab", 5)) == [Break(5, 0)]
    assert aligned(letters("ab"), letters("ab", 5), is_compacted=True) == [Break(5, 0)]
    assert aligned(letters("abc", step=2), letters("ab", 5)) == [Break(5, 0), Break(6, 2)]
    assert "truncated" in why_not(letters("xab"), {0: "x", 5: "a", 6: "b"})
    assert "so few" in why_not(letters("ab"), {3: "z", 5: "a", 6: "b"})


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ({0: "a", 9: "d"}, letters("abcd"), [Break(1, 7)]),  # as far back as can be
        ({0: "a", 5: "c", 9: "d"}, letters("abcd"), [Break(1, 4), Break(3, 9)]),
        ({0: "a", 3: "x", 4: "x", 9: "d"}, letters("axd"), [Break(1, 8)]),
        ({0: "a", 2: "b", 4: "c"}, {0: "a", 2: "c"}, [Break(1, 3)]),  # the target cleans, too
    ],
)
def test_records_compacted_at_the_source_lie_between_known_ones(
    source: Log, target: Log, expected: list[Break]
) -> None:
    assert aligned(source, target, is_compacted=True) == expected


def test_of_a_compacted_source_the_mirrors_last_record_must_be_known() -> None:
    for source in ({0: "a"}, {0: "a", 2: "b", 4: "b"}):
        assert "target offset 1" in why_not(source, letters("ab"), is_compacted=True)
    # Unless the link has noted where it continues.
    for source, at, expected in (
        ({0: "a"}, 7, [Break(1, 6)]),
        ({0: "a", 2: "b", 4: "b"}, 5, [Break(1, 4)]),
        ({0: "a"}, 2, []),
        ({9: "c"}, 5, [Break(0, 3)]),
    ):
        found = align(contents(source), contents(letters("ab")), is_compacted=True, goes_on_at=at)
        assert found == expected
        assert OffsetMap.of(found).source_of(2) == at
    with pytest.raises(NotAligned, match="so few"):
        align(contents({0: "a"}), contents(letters("ab")), is_compacted=True, goes_on_at=1)
    swapped = why_not({0: "b", 2: "a", 4: "c"}, letters("abc"), is_compacted=True)
    assert "target offset 1 comes after" in swapped


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("is_compacted", [False, True])
def test_the_rebuilt_map_equals_the_one_used_for_copying(seed: int, *, is_compacted: bool) -> None:
    """Given random holes and a mirror that lags / then each record's place is correct."""
    rng = random.Random(seed)
    source = {at: f"{at}" for at in range(200) if rng.random() < 0.7}
    copied = list(source)[: rng.randrange(1, len(source))]
    target = {number: source[at] for number, at in enumerate(copied)}
    found = OffsetMap.of(aligned(source, target, is_compacted=is_compacted))
    assert [found.source_of(number) for number in range(len(copied))] == copied
    assert found.source_of(len(copied)) == copied[-1] + 1
