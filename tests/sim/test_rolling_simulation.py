"""A running mirror becomes a merged topic in place, under seeded faults: each seed is one run.

The production `Copier` copies the mirror over the target's log, and goes on over the log of the
link's own records; appends of its last round as a mirror may still be under way. The link back
begins at the cut, and then both sites write (docs/adr/0061). Offsets of the mirror may part from
its source's: by aborted transactions, by cleaners, by retention that was faster, and by records
that somebody decided to leave out.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim.log_batches import fields_of
from sim.merged_decisions import PARTITION
from sim.merged_sites import Sites
from sim.merged_world import Durable, Rounds
from sim.own_book import OwnBook
from sim.partition_log import MODULUS
from sim.seeds import IS_WHOLE, chunks, until_met
from sim.sim_network import SimNetwork
from sim.test_copy_simulation import granted, lane
from sim.test_merge_simulation import KILLS, STEPS, WRITES, run
from sim.test_merged_decisions import check_prefixes
from typing_extensions import override

from heliostat.gaps.choices import Cause, Effect, Facts, GapChoice, effect_of, still_holds
from heliostat.merge.in_place import MirrorStand, NotInPlaceError, first_note
from heliostat.merge.own_end import OwnNote
from heliostat.names import Offset, ProducerId
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.lane import PartitionCode
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S

HOLES = 0.04
DECIDED_MAX = 5
LANDED_S = 5.0
"""Longer than anything of a killed round is on its way."""


class MirrorOf(Rounds):
    """A mirror from A to B, of the same process as the link that merges later.

    Parameters
    ----------
    sites
        Two sites, of which only A is written.
    """

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.parted: set[Cause | str] = set()
        """Why its offsets have parted from the source's."""
        self.link = next(each for each in sites.links if each.source.name == "A")
        self.back = next(each for each in sites.links if each.source.name == "B")
        self.world = self.link.world
        self._views = self.world.source, self.world.target
        self.world.source, self.world.target = self.link.source.logs, self.link.target.logs
        self.is_stopped = False

    @override
    def turn(self) -> Copier:
        """See `Rounds`."""
        copier = super().turn()
        standing = copier.partitions[0].standing
        if standing.code == PartitionCode.SOURCE_OVERTOOK and standing.state.is_stopped:
            self.kill()
            self.decide(Cause.SOURCE_OVERTOOK)
        else:
            self.is_stopped |= standing.state.is_stopped
        self.world.settle_late()
        return copier

    def rest(self) -> None:
        """Leave nothing under way."""
        self.end()
        self.world.clock.sleep(LANDED_S)
        self.world.settle_late()
        self.sites.look()

    def part(self) -> None:
        """Make a hole: by a cleaner, by retention, or by a record that is left out."""
        log = self.world.source[0]
        kind = self.world.random.choice(["clean", "retain", Cause.RECORD_REFUSED])
        if kind == "clean":
            self.rest()
            log.clean(self.world.random.randrange(log.end + 1))
            self.parted.add(kind)
        elif kind == "retain":
            self.retain()
        else:
            self.rest()
            self.decide(Cause.RECORD_REFUSED)

    def retain(self) -> None:
        """Retention takes a part of the source's log, copied or not."""
        self.sites.look()
        log = self.world.source[0]
        log.delete_before(self.world.random.randrange(log.start, log.end + 1))

    def decide(self, cause: Cause, number: int | None = None) -> None:
        """Go on behind what lacks, or without the record at the position, as an operator does.

        Parameters
        ----------
        number
            Of a merged topic: how many records the link has appended.
        """
        log, target = self.link.source.logs[0], self.link.target.logs[0]
        end = target.end if number is None else number
        position = self.world.offset_map(0).source_of(end)
        jump = self.link.jump
        if jump is not None and jump.target == end:
            position = Offset(jump.source)  # as `gaps.facts.after_jump`
        facts = Facts(
            source=PARTITION,
            target=PARTITION,
            cause=cause,
            code="",
            position=position,
            source_start=Offset(log.start),
            source_end=Offset(log.end),
            target_start=Offset(0),
            target_end=Offset(end),
            is_dense=False,
            is_merged=number is not None,
        )
        is_there = log.start <= position < log.last_stable_offset
        if not still_holds(facts) or (cause is Cause.RECORD_REFUSED and not is_there):
            return
        effect: Effect | None = effect_of(facts, GapChoice.CONTINUE)
        assert effect is not None
        assert effect.jump is not None
        if cause is Cause.RECORD_REFUSED:
            at = log.committed()
            self.link.left_out |= {each.value or b"" for offset, each in at if offset == position}
        self.link.jump = effect.jump
        self.parted.add(cause)

    def go_on_merged(self) -> int:
        """Decide as of a merged topic, until it has all that is left; return how often."""
        decided = 0
        while any(PartitionCode.SOURCE_OVERTOOK in why for why in self.link.stopped.values()):
            assert decided < DECIDED_MAX, f"seed {self.sites.seed}: {self.link.stopped}"
            decided += 1
            there = self.sites.into(self.link.target.name)[self.link.source.name]
            self.decide(Cause.SOURCE_OVERTOOK, there.landed.count)
            self.link.stopped.clear()
            self.link.kill()
            self.sites.copy_all()
            self.sites.check()
        return decided

    @override
    def begin(self) -> None:
        """A new round, in the same process."""
        self.end()
        self.rounds += 1
        made = lane(self.world, self.rounds, self.world.random.choice([0.3, 2.0]), [0])
        spec = replace(
            made,
            generation=self.rounds,
            producer_id=ProducerId(self.link.ids[-1]),
            may_land_s=LANDS_WITHIN_S,
            partitions=tuple(
                replace(each, is_compacted=True, can_align=False, jump=self.link.jump)
                if self.parted
                else each
                for each in made.partitions
            ),
        )
        network = SimNetwork(self.world, self.world.random.choice([1, 5]))
        self.copier = granted(Copier(spec, network, self.world.clock))

    def stand(self) -> MirrorStand:
        """What the target says of it."""
        log = self.link.target.logs[0]
        known = log.producers.get(self.link.ids[-1])
        last = None if known is None else (self.link.ids[-1], known.last_sequence)
        if log.batches:
            fields = fields_of(log.batches[-1].data)
            last = fields.producer_id, (fields.sequence + log.batches[-1].count - 1) % MODULUS
        return MirrorStand(
            Offset(0),
            Offset(log.start),
            Offset(log.end),
            log.leader_epoch,
            last,
        )

    def merge(self) -> None:
        """Turn it; from here on B may be written, and the link back goes."""
        self.merge_by(first_note(self.stand(), self.link.ids[-1]))

    def merge_by(self, note: OwnNote) -> None:
        """Go on as a merged topic, by the note that is durable."""
        self.world.source, self.world.target = self._views
        self.link.rounds = self.rounds
        self.link.durable[0].note = note
        self.link.durable[0].landed = OwnBook(count=note.number, complete_to=note.complete_to)
        self.back.first, log = note.complete_to, self.back.target.logs[0]
        begin = OwnNote(0, Offset(log.end), log.leader_epoch, is_closed=True)
        self.back.durable[0] = Durable(begin, OwnBook(complete_to=begin.complete_to))


