"""Unclean elections at sites of merged topics, and somebody who decides to go on at the cut.

The production `Copier` runs unchanged over the log of a link's own records (`merged_world`), and
the choice is the product's (`effect_of`, `shared_end`). Links are killed with each decision, and at
any time; what they had sent may land after it.
"""

from __future__ import annotations

import pytest
from sim.merged_decisions import decide, is_truncated
from sim.merged_sites import Sites
from sim.merged_world import Link
from sim.seeds import IS_WHOLE, chunks
from sim.test_merge_simulation import RARE, STEPS, USUAL, usual

from heliostat.names import Offset

ELECTIONS, ROUNDS_MAX = 3, 30


def decided(sites: Sites) -> int:
    """Decide on all links that wait for it; return on how many."""
    return sum(decide(sites, link) is not None for link in sites.links if is_truncated(link))


def elect_and_decide(sites: Sites) -> int:
    """Write, copy, kill, elect uncleanly, and go on; return how often that was decided."""
    elections, decisions = ELECTIONS, 0
    for _ in range(2 * STEPS):
        chance = sites.chance.random()
        if usual(sites, chance, transactions=False):
            continue
        if chance < USUAL + RARE and elections:
            elections -= 1
            sites.elect()
        elif chance < USUAL + 2 * RARE:
            decisions += decided(sites)
        else:
            sites.turn()
    sites.check()
    for _ in range(ROUNDS_MAX):
        decisions += decided(sites)
        sites.copy_all()
        sites.check()
        if not any(link.stopped for link in sites.links):
            return decisions
    return decisions


def is_cut_in_a_hole(sites: Sites, link: Link) -> bool:
    """Whether only what others wrote was passed since the last decision, and has gone since.

    Nothing of its own is behind the cut then, and the note names a leader that the source does not
    know any more: no contents show the next cut, and somebody has to begin anew (docs/adr/0059).
    """
    landed = sites.into(link.target.name)[link.source.name].landed
    return link.jump is not None and is_truncated(link) and landed.count == link.jump.target


def check_prefixes(sites: Sites, link: Link) -> None:
    """Who has read the target up to a record has not read it, wherever it is at the source."""
    crossing = sites.into(link.target.name)[link.source.name]
    places = {value: offset for offset, value in link.target.seen[0].items()}
    for offset, record in link.source.logs[0].committed():
        value = record.value or b""
        if value.startswith(link.source.name.encode()) and value not in link.left_out:
            assert crossing.at_source(places[value]) <= offset, f"seed {sites.seed}: {value!r}"
            assert crossing.at_source(Offset(places[value] + 1)) > offset


@pytest.mark.parametrize("part", chunks(1 / 5, size=50))
def test_links_go_on_at_the_cut_and_each_record_is_once_at_each_site(part: range) -> None:
    """Given elections that lose what has crossed / when somebody decides / then links go on.

    All that is left at a site gets to the other one, once and in order, and no link stays stopped.
    In a third of the runs records are old, and brokers forget producers.
    Groups that move skip nothing of it.
    """
    decisions = 0
    for seed in part:
        sites = Sites(seed + 39_000_000, "AB")
        if seed % 3 == 0:
            sites.forget_producers()
        decisions += elect_and_decide(sites)
        for link in sites.links:
            if link.stopped:
                assert is_cut_in_a_hole(sites, link), f"seed {seed}: {link.stopped}"
                continue
            assert not sites.lacking(link), f"seed {seed}"
            check_prefixes(sites, link)
    assert decisions or not IS_WHOLE
