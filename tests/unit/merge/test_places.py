"""Where groups go on that move, by a reference that counts record by record."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from heliostat.merge.crossing import Crossing
from heliostat.merge.own_end import BatchPlace
from heliostat.merge.places import Place, Published, Site, place_at, read_to, with_earlier
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break

Record = tuple[str, int]
"""A site, and the number of the record among its own."""


class Ground:
    """Logs of sites that copy one another's records, in any order of links."""

    def __init__(self, seed: int, names: str) -> None:
        self.chance = random.Random(seed)
        self.names = [Site(name) for name in names]
        self.logs: dict[Site, list[Record]] = {name: [] for name in self.names}
        self.written = dict.fromkeys(self.names, 0)
        self.links = {(a, b): Crossing() for a in self.names for b in self.names if a != b}
        self.at = dict.fromkeys(self.links, 0)
        """Source offset at which a link goes on."""

    def write(self) -> None:
        name = self.chance.choice(self.names)
        for _ in range(self.chance.choice([1, 1, 3])):
            self.logs[name].append((name, self.written[name]))
            self.written[name] += 1

    def copy(self) -> None:
        link = self.chance.choice(list(self.links))
        source, target = self.logs[link[0]], self.logs[link[1]]
        crossing, offset = self.links[link], self.at[link]
        if offset < len(source) and source[offset][0] == link[0]:
            if crossing.sent.source_of(crossing.count) != offset:
                crossing.sent.add(Break(crossing.count, offset))
            target.append(source[offset])
            crossing.learn(crossing.count, 1, len(target) - 1)
        self.at[link] = min(len(source), offset + 1)
        crossing.passed = Offset(self.at[link])

    def into(self, site: Site) -> dict[Site, Crossing]:
        """As the links know it once they have looked at the site's end."""
        found = {link[0]: each for link, each in self.links.items() if link[1] == site}
        for each in found.values():
            each.complete_to = Offset(len(self.logs[site]))
        return found

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.write() if self.chance.random() < 0.3 else self.copy()


@pytest.mark.parametrize("names", ["AB", "ABC"])
def test_a_group_skips_nothing_and_reads_again_what_was_foretold(names: str) -> None:
    """Given groups that move between sites / then each reads all, and again as often as told."""
    for seed in range(60):
        ground = Ground(seed, names)
        site, offset = ground.names[0], 0
        read: set[Record] = set()
        notes: dict[Site, Published] = {}
        again = 0
        for _ in range(10):
            ground.run(40)
            log = ground.logs[site]
            stop = ground.chance.randrange(offset, len(log) + 1)
            read |= set(log[offset:stop])
            offset = stop
            has_read = with_earlier(
                read_to(site, Offset(offset), ground.into(site)), Offset(offset), notes.get(site)
            )
            site = ground.chance.choice([name for name in ground.names if name != site])
            ground.run(ground.chance.choice([0, 10]))
            end = Offset(len(ground.logs[site]))
            place = place_at(site, has_read, ground.into(site), end)
            there = ground.logs[site]
            unread = [at for at, record in enumerate(there) if record not in read]
            assert place.offset == min([*unread, end]), f"seed {seed}"
            assert place.again == sum(record in read for record in there[place.offset :])
            again += place.again
            notes[site] = Published(place.offset, has_read)
            offset = place.offset
        assert set(ground.logs[site][:offset]) <= read
        for first, second in pairwise(sorted(read)):
            assert first[0] != second[0] or second[1] == first[1] + 1, f"seed {seed}: a hole"


def test_a_group_that_was_reset_reads_again() -> None:
    """Given a group before the offset that it was given / then its earlier reading counts no more.

    One that stands there or behind it has read what it had read.
    """
    a, b = Site("a"), Site("b")
    given = Published(Offset(5), {a: Offset(9), b: Offset(7)})
    now = {a: Offset(5), b: Offset(2)}
    assert with_earlier(now, Offset(5), given) == {a: 9, b: 7}
    assert with_earlier({a: Offset(4), b: Offset(2)}, Offset(4), given) == {a: 4, b: 2}
    assert with_earlier(now, Offset(5), None) == now


def test_what_has_not_landed_may_land_behind_all_that_is_known() -> None:
    """Given a record under way / then a group stands where it may land, not behind that."""
    into = Crossing(count=0, complete_to=Offset(4))
    here, there = Site("here"), Site("there")
    read = {here: Offset(9), there: Offset(0)}
    assert place_at(here, read, {there: into}, Offset(9)) == Place(Offset(4), 5)


def test_places_are_learnt_from_the_log_where_answers_lack() -> None:
    """Given an answer that was lost / then the one behind it waits for a look at the log."""
    crossing = Crossing()
    crossing.learn(0, 2, 3)
    crossing.learn(4, 1, 9)
    assert (crossing.count, crossing.complete_to) == (2, 5)
    log = [BatchPlace(8, 0, 5, 6), BatchPlace(7, 2, 6, 8), BatchPlace(7, 4, 9, 10)]
    crossing.learn_log(log, {7}, 5, 12)
    assert (crossing.count, crossing.complete_to) == (5, 12)
    assert [crossing.at_target(source) for source in range(6)] == [3, 4, 6, 7, 9, 12]


def test_a_cut_forgets_what_lay_behind_it() -> None:
    crossing = Crossing()
    crossing.learn(0, 2, 3)
    crossing.learn(2, 2, 8)
    crossing.cut(8)
    assert (crossing.count, crossing.complete_to) == (2, 8)
    assert crossing.at_target(2) == 8