def mirrored(sites: Sites, holes: float = 0.0) -> MirrorOf:
    """Write A alone and copy it, with kills, and leave a round killed as it sends."""
    mirror = MirrorOf(sites)
    for _ in range(STEPS):
        chance = sites.chance.random()
        if chance < WRITES:
            mirror.link.source.write(sites.clock.wall_ms())
        elif chance < WRITES + KILLS:
            mirror.kill()
        elif chance < WRITES + KILLS + holes:
            mirror.part()
        else:
            mirror.turn()
    assert not mirror.is_stopped, f"seed {sites.seed}"
    mirror.kill()
    return mirror


@pytest.mark.thorough
@pytest.mark.parametrize("part", chunks(1 / 10, size=50))
def test_a_mirror_goes_on_as_a_merged_topic(part: range) -> None:
    """Given what a killed round has sent, and brokers that forget producers / then each record is
    once at each site, in order.
    """
    under_way = crossed = 0
    for seed in part:
        sites = Sites(seed + 37_000_000, "AB")
        mirror = mirrored(sites)
        under_way += bool(mirror.world.late)
        mirror.merge()
        if seed % 2:
            sites.forget_producers()
        run(sites)
        assert not [each.stopped for each in sites.links if each.stopped], f"seed {seed}"
        crossed += mirror.back.durable[0].note.number
    assert crossed
    assert under_way or len(part) < 10


@pytest.mark.thorough
@pytest.mark.parametrize("part", chunks(1 / 10, size=50))
def test_one_whose_offsets_have_parted_goes_on_as_a_merged_topic(part: range) -> None:
    """Given a mirror of a source that was cleaned, of which retention took what was not copied, or

    of which records were left out / then what is left is once at each site, in order, and each
    record's place at the target leads to its place at the source. What retention took just before
    the turn is found behind it, and decided there.
    """
    parted: set[Cause | str] = set()
    late: list[int] = []
    for seed in until_met(late, part):
        sites = Sites(seed + 37_300_000, "AB")
        mirror = mirrored(sites, HOLES)
        if seed % 2 == 0:
            mirror.link.source.write(sites.clock.wall_ms())
            mirror.retain()
        mirror.merge()
        if seed % 2:
            sites.forget_producers()
        run(sites)
        late += [seed] * mirror.go_on_merged()
        assert not [each.stopped for each in sites.links if each.stopped], f"seed {seed}"
        check_prefixes(sites, mirror.link)
        check_prefixes(sites, mirror.back)
        parted |= mirror.parted
    assert (len(parted) == 3 and late) or not IS_WHOLE


def test_one_that_another_has_written_stays_a_mirror() -> None:
    """Given a record of B behind the link's / then it is refused, also where more was sent."""
    sites = Sites(37_100_000, "AB", fault_rate=0.0)
    mirror = mirrored(sites)
    while sites.sites["B"].written == 0:
        sites.sites["B"].write(sites.clock.wall_ms(), transactions=False)
    with pytest.raises(NotInPlaceError):
        mirror.merge()
