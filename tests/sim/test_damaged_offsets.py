"""Offsets that no checksum covers are damaged on the way, besides all other faults."""

from __future__ import annotations

import pytest
from sim.seeds import chunks
from sim.sim_network import SimNetwork
from sim.test_copy_simulation import (
    ROUNDS_MAX,
    check_is_beginning,
    fill,
    lane,
    make_world,
    run_together,
)

from heliostat.records.copier.copier import Copier


@pytest.mark.parametrize("part", chunks(1 / 2))
def test_no_record_is_lost_duplicated_or_moved_by_damaged_offsets(part: range) -> None:
    """Given flipped bits in base offsets / when rounds continue / then exact.

    A partition that finds one at the same offset three times stops; the next round continues.
    """
    for seed in part:
        world = make_world(seed + 12_000_000)
        rng, starts = world.random, [0, 0]
        world.damage_rate = rng.choice([0.02, 0.1, 0.3])
        for number in range(ROUNDS_MAX):
            copier = Copier(
                lane(world, number, rng.choice([0.05, 0.3, 2.0]), starts),
                SimNetwork(world, rng.choice([1, 5])),
                world.clock,
            )
            run_together(world, [copier], rng.randrange(1, 200))
            check_is_beginning(world, starts, seed)
            for item in copier.partitions:
                is_going = not item.standing.state.is_stopped or item.standing.code == "CORRUPT"
                assert is_going, f"seed {seed}: {item.standing.code} {item.standing.reason}"
            if all(a.end == b.end for a, b in zip(world.source, world.target, strict=True)):
                break
            if rng.random() < 0.3:
                for log in world.source:
                    fill(log, rng, log.end + rng.randrange(3), world.clock.wall_ms())
            world.fault_rate *= 0.97
            world.damage_rate *= 0.97
        else:
            raise AssertionError(f"seed {seed}: not level after {ROUNDS_MAX} rounds")
