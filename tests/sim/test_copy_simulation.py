"""The copy loop against model logs under seeded faults: each seed is one run, printed on failure.

The production `Copier` runs unchanged; network and clock are the simulation's. Checked after every
round: what the target holds is exactly a beginning of what the source holds (I1, I2, I5).
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from sim.partition_log import PartitionLog
from sim.seeds import IS_WHOLE, chunks, seeds
from sim.sim_clock import SimClock
from sim.sim_network import SimNetwork
from sim.sim_world import PRODUCER, World

from heliostat.access import ClusterAccess
from heliostat.invariants import position_is_target_end
from heliostat.names import LaneId, LinkName, Offset, PartitionId, ProducerId, TopicName
from heliostat.names import TopicPartition as Partition
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import (
    CopySettings,
    LaneSpec,
    PartitionSpec,
    PartitionState,
    RoundReport,
)
from heliostat.records.copier.lease import NOT_GRANTED
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S

WALL_MS = 1_800_000_000_000
DAY_MS = 86_400_000
ROUNDS_MAX = 400
STILL_S = 1.0
"""Seconds without a fault or a change; after that all turns would be equal."""

Record = tuple[int, int, bytes | None, bytes | None]


def fill(log: PartitionLog, rng: random.Random, records: int, timestamp_ms: int) -> None:
    while log.end < records:
        count = rng.choice([1, 1, 1, 2, 5, 20])
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
        for delta in range(count):
            value = None if rng.random() < 0.1 else b"v%d" % (log.end + delta)
            builder.append(delta, timestamp_ms + log.end, b"k", value, [("h", b"x")])
        log.append(bytes(builder.build()))


@lru_cache(maxsize=20_000)
def decoded(data: bytes) -> tuple[tuple[int, bytes | None, bytes | None], ...]:
    reader = DefaultRecordBatch(data)
    assert reader.validate_crc()
    return tuple((record.timestamp, record.key, record.value) for record in reader)


def contents(log: PartitionLog, start: int = 0) -> list[Record]:
    return [
        (offset, *record)
        for batch in log.batches
        for offset, record in enumerate(decoded(batch.data), batch.base_offset)
        if offset >= start
    ]


def lane(world: World, number: int, lease_s: float, starts: list[int]) -> LaneSpec:
    return LaneSpec(
        link=LinkName("sim"),
        lane=LaneId(0),
        generation=1,
        round_number=number,
        lease_s=lease_s,
        source_access=ClusterAccess(()),
        target_access=ClusterAccess(()),
        producer_id=ProducerId(PRODUCER),
        partitions=tuple(
            PartitionSpec(
                source=Partition(TopicName("t"), PartitionId(index)),
                target=Partition(TopicName("t"), PartitionId(index)),
                source_topic_id=None,
                target_topic_id=None,
                start=Offset(starts[index]),
                batch_bytes_max=100_000,
                is_compacted=False,
            )
            for index in range(len(world.source))
        ),
        control_topic="c",
        progress_topic="p",
        rates=world.random.choice([(), ((0, 9.0),), ((0, 9.0), (1, 0.3))]),
        settings=CopySettings(
            join_below_bytes=400,
            join_bytes_max=2000,
            queued_bytes_max=4000,
            partition_fetch_bytes_max=world.random.choice([400, 2**20]),  # lagging often or never
            backlog_connections=world.random.choice([1, 2]),
        ),
    )


def make_world(
    seed: int, *, age_ms: int = 0, fault_rate: float | None = None, partitions: int = 2
) -> World:
    rng = random.Random(seed)
    world = World(
        rng,
        SimClock(WALL_MS),
        [PartitionLog() for _ in range(partitions)],
        [PartitionLog() for _ in range(partitions)],
        rng.choice([0.0, 0.02, 0.1, 0.3]) if fault_rate is None else fault_rate,
        identities=[0] * partitions,
    )
    for log in world.source:
        fill(log, rng, rng.randrange(1, 150), WALL_MS - age_ms)
    return world


def check_is_beginning(world: World, starts: list[int], seed: int) -> None:
    for source, target, start in zip(world.source, world.target, starts, strict=True):
        copied = contents(target, start)
        assert copied == contents(source, start)[: len(copied)], f"seed {seed}"


def check_ages(world: World, copier: Copier) -> None:
    """What is told of the oldest missing record is never younger than it is."""
    for item, log in zip(copier.partitions, world.source, strict=True):
        progress = item.progress
        if progress.missing_ms >= 0 and progress.position < log.end:
            first = contents(log, max(progress.position, log.start))[0]
            assert progress.missing_ms <= first[1]


def copy_until_level(
    world: World,
    seed: int,
    starts: list[int],
    *,
    other_links: int = 1,
    kills: bool = True,
    are_in_order: bool = True,
) -> list[Copier]:
    rng, copiers = world.random, []
    for number in range(ROUNDS_MAX):
        lease_s = rng.choice([0.05, 0.3, 2.0])
        copiers = [
            Copier(
                lane(world, number, lease_s, starts),
                SimNetwork(world, rng.choice([1, 5])),
                world.clock,
            )
            for _ in range(other_links)
        ]
        turns = rng.randrange(1, 200) if kills and rng.random() < 0.5 else 10**9
        run_together(world, copiers, turns)
        check_is_beginning(world, starts, seed)
        for copier in copiers if are_in_order else ():
            check_ages(world, copier)
        if all(a.end == b.end for a, b in zip(world.source, world.target, strict=True)):
            return copiers
        for copier in copiers:
            for item in copier.partitions:
                at = item.standing
                assert not at.state.is_stopped, f"seed {seed}: {at.code} {at.reason}"
        if rng.random() < 0.3:
            for log in world.source:
                fill(log, rng, log.end + rng.randrange(3), world.clock.wall_ms())
        world.fault_rate *= 0.97
    raise AssertionError(f"seed {seed}: not level after {ROUNDS_MAX} rounds")


class Stillness:
    """Tells when nothing happens any more: no fault, the same logs and partitions, no retry due."""

    def __init__(self, world: World, copiers: list[Copier], still_s: float) -> None:
        self._world = world
        self._items = [item for copier in copiers for item in copier.partitions]
        self._still_s = still_s
        self._seen: object = None
        self._since_s = self._looked_at_s = world.clock.now_s

    def is_reached(self) -> bool:
        """Looks again now and then."""
        now_s = self._world.clock.now_s
        if now_s < self._looked_at_s + self._still_s / 10:
            return False
        self._looked_at_s = now_s
        seen = (
            self._world.faults,
            self._world.chunks,
            [(log.changes, log.identity) for log in (*self._world.source, *self._world.target)],
            len(self._world.late) + len(self._world.late_rows) + len(self._world.map_rows),
            [
                (
                    item.standing.state,
                    item.standing.code,
                    item.phase,
                    item.progress.position,
                    item.appends.in_flight,
                    len(item.appends.queue),
                )
                for item in self._items
            ],
        )
        retries = any(
            item.standing.state is PartitionState.RETRYING or now_s < item.appends.may_land_until_s
            for item in self._items
        )
        if retries or seen != self._seen:
            self._seen, self._since_s = seen, now_s
        return now_s >= self._since_s + self._still_s


def run_to_the_end(world: World, copier: Copier) -> RoundReport:
    """Run a round to the end of its one lease, or until nothing happens any more."""
    stillness = Stillness(world, [copier], STILL_S)

    def is_over() -> bool:
        is_granted = copier.lease.until_s != NOT_GRANTED
        return (is_granted and not copier.lease.may_send()) or stillness.is_reached()

    return copier.run(Hooks(is_over, lambda: False, lambda _: None, answered=lambda: 1))


def granted(copier: Copier) -> Copier:
    """Give a round its first lease."""
    copier.lease.report(1)
    copier.lease.answer(1)
    return copier


def run_together(world: World, copiers: list[Copier], turns: int, *, within_s: float = 2.5) -> None:
    """Interleave turns of copiers at random; after a kill requests in flight may arrive late."""
    networks = [granted(copier)._network for copier in copiers]
    until_s = world.clock.now_s + within_s
    stillness = Stillness(world, copiers, STILL_S / 5)
    for _ in range(turns):
        copier = world.random.choice(copiers)
        now_s = world.clock.monotonic_s()
        if now_s >= min(copier.lease.until_s, until_s) or stillness.is_reached():
            break
        copier.turn(now_s)
    for network in networks:
        network.cut_all()


def turn_some(world: World, copier: Copier, turns: int) -> None:
    for _ in range(turns):
        now_s = world.clock.monotonic_s()
        if now_s >= copier.lease.until_s:
            break
        copier.turn(now_s)


@pytest.mark.parametrize("part", chunks(2))
def test_one_owner_with_kills_and_faults_copies_exactly(part: range) -> None:
    """Given any faults and kills / when rounds continue / then the target equals the source."""
    for seed in part:
        world = make_world(seed)
        copy_until_level(world, seed, [0, 0])


@pytest.mark.parametrize("part", chunks())
def test_concurrent_owners_of_fresh_records_leave_one_copy(part: range) -> None:
    """Given three owners by mistake / when all copy at once / then I1 holds."""
    for seed in part:
        world = make_world(seed + 1_000_000)
        copy_until_level(world, seed, [0, 0], other_links=3)


@pytest.mark.parametrize("part", chunks(1 / 14, least=25, size=50))
def test_forgotten_producers_do_no_harm_to_one_owner(part: range) -> None:
    """Given records older than producers are kept / when they expire at any time / then exact."""
    for seed in part:
        world = make_world(seed + 2_000_000, age_ms=3 * DAY_MS, partitions=6)
        rng, starts = world.random, [0] * 6
        world.forgets_ms = DAY_MS if seed % 2 else None  # else at rest alone
        world.late_s, world.replicas_s = rng.choice([(0.05, 0.0), (1.0, 10.0)])
        for number in range(ROUNDS_MAX):
            spec = lane(world, number, rng.choice([0.3, 10.0]), starts)
            spec = replace(spec, may_land_s=LANDS_WITHIN_S)
            copier = Copier(spec, SimNetwork(world, 5), world.clock)
            run_together(world, [copier], rng.choice([20, 1000]), within_s=10.0)
            if rng.random() < 0.5 and not world.late:  # at rest
                for log in world.target:
                    log.expire_producers(world.clock.wall_ms(), DAY_MS)
            check_is_beginning(world, starts, seed)
            if all(a.end == b.end for a, b in zip(world.source, world.target, strict=True)):
                break
            world.fault_rate *= 0.97
        else:
            raise AssertionError(f"seed {seed}: not level")
        world.clock.sleep(100.0)
        world.settle_late()  # nothing lands that was not waited for
        assert [log.end for log in world.target] == [log.end for log in world.source], seed


def test_a_source_that_begins_late_is_mirrored_with_equal_offsets() -> None:
    """Given sources whose logs start at S / when copied / then offsets equal, from S on."""
    for seed in seeds(1 / 4, least=25):
        world = make_world(seed + 3_000_000)
        starts = [world.random.randrange(log.end + 1) for log in world.source]
        for log, start in zip(world.source, starts, strict=True):
            log.delete_before(start)
        copy_until_level(world, seed, starts)
        copier = Copier(lane(world, 0, 5.0, starts), SimNetwork(world, 5), world.clock)
        world.fault_rate = 0.0
        run_to_the_end(world, copier)
        assert [log.start for log in world.target] == starts, f"seed {seed}"


def test_a_foreign_write_is_detected_and_stops_only_its_partition() -> None:
    """Given a foreign record in a mirror / when copying continues / then it alone is DIVERGED."""
    for seed in seeds(1 / 4, least=25):
        world = make_world(seed + 4_000_000, fault_rate=0.0)
        fill(world.source[1], world.random, 400, WALL_MS)
        while not world.target[0].producers:  # ends: without faults some turn copies a batch
            before = Copier(lane(world, 0, 0.5, [0, 0]), SimNetwork(world, 5), world.clock)
            run_together(world, [before], world.random.randrange(3, 60))
            world.settle_late()
        world.late.clear()
        stranger = PartitionLog()
        fill(stranger, world.random, 1, WALL_MS)
        world.target[0].append(stranger.batches[0].data)
        fill(world.source[0], world.random, world.target[0].end + 30, WALL_MS)
        copier = Copier(lane(world, 1, 20.0, [0, 0]), SimNetwork(world, 5), world.clock)
        run_to_the_end(world, copier)
        first, second = copier.partitions
        at = first.standing
        assert at.state is PartitionState.DIVERGED, f"seed {seed}: {at.state} {at.reason}"
        assert second.standing.state is PartitionState.COPYING, (
            f"seed {seed}: {second.standing.reason}"
        )
        assert position_is_target_end(second.progress.position, world.source[1].end), f"seed {seed}"


def test_a_foreign_write_is_detected_though_our_producer_is_forgotten() -> None:
    """Given old records followed by a foreign one / when a round begins / then DIVERGED."""
    for seed in seeds(1 / 10, least=25):
        world = make_world(seed + 6_000_000, age_ms=3 * DAY_MS, fault_rate=0.0)
        before = Copier(lane(world, 0, 5.0, [0, 0]), SimNetwork(world, 5), world.clock)
        run_to_the_end(world, before)
        stranger = PartitionLog()
        fill(stranger, world.random, 1, WALL_MS)
        world.target[0].append(stranger.batches[0].data)
        for log in world.target:
            log.expire_producers(world.clock.wall_ms(), DAY_MS)
        fill(world.source[0], world.random, world.source[0].end + 50, WALL_MS - 3 * DAY_MS)
        end = world.target[0].end
        copier = Copier(lane(world, 1, 5.0, [0, 0]), SimNetwork(world, 5), world.clock)
        run_to_the_end(world, copier)
        first, second = copier.partitions
        assert (first.standing.state, first.standing.code) == (
            PartitionState.DIVERGED,
            "FOREIGN_TAIL",
        ), f"seed {seed}"
        assert world.target[0].end == end
        assert second.standing.state is PartitionState.COPYING, (
            f"seed {seed}: {second.standing.reason}"
        )


def test_records_that_are_gone_before_they_were_copied_are_a_gap() -> None:
    """Given retention that overtook / when the position is gone / then GAP with the range."""
    for seed in seeds(1 / 10, least=25):
        world = make_world(seed + 5_000_000, fault_rate=0.0)
        fill(world.source[0], world.random, 50, WALL_MS)
        world.source[0].delete_before(20)
        copier = Copier(lane(world, 0, 5.0, [0, 0]), SimNetwork(world, 5), world.clock)
        report = run_to_the_end(world, copier)
        gap, other = report.partitions
        assert gap.state is PartitionState.GAP, f"seed {seed}"
        assert "0 to 19" in gap.reason
        assert other.state is PartitionState.COPYING
        assert world.target[0].end == 0


def test_a_previous_rounds_late_appends_are_copied_once() -> None:
    """Given old records, a slow broker that forgets producers / when rounds change / then exact.

    A round reads the target's end and fetches while appends of the previous one are still queued at
    the broker; then they land, and the driver reports that this round has ended.
    """
    landed = 0
    for seed in seeds(1 / 5, least=25):
        world = make_world(seed + 9_000_000, age_ms=3 * DAY_MS, fault_rate=0.0)
        rng, starts = world.random, [0, 0]
        for log in world.source:
            fill(log, rng, 200, WALL_MS - 3 * DAY_MS)
        copier = granted(Copier(lane(world, 0, 9.0, starts), SimNetwork(world, 1), world.clock))
        for number in range(1, ROUNDS_MAX):
            turn_some(world, copier, rng.randrange(40))
            copier._network.cut_all()
            spec = replace(lane(world, number, 9.0, starts), waits_for=("before",))
            copier = granted(Copier(spec, SimNetwork(world, 1), world.clock))
            turn_some(world, copier, rng.randrange(4))
            before = [log.end for log in world.target]
            while world.late:
                world.clock.sleep(0.05)
                world.settle_late()
            landed += [log.end for log in world.target] != before
            for log in world.target:
                log.expire_producers(world.clock.wall_ms(), DAY_MS)
            copier._look_for_predecessors(frozenset({copier.reports._lane.round_id}))
            world.clock.sleep(LANDS_WITHIN_S)
            turn_some(world, copier, rng.randrange(40))
            check_is_beginning(world, starts, seed)
            assert not any(item.standing.state.is_stopped for item in copier.partitions), (
                f"seed {seed}"
            )
            if all(a.end == b.end for a, b in zip(world.source, world.target, strict=True)):
                break
        else:
            raise AssertionError(f"seed {seed}: not level after {ROUNDS_MAX} rounds")
    assert landed > len(seeds(1 / 5, least=25)) // 4 or not IS_WHOLE


def strangers_batch(records: int) -> bytes:
    """Return a batch without a producer id."""
    stranger = PartitionLog()
    fill(stranger, random.Random(records), 1, WALL_MS)
    return stranger.batches[0].data


def test_a_mirror_with_a_foreign_record_stays_stopped_in_later_rounds() -> None:
    """Given a forgotten producer and a foreign batch, in mid round or at rest / when rounds

    continue / then nothing more lands in that mirror, and each reports it; the other one gets in
    sync. Also where the foreign records are deleted again, and with a driver that starts anew.
    """
    codes: set[str] = set()
    for seed in seeds(1 / 5, least=25):
        world = make_world(seed + 8_000_000, age_ms=3 * DAY_MS, fault_rate=0.0)
        rng, log = world.random, world.target[0]
        fill(world.source[0], rng, 200, WALL_MS - 3 * DAY_MS)
        copier = granted(Copier(lane(world, 0, 5.0, [0, 0]), SimNetwork(world, 5), world.clock))
        while not log.end:  # ends: some turn copies a batch
            turn_some(world, copier, 1)
        turn_some(world, copier, rng.choice([0, 5, 400]))
        if rng.random() < 0.5:
            copier._network.cut_all()
            world.clock.sleep(3.0)
            world.settle_late()
            copier = Copier(lane(world, 0, 0.01, [0, 0]), SimNetwork(world, 5), world.clock)
            granted(copier)
        theirs = log.end
        log.append(strangers_batch(seed))
        fill(world.source[0], rng, 300, WALL_MS - 3 * DAY_MS)
        turn_some(world, copier, rng.choice([0, 3, 300]))
        copier._network.cut_all()
        world.clock.sleep(3.0)
        world.settle_late()
        if is_gone := rng.random() < 0.3:
            log.delete_before(log.end)
        for each in world.target:
            each.expire_producers(world.clock.wall_ms(), DAY_MS)
        end = log.end
        for number in range(1, 4):
            spec = lane(world, number, 3.0, [0, 0])
            if rng.random() < 0.5:
                spec = replace(spec, waits_for=("before",))
            copier = Copier(spec, SimNetwork(world, 5), world.clock)
            report = run_to_the_end(world, copier)
            first, second = report.partitions
            assert first.state is PartitionState.DIVERGED, f"seed {seed}: {first}"
            assert log.end == end, f"seed {seed}: {theirs}, {end}, gone: {is_gone}"
            assert second.state is PartitionState.COPYING, f"seed {seed}: {second.reason}"
            codes.add(first.code)
        check_is_beginning(
            World(rng, world.clock, world.source[1:], world.target[1:], 0.0), [0], seed
        )
    assert codes == {"FOREIGN_TAIL", "TAIL_UNKNOWN"} or not IS_WHOLE
