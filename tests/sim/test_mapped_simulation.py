"""The copy loop against logs with holes, under seeded faults: each seed is one run.

Transactions are open, committed and aborted while rounds run; cleaners compact both sides between
rounds; rows of the offset map are lost or arrive late. Checked after every round, from durable rows
alone: each record at the target is the one that the map says (I2, I3), in order, and none that was
committed is missing (I5, I6).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from sim.log_batches import GZIP, TRANSACTIONAL, Fields, Kept, encode
from sim.partition_log import MODULUS, NONE, PartitionLog
from sim.seeds import IS_WHOLE, chunks, seeds, until_met
from sim.sim_clock import SimClock
from sim.sim_network import SimNetwork
from sim.sim_world import World
from sim.test_copy_simulation import (
    ROUNDS_MAX,
    WALL_MS,
    granted,
    lane,
    run_to_the_end,
    run_together,
)
from sim.witness import Through, Witness

from heliostat.records.copier.copier import Copier
from heliostat.records.copier.lane import LaneSpec, PartitionCode, PartitionState
from heliostat.records.copier.markers import EPOCH_MS

"""They take longer than those of exact mirrors."""
PRODUCERS = (11, 12, 13)
KEYS = 12
SOURCES = 2
BATCHES, FILLED_BATCHES = 40, 60
"""At most, of a source before the first round."""
LATE_ROUNDS = 30
LATE_S = 5.0
"""Longer than anything of a broken connection is on its way."""


class Writer:
    """Producers of one source partition: some in transactions, some not."""

    def __init__(self, log: PartitionLog, chance: random.Random) -> None:
        self.log = log
        self._chance = chance
        self._sequences = dict.fromkeys(PRODUCERS, 0)

    def begin_again(self, pids: Sequence[int]) -> None:
        """Write by other producers from now on."""
        self._sequences = dict.fromkeys(pids, 0)

    def write(self, batches: int, now_ms: int) -> None:
        """Append batches of any producer, and end transactions now and then."""
        for _ in range(batches):
            pid = self._chance.choice([-1, -1, *self._sequences])
            if pid in self.log.open and self._chance.random() < 0.4:
                self.end(pid, now_ms)
            else:
                self._append(pid, now_ms)

    def end(self, pid: int, now_ms: int) -> None:
        """Commit or abort."""
        commits = self._chance.random() < 0.6
        assert self.log.end_transaction(pid, 0, now_ms, commit=commits) == NONE

    def end_all(self, now_ms: int) -> None:
        """Leave no transaction open."""
        for pid in list(self.log.open):
            self.end(pid, now_ms)

    def _append(self, pid: int, now_ms: int) -> None:
        count = self._chance.choice([1, 1, 1, 2, 5, 20])
        kept = [
            Kept(
                delta,
                now_ms + delta,
                b"k%d" % self._chance.randrange(KEYS),
                None if self._chance.random() < 0.15 else b"v%d" % (self.log.end + delta),
                (("h", b"x"),),
            )
            for delta in range(count)
        ]
        attributes = self._chance.choice([0, 0, GZIP]) | (TRANSACTIONAL if pid >= 0 else 0)
        epoch, sequence = (0, self._sequences[pid]) if pid >= 0 else (-1, -1)
        fields = Fields(
            attributes, count - 1, now_ms, now_ms + count - 1, pid, epoch, sequence, count
        )
        assert self.log.append(encode(fields, kept))[0] == NONE
        if pid >= 0:
            self._sequences[pid] = (sequence + count) % MODULUS


class Scene:
    """A world whose sources get holes, and the check of the target."""

    def __init__(
        self,
        seed: int,
        fault_rate: float | None = None,
        *,
        is_filled: bool = False,
        through: Through | None = None,
    ) -> None:
        self.is_filled = is_filled
        self.seed = seed
        self.random = random.Random(seed)
        rate = self.random.choice([0.0, 0.02, 0.1, 0.3]) if fault_rate is None else fault_rate
        self.world = World(
            self.random,
            SimClock(WALL_MS),
            [PartitionLog() for _ in range(SOURCES)],
            [PartitionLog() for _ in range(SOURCES)],
            rate,
        )
        self.writers = [Writer(log, self.random) for log in self.world.source]
        self.witness = Witness(self.world, is_filled=is_filled, through=through)
        self.lost: dict[int, str] = {}
        """Partitions of whose map a round said that it is lost, as the driver notes it."""

    def write(self, batches: int) -> None:
        for writer in self.writers:
            writer.write(self.random.randrange(batches + 1), self.world.clock.wall_ms())

    def clean_source(self) -> None:
        """A cleaner's run, before which appends of killed rounds that are on their way arrive.

        They mostly do: it waits for 15 s between two runs, they for fractions of a second. See
        `test_appends_that_land_after_a_compaction_are_detected` for others.
        """
        self.world.clock.sleep(LATE_S)
        self.world.settle_late()
        self.compact()

    def compact(self) -> None:
        """A cleaner's run over a part of the source; what it takes was seen before."""
        self.witness.look()
        for log in self.world.source:
            if log.end and self.random.random() < 0.5:
                log.clean(
                    self.random.randrange(log.end + 1),
                    drops_tombstones=self.random.random() < 0.3,
                    drops_markers=self.random.random() < 0.3,
                    horizon_ms=self.random.choice([None, WALL_MS + 86_400_000]),
                )

    def clean_target(self) -> None:
        """As above; the newest records of a log are in the segment that is never cleaned."""
        self.witness.look()
        for log in self.world.target:
            if log.batches and self.random.random() < 0.5:
                log.clean(self.random.randrange(log.batches[-1].base_offset + 1))

    def rounds(self, *, other_links: int = 1, cleans: bool = True) -> None:
        """Copy until level; between rounds more is written, and cleaners run."""
        for number in range(ROUNDS_MAX):
            copiers = self.begun(number, other_links)
            turns = self.random.randrange(1, 200) if self.random.random() < 0.5 else 10**9
            self.run(copiers, turns)
            self.witness.check(self.seed)
            self.check_states(copiers)
            if self.is_over():
                return
            if self.random.random() < 0.3:
                self.write(3)
            if cleans and self.random.random() < 0.3:
                self.clean_source()
            if cleans and self.random.random() < 0.2:
                self.clean_target()
            self.world.fault_rate *= 0.97
        raise AssertionError(f"seed {self.seed}: not level after {ROUNDS_MAX} rounds")

    def run(self, copiers: list[Copier], turns: int) -> None:
        """Run a round, and kill it after so many turns."""
        run_together(self.world, copiers, turns)

    def begun(self, number: int, other_links: int) -> list[Copier]:
        """The lanes of a round, or of some at once."""
        self.world.clock.sleep(EPOCH_MS / 1000)
        while self.world.late_rows:  # a later one would undo breaks, see docs/reliability.md
            self.world.clock.sleep(0.05)
            self.world.settle_late()
        lease_s = self.random.choice([0.05, 0.3, 2.0])
        return [
            self.copier(self.lane(number * other_links + other_link, lease_s))
            for other_link in range(other_links)
        ]

    def copier(self, spec: LaneSpec) -> Copier:
        """What carries out a round."""
        return Copier(spec, SimNetwork(self.world, self.random.choice([1, 5])), self.world.clock)

    def copy(self, number: int, turns: int) -> Copier:
        """One round that is killed after so many turns; a map that it calls lost stays so."""
        [copier] = self.begun(number, 1)
        run_together(self.world, [copier], turns)
        for item in copier.partitions:
            if item.standing.code == PartitionCode.OFFSET_MAP_LOST:
                self.lost[item.index] = item.standing.reason
        return copier

    def is_over(self) -> bool:
        """Whether both sides are level, with no transaction left open."""
        if not self.witness.is_level():
            return False
        if any(log.open for log in self.world.source):
            for writer in self.writers:
                writer.end_all(self.world.clock.wall_ms())
            return self.witness.is_level()
        return True

    def lane(self, number: int, lease_s: float) -> LaneSpec:
        """A round's work; its generation is of its own, as each owner's is."""
        made = lane(self.world, number, lease_s, [0] * SOURCES)
        specs = tuple(
            replace(
                spec, fills=self.is_filled, is_compacted=True, map_lost=self.lost.get(index, "")
            )
            for index, spec in enumerate(made.partitions)
        )
        return replace(made, generation=number + 1, partitions=specs)

    def check_states(self, copiers: list[Copier]) -> None:
        for copier in copiers:
            for item in copier.partitions:
                assert not item.standing.state.is_stopped, (
                    f"seed {self.seed}: {item.standing.code} {item.standing.reason}"
                )


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize("part", chunks(1 / 3))
def test_transactions_are_copied_committed_in_order_and_once(
    part: range, *, is_filled: bool
) -> None:
    """Given transactions, faults and kills / when rounds continue / then as the map says."""
    for seed in part:
        scene = Scene(seed + 10_000_000, is_filled=is_filled)
        scene.write(FILLED_BATCHES if is_filled else BATCHES)
        scene.rounds(cleans=False)
        scene.witness.check(seed, all_again=True)


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize("part", chunks(1 / 3))
def test_compaction_at_both_sides_moves_no_record(part: range, *, is_filled: bool) -> None:
    """Given cleaners at both sides between rounds / when copied / then as the map says."""
    for seed in part:
        scene = Scene(seed + 11_000_000, is_filled=is_filled)
        scene.write(FILLED_BATCHES if is_filled else BATCHES)
        scene.clean_source()
        scene.rounds()
        scene.witness.check(seed, all_again=True)


