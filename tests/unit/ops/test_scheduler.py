"""A scheduler's threads: few for many tasks, more while some hang, none once all have ended."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from heliostat.ops import scheduler as scheduler_module
from heliostat.ops.due_tasks import PATIENCE_S, STARTS_MAX, THREADS_MIN, DueTasks, Task
from heliostat.ops.scheduler import ScheduledTask, Scheduler

WITHIN_S = 20.0
TASKS = 500


def sets(event: threading.Event) -> float:
    event.set()
    return 60.0


def never() -> float | None:
    raise AssertionError("pure: nothing is run")


class Simulated:
    """Threads and time of `DueTasks`, simulated: each run of a task takes as long as is said."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.tasks = DueTasks()
        self.threads = self.idle = self.freed = 0
        self.most_threads = 0
        self.longest_wait_s = {False: 0.0, True: 0.0}
        """By whether it is urgent."""
        self._ends: list[tuple[float, int, Task]] = []

    def hand_out(self, takes_s: Callable[[Task], float]) -> None:
        while self.idle and (
            task := self.tasks.next_for_idle_thread(
                self.now_s, self.threads - self.idle, is_freed=self.freed > 0
            )
        ):
            self.idle -= 1
            self.freed -= 1
            self._begin(task, takes_s)
        while task := self.tasks.next_for_new_thread(self.now_s, self.threads):
            self.threads += 1
            self._begin(task, takes_s)
        self.most_threads = max(self.most_threads, self.threads)

    def _begin(self, task: Task, takes_s: Callable[[Task], float]) -> None:
        waited_s = self.now_s - task.due_s
        self.longest_wait_s[task.is_urgent] = max(self.longest_wait_s[task.is_urgent], waited_s)
        self._ends.append((self.now_s + takes_s(task), id(task), task))
        self._ends.sort()

    def run(
        self, until_s: float, takes_s: Callable[[Task], float], pause_s: Callable[[Task], float]
    ) -> None:
        while self.now_s < until_s:
            self.hand_out(takes_s)
            end_s = self._ends[0][0] if self._ends else until_s
            look_s = self.tasks.look_s(self.now_s, self.idle)
            self.now_s = min(end_s, self.now_s + look_s, until_s)
            self.freed = 0
            while self._ends and self._ends[0][0] <= self.now_s:
                _, _, task = self._ends.pop(0)
                self.idle += 1
                self.freed += 1
                self.tasks.ran(task, pause_s(task), self.now_s)


@pytest.mark.parametrize("seed", range(5))
def test_no_task_waits_long_for_a_thread_whatever_hangs(seed: int) -> None:
    """Given 300 tasks of which a third hang at once / then others wait until these have threads."""
    dice, world = random.Random(seed), Simulated()
    tasks = [Task(f"t{number}", never, is_urgent=number % 10 == 0) for number in range(300)]
    hanging = set(dice.sample([task.name for task in tasks], 100))
    for task in tasks:
        world.tasks.add(task, 0.0)
    world.run(
        35.0,
        lambda task: 30.0 if task.name in hanging else dice.uniform(0.0, 0.02),
        lambda _: dice.choice([0.0, 0.2, 1.0, 5.0]),
    )
    assert world.longest_wait_s[False] <= PATIENCE_S * (1 + len(hanging) / STARTS_MAX) + 1e-9
    assert world.longest_wait_s[True] == 0.0
    assert len(hanging) <= world.most_threads <= len(hanging) + 3 * STARTS_MAX


def test_quick_tasks_need_few_threads() -> None:
    """Given 500 tasks that take a millisecond each second / then few threads run all of them."""
    dice, world = random.Random(1), Simulated()
    for number in range(TASKS):
        world.tasks.add(Task(f"t{number}", never), dice.uniform(0.0, 1.0))
    world.run(10.0, lambda _: 0.001, lambda _: 1.0)
    assert world.most_threads <= THREADS_MIN
    assert world.longest_wait_s[False] <= PATIENCE_S


def test_a_process_without_processor_time_starts_no_threads_for_it() -> None:
    """Given quick tasks that all are due / when nothing ran for a second / then no thread more."""
    tasks = DueTasks()
    for number in range(THREADS_MIN + 10):
        tasks.add(Task(f"t{number}", never), 0.0)
    begun = [tasks.next_for_new_thread(0.0, number) for number in range(THREADS_MIN)]
    assert all(begun)
    tasks.excuse(1.0)
    assert tasks.next_for_new_thread(1.0, THREADS_MIN) is None
    assert tasks.look_s(1.0, idle=0) == PATIENCE_S
    assert tasks.next_for_new_thread(1.0 + PATIENCE_S, THREADS_MIN) is not None


