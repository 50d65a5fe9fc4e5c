"""Links of merged topics that lose their map, or all their state, are rebuilt and go on.

Both sites write all the while; rounds are killed, answers are lost. Checked: each record once at
each site, in each site's order, and that all has crossed (docs/adr/0059).
"""

from __future__ import annotations

import pytest
from sim.rebuilt_links import RebuiltSites
from sim.seeds import IS_WHOLE, chunks, until_met
from sim.test_merge_simulation import codes, run

from heliostat.records.copier.lane import PartitionCode


@pytest.mark.parametrize("part", chunks(1 / 10, size=50))
def test_what_is_rebuilt_of_both_logs_goes_on_with_each_record_once(part: range) -> None:
    """Given maps and states that are lost again and again / then none is refused."""
    rebuilt: list[int] = []
    for seed in until_met(rebuilt, part):
        sites = RebuiltSites(seed + 38_000_000, "AB")
        run(sites, "lose")
        assert not codes(sites.links), f"seed {seed}"
        assert not sites.refused, f"seed {seed}"
        rebuilt += [seed] * bool(sites.rebuilt)
    assert rebuilt or not IS_WHOLE


@pytest.mark.parametrize("part", chunks(1 / 20, size=50))
def test_what_retention_took_is_not_told_by_a_rebuilt_map(part: range) -> None:
    """Given logs that lose their beginnings, and forgotten producers / then what can't be proven
    is refused, and all else goes on.
    """
    behind: list[int] = []
    """Seeds with a map that was rebuilt of a log whose beginning is gone."""
    for seed in until_met(behind, part):
        sites = RebuiltSites(seed + 39_000_000, "AB")
        sites.forget_producers()
        run(sites, "retain")
        assert set(codes(sites.links)) <= {PartitionCode.TAIL_UNKNOWN}, f"seed {seed}"
        behind += [seed] * sites.behind_retention
    assert behind or not IS_WHOLE
