"""Where groups go on that move, by a reference that counts record by record."""

from __future__ import annotations

import random
from collections.abc import Collection
from itertools import pairwise

import pytest

from heliostat.merge.crossing import Crossing
from heliostat.merge.landed_log import LandedLog, OwnBatches, Stretch, UnknownPlaceError
from heliostat.merge.own_end import BatchPlace, OwnNote
from heliostat.merge.places import (
    Place,
    Published,
    Site,
    as_it_stands,
    place_at,
    read_behind,
    read_to,
    with_earlier,
)
from heliostat.names import Offset
from heliostat.offsets.offset_map import Break, OffsetMap

LINK, OTHER = 7, 8
"""Producer ids."""
START = Offset(0)
Record = tuple[str, int]
"""A site, and the number of the record among its own."""


class Ground:
    """Logs of sites that copy one another's records, in any order of links."""

    def __init__(self, seed: int, names: str) -> None:
        self.chance = random.Random(seed)
        self.names = [Site(name) for name in names]
        self.logs: dict[Site, list[Record]] = {name: [] for name in self.names}
        self.written = dict.fromkeys(self.names, 0)
        ways = [(a, b) for a in self.names for b in self.names if a != b]
        self.sent = {way: OffsetMap() for way in ways}
        self.landed: dict[tuple[Site, Site], list[BatchPlace]] = {way: [] for way in ways}
        self.at = dict.fromkeys(ways, 0)
        """Source offset at which a link goes on."""
        self.gone: dict[Site, set[int]] = {name: set() for name in self.names}
        """Offsets that a cleaner has emptied."""

    def write(self) -> None:
        name = self.chance.choice(self.names)
        for _ in range(self.chance.choice([1, 1, 3])):
            self.logs[name].append((name, self.written[name]))
            self.written[name] += 1

    def copy(self) -> None:
        way = self.chance.choice(list(self.at))
        source, target = self.logs[way[0]], self.logs[way[1]]
        own, offset = self.landed[way], self.at[way]
        if offset < len(source) and source[offset][0] == way[0]:
            if self.sent[way].source_of(len(own)) != offset:
                self.sent[way].add(Break(len(own), offset))
            own.append(BatchPlace(LINK, len(own), len(target), len(target) + 1))
            target.append(source[offset])
        self.at[way] = min(len(source), offset + 1)

    def into(self, site: Site) -> dict[Site, Crossing]:
        """As a look at the site shows it, with notes that are any length behind."""
        found = {}
        for way, own in self.landed.items():
            if way[1] == site:
                noted = self.chance.randint(0, len(own))
                note = OwnNote(noted, Offset(own[noted - 1].next_offset if noted else 0))
                gone = self.gone[site]
                left = [each for each in own if each.offset not in gone]
                landed = look(left, note, len(self.logs[site]), holes=gone)
                found[way[0]] = Crossing(self.sent[way], landed, Offset(self.at[way]))
        return found

    def clean(self) -> None:
        """A cleaner's run at each site, which leaves the newest records."""
        for site, log in self.logs.items():
            upto = max(0, len(log) - 3)
            self.gone[site] |= {at for at in range(upto) if self.chance.random() < 0.2}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.write() if self.chance.random() < 0.3 else self.copy()


@pytest.mark.parametrize("names", ["AB", "ABC"])
def test_a_group_skips_nothing_and_reads_again_what_was_foretold(names: str) -> None:
    """Given groups that move between sites / then each reads all, and again as often as told."""
    for seed in range(25):
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


@pytest.mark.parametrize("names", ["AB", "ABC"])
def test_a_group_in_cleaned_logs_skips_nothing_that_it_has_not_passed(names: str) -> None:
    """Given cleaners at work / then what a group never passed, and is left, is not skipped.

    What a cleaner took before the place where it goes on counts as passed: a later record of the
    key is there.
    """
    for seed in range(25):
        ground = Ground(seed, names)
        site, offset = ground.names[0], 0
        passed: set[Record] = set()
        notes: dict[Site, Published] = {}
        for _ in range(10):
            ground.run(40)
            ground.clean()
            log = ground.logs[site]
            stop = Offset(ground.chance.randrange(offset, len(log) + 1))
            passed |= set(log[offset:stop])
            has_read = with_earlier(read_to(site, stop, ground.into(site)), stop, notes.get(site))
            site = ground.chance.choice([name for name in ground.names if name != site])
            there, gone = ground.logs[site], ground.gone[site]
            place = place_at(site, has_read, ground.into(site), Offset(len(there)))
            left = [at for at in range(len(there)) if at not in gone]
            skipped = [at for at in left if at < place.offset and there[at] not in passed]
            assert not skipped, f"seed {seed}"
            passed |= {there[at] for at in gone if at < place.offset}
            notes[site] = Published(place.offset, has_read)
            offset = place.offset


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
    into = Crossing(OffsetMap(), look([], OwnNote(0, START), 4))
    here, there = Site("here"), Site("there")
    read = {here: Offset(9), there: Offset(0)}
    assert place_at(here, read, {there: into}, Offset(4)) == Place(Offset(4), 0)
    assert read_behind(Offset(1), here, read, {there: into}, Offset(4)) == 3


OWN = [BatchPlace(LINK, 0, 3, 5), BatchPlace(LINK, 2, 5, 7), BatchPlace(LINK, 4, 9, 10)]
"""Offsets 3 to 6 and 9."""