@pytest.mark.parametrize("hung", [0, 6])
def test_a_process_without_processor_time_starts_a_thread_a_look_at_most(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, hung: int
) -> None:
    """Given threads that don't come to begin / then few are added / past those that hang, too."""
    goes_on, ran = threading.Event(), threading.Event()
    monkeypatch.setattr(Scheduler, "_is_starved", lambda *_: True)

    def hang() -> float | None:
        goes_on.wait(WITHIN_S)
        return None

    hanging = [scheduler.start(f"h{number}", hang) for number in range(hung)]
    time.sleep(1.2 * PATIENCE_S)
    assert scheduler.threads <= THREADS_MIN + 2
    last = scheduler.start("last", partial(sets, ran))
    assert ran.wait(WITHIN_S)
    goes_on.set()
    assert all(task.join(WITHIN_S) for task in hanging)
    assert last.end(WITHIN_S)


def test_a_process_lacks_processor_time_while_a_thread_has_not_begun(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module._Worker, "start", lambda _: None)
    task = scheduler.start("waits", never)
    while not scheduler.threads:
        time.sleep(0.001)
    assert not scheduler._is_starved(time.monotonic())
    assert scheduler._is_starved(time.monotonic() + 2 * scheduler_module.STARVED_S)
    task.end(0.0)


def test_a_task_that_is_woken_while_it_runs_runs_again_and_one_that_is_over_never() -> None:
    tasks, task, other = DueTasks(), Task("a", never), Task("b", never)
    tasks.add(task, 0.0)
    assert tasks.next_ready(0.0) is task
    tasks.wake(task, 1.0)
    assert tasks.next_ready(1.0) is None  # it runs once at a time
    tasks.ran(task, 60.0, 2.0)
    assert tasks.next_ready(2.0) is task
    tasks.ran(task, 60.0, 3.0)
    assert tasks.look_s(3.0, idle=1) == 60.0
    tasks.wake(task, 4.0)
    assert tasks.next_ready(4.0) is task
    tasks.ran(task, 60.0, 5.0)
    tasks.add(other, 6.0)
    tasks.end(other)
    tasks.end(task)
    tasks.wake(task, 70.0)
    assert tasks.next_ready(1000.0) is None
    assert tasks.left == 0


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    monkeypatch.setattr(scheduler_module, "IDLE_ENDS_S", 0.1)
    return Scheduler()


def test_many_tasks_share_few_threads_which_end_with_them(scheduler: Scheduler) -> None:
    """Given 500 tasks / then they need few threads / and none is left when all have ended."""
    before, ran, all_ran = threading.active_count(), set[int](), threading.Event()

    def run(number: int) -> float | None:
        ran.add(number)
        if len(ran) == TASKS:
            all_ran.set()
        return 60.0

    started = [scheduler.start(f"t{number}", partial(run, number)) for number in range(TASKS)]
    assert all_ran.wait(WITHIN_S)
    assert threading.active_count() < before + TASKS / 10
    assert all(task.end(WITHIN_S) for task in started)
    until_s = time.monotonic() + WITHIN_S
    while threading.active_count() > before and time.monotonic() < until_s:
        time.sleep(0.01)
    assert threading.active_count() <= before
    assert scheduler.threads == 0


def test_hanging_tasks_hold_up_no_other_and_an_end_waits_for_them(scheduler: Scheduler) -> None:
    """Given tasks that hang / then others run meanwhile / and ends of those that hang say so."""
    goes_on, urgent, plain = threading.Event(), threading.Event(), threading.Event()

    def hang() -> float | None:
        goes_on.wait(WITHIN_S)
        return None

    hanging = [scheduler.start(f"h{number}", hang) for number in range(12)]
    others = [
        scheduler.start("urgent", partial(sets, urgent), is_urgent=True),
        scheduler.start("plain", partial(sets, plain)),
    ]
    assert urgent.wait(WITHIN_S)
    assert plain.wait(WITHIN_S)
    assert not hanging[0].end(0.01)
    goes_on.set()
    assert all(task.join(WITHIN_S) for task in hanging)
    assert all(task.end(WITHIN_S) for task in others)


def test_a_task_may_end_itself_and_what_it_raises_ends_it(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    ready, made = threading.Event(), list[ScheduledTask]()

    def end_itself() -> float | None:
        ready.wait(WITHIN_S)
        made[0].end(WITHIN_S)
        return 0.0

    made.append(scheduler.start("ends", end_itself))
    ready.set()
    assert made[0].join(WITHIN_S)
    failing = scheduler.start("fails", lambda: 1 / 0)
    assert failing.join(WITHIN_S)
    assert [args.exc_type for args in told] == [ZeroDivisionError]


def test_without_a_thread_more_a_task_waits_for_one_of_those_there_are(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a system that gives no thread more / then what is due runs later, on another's."""
    ran, has_thread = threading.Event(), threading.Event()

    def runs() -> float:
        has_thread.set()
        return 0.05

    first = scheduler.start("first", runs)
    assert has_thread.wait(WITHIN_S)
    start = scheduler_module._Worker.start

    def refused(worker: scheduler_module._Worker) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(scheduler_module._Worker, "start", refused)
    second = scheduler.start("second", partial(sets, ran))
    assert ran.wait(WITHIN_S)
    monkeypatch.setattr(scheduler_module._Worker, "start", start)
    assert first.end(WITHIN_S)
    assert second.end(WITHIN_S)
