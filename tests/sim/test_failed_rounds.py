"""A round that the driver takes for failed and that goes on: only the driver can't reach it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sim.seeds import IS_WHOLE, chunks
from sim.sim_network import SimNetwork
from sim.test_copy_simulation import (
    DAY_MS,
    ROUNDS_MAX,
    check_is_beginning,
    fill,
    granted,
    lane,
    make_world,
    turn_some,
)

from heliostat.records.copier.copier import Copier
from heliostat.records.copier.partition_appends import LANDS_WITHIN_S


@pytest.mark.parametrize("age_ms", [0, 3 * DAY_MS])
@pytest.mark.parametrize("part", chunks(1 / 10, least=15, size=50))
def test_a_round_that_failed_may_send_on_for_a_while(part: range, age_ms: int) -> None:
    """Given a round that is taken for failed and copies on / when its successor begins at once /

    then the target equals the source: old records wait until the first one's lease is over.
    """
    both = 0
    for seed in part:
        world = make_world(seed + 7_000_000, age_ms=age_ms, fault_rate=0.0 if age_ms else None)
        rng, starts = world.random, [0, 0]
        world.late_s = rng.choice([0.05, LANDS_WITHIN_S / (len(starts) + 1)])
        copier = granted(Copier(lane(world, 0, 9.0, starts), SimNetwork(world, 1), world.clock))
        for number in range(1, ROUNDS_MAX):
            turn_some(world, copier, rng.randrange(40))
            spec = replace(lane(world, number, 9.0, starts), waits_for=("before",))
            successor = granted(Copier(spec, SimNetwork(world, 1), world.clock))
            before = [log.end for log in world.target]
            for _ in range(rng.randrange(20)):
                turn_some(world, rng.choice([copier, successor]), 1)
            both += [log.end for log in world.target] != before
            copier._network.cut_all()  # what is on its way may arrive later
            copier = successor
            if age_ms:
                for log in world.target:
                    log.expire_producers(world.clock.wall_ms(), DAY_MS)
            if rng.random() < 0.7:  # else what is old has to wait
                copier._look_for_predecessors(frozenset({copier.reports._lane.round_id}))
                world.clock.sleep(rng.choice([0.0, LANDS_WITHIN_S]))
                world.settle_late()
            turn_some(world, copier, rng.randrange(40))
            check_is_beginning(world, starts, seed)
            assert not any(item.standing.state.is_stopped for item in copier.partitions), (
                f"seed {seed}"
            )
            if number > 20 and all(
                a.end == b.end for a, b in zip(world.source, world.target, strict=True)
            ):
                break
            if number < 20 and rng.random() < 0.5:
                for log in world.source:
                    fill(log, rng, log.end + rng.randrange(5), world.clock.wall_ms() - age_ms)
            world.fault_rate *= 0.97
        else:
            raise AssertionError(f"seed {seed}: not level after {ROUNDS_MAX} rounds")
    # Old records wait for the first one's lease: of them about one round a seed gets this far.
    assert both > len(part) // (2 if age_ms else 1) or not IS_WHOLE
