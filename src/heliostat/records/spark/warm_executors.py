"""Executors that have loaded the copying code, before lanes go there.

A new executor starts a Python process, which loads our code, and on a new machine compiles it:
seconds in which a lane that has left its old place copies nothing. So that is done first, by a job
of its own. A process without a task then stays for the next one, for a minute.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heliostat.ops.spark_session import Executor

LOADS_WITHIN_S = 120.0
"""An executor whose job takes longer is used all the same."""
FRESH_S = 40.0
"""Spark ends an idle process after 60 s; a lane that moves begins within seconds."""


@dataclass(slots=True)
class _Job:
    begun_s: float
    ended_s: float | None = None


class WarmExecutors:
    """Which executors are warm. Thread-safe.

    Parameters
    ----------
    load
        Loads the code at an executor; may take long, and may raise.
    monotonic_s
        The time.
    """

    def __init__(
        self, load: Callable[[Executor], None], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._warm: set[str] = set()
        self._jobs: dict[str, _Job] = {}

    def of(self, executors: Sequence[Executor]) -> list[Executor]:
        """Return those that are warm, and warm the others up; all of them, if none is warm."""
        with self._lock:
            self._warm &= {each.number for each in executors}
            self._warm |= {each.number for each in executors if self._is_late(each)}
            if not self._warm:  # lanes wait for them: a job before would only add to that
                self._warm.update(each.number for each in executors)
            for each in executors:
                if each.number not in self._warm and each.number not in self._jobs:
                    self._begin(each)
            return [each for each in executors if each.number in self._warm]

    def has_process(self, executor: Executor) -> bool:
        """Whether a process with the code waits there for a lane; if none does, start one.

        It counts as taken then.
        """
        with self._lock:
            job = self._jobs.get(executor.number)
            if job is not None and job.ended_s is None:
                return self._is_late(executor)
            if job is None or self._monotonic_s() > (job.ended_s or 0.0) + FRESH_S:
                self._begin(executor)
                return False
            del self._jobs[executor.number]
            return True

    def _is_late(self, executor: Executor) -> bool:
        job = self._jobs.get(executor.number)
        return job is not None and self._monotonic_s() > job.begun_s + LOADS_WITHIN_S

    def _begin(self, executor: Executor) -> None:
        job = self._jobs[executor.number] = _Job(self._monotonic_s())
        name = f"code for executor {executor.number}"
        threading.Thread(target=self._run, args=(executor, job), name=name, daemon=True).start()

    def _run(self, executor: Executor, job: _Job) -> None:
        with contextlib.suppress(Exception):  # a round there will report it
            self._load(executor)
        with self._lock:
            job.ended_s = self._monotonic_s()
            self._warm.add(executor.number)
