"""Executors load the code before lanes go there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from heliostat.ops.spark_session import Executor
from heliostat.records.spark.warm_executors import FRESH_S, LOADS_WITHIN_S, WarmExecutors

OLD, NEW = Executor("0", "host", 1), Executor("1", "host", 1)
WITHIN_S = 10.0


class World:
    """Loads that end when a test lets them, and a clock that it sets."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.loads: list[str] = []
        self.fails = False
        self.may_end = threading.Event()
        self.executors = WarmExecutors(self._load, lambda: self.now_s)

    def _load(self, executor: Executor) -> None:
        self.loads.append(executor.number)
        assert self.may_end.wait(WITHIN_S)
        if self.fails:
            raise RuntimeError("an executor that is gone")

    def becomes(self, is_so: Callable[[], bool]) -> bool:
        until_s = time.monotonic() + WITHIN_S
        while not (answer := is_so()) and time.monotonic() < until_s:
            time.sleep(0.001)
        return answer


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.may_end.set()


def test_the_first_are_used_at_once(world: World) -> None:
    """Given no warm executor / when asked / then all are used: lanes wait for them."""
    assert world.executors.of([]) == []
    assert world.executors.of([OLD, NEW]) == [OLD, NEW]
    assert world.loads == []


@pytest.mark.parametrize("fails", [False, True])
def test_one_that_comes_later_loads_the_code_first(world: World, fails: bool) -> None:
    """Given an executor in use / when another comes / then it counts once its job has ended."""
    world.fails = fails
    world.executors.of([OLD])
    for _ in range(2):
        assert world.executors.of([OLD, NEW]) == [OLD]
    world.may_end.set()
    assert world.becomes(lambda: world.executors.of([OLD, NEW]) == [OLD, NEW])
    assert world.loads == ["1"]


def test_one_whose_job_hangs_is_used_all_the_same(world: World) -> None:
    world.executors.of([OLD])
    assert world.executors.of([OLD, NEW]) == [OLD]
    world.now_s += LOADS_WITHIN_S + 1
    assert world.executors.of([OLD, NEW]) == [OLD, NEW]
    assert world.executors.has_process(NEW)


def test_all_are_used_when_only_a_cold_one_is_left(world: World) -> None:
    world.executors.of([OLD])
    world.executors.of([OLD, NEW])
    assert world.executors.of([NEW]) == [NEW]


def test_a_lane_that_moves_finds_a_process_of_its_own(world: World) -> None:
    """Given a warm executor / when lanes move there / then one process each, not too old."""
    world.executors.of([OLD])
    world.may_end.set()
    for count in (1, 2):
        assert not world.executors.has_process(OLD)
        assert world.becomes(lambda: world.executors.has_process(OLD))
        assert world.loads == ["0"] * count
    assert not world.executors.has_process(OLD)
    assert world.becomes(lambda: world.loads == ["0"] * 3)
    time.sleep(0.05)  # its end is noted
    world.now_s += FRESH_S + 1
    assert not world.executors.has_process(OLD)
