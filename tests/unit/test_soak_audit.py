"""What `bench/soak` reports about incorrect mirrors."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from soak import is_clean
from soak_audit import Finding, Seen, compare
from soak_faults import FAULTS, draw
from soak_load import LOADS, PLAIN, Load
from soak_merged import compare_site

pytestmark = pytest.mark.thorough

EXACT, CLEANED, MAPPED, _ = LOADS


def log(*numbers: int, first: int = 0, step: int = 1) -> list[Seen]:
    return [
        Seen(first + step * at, 1000 + number, b"k%d" % number, b"%d ff" % number, (("n", b"x"),))
        for at, number in enumerate(numbers)
    ]


SOURCE = log(0, 1, 2, 3, 4)
ALTERED = [*SOURCE[:2], SOURCE[2]._replace(timestamp_ms=7), *SOURCE[3:]]
WRONG: dict[str, tuple[list[Seen], dict[str, int]]] = {
    "nothing": (SOURCE, {}),
    "one is missing": (log(0, 1, 3, 4), {"lost": 1, "different": 2}),
    "one is there twice": (log(0, 1, 1, 2, 3, 4), {"doubled": 1, "different": 3}),
    "two have changed places": (log(0, 2, 1, 3, 4), {"reordered": 1, "different": 2}),
    "one is somebody else's": (log(0, 1, 2, 3, 4, 9), {"foreign": 1}),
    "one has another time": (ALTERED, {"different": 1}),
    "all are moved": (log(0, 1, 2, 3, 4, first=1), {"different": 5}),
}


def counts(finding: Finding) -> dict[str, int]:
    names = ("lost", "doubled", "reordered", "foreign", "different")
    return {name: found for name in names if (found := getattr(finding, name))}


@pytest.mark.parametrize("what", WRONG)
def test_each_difference_of_an_exact_mirror_is_named(what: str) -> None:
    target, wanted = WRONG[what]
    finding = compare(EXACT, 0, SOURCE, target)
    assert counts(finding) == wanted
    assert finding.is_clean == (not wanted)
    assert bool(finding.examples) == bool(wanted)


def test_offsets_of_mapped_mirrors_may_differ_and_nothing_else() -> None:
    source = log(0, 1, 2, step=2)
    assert compare(MAPPED, 0, source, log(0, 1, 2)).is_clean
    assert counts(compare(MAPPED, 0, source, log(0, 2, 1))) == {"reordered": 1}
    assert counts(compare(MAPPED, 0, source, log(0, 1))) == {"lost": 1}


def test_duplicates_of_the_source_must_be_in_the_mirror() -> None:
    """Given a writer that sent again what was there / then each is compared with its own."""
    source = log(0, 1, 1, 2)
    assert compare(EXACT, 0, source, log(0, 1, 1, 2)).is_clean
    assert counts(compare(MAPPED, 0, source, log(0, 1, 2))) == {"lost": 1}
    assert counts(compare(MAPPED, 0, source, log(0, 1, 1, 1, 2))) == {"doubled": 1}


def test_records_later_compacted_at_the_source_are_not_foreign() -> None:
    source = log(3, 4)
    assert compare(CLEANED, 0, source, log(0, 1, 2, 3, 4)).is_clean
    assert counts(compare(CLEANED, 0, source, log(0, 3, 1, 3, 4))) == {"doubled": 1}
    assert counts(compare(MAPPED, 0, source, log(2, 3, 4))) == {"foreign": 1}


def test_each_writer_of_a_merged_topic_is_compared_with_its_copy_at_the_other_site() -> None:
    """Given what both write / then only a writer of old records may have sent some twice.

    What comes back to its own site counts as there twice, and records of nobody are named.
    """

    def of(site: str, *numbers: int) -> list[Seen]:
        return [each._replace(headers=(("site", site.encode()),)) for each in log(*numbers)]

    load, old = Load("merged", site="east"), Load("merged-old", site="east", age_ms=7)
    own = of("east", 0, 1, 2)
    there = [*of("west", 0), *own, *of("west", 1)]
    assert counts(compare_site(load, 0, [*own, *of("west", 0, 1)], there)) == {}
    assert counts(compare_site(load, 0, own, of("east", 0, 2, 1))) == {"reordered": 1}
    assert counts(compare_site(load, 0, own, of("east", 0, 1))) == {"lost": 1}
    assert counts(compare_site(load, 0, [*own, *own[:1]], own)) == {"lost": 1, "doubled": 1}
    twice = [*own, *own[-1:]]
    assert counts(compare_site(load, 0, twice, twice)) == {"doubled": 1}
    assert compare_site(old, 0, twice, twice).is_clean
    assert counts(compare_site(load, 0, [*own, *log(9)], own)) == {"foreign": 1}


def report(**changed: Any) -> dict[str, Any]:
    row = Finding(PLAIN, 0, 5, 5).to_json()
    return {"findings": [row], "did_not_recover": [], **changed}


def test_a_run_that_compared_nothing_is_not_clean() -> None:
    assert is_clean(report())
    assert not is_clean(report(findings=[]))
    assert not is_clean(report(findings=[Finding(PLAIN, 0, 0, 0).to_json()]))
    assert not is_clean(report(findings=[Finding(PLAIN, 0, 5, 5, lost=1).to_json()]))
    assert not is_clean(report(did_not_recover=["not level"]))


def test_every_fault_is_drawn_and_the_same_seed_draws_the_same() -> None:
    one, other = random.Random(5), random.Random(5)
    drawn = [draw(one) for _ in range(500)]
    assert drawn == [draw(other) for _ in range(500)]
    assert Counter(drawn).keys() == {fault for _, fault in FAULTS}
