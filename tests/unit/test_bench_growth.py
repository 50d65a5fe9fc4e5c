"""What `bench/compare steady` calls growth."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import steady
from delays import Window
from footprint import FIGURES, ROLES, TOTAL
from growth import Limit, settled, trend

pytestmark = pytest.mark.thorough

MEMORY, COUNT = Limit(share=0.05, more=10.0), Limit(share=0.0, more=0.0)
EVERY_S = 30.0
SAMPLES = 80
"""Two thirds of an hour."""


def grows(value: Callable[[int], float], limit: Limit, samples: int = SAMPLES) -> bool | None:
    found = trend([n * EVERY_S for n in range(samples)], [value(n) for n in range(samples)], limit)
    return found.grows if found else None


def noisy(slope: float, deviation: float, seed: int = 1) -> Callable[[int], float]:
    """Memory of 1,000 MB that grows by `slope` an hour."""
    chance = random.Random(seed)
    return lambda n: 1_000 + slope * n * EVERY_S / 3_600 + chance.gauss(0, deviation)


def test_growing_memory_grows_and_the_slope_is_that_of_the_samples() -> None:
    every = [n * EVERY_S for n in range(SAMPLES)]
    value = noisy(slope=120.0, deviation=15.0)
    found = trend(every, [value(n) for n in range(SAMPLES)], MEMORY)

    assert found is not None
    assert found.grows
    assert found.slope == pytest.approx(120, abs=30)
    assert 0 < found.slope_at_least < found.slope
    assert found.limit == pytest.approx(0.05 * 1_040 + 10, rel=0.02)


def test_memory_below_the_limit_does_not_grow() -> None:
    assert grows(lambda n: 1_000 + 59 * n * EVERY_S / 3_600, MEMORY) is False
    assert grows(lambda n: 1_000 + 70 * n * EVERY_S / 3_600, MEMORY) is True


def test_a_few_high_samples_are_no_growth() -> None:
    assert grows(lambda n: 5_000 if n >= SAMPLES - 8 else 1_000, MEMORY) is False


def test_falling_and_flat_series_do_not_grow() -> None:
    assert grows(lambda n: 1_000 - n, MEMORY) is False
    assert grows(lambda _: 40, COUNT) is False
    assert grows(lambda _: 0, COUNT) is False


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_growth_though_a_count_may_not_grow_at_all(seed: int) -> None:
    chance = random.Random(seed)
    assert grows(lambda _: 40 + chance.randint(-3, 3), COUNT) is False


@pytest.mark.parametrize("period", [5, 12, 20])
def test_a_sawtooth_does_not_grow_but_one_on_a_slope_does(period: int) -> None:
    def tooth(n: int) -> float:
        return 40 + 30 * (n % period) / period

    assert grows(tooth, COUNT) is False
    assert grows(tooth, MEMORY) is False
    assert grows(lambda n: tooth(n) + n, COUNT) is True
    assert grows(lambda n: tooth(n) + n, MEMORY) is True


def test_one_step_of_a_count_is_no_growth_and_two_are() -> None:
    assert grows(lambda n: 40 + (n > 50), COUNT) is False
    assert grows(lambda n: 40 + n // 27, COUNT) is True


def test_few_samples_say_nothing() -> None:
    assert grows(lambda n: n, COUNT, samples=9) is None
    assert grows(lambda n: n, COUNT, samples=10) is True


def test_the_first_third_is_left_out() -> None:
    assert list(settled(range(9))) == [3, 4, 5, 6, 7, 8]
    assert list(settled(range(10))) == [3, 4, 5, 6, 7, 8, 9]


def samples_of(sockets: Callable[[int], int], count: int = 40) -> list[dict[str, Any]]:
    """Samples of which all is even but the sockets."""
    even = dict.fromkeys(FIGURES, 100)
    return [
        {
            "at_s": n * EVERY_S,
            **dict.fromkeys(ROLES, even),
            TOTAL: {**even, "sockets": sockets(n)},
        }
        for n in range(count)
    ]


def test_a_leak_of_sockets_alone_fails_a_run_that_is_long_enough() -> None:
    assert steady.growth(samples_of(lambda _: 90), minutes=20)["failed"] is False

    found = steady.growth(samples_of(lambda n: 90 + n // 5), minutes=20)

    assert found["grew"] == ["sockets"]
    assert (found["judged"], found["failed"]) == (True, True)
    short = steady.growth(samples_of(lambda n: 90 + n // 5), minutes=9)
    assert (short["judged"], short["failed"], short["grew"]) == (False, False, ["sockets"])
    few = steady.growth(samples_of(lambda n: 90 + n, count=3), minutes=20)
    assert (few["judged"], few["failed"]) == (False, False)


def test_samples_are_taken_when_they_are_due_and_a_late_one_moves_none() -> None:
    clock = iter((1_000.0, 1_001.0, 1_029.9, 1_030.5, 1_059.0, 1_060.0, 1_085.0))
    sampler = steady.Sampler(dict, 30.0, lambda: next(clock))
    for _ in range(7):
        sampler.look()

    assert [each["at_s"] for each in sampler.samples] == [0, 30.5, 60]


def test_slices_are_five_minutes_and_hold_each_record_once() -> None:
    minute_ns = 60 * 10**9
    sent = np.array([[n * minute_ns, n * minute_ns, 0, n] for n in range(14)], dtype=np.int64)
    window = Window(sent, minute_ns, 13 * minute_ns, {0})
    parts = list(steady.slices(window))

    assert [(p.end_ns - p.begin_ns) // minute_ns for p in parts] == [5, 5, 2]
    assert [n for p in parts for n in p.expected()[:, 3]] == list(range(1, 13))
