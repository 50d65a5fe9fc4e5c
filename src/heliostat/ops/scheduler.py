"""Threads that a process shares out among tasks: as many as tasks run at once, not one for each.

    due_tasks   which tasks are to run now, and when a thread more is needed; pure
    here        the threads

A task that hangs keeps its thread, and the others get new ones: none waits longer than
`PATIENCE_S`, or a little longer while many begin to hang at once, an urgent one not at all. So
tasks of a sick cluster hold up others for seconds at most, and in the worst case there is a thread
for each task. A thread that has nothing to do ends after a while.

One thread decides and the others send it notes: a lock would be held by threads that wait for
processor time, as the interpreter gives it to one at a time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic

from heliostat.ops.due_tasks import PATIENCE_S, STARTS_MAX, DueTasks, Task

CROWDED = 100
"""The tasks of some ten links."""
STARVED_S = 0.1
"""A thread that has not begun so long after it was given a task lacks processor time."""
IDLE_ENDS_S = 10.0
"""A thread that had nothing to do for so long ends."""


class Scheduler:
    """Runs tasks when they are due; all its threads are daemons, and end with the last task.

    What a task raises ends it, and goes where exceptions of threads go.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        """Held while the thread that decides comes or goes."""
        self._decider: threading.Thread | None = None
        self._notes: SimpleQueue[Callable[[], None]] = SimpleQueue()
        """What that thread is to do first; all that follows is its own."""
        self._tasks = DueTasks()
        self._idle: list[_Worker] = []
        """The one that ran last is the first to run again, so that the others end."""
        self._threads = self._freed = 0
        self._given_s: dict[_Worker, float] = {}
        """When threads were given what they have not begun yet, in that order."""

    @property
    def is_crowded(self) -> bool:
        """Whether it has so many tasks that none should take a thread to wait for something."""
        return self._tasks.left > CROWDED

    @property
    def threads(self) -> int:
        """How many run tasks, or wait for some."""
        return self._threads

    def start(
        self, name: str, run: Callable[[], float | None], *, is_urgent: bool = False
    ) -> ScheduledTask:
        """Run a task at once, and from then on as it says, see `Task`."""
        scheduled = ScheduledTask(self)
        task = scheduled.task = Task(name, scheduled.running(run), is_urgent=is_urgent)
        with self._starting:
            self._notes.put(lambda: self._tasks.add(task, monotonic()))
            if self._decider is None:
                self._decider = threading.Thread(target=self._decide, name="tasks", daemon=True)
                self._decider.start()
        return scheduled

    def wake(self, task: Task) -> None:
        """Have a task run at once; again, if it runs now."""
        self._notes.put(lambda: self._tasks.wake(task, monotonic()))

    def end(self, task: Task) -> None:
        """Run a task no more; what runs now goes on."""
        self._notes.put(lambda: self._tasks.end(task))

    # -- for workers ---------------------------------------------------------------------------

    def begun(self, worker: _Worker) -> None:
        """Note that a thread runs what it was given."""
        self._notes.put(lambda: self._begun(worker))

    def ran(self, worker: _Worker, task: Task, pause_s: float | None) -> None:
        """Note that a task has run: its thread is idle."""
        self._notes.put(lambda: self._ran(worker, task, pause_s))

    def leave(self, worker: _Worker) -> None:
        """Give an idle thread nothing more, or what it has just been given."""
        self._notes.put(lambda: self._leave(worker))

    # -- on the thread that decides ------------------------------------------------------------

    def _decide(self) -> None:
        while True:  # ends when the last task is over and does not run
            self._take_notes(min(self._tasks.look_s(monotonic(), len(self._idle)), IDLE_ENDS_S))
            self._hand_out()
            with self._starting:
                is_at_rest = not self._tasks.left and len(self._idle) == self._threads
                if is_at_rest and self._notes.empty():
                    self._decider = None
                    break
        while self._idle:
            self._send_away(self._idle.pop())

    def _take_notes(self, within_s: float) -> None:
        """Wait for a note, and do what all say that there are."""
        try:
            self._notes.get(timeout=within_s)()
            while True:  # ends with the last note
                self._notes.get_nowait()()
        except Empty:
            pass

    def _hand_out(self) -> None:
        """Give what is due to idle threads, or to new ones."""
        now_s = monotonic()
        # In a process without processor time, threads that hang are not why tasks wait.
        starts_max = 1 if self._is_starved(now_s) else STARTS_MAX
        while self._idle and (task := self._next_for_idle(now_s)) is not None:
            self._give(self._idle.pop(), task, now_s)
        self._freed = 0
        while (
            task := self._tasks.next_for_new_thread(now_s, self._threads, starts_max)
        ) is not None:
            worker = _Worker(self)
            try:
                worker.start()
            except RuntimeError:  # the system gives us no more: the task waits for one of ours
                self._tasks.ran(task, PATIENCE_S, now_s)
                break
            self._threads += 1
            self._give(worker, task, now_s)

    def _next_for_idle(self, now_s: float) -> Task | None:
        busy = self._threads - len(self._idle)
        self._freed -= 1
        return self._tasks.next_for_idle_thread(now_s, busy, is_freed=self._freed >= 0)

    def _give(self, worker: _Worker, task: Task, now_s: float) -> None:
        self._given_s[worker] = now_s
        worker.given.put(task)

    def _is_starved(self, now_s: float) -> bool:
        """Return whether the process lacks processor time; more threads would have less of it."""
        return next(iter(self._given_s.values()), now_s) < now_s - STARVED_S

    def _begun(self, worker: _Worker) -> None:
        self._given_s.pop(worker, None)

    def _ran(self, worker: _Worker, task: Task, pause_s: float | None) -> None:
        self._tasks.ran(task, pause_s, monotonic())
        self._idle.append(worker)
        self._freed += 1

    def _leave(self, worker: _Worker) -> None:
        if worker in self._idle:
            self._idle.remove(worker)
            self._send_away(worker)

    def _send_away(self, worker: _Worker) -> None:
        self._threads -= 1
        worker.given.put(None)


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
        return not self.is_here and self.task.ended.wait(within_s)

    def join(self, within_s: float) -> bool:
        """Wait until it has ended by itself; return whether it has."""
        return self.task.ended.wait(within_s)

    @property
    def is_here(self) -> bool:
        """Whether the calling thread runs it now."""
        return self._thread is threading.current_thread()


class _Worker:
    """One of the threads.

    Parameters
    ----------
    scheduler
        Whose it is.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.given: SimpleQueue[Task | None] = SimpleQueue()
        """What it is to run next; None: it ends."""
        self._scheduler = scheduler

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="idle", daemon=True).start()

    def _run(self) -> None:
        thread = threading.current_thread()
        while (task := self._next()) is not None:
            self._scheduler.begun(self)
            thread.name = task.name
            pause_s = _result(task)
            thread.name = "idle"
            self._scheduler.ran(self, task, pause_s)

    def _next(self) -> Task | None:
        try:
            return self.given.get(timeout=IDLE_ENDS_S)
        except Empty:
            self._scheduler.leave(self)
            return self.given.get()


def _result(task: Task) -> float | None:
    """Run a task once; return its pause."""
    try:
        return task.run()
    except BaseException:  # noqa: BLE001  # a bug, told as that of any other thread
        raised = (*sys.exc_info(), threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(raised))
        return None