def test_a_round_is_over_when_its_rows_are_answered() -> None:
    """Given a row of a map in flight / when the round ends / then it is durable, or lost.

    The next round reads the maps, and would copy under breaks that such a row replaces.
    """
    waited = 0
    for seed in seeds(1 / 10, least=25):
        scene = Scene(seed + 16_000_000, fault_rate=0.0)
        scene.write(BATCHES)
        [copier] = map(granted, scene.begun(0, 1))
        for _ in range(200):
            copier.turn(scene.world.clock.monotonic_s())
            if not copier._network.can_write_map():
                copier._drain()
                assert copier._network.can_write_map(), f"seed {seed}"
                waited += 1
                break
    assert waited > len(seeds(1 / 10, least=25)) // 4 or not IS_WHOLE


def test_appends_that_land_after_a_compaction_are_detected() -> None:
    """Given appends that land rounds later, after a cleaner / then nothing is missing.

    A mirror whose map was written without the landed records is stopped.
    """
    stopped: list[str] = []
    ran = 0
    for seed in until_met(stopped, seeds(1 / 15, least=25)):
        ran += 1
        scene = Scene(seed + 15_000_000, fault_rate=0.02)
        scene.world.late_s = 1.0
        scene.write(BATCHES)
        for number in range(LATE_ROUNDS):
            scene.copy(number, turns=scene.random.randrange(1, 30))
            if scene.random.random() < 0.6:
                scene.write(6)
            if scene.random.random() < 0.9:
                scene.compact()
        scene.world.fault_rate = 0.0
        scene.world.clock.sleep(LATE_S * 100)
        last = scene.copy(LATE_ROUNDS, turns=10**9)
        codes = {
            item.index: item.standing.code
            for item in last.partitions
            if item.standing.state.is_stopped
        }
        assert set(codes.values()) <= {PartitionCode.OFFSET_MAP_LOST}, f"seed {seed}: {codes}"
        scene.witness.check_what_is_left(seed, but=codes.keys())
        stopped += codes.values()
    assert len(stopped) < ran
    assert stopped or not IS_WHOLE


