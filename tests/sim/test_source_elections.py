"""Elections at the source between rounds that know of the copy from old notes only (KIP-101)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sim.partition_log import PartitionLog
from sim.sim_network import SimNetwork, World
from sim.test_copy_simulation import (
    SEEDS,
    check_is_beginning,
    contents,
    fill,
    lane,
    make_world,
    turn_some,
)

from heliostat.records.copier import Copier
from heliostat.records.lane import PartitionState

STARTS = [0, 0]
Note = tuple[int, int, int]
"""Source offset below which all was copied, epoch of the batch before it, the target's end then."""


def noted(copier: Copier) -> dict[int, Note]:
    """What a driver would hear now of the partitions that were copied from."""
    rows: dict[int, Note] = {}
    for item in copier.partitions:
        offset, epoch = item.epochs.copied(item.position)
        if epoch >= 0:
            rows[item.index] = (offset, epoch, -1)
    return rows


def next_round(world: World, number: int, notes: Mapping[int, Note]) -> Copier:
    spec = lane(world, number, 30.0, STARTS)
    copied = tuple((index, *row) for index, row in notes.items())
    network = SimNetwork(world, world.random.choice([1, 5]))
    return Copier(replace(spec, copied=copied), network, world.clock)


def copied_with_an_old_note(world: World) -> dict[int, Note]:
    """Copy to the source's end, hear of it early, and be killed."""
    copier = next_round(world, 0, {})
    notes: dict[int, Note] = {}
    elections = 2
    while any(one.end > two.end for one, two in zip(world.source, world.target, strict=True)):
        turn_some(world, copier, 1)
        if world.random.random() < 0.1:
            notes |= noted(copier)
        notes = noted(copier) | notes  # a first report is written at once
        if elections and world.random.random() < 0.02:
            elections -= 1
            for log in world.source:
                elect(log, world, log.end)
        if copier._deadline_s <= world.clock.monotonic_s():
            copier = next_round(world, 0, notes)
    while len(notes) < len(world.source):  # killed earlier, nothing would be known at all
        turn_some(world, copier, 1)
        notes = noted(copier) | notes
        if copier._deadline_s <= world.clock.monotonic_s():
            copier = next_round(world, 0, notes)
            for log in world.source:
                fill(log, world.random, log.end + 1, world.clock.wall_ms())
    copier._network.cut_all()
    return notes


def elect(log: PartitionLog, world: World, end: int) -> None:
    """A leader that has all below `end`, and takes records of its own."""
    if end < log.end:
        log.truncate(end)
    else:
        log.lead(log.leader_epoch + 1)
    world.clock.sleep(1.0)  # what is written now has other times
    if world.random.random() < 0.8:
        fill(log, world.random, log.end + world.random.randrange(80), world.clock.wall_ms())


def test_what_a_source_lost_is_found_however_old_the_note() -> None:
    """Given elections, some unclean / when the next round begins / then a stop, or an equal copy.

    Where the source lost copied records and others stand in their place nothing is copied on; where
    it has them all the copy goes on, whoever leads.
    """
    told = {True: 0, False: 0}
    for seed in range(SEEDS // 3):
        world = make_world(seed + 21_000_000)
        notes = copied_with_an_old_note(world)
        held = [contents(log) for log in world.target]
        for _ in range(world.random.choice([1, 1, 2, 3])):
            for log in world.source:
                is_clean = world.random.random() < 0.5
                elect(log, world, log.end if is_clean else world.random.randrange(log.end + 1))
        is_lost = [
            contents(log)[: len(had)] != had for log, had in zip(world.source, held, strict=True)
        ]
        copier = next_round(world, 1, notes)
        for number in range(2, 60):
            turn_some(world, copier, 300)
            if all(
                item.state.is_stopped or log.end == target.end
                for item, log, target in zip(
                    copier.partitions, world.source, world.target, strict=True
                )
            ):
                break
            copier._network.cut_all()
            copier = next_round(world, number, notes)
        for item, lost in zip(copier.partitions, is_lost, strict=True):
            said = f"seed {seed}, {item.index}: {item.state} {item.code} {item.reason} {notes}"
            told[lost] += 1
            if lost:
                assert (item.state, item.code) == (PartitionState.GAP, "SOURCE_TRUNCATED"), said
                assert contents(world.target[item.index]) == held[item.index], said
            else:
                assert not item.state.is_stopped, said
        if not any(is_lost):
            check_is_beginning(world, STARTS, seed)
            assert [log.end for log in world.source] == [log.end for log in world.target], seed
    assert min(told.values()) > SEEDS // 10, told