def test_numbers_and_places_are_looked_up_in_the_log() -> None:
    """Given own batches / then each offset has the number before it, and each number its place."""
    landed = look(OWN, OwnNote(4, Offset(7)), 12)
    assert landed.count == 5
    assert [landed.before(Offset(at)) for at in range(13)] == [0] * 4 + [1, 2, 3, 4, 4, 4, 5, 5, 5]
    assert [landed.place_of(number) for number in range(7)] == [3, 4, 5, 6, 9, 12, 12]
    behind = [landed.behind_run(Offset(at)) for at in range(12)]
    assert behind == [0, 1, 2, 7, 7, 7, 7, 7, 8, 10, 10, 11]
    crossing = Crossing(OffsetMap(), landed)
    assert [crossing.at_source(Offset(at)) for at in (0, 4, 8, 12)] == [0, 1, 4, 5]
    assert crossing.between(Offset(4), Offset(9)) == 3


def test_what_a_log_does_not_tell_is_not_guessed() -> None:
    """Given no own batch that is left / then only a note counts that nothing is missing behind."""
    gone = OwnNote(4, Offset(7))
    with pytest.raises(UnknownPlaceError):
        assert look([], gone, 12, start=8).count
    with pytest.raises(UnknownPlaceError):
        assert look([], None, 12).count
    assert look([], gone, 12).count == 4
    assert look([], gone._replace(is_closed=True), 12, start=8).count == 4
    assert look(OWN, gone, 12, start=8).count == 5
    assert look(OWN, gone, 12, start=8).place_of(0) == 9


def test_where_a_cleaner_was_what_has_landed_is_told_from_below_and_above() -> None:
    """Given batches that a cleaner has removed / then bounds hold, and read records are not more
    than surely are. Where nothing lacks up to the next own batch both are equal.
    """
    left = [OWN[0], OWN[2]]  # offsets 5 and 6 are a hole
    landed = look(left, OwnNote(0, START), 12, holes=range(5, 7))
    assert [landed.before(Offset(at)) for at in (3, 5, 6, 7, 9, 10)] == [0, 4, 4, 4, 4, 5]
    assert [landed.surely_before(Offset(at)) for at in (3, 5, 6, 7, 9, 10)] == [0, 2, 2, 4, 4, 5]
    noted = look(left, OwnNote(3, Offset(6)), 12, holes=range(5, 7))
    assert [noted.surely_before(Offset(at)) for at in (5, 6)] == [2, 3]
    crossing = Crossing(OffsetMap(), landed)
    assert [crossing.at_source(Offset(at)) for at in (5, 7)] == [2, 4]
    assert crossing.between(Offset(3), Offset(5)) == 2
    none_left = look([], OwnNote(0, START), 12, holes=range(3, 12))
    assert none_left.surely_before(Offset(5)) == 0


def test_a_map_that_begins_behind_all_that_is_left_still_tells_where_to_go_on() -> None:
    """Given no own record that is left, and a pruned map / then the next source offset is known."""
    sent = OffsetMap.of([Break(0, 10), Break(4, 30)])
    sent.forget_before(4)
    crossing = Crossing(sent, look([], OwnNote(4, Offset(12)), 12, start=12))
    assert crossing.at_source(Offset(12)) == 30


def test_who_has_read_what_the_source_lost_has_not_read_what_it_has_instead() -> None:
    """Given a link that went on at a cut, source offset 2 / then that is what readers come to.

    Also behind the last one, before the first record of those that the source has instead.
    """
    went_on = OffsetMap.of([Break(3, 8)])
    went_on.add(Break(5, 2))
    for offset, number in ((4, 1), (6, 2), (9, 2), (10, 2)):
        crossing = Crossing(went_on, look(OWN, OwnNote(4, Offset(7)), 12))
        assert crossing.at_source(Offset(offset)) == min(number, 2)
    assert Crossing(went_on, look(OWN, OwnNote(4, Offset(7)), 12)).at_source(Offset(4)) == 1


def test_own_batches_are_read_once() -> None:
    """Given looks at one log by one book / then what it has read is not read again."""
    asked: list[int] = []
    kept = OwnBatches({LINK})
    for end in (8, 12):
        landed = look(OWN, OwnNote(0, START), end, kept=kept, asked=asked)
        assert [landed.before(Offset(at)) for at in (0, 6, 8)] == [0, 3, 4]
    assert landed.count == 5
    assert len(asked) == len(set(asked))


def look(
    own: list[BatchPlace],
    note: OwnNote | None,
    end: int,
    *,
    start: int = 0,
    kept: OwnBatches | None = None,
    asked: list[int] | None = None,
    holes: Collection[int] = (),
) -> LandedLog:
    """A log of which each offset without an own batch is another's record."""

    def read(offset: Offset) -> Stretch:
        if asked is not None:
            asked.append(offset)
        while offset in holes and offset + 1 < end:
            offset = Offset(offset + 1)
        found = next((each for each in own if each.offset <= offset < each.next_offset), None)
        batch = found or BatchPlace(OTHER, 0, offset, offset + 1)
        return Stretch([batch], Offset(batch.next_offset))

    return LandedLog(kept or OwnBatches({LINK}), read, note, Offset(start), Offset(end))


@pytest.mark.parametrize(
    ("stands", "again_now", "stays"),
    [(7, 3, True), (7, 4, False), (10, 3, False), (12, 3, False), (2, 3, False)],
)
def test_a_group_is_not_moved_over_what_a_cleaner_has_taken(
    stands: int, again_now: int, *, stays: bool
) -> None:
    """Given a place behind which 3 records are read again, in a log from 2 on / when a group stands

    before it, and nothing that it has read is between / then it stays; else it is moved.
    """
    place = Place(Offset(10), 3)
    expected = Place(Offset(stands), 3) if stays else place
    assert as_it_stands(place, Offset(stands), again_now, Offset(2)) == expected
