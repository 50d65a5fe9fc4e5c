"""Threads that a process shares out among tasks: as many as tasks run at once, not one for each.

    due_tasks   which tasks are to run now, and when a thread more is needed; pure
    here        the threads

A task that hangs keeps its thread, and the others get new ones: none waits longer than
`PATIENCE_S`, an urgent one not at all. So tasks of a sick cluster hold up no others, and in the
worst case there is a thread for each task. A thread that has nothing to do ends after a while.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic

from heliostat.ops.due_tasks import PATIENCE_S, DueTasks, Task

CROWDED = 100
"""The tasks of some ten links."""
LATE_S = 0.1
LATE_LOOKS_MAX = 4
"""So many looks in a row that come late conclude nothing from it."""
IDLE_ENDS_S = 10.0
"""A thread that had nothing to do for so long ends."""


class Scheduler:
    """Runs tasks when they are due; all its threads are daemons, and end with the last task.

    What a task raises ends it, and goes where exceptions of threads go.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards all that follows."""
        self._earlier = threading.Condition(self._lock)
        """Signals that something is due before the thread that keeps the time looks."""
        self._ended = threading.Condition(self._lock)
        """Signals that the last run of a task has ended."""
        self._tasks = DueTasks()
        self._idle: list[_Worker] = []
        """The one that ran last is the first to run again, so that the others end."""
        self._threads = 0
        self._keeper: threading.Thread | None = None
        self._looks_at_s = 0.0

    @property
    def is_crowded(self) -> bool:
        """Whether it has so many tasks that none should take a thread to wait for something."""
        return self._tasks.left > CROWDED

    @property
    def threads(self) -> int:
        """How many run tasks, or wait for some."""
        with self._lock:
            return self._threads

    def start(
        self, name: str, run: Callable[[], float | None], *, is_urgent: bool = False
    ) -> ScheduledTask:
        """Run a task at once, and from then on as it says, see `Task`."""
        scheduled = ScheduledTask(self)
        task = scheduled.task = Task(name, scheduled.running(run), is_urgent=is_urgent)
        with self._lock:
            self._tasks.add(task, monotonic())
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep_time, name="time", daemon=True)
                self._keeper.start()
            self._hand_out()
        return scheduled

    def wake(self, task: Task) -> None:
        """Have a task run at once; again, if it runs now."""
        with self._lock:
            self._tasks.wake(task, monotonic())
            self._hand_out()

    def end(self, task: Task) -> None:
        """Run a task no more; what runs now goes on."""
        with self._lock:
            self._tasks.end(task)
            self._ended.notify_all()
            self._earlier.notify()  # with the last task the threads end

    def await_end(self, task: Task, within_s: float) -> bool:
        """Wait until a task will run no more, and does not run; return whether it is so."""
        with self._lock:
            return self._ended.wait_for(lambda: task.is_over and not task.is_running, within_s)

    def _hand_out(self, patience_s: float = math.inf) -> None:
        """Give what is due to idle threads, or to new ones; call it under the lock.

        Only the thread that keeps the time starts more for what has waited: it knows why.
        """
        now_s = monotonic()
        while self._idle and (task := self._tasks.next_ready(now_s)) is not None:
            self._idle.pop().given.put(task)
        while (
            task := self._tasks.next_for_new_thread(now_s, self._threads, patience_s)
        ) is not None:
            try:
                _Worker(self, task).start()
            except RuntimeError:  # the system gives us no more: the task waits for one of ours
                self._tasks.ran(task, PATIENCE_S, now_s)
                break
            self._threads += 1
        if self._tasks.look_s(now_s) + now_s < self._looks_at_s:
            self._earlier.notify()

    def _keep_time(self) -> None:
        late_looks = 0
        with self._lock:
            while self._tasks.left:
                is_late = monotonic() > self._looks_at_s + LATE_S and self._looks_at_s > 0.0
                late_looks = late_looks + 1 if is_late else 0
                if 0 < late_looks <= LATE_LOOKS_MAX:
                    self._tasks.excuse(monotonic())
                self._looks_at_s = 0.0
                self._hand_out(PATIENCE_S)
                now_s = monotonic()
                wait_s = min(self._tasks.look_s(now_s), IDLE_ENDS_S)
                self._looks_at_s = now_s + wait_s
                self._earlier.wait(wait_s)
            self._keeper = None
            self._threads -= len(self._idle)
            for worker in self._idle:
                worker.given.put(None)
            self._idle.clear()

    # -- for workers ---------------------------------------------------------------------------

    def after(self, worker: _Worker, task: Task, pause_s: float | None) -> Task | None:
        """Note that a task has run; return the next one; None: the thread is idle."""
        with self._lock:
            self._tasks.ran(task, pause_s, monotonic())
            if task.is_over:
                self._ended.notify_all()
            following = self._tasks.next_ready(monotonic())
            if following is None:
                self._idle.append(worker)
            self._hand_out()
            return following

    def leave(self, worker: _Worker) -> bool:
        """Let an idle thread end; False: it has just been given something."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            self._threads -= 1
            return True


class ScheduledTask:
    """A task that a scheduler runs.

    Parameters
    ----------
    scheduler
        The one that runs it.
    """

    task: Task

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._thread: threading.Thread | None = None
        """Where it runs now, or ran last."""

    def running(self, run: Callable[[], float | None]) -> Callable[[], float | None]:
        """Return a task's run that notes its thread."""

        def noted() -> float | None:
            self._thread = threading.current_thread()
            try:
                return run()
            finally:
                self._thread = None

        return noted

    def wake(self) -> None:
        """Have it run at once; again, if it runs now."""
        self._scheduler.wake(self.task)

    def end(self, within_s: float) -> bool:
        """Run it no more and wait for its end, unless it asks for that itself.

        Returns
        -------
        Whether it has ended.
        """
        self._scheduler.end(self.task)
        return not self.is_here and self._scheduler.await_end(self.task, within_s)

    def join(self, within_s: float) -> bool:
        """Wait until it has ended by itself; return whether it has."""
        return self._scheduler.await_end(self.task, within_s)

    @property
    def is_here(self) -> bool:
        """Whether the calling thread runs it now."""
        return self._thread is threading.current_thread()


class _Worker:
    """One of the threads.

    Parameters
    ----------
    scheduler, task
        Whose it is, and what it runs first.
    """

    def __init__(self, scheduler: Scheduler, task: Task) -> None:
        self.given: SimpleQueue[Task | None] = SimpleQueue()
        """What it is to run next; None: it ends."""
        self.given.put(task)
        self._scheduler = scheduler

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="idle", daemon=True).start()

    def _run(self) -> None:
        thread = threading.current_thread()
        while True:  # ends once it was idle for a while, or nothing is left that could be run
            try:
                task = self.given.get(timeout=IDLE_ENDS_S)
            except Empty:
                if self._scheduler.leave(self):
                    return
                task = self.given.get()
            if task is None:
                return
            while task is not None:
                thread.name = task.name
                task = self._scheduler.after(self, task, _result(task))
            thread.name = "idle"


def _result(task: Task) -> float | None:
    """Run a task once; return its pause."""
    try:
        return task.run()
    except BaseException:  # noqa: BLE001  # a bug, told as that of any other thread
        raised = (*sys.exc_info(), threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(raised))
        return None
