"""Elections at the source between rounds that have only old notes of the copy (KIP-101)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

import pytest
from sim import witness
from sim.log_batches import Fields, Kept, encode
from sim.partition_log import NONE, PartitionLog
from sim.seeds import IS_WHOLE, seeds
from sim.sim_network import SimNetwork
from sim.test_copy_simulation import contents, fill, granted, lane, make_world, turn_some
from sim.test_mapped_simulation import PRODUCERS, Scene

from heliostat.records.copier.copier import Copier
from heliostat.records.copier.lane import LaneSpec, PartitionState

STARTS = [0, 0]
BATCHES = 12
Note = tuple[int, int, int]
"""Source offset below which all was copied, epoch of the batch before it, the target's end then."""


class Plain:
    """Topics without holes, whose mirrors are exact."""

    def __init__(self, seed: int) -> None:
        self.world = make_world(seed + 21_000_000)

    def spec(self, number: int) -> LaneSpec:
        """Of a round."""
        return lane(self.world, number, 30.0, STARTS)

    def write(self, log: PartitionLog) -> None:
        """What producers append now."""
        fill(log, self.world.random, log.end + self.world.random.randrange(80), self.now_ms())

    def now_ms(self) -> int:
        return self.world.clock.wall_ms()

    def seen(self, log: PartitionLog, end: int) -> object:
        """What a reader sees before an offset."""
        return [each for each in contents(log) if each[0] < end]

    def has_all(self, source: PartitionLog, target: PartitionLog) -> bool:
        return target.end >= source.end


class Filled(Plain):
    """Transactions, each ended at once, whose mirrors fill the holes."""

    fills = True

    def __init__(self, seed: int) -> None:
        self._scene = Scene(seed + 22_000_000, fault_rate=0.02, is_filled=self.fills)
        self.world = self._scene.world
        self._elections = 0
        for log in self.world.source:
            self.write(log)

    def spec(self, number: int) -> LaneSpec:
        self.world.clock.sleep(1.0)  # markers' epochs follow the clock
        return self._scene.lane(number, 30.0)

    def write(self, log: PartitionLog) -> None:
        """By producers of their own: what old ones wrote may be lost."""
        (writer,) = (each for each in self._scene.writers if each.log is log)
        self._elections += 1
        writer.begin_again([pid + len(PRODUCERS) * self._elections for pid in PRODUCERS])
        writer.write(self.world.random.randrange(1, BATCHES), self.now_ms())
        writer.end_all(self.now_ms())

    def seen(self, log: PartitionLog, end: int) -> object:
        return {at: each for at, each in witness.contents(log).items() if at < end}

    def has_all(self, source: PartitionLog, target: PartitionLog) -> bool:
        return all(at < target.end for at in witness.contents(source))


def noted(copier: Copier) -> dict[int, Note]:
    """Return what a driver would learn now from reports of the copied partitions."""
    rows: dict[int, Note] = {}
    for item in copier.partitions:
        offset, epoch = item.fetches.epochs.copied(item.progress.position)
        if epoch >= 0:
            rows[item.index] = (offset, epoch, -1)
    return rows


def next_round(ground: Plain, number: int, notes: Mapping[int, Note]) -> Copier:
    copied = tuple((index, *row) for index, row in notes.items())
    network = SimNetwork(ground.world, ground.world.random.choice([1, 5]))
    spec = replace(ground.spec(number), copied=copied)
    return granted(Copier(spec, network, ground.world.clock))


def is_level(ground: Plain) -> bool:
    both = zip(ground.world.source, ground.world.target, strict=True)
    return all(ground.has_all(source, target) for source, target in both)


