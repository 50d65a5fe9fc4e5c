"""Sites that write one topic, copied to each other under seeded faults: each seed is one run.

The production `Copier` runs unchanged over the log of a link's own records (`merged_world`).
Checked: each record once at each site, each site's records in their order there, nothing comes
back; and when all is quiet, each link that was not stopped has carried all (docs/adr/0059).
"""

from __future__ import annotations

from collections import Counter

import pytest
from sim.merged_sites import Sites
from sim.merged_world import Link
from sim.seeds import IS_WHOLE, chunks

from heliostat.merge.places import Published, ReadTo, Site, place_at, read_to, with_earlier
from heliostat.names import Offset
from heliostat.offsets.map_rows import RowKey
from heliostat.records.copier.lane import PartitionCode

STEPS = 150
WRITES, KILLS, NOTES, RARE = 0.25, 0.02, 0.06, 0.02
USUAL = WRITES + KILLS + NOTES
LOST_AT_SOURCE = {PartitionCode.SOURCE_TRUNCATED, PartitionCode.OFFSET_MAP_LOST}
"""What links stop with whose source has lost records."""


def usual(sites: Sites, chance: float, *, transactions: bool) -> bool:
    """Write, kill or note by chance; return whether anything was done."""
    if chance < WRITES:
        sites.write(transactions=transactions)
    elif chance < WRITES + KILLS:
        sites.chance.choice(sites.links).kill()
    elif chance < USUAL:
        sites.chance.choice(sites.links).note()
    return chance < USUAL


def run(sites: Sites, rare: str = "", *, steps: int = STEPS, transactions: bool = True) -> None:
    """Write, copy, kill and note; and do now and then what the scenario is about."""
    for _ in range(steps):
        chance = sites.chance.random()
        if usual(sites, chance, transactions=transactions):
            continue
        if rare and chance < USUAL + RARE:
            getattr(sites, rare)()
        else:
            sites.turn()
    sites.check()
    sites.copy_all()
    sites.check()


def codes(links: list[Link]) -> Counter[str]:
    """Why partitions are stopped."""
    return Counter(text.split()[0] for link in links for text in link.stopped.values())


@pytest.mark.parametrize("part", chunks(1 / 3, size=50))
def test_two_sites_have_each_record_once(part: range) -> None:
    """Given kills, faults and links with new producer ids / then each record is once at each."""
    for seed in part:
        sites = Sites(seed + 31_000_000, "AB")
        run(sites, "rebuild")
        assert not codes(sites.links), f"seed {seed}"


@pytest.mark.parametrize("part", chunks(1 / 3, size=50))
def test_what_pipelines_leave_is_once_at_each_site(part: range) -> None:
    """Given links whose pipelines leave records out and change others / then what they leave is
    once at the other site, as they make it: also with a cleaner at work, with brokers that forget
    producers, and where a site loses its newest records.
    """
    for seed in part:
        sites = Sites(seed + 38_000_000, "AB", piped=True)
        rare = ("rebuild", "elect", "retain", "compact")[seed % 4]
        if rare == "retain":
            sites.forget_producers()
        run(sites, rare, transactions=rare != "elect")
        may_stop = {PartitionCode.TAIL_UNKNOWN} if rare in {"retain", "compact"} else set()
        if rare == "elect":
            assert set(codes(sites.away())) <= LOST_AT_SOURCE, f"seed {seed}"
        others = [each for each in sites.links if rare != "elect" or each not in sites.away()]
        assert set(codes(others)) <= may_stop, f"seed {seed}"


@pytest.mark.thorough
@pytest.mark.parametrize("part", chunks(1 / 5, size=50))
def test_a_mesh_of_three_has_each_record_once(part: range) -> None:
    """Given a link for each ordered pair / then what crossed goes no further, and nothing lacks."""
    for seed in part:
        sites = Sites(seed + 32_000_000, "ABC")
        run(sites, "rebuild", steps=2 * STEPS)
        assert not codes(sites.links), f"seed {seed}"


@pytest.mark.thorough
@pytest.mark.parametrize("part", chunks(1 / 5, size=50))
def test_forgotten_producers_and_retention_do_no_harm(part: range) -> None:
    """Given old records, producers forgotten at any time, and logs that lose their beginnings.

    A link that can't know where it ended stops; it never appends a record again.
    """
    found: Counter[str] = Counter()
    shortened = 0
    for seed in part:
        sites = Sites(seed + 33_000_000, "AB")
        sites.forget_producers()
        run(sites, "retain")
        found += codes(sites.links)
        shortened += sum(log.start > 0 for site in sites.sites.values() for log in site.logs)
    assert shortened or not IS_WHOLE
    assert set(found) <= {PartitionCode.TAIL_UNKNOWN}
    assert found.total() <= len(part) // 10 + 1


@pytest.mark.thorough
@pytest.mark.parametrize("part", chunks(1 / 5, size=50))
def test_compaction_at_either_site_moves_no_record(part: range) -> None:
    """Given cleaners between rounds (`merge_compacted`) / then once, in order, nothing back."""
    found: Counter[str] = Counter()
    for seed in part:
        sites = Sites(seed + 34_000_000, "AB")
        if seed % 2:
            sites.forget_producers()
        run(sites, "compact")
        found += codes(sites.links)
    assert set(found) <= {PartitionCode.TAIL_UNKNOWN, PartitionCode.OFFSET_MAP_LOST}, found
    assert found.total() <= len(part) // 5 + 1, found


