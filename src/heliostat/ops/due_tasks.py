"""Tasks that run again and again, and which of them are to run now; pure, by a given time.

A task that is due gets a free thread, or the first that becomes free. If it has waited for
`PATIENCE_S`, it gets a new one, as one of `STARTS_MAX` within that time: so tasks wait for others
that hang only while threads for these are started, and urgent ones never.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

PATIENCE_S = 0.25
"""How long a task that is due waits for the threads that there are."""
THREADS_MIN = 4
"""So many threads are started without waiting."""
BRIEF_S = 0.005
"""How long threads that are busy have to come to what is due, before an idle one takes it."""
STARTS_MAX = 8
"""So many more within `PATIENCE_S`: tasks that are slow together soon share what there is."""


@dataclass(slots=True, eq=False)
class Task:
    """Something to run again and again; all that changes belongs to `DueTasks`.

    Parameters
    ----------
    name
        For people.
    run
        Runs it once; returns the seconds until it is due again, None: never.
    is_urgent
        Whether it waits for no thread: a new one is started if none is free.
    """

    name: str
    run: Callable[[], float | None]
    is_urgent: bool = False
    due_s: float = math.inf
    is_ready: bool = False
    """It waits for a thread."""
    ready_s: float = math.inf
    """Since when, as far as that counts."""
    is_running: bool = False
    is_woken: bool = False
    """It was asked for while it ran."""
    is_over: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    """Set once it is over and does not run."""


@dataclass(slots=True)
class DueTasks:
    """All tasks of a scheduler. Not thread-safe."""

    left: int = 0
    """How many are not over."""
    _by_time: list[tuple[float, int, Task]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)
    _ready: deque[Task] = field(default_factory=deque)
    _starts_s: float = -math.inf
    """When the threads began to be counted that are."""
    _starts: int = 0
    _woken_s: float = -math.inf
    """When an idle thread was woken last."""

    def add(self, task: Task, now_s: float) -> None:
        """Have a task run at once, and from then on as it says."""
        self.left += 1
        self._due(task, now_s)

    def wake(self, task: Task, now_s: float) -> None:
        """Have it run at once; again, if it runs now."""
        if task.is_running:
            task.is_woken = True
        elif not (task.is_over or task.is_ready) and now_s < task.due_s:
            self._due(task, now_s)

    def end(self, task: Task) -> None:
        """Run it no more; what runs now goes on."""
        if task.is_over:
            return
        task.is_over = True
        self.left -= 1
        if not task.is_running:
            task.ended.set()
        if task.is_ready:
            self._ready.remove(task)
            task.is_ready = False

    def ran(self, task: Task, pause_s: float | None, now_s: float) -> None:
        """Note that it has run, and when it is due again."""
        task.is_running = False
        if task.is_over:
            task.ended.set()
            return
        if pause_s is None:
            self.end(task)
            return
        self._due(task, now_s if task.is_woken else now_s + pause_s)

    def next_ready(self, now_s: float) -> Task | None:
        """Return what a free thread is to run now, and note that it does."""
        self._move_due(now_s)
        if not self._ready:
            return None
        task = self._ready.popleft()
        task.is_ready, task.is_woken, task.is_running = False, False, True
        return task

    def next_for_idle_thread(self, now_s: float, busy: int, *, is_freed: bool) -> Task | None:
        """Return what an idle thread is to run now; None: nothing yet.

        Many quick tasks that are due at once use few threads so, and the others end.

        Parameters
        ----------
        busy
            How many threads run tasks.
        is_freed
            Whether one of them has just ended its task.
        """
        self._move_due(now_s)
        if not self._ready:
            return None
        first = self._ready[0]
        if not (is_freed or busy < THREADS_MIN or first.is_urgent):
            if now_s < max(first.ready_s, self._woken_s) + BRIEF_S:
                return None
            self._woken_s = now_s
        return self.next_ready(now_s)

    def next_for_new_thread(
        self, now_s: float, threads: int, starts_max: int = STARTS_MAX
    ) -> Task | None:
        """Return what a new thread is to run now, when none is free; None: start none.

        Parameters
        ----------
        threads
            How many there are.
        starts_max
            How many may start within `PATIENCE_S`, beside the first few and for urgent tasks.
        """
        self._move_due(now_s)
        if not self._ready:
            return None
        first = self._ready[0]
        if threads < THREADS_MIN or first.is_urgent:
            return self.next_ready(now_s)
        if now_s < first.ready_s + PATIENCE_S:
            return None
        if now_s >= self._starts_s + PATIENCE_S:
            self._starts_s, self._starts = now_s, 0
        if self._starts >= starts_max:
            self.excuse(now_s)
            return None
        self._starts += 1
        return self.next_ready(now_s)

    def excuse(self, now_s: float) -> None:
        """Have the wait for a thread count from now on."""
        for task in self._ready:
            task.ready_s = now_s

    def look_s(self, now_s: float, idle: int) -> float:
        """Return when (s from now) something is to be done, if no thread becomes free earlier."""
        ready_s = math.inf
        if self._ready:
            first_s = self._ready[0].ready_s
            ready_s = max(first_s, self._woken_s) + BRIEF_S if idle else first_s + PATIENCE_S
        self._drop_old()
        due_s = self._by_time[0][0] if self._by_time else math.inf
        return max(0.0, min(ready_s, due_s) - now_s)

    def _due(self, task: Task, at_s: float) -> None:
        task.due_s = at_s
        heapq.heappush(self._by_time, (at_s, next(self._numbers), task))

    def _move_due(self, now_s: float) -> None:
        while self._by_time and self._by_time[0][0] <= now_s:
            at_s, _, task = heapq.heappop(self._by_time)
            if not _is_old(task, at_s):
                task.is_ready, task.ready_s = True, now_s
                # One that is urgent gets the next thread; others wait in their order.
                (self._ready.appendleft if task.is_urgent else self._ready.append)(task)

    def _drop_old(self) -> None:
        while self._by_time and _is_old(self._by_time[0][2], self._by_time[0][0]):
            heapq.heappop(self._by_time)


def _is_old(task: Task, at_s: float) -> bool:
    """Return whether it has become due at another time since, or runs no more."""
    return task.is_over or task.is_ready or task.is_running or task.due_s != at_s
