"""The wall clock steps by an hour again and again while the simulation copies.

Leases count monotonic time and positions come from logs, so that it costs time at most.
"""

from __future__ import annotations

import random

from sim.seeds import IS_WHOLE, seeds
from sim.sim_clock import SimClock
from sim.test_copy_simulation import WALL_MS, copy_until_level, make_world
from typing_extensions import override

HOUR_MS = 3_600_000
STEP_CHANCE = 0.02
"""Per look at the clock: some jumps in each run."""


class SteppedClock(SimClock):
    """Now an hour early, now right, now an hour late."""

    def __init__(self, wall_ms: int, chance: random.Random) -> None:
        super().__init__(wall_ms)
        self._chance = chance
        self._step_ms = 0
        self.jumps = 0

    @override
    def wall_ms(self) -> int:
        if self._chance.random() < STEP_CHANCE:
            self._step_ms = self._chance.choice([-HOUR_MS, 0, HOUR_MS])
            self.jumps += 1
        return super().wall_ms() + self._step_ms


def test_a_stepped_wall_clock_costs_no_record() -> None:
    """Given faults and kills / when the wall clock jumps / then the target equals the source."""
    jumps = 0
    for seed in seeds(1 / 10, least=25):
        world = make_world(seed + 6_000_000)
        clock = world.clock = SteppedClock(WALL_MS, random.Random(seed))
        # Records are older than those before them: the age of the oldest is that of their order.
        copy_until_level(world, seed, [0, 0], are_in_order=False)
        jumps += clock.jumps
    assert jumps or not IS_WHOLE