def test_nothing_is_copied_from_a_recreated_source() -> None:
    """Given a topic deleted and recreated, longer than before / then nothing of it is copied."""
    for seed in seeds(1 / 10, least=25):
        scene = Scene(seed + 13_000_000, fault_rate=0.0)
        scene.write(20)
        scene.rounds(cleans=False)
        ends = [log.end for log in scene.world.target]
        anew = PartitionLog(identity=1)
        Writer(anew, scene.random).write(300, WALL_MS)
        scene.world.source[0] = anew
        copier = Copier(scene.lane(1_000, 5.0), SimNetwork(scene.world, 5), scene.world.clock)
        run_to_the_end(scene.world, copier)
        assert [log.end for log in scene.world.target] == ends, f"seed {seed}"
        first, second = copier.partitions
        assert first.standing.state in {PartitionState.RETRYING, PartitionState.GAP}, f"seed {seed}"
        assert second.standing.state is PartitionState.COPYING, (
            f"seed {seed}: {second.standing.reason}"
        )


def test_a_source_that_was_truncated_before_the_position_stops() -> None:
    """Given an unclean election that lost copied records / then the partition stops as a gap."""
    stopped = 0
    for seed in seeds(1 / 10, least=25):
        scene = Scene(seed + 14_000_000, fault_rate=0.0)
        scene.write(20)
        scene.rounds(cleans=False)
        log, before = scene.world.source[0], scene.world.target[0].end
        copied = scene.world.offset_map(0).source_of(before)
        log.truncate(scene.random.randrange(copied + 1))
        if log.end >= copied:
            continue
        copier = Copier(scene.lane(1_000, 5.0), SimNetwork(scene.world, 5), scene.world.clock)
        run_to_the_end(scene.world, copier)
        first, second = copier.partitions
        assert first.standing.state is PartitionState.GAP, (
            f"seed {seed}: {first.standing.state} {first.standing.reason}"
        )
        assert scene.world.target[0].end == before
        assert second.standing.state is PartitionState.COPYING, (
            f"seed {seed}: {second.standing.reason}"
        )
        stopped += 1
    assert stopped > len(seeds(1 / 10, least=25)) // 5 or not IS_WHOLE