def copied_with_an_old_note(ground: Plain) -> dict[int, Note]:
    """Copy to the source's end, with a note from before, and be killed."""
    world, rounds = ground.world, 1
    copier = next_round(ground, 0, {})
    notes: dict[int, Note] = {}
    elections = 2
    while not is_level(ground):
        turn_some(world, copier, 1)
        stops = [
            item.standing.reason for item in copier.partitions if item.standing.state.is_stopped
        ]
        assert not stops, stops  # nothing is lost yet
        if world.random.random() < 0.1:
            notes |= noted(copier)
        notes = noted(copier) | notes  # a first report is written at once
        if elections and world.random.random() < 0.02:
            elections -= 1
            for log in world.source:
                elect(ground, log, log.end)
        if copier.lease.until_s <= world.clock.monotonic_s():
            copier, rounds = next_round(ground, rounds, notes), rounds + 1
    while len(notes) < len(world.source):  # killed earlier, nothing would be known at all
        turn_some(world, copier, 1)
        notes = noted(copier) | notes
        if copier.lease.until_s <= world.clock.monotonic_s():
            copier, rounds = next_round(ground, rounds, notes), rounds + 1
            for log in world.source:
                ground.write(log)
    copier._network.cut_all()
    world.clock.sleep(1.0)
    world.settle_late()  # what lands after the loss would not be held before it
    return notes


def elect(ground: Plain, log: PartitionLog, end: int) -> None:
    """A leader that has all below `end`, and takes records of its own."""
    if end < log.end:
        log.truncate(end)
        while log.open:  # coordinators would end it as before, which this test cannot know
            log.truncate(min(log.open.values()))
    else:
        log.lead(log.leader_epoch + 1)
    ground.world.clock.sleep(1.0)  # what is written now has other times
    if ground.world.random.random() < 0.8:
        ground.write(log)


@pytest.mark.parametrize(("kind", "share"), [(Plain, 1 / 3), (Filled, 1 / 6)])
def test_a_loss_at_the_source_is_found_however_old_the_note(
    kind: type[Plain], share: float
) -> None:
    """Given elections, some unclean / when the next round begins / then a stop, or an equal copy.

    Where the source lost copied records and has others in their place nothing is copied; where it
    has them all copying continues, whoever leads. Where it lost no record, but markers that were
    noted as copied, it may stop, too: epochs refer to offsets.
    """
    told = {True: 0, False: 0}
    for seed in seeds(share, least=25):
        ground = kind(seed)
        world = ground.world
        notes = copied_with_an_old_note(ground)
        ends = [log.end for log in world.target]
        held = [ground.seen(log, log.end) for log in world.target]
        kept = list(ends)
        for _ in range(world.random.choice([1, 1, 2, 3])):
            for index, log in enumerate(world.source):
                is_clean = world.random.random() < 0.5
                end = log.end if is_clean else world.random.randrange(log.end + 1)
                kept[index] = min(kept[index], end)
                elect(ground, log, end)
        is_lost = [
            log.end < end or ground.seen(log, end) != had
            for log, end, had in zip(world.source, ends, held, strict=True)
        ]
        copier = next_round(ground, 1_000, notes)
        for number in range(1_001, 1_060):
            turn_some(world, copier, 300)
            if all(
                item.standing.state.is_stopped or (not lost and ground.has_all(log, target))
                for item, lost, log, target in zip(
                    copier.partitions, is_lost, world.source, world.target, strict=True
                )
            ):
                break
            copier._network.cut_all()
            copier = next_round(ground, number, notes)
        for item, lost in zip(copier.partitions, is_lost, strict=True):
            at = item.standing
            said = f"seed {seed}, {item.index}: {at.state} {at.code} {at.reason} {notes}"
            told[lost] += 1
            source, target = world.source[item.index], world.target[item.index]
            if lost:
                assert (item.standing.state, item.standing.code) == (
                    PartitionState.GAP,
                    "SOURCE_TRUNCATED",
                ), said
                assert ground.seen(target, target.end) == held[item.index], said
            elif item.standing.state.is_stopped and kept[item.index] < notes[item.index][0]:
                assert item.standing.code == "SOURCE_TRUNCATED", said
                assert ground.seen(target, target.end) == held[item.index], said
            else:
                assert not item.standing.state.is_stopped, said
                assert ground.has_all(source, target), said
                assert ground.seen(source, target.end) == ground.seen(target, target.end), said
    assert min(told.values()) > len(seeds(share, least=25)) // 4 or not IS_WHOLE, told


