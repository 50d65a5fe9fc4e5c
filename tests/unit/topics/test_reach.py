"""Rights must cover every name that an entry selects, and no others if that can be expressed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliostat.clusters.acl import PatternKind
from heliostat.config import compile_pattern
from heliostat.topics.reach import Reach, reach_of

PREFIXED = PatternKind.PREFIXED


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["lsst.sal.ESS"], [Reach("lsst.sal.ESS")]),
        ([r"lsst\.sal\..*"], [Reach("lsst.sal.", PREFIXED)]),
        (["lsst.sal..*"], [Reach("lsst", PREFIXED, exact=False)]),
        ([r"lsst\.sal\..+"], [Reach("lsst.sal.", PREFIXED, exact=False)]),
        ([".*"], [Reach("*")]),
        (["(a|b)x"], [Reach("*", exact=False)]),
        (["(?i)lsst"], [Reach("*", exact=False)]),
        ([r"a\.x|b\..*"], [Reach("a.x"), Reach("b.", PREFIXED)]),
        (["ab?c.*"], [Reach("a", PREFIXED, exact=False)]),
        (["[ab]|c"], [Reach("*", exact=False)]),
        (["a", "a.*"], [Reach("a", PREFIXED)]),
        ([r"a\d"], [Reach("a", PREFIXED, exact=False)]),
        (["a.*", "ab.*", "abc", "b"], [Reach("a", PREFIXED), Reach("b")]),
        (["a", ".*"], [Reach("*")]),
        ([], []),
    ],
)
def test_the_names_that_an_entry_reaches(entries: list[str], expected: list[Reach]) -> None:
    assert sorted(reach_of(entries), key=repr) == sorted(expected, key=repr)


def reached(reach: Reach, name: str) -> bool:
    if reach.is_everything:
        return True
    return name.startswith(reach.name) if reach.pattern is PREFIXED else name == reach.name


PIECES = st.sampled_from(
    [
        "a",
        "b",
        ".",
        r"\.",
        "-",
        "_",
        ".*",
        "?",
        "+",
        "|",
        "(",
        ")",
        "[ab]",
        "{2}",
        r"\d",
        r"\w",
        "*",
    ]
)


@given(
    st.lists(st.lists(PIECES, min_size=1, max_size=7).map("".join), min_size=1, max_size=3),
    st.lists(st.text("ab.-_0", min_size=1, max_size=6), min_size=1, max_size=20),
)
def test_every_selected_name_is_reached_and_exact_ones_reach_nothing_else(
    entries: list[str], names: list[str]
) -> None:
    patterns: list[re.Pattern[str]] = []
    for entry in entries:
        try:
            patterns.append(compile_pattern(entry))
        except ValueError:
            return
    found = reach_of(entries)
    for name in names:
        selected = any(pattern.fullmatch(name) for pattern in patterns)
        if selected:
            assert any(reached(each, name) for each in found), (entries, name, found)
        elif any(reached(each, name) for each in found if each.exact):
            raise AssertionError((entries, name, found))