@pytest.mark.parametrize("part", chunks(1 / 3, size=50))
def test_unclean_elections_at_a_site_double_nothing(part: range) -> None:
    """Given a site that loses its newest records / then links that bring them bring them again.

    Links that carry them away stop, as those of mirrors do: the other site has records of it that
    it has not itself. Nothing is there twice, and nothing out of order. Without transactions: an
    election that takes a marker of an aborted one brings its records back, for mirrors as well.
    """
    for seed in part:
        sites = Sites(seed + 35_000_000, "AB")
        run(sites, "elect", transactions=False)
        found = codes([each for each in sites.links if each not in sites.away()])
        assert not found, f"seed {seed}: {found}"
        assert set(codes(sites.away())) <= LOST_AT_SOURCE, f"seed {seed}"


@pytest.mark.thorough
@pytest.mark.parametrize("rare", ["", "compact"])
@pytest.mark.parametrize("names", ["AB", "ABC"])
def test_groups_that_move_ten_times_skip_nothing(names: str, rare: str) -> None:
    """Given a group that moves while links are killed / then it skips no record.

    What it reads again are as many records as were foretold. With cleaners at work that is an
    estimate, and what one took before the place of a group counts as passed: a later record of the
    key is there.
    """
    for part in chunks(1 / 20, size=50):
        for seed in part:
            move_ten_times(seed, names, rare, piped=seed % 2 > 0)


def move_ten_times(seed: int, names: str, rare: str, *, piped: bool = False) -> None:
    """Read some, and go on at another site."""
    sites = Sites(seed + 36_000_000, names, piped=piped)
    at, offset = Site("A"), Offset(0)
    passed: set[bytes] = set()
    given: dict[Site, Published] = {}
    for _ in range(10):
        for _ in range(STEPS // 5):
            chance = sites.chance.random()
            if chance < WRITES:
                sites.write(transactions=False)
            elif chance < WRITES + KILLS:
                sites.chance.choice(sites.links).kill()
            elif rare and chance < WRITES + KILLS + RARE:
                getattr(sites, rare)()
            else:
                sites.turn()
        sites.look()
        seen = sites.sites[at].seen[0]
        stop = Offset(sites.chance.randrange(offset, len(seen) + 1))
        passed |= {seen[each] for each in range(offset, stop)}
        known = with_earlier(read_to(at, stop, sites.into(at)), stop, given.get(at))
        passed |= never_crossed(sites, at, known)
        at = sites.chance.choice([name for name in sites.sites if name != at])
        there, left = sites.sites[at].seen[0], sites.sites[at].left()
        place = place_at(at, known, sites.into(at), Offset(len(there)))
        before = (there[each] for each in left if each < place.offset)
        skipped = [each for each in before if each not in passed]
        assert not skipped, f"seed {seed}: {skipped}"
        again = sum(there[each] in passed for each in left if each >= place.offset)
        assert again == place.again or rare, f"seed {seed}"
        passed |= {there[each] for each in range(place.offset)}
        given[at] = Published(place.offset, known)
        offset = place.offset


def never_crossed(sites: Sites, at: Site, read: ReadTo) -> set[bytes]:
    """Records before what a group has read that a cleaner took at their site, and a link left out.

    A later record of the key did cross. What a pipeline leaves out goes with what is behind it.
    """
    crossed = set(sites.sites[at].seen[0].values())
    found = set()
    for name, upto in read.items():
        seen, left = sites.sites[name].seen[0], set(sites.sites[name].left())
        gone = {
            value
            for offset, value in seen.items()
            if offset < upto and (offset not in left or sites.leaves_out(value))
        }
        found |= {each for each in gone - crossed if each.startswith(name.encode())}
    return found


@pytest.mark.thorough
def test_rows_of_a_topic_that_both_sites_write_in_turn_stay_few() -> None:
    """Given two sites that write in turn / then each fetch has at most a row, of few bytes a break.

    Without packing there would be a row of some 150 bytes for each batch that crosses.
    """
    rows = size = breaks = records = 0
    for seed in range(2 if IS_WHOLE else 1):
        sites = Sites(seed + 37_000_000, "AB", fault_rate=0.0)
        for step in range(1000):
            sites.write(transactions=False) if step % 3 == 0 else sites.turn()
        sites.copy_all()
        for link in sites.links:
            rows += len(link.world.map_rows)
            size += sum(bytes_of(each.row.key, each.row.encode()) for each in link.world.map_rows)
            breaks += len(link.world.offset_map(0))
            records += link.source.written
    assert rows < breaks, (rows, breaks)
    assert breaks < records
    assert size < 600 * breaks, (size, breaks)


def bytes_of(key: RowKey, value: bytes) -> int:
    """What a row takes in its topic beside its share of a batch's header."""
    return len(key.encode()) + len(value) + 10