def settled(ground: Plain, rounds: int, notes: dict[int, Note]) -> int:
    """Copy until both sides are level; return the rounds so far. Nothing may stop."""
    world = ground.world
    copier = next_round(ground, rounds, notes)
    while not is_level(ground):
        turn_some(world, copier, 1)
        for item in copier.partitions:
            at = item.standing
            assert not at.state.is_stopped, f"{item.index}: {at.code} {at.reason}"
        notes |= noted(copier)
        if world.random.random() < 0.01 or copier.lease.until_s <= world.clock.monotonic_s():
            copier._network.cut_all()
            copier, rounds = next_round(ground, rounds + 1, notes), rounds + 1
        if world.random.random() < 0.005:
            world.deposed.clear()  # they learn that others lead
    copier._network.cut_all()
    return rounds + 1


@pytest.mark.parametrize(("kind", "share"), [(Plain, 1 / 6), (Filled, 1 / 12)])
def test_a_deposed_leader_that_goes_on_answering_stops_nothing(
    kind: type[Plain], share: float
) -> None:
    """Given copies of what a successor took / when rounds ask the broker that led before / then

    its shorter log is no loss: who leads is asked of all brokers first.
    """
    for seed in seeds(share, least=25):
        ground = kind(seed)
        world, notes = ground.world, dict[int, Note]()
        rounds = settled(ground, 0, notes)
        for _ in range(3):
            before = {index: copy.deepcopy(log) for index, log in enumerate(world.source)}
            for log in world.source:
                elect(ground, log, log.end)
            rounds = settled(ground, rounds, notes)  # from the successor
            world.deposed |= before
            for log in world.source:
                ground.write(log)
            try:
                rounds = settled(ground, rounds, notes)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            world.deposed.clear()


class Compacted(Filled):
    """Compacted topics, whose mirrors have maps."""

    fills = False

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for log in self.world.source:  # of the first epoch; it stays whatever follows
            now_ms = self.now_ms()
            fields = Fields(0, 0, now_ms, now_ms, -1, -1, -1, 1)
            rare = [Kept(0, now_ms, b"rare", b"v", ())]
            assert log.append(encode(fields, rare))[0] == NONE

    def write(self, log: PartitionLog) -> None:
        """By the same producers: the last batch of each stays in a log, and its epoch with it."""
        (writer,) = (each for each in self._scene.writers if each.log is log)
        writer.write(self.world.random.randrange(1, BATCHES), self.now_ms())
        writer.end_all(self.now_ms())

    def has_all(self, source: PartitionLog, target: PartitionLog) -> bool:
        return self._scene.witness.is_level()

    def check(self, seed: int) -> None:
        """Compare what the map says."""
        self._scene.witness.check(seed)

    def replace_by_a_replica_that_was_away(self, log: PartitionLog, noted_epoch: int) -> bool:
        """Clean the log and elect who fetched only what is left.

        Return whether it lacks the noted epoch, but not an older one.
        """
        self._scene.witness.look()
        for _ in range(3):  # a marker goes after its transaction's records
            log.clean(log.end, drops_tombstones=True, drops_markers=True)
        begins: dict[int, int] = {}
        for batch in log.batches:
            begins.setdefault(batch.leader_epoch, batch.base_offset)
        log.epochs = list(begins.items())
        log.lead(log.leader_epoch + 1)
        return noted_epoch not in begins and min(begins) < noted_epoch


def test_a_leader_that_lacks_a_compacted_epoch_stops_nothing() -> None:
    """Given a note of an epoch / when its batches are compacted, and who never had them leads /

    then copying goes on: contents are compared, and epochs alone prove nothing.
    """
    lacking = 0
    for seed in seeds(1 / 12, least=25):
        ground = Compacted(seed + 1_000_000)
        world, notes = ground.world, dict[int, Note]()
        rounds = settled(ground, 0, notes)
        for log in world.source:
            elect(ground, log, log.end)
        rounds = settled(ground, rounds, notes)
        old = dict(notes)
        for log in world.source:
            elect(ground, log, log.end)
            for _ in range(4):
                ground.write(log)
        if world.random.random() < 0.7:
            rounds = settled(ground, rounds, dict(old))
        world.clock.sleep(5.0)
        world.settle_late()
        lacks = [
            ground.replace_by_a_replica_that_was_away(log, old[index][1])
            for index, log in enumerate(world.source)
        ]
        lacking += any(lacks)
        for log in world.source:
            ground.write(log)
        try:
            settled(ground, rounds, old)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        ground.check(seed)
    assert lacking > len(seeds(1 / 12, least=25)) // 4 or not IS_WHOLE
