"""A running mirror becomes a merged topic in place, under seeded faults: each seed is one run.

The production `Copier` copies the mirror over the target's log, and goes on over the log of the
link's own records; appends of its last round as a mirror may still be under way. The link back
begins at the cut, and then both sites write (docs/adr/0061).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim.log_batches import fields_of
from sim.merged_sites import Sites
from sim.merged_world import Rounds
from sim.own_book import OwnBook
from sim.partition_log import MODULUS
from sim.seeds import chunks
from sim.sim_network import SimNetwork
from sim.test_copy_simulation import granted, lane
from sim.test_merge_simulation import KILLS, STEPS, WRITES, run
from typing_extensions import override

from heliostat.merge.in_place import MirrorStand, NotInPlaceError, first_note
from heliostat.merge.own_end import OwnNote
from heliostat.names import Offset, ProducerId
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S


class MirrorOf(Rounds):
    """A mirror from A to B, of the same process as the link that merges later.

    Parameters
    ----------
    sites
        Two sites, of which only A is written.
    """

    def __init__(self, sites: Sites) -> None:
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
        self.is_stopped |= copier.partitions[0].standing.state.is_stopped
        self.world.settle_late()
        return copier

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
        self.back.first = note.complete_to


def mirrored(sites: Sites) -> MirrorOf:
    """Write A alone and copy it, with kills, and leave a round killed as it sends."""
    mirror = MirrorOf(sites)
    for _ in range(STEPS):
        chance = sites.chance.random()
        if chance < WRITES:
            mirror.link.source.write(sites.clock.wall_ms())
        elif chance < WRITES + KILLS:
            mirror.kill()
        else:
            mirror.turn()
    assert not mirror.is_stopped, f"seed {sites.seed}"
    mirror.kill()
    return mirror


@pytest.mark.thorough
@pytest.mark.parametrize("part", chunks(1 / 6, size=50))
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


def test_one_that_another_has_written_stays_a_mirror() -> None:
    """Given a record of B behind the link's / then it is refused, also where more was sent."""
    sites = Sites(37_100_000, "AB", fault_rate=0.0)
    mirror = mirrored(sites)
    while sites.sites["B"].written == 0:
        sites.sites["B"].write(sites.clock.wall_ms(), transactions=False)
    with pytest.raises(NotInPlaceError):
        mirror.merge()
