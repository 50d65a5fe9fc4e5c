"""Sites, a link between each two of them, and what happens there."""

from __future__ import annotations

import random
from functools import partial
from itertools import islice

from sim.merged_pipes import NAME_BYTES, PIPES
from sim.merged_world import PARTITIONS, Broker, Link, places
from sim.partition_log import PartitionLog
from sim.sim_clock import SimClock
from sim.test_copy_simulation import DAY_MS, WALL_MS

from heliostat.merge.crossing import Crossing
from heliostat.merge.landed_log import LandedLog, OwnBatches, Stretch
from heliostat.merge.places import Site
from heliostat.names import Offset

RESTS, REST_S = 0.15, 9.0


class Sites:
    """Sites and the links between each two of them."""

    def __init__(
        self, seed: int, names: str, *, fault_rate: float | None = None, piped: bool = False
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.clock = SimClock(WALL_MS)
        self.age_ms = 0
        """How old records are when they are written."""
        rate = self.chance.choice([0.0, 0.02, 0.1]) if fault_rate is None else fault_rate
        self.sites = {Site(name): Broker(name, self.chance) for name in names}
        self.pipe = pipe = PIPES[seed % len(PIPES)] if piped else None
        self.links = [
            Link(source, target, self.clock, rate, pipe)
            for source in self.sites.values()
            for target in self.sites.values()
            if source is not target
        ]

    def elect(self) -> None:
        """An unclean election at one of the sites; the former leader refuses what comes late.

        Links from there have noted leader epochs: a first report is noted at once.
        """
        away, at = self.away(), self.chance.randrange(PARTITIONS)
        if all(each.durable[at].copied for each in away):
            away[0].source.elect(at)

    def away(self) -> list[Link]:
        """Links from the site that is hit by elections."""
        names = sorted(self.sites)
        hit = names[self.seed % len(names)]
        return [each for each in self.links if each.source.name == hit]

    def forget_producers(self) -> None:
        """Records are three days old, and brokers forget their producers at any time."""
        self.age_ms = 3 * DAY_MS
        for link in self.links:
            link.world.forgets_ms = DAY_MS
            link.world.late_s, link.world.replicas_s = self.chance.choice(
                [(0.05, 0.0), (1.0, 10.0)]
            )

    def into(self, site: Site) -> dict[Site, Crossing]:
        """What has crossed to a site, as a look at its log shows it, by its links' last notes."""
        found = {}
        for link in self.links:
            if link.target.name != site:
                continue
            passed = 0
            if link.copier is not None and link.copier.partitions[0].phase.name == "COPY":
                passed = max(0, link.copier.partitions[0].progress.position)
            log, note = link.target.logs[0], link.durable[0].note
            landed = LandedLog(
                OwnBatches(link.ids),
                partial(stretch, log),
                note,
                Offset(log.start),
                Offset(log.end),
            )
            found[link.source.name] = Crossing(link.world.offset_map(0), landed, Offset(passed))
        return found

    def write(self, *, transactions: bool = True) -> None:
        site = self.chance.choice(list(self.sites.values()))
        site.write(self.clock.wall_ms() - self.age_ms, transactions=transactions)

    def turn(self) -> None:
        """One turn of any link; what is late arrives everywhere.

        Old records wait until nothing else can land: at times that long is nothing.
        """
        if self.age_ms and self.chance.random() < RESTS:
            self.clock.sleep(REST_S)
        self.chance.choice(self.links).turn()
        for link in self.links:
            link.world.settle_late()

    def copy_all(self, turns: int = 6000) -> None:
        """Copy without faults until both have all, or all have stopped."""
        for site in self.sites.values():
            site.end_all(self.clock.wall_ms())
        for link in self.links:
            link.world.fault_rate = 0.0
        for number in range(turns):
            self.turn()
            if number % 50 == 0 and self.is_level():
                return
        raise AssertionError(
            f"seed {self.seed}: not level: {[each.stopped for each in self.links]}"
        )

    def is_level(self) -> bool:
        """Whether each link that goes on has carried all that its source's producers wrote."""
        self.look()
        return all(not self.lacking(link) for link in self.links if not link.stopped)

    def lacking(self, link: Link) -> list[bytes]:
        """Records of its source's own producers, still there, that the target never had."""
        mine, there = link.source, link.target
        return [
            value
            for at in range(PARTITIONS)
            for _, record in mine.logs[at].committed()
            if (value := record.value or b"").startswith(mine.name.encode())
            and value not in there.seen[at].values()
            and value not in link.left_out
            and not self.leaves_out(value)
        ]

    def leaves_out(self, value: bytes) -> bool:
        """Whether the links' pipeline leaves a record out."""
        return self.pipe is not None and self.pipe.value_of(value) is None

    def look(self) -> None:
        for site in self.sites.values():
            site.look()

    def check(self) -> None:
        """Each record at most once at each site, and each site's in its order."""
        self.look()
        for site in self.sites.values():
            for seen in site.seen:
                values = [seen[offset] for offset in sorted(seen)]
                twice = {each for each in values if values.count(each) > 1}
                assert not twice, f"seed {self.seed}: twice at {site.name}: {sorted(twice)[:5]}"
                for name in self.sites:
                    mine = [each for each in values if each.startswith(name.encode())]
                    assert mine == sorted(mine), (
                        f"seed {self.seed}: {name} out of order at {site.name}"
                    )

        for link in self.links:
            self._check_content(link)

    def _check_content(self, link: Link) -> None:
        """What a link has brought is what its pipeline makes of it."""
        for log in link.target.logs:
            for _, record in log.committed():
                there = record.value or b""
                if not there.startswith(link.source.name.encode()):
                    continue
                known = there[:NAME_BYTES]
                made = known if self.pipe is None else self.pipe.value_of(known)
                assert there == made, f"seed {self.seed}: {there!r} at {link.target.name}"

    def rebuild(self) -> None:
        """A link's state is rebuilt: it goes on with another producer id, when nothing is late."""
        link = self.chance.choice(self.links)
        link.kill()
        self.clock.sleep(35.0)
        for each in self.links:
            each.world.settle_late()
        link.take_id()

    def retain(self) -> None:
        """Retention takes from a site what all links from there have noted as carried."""
        site = self.chance.choice(list(self.sites.values()))
        links = [each for each in self.links if each.source is site]
        for at, log in enumerate(site.logs):
            carried = [each.durable[at].copied for each in links]
            upto = min(row[0] if row and row[2] >= 0 else 0 for row in carried)
            if log.start < upto <= log.end:
                self.look()
                log.delete_before(self.chance.randrange(log.start, upto + 1))

    def compact(self) -> None:
        """A cleaner's run at a site; appends of killed rounds have arrived before."""
        for link in self.links:
            link.kill()
        self.clock.sleep(5.0)
        for link in self.links:
            link.world.settle_late()
        self.look()
        for log in self.chance.choice(list(self.sites.values())).logs:
            if log.batches:
                log.clean(self.chance.randrange(log.batches[-1].base_offset + 1))


def stretch(log: PartitionLog, offset: Offset) -> Stretch:
    """Two batches of a log from an offset on."""
    batches = list(islice(places(log, offset), 2))
    return Stretch(batches, Offset(batches[-1].next_offset if batches else log.end))
