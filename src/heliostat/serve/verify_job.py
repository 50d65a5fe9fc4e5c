"""A `heliostat verify` in a process of its own: how far it is, how it ended, and its end.

The service itself never compares: that needs Spark. The process reads standard input until its end
and then ends, so that it outlives neither its job nor the service, however that ends.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heliostat.names import LinkName
from heliostat.wishes.job import Job, JobEnd, JobState

KILLED_AFTER_S = 15.0
LAST_LINES = 5
"""Of standard error, kept to tell why it failed."""
TEXT_MAX = 500
USAGE = 2


@dataclass(frozen=True, slots=True)
class JobOrder:
    """What is to be done."""

    link: LinkName
    job: Job
    command: Sequence[str]


class VerifyJob:
    """One such process. Thread-safe.

    Parameters
    ----------
    order
        What it does.
    wall_ms
        Wall clock.
    ended
        Called once when it is over.
    """

    def __init__(
        self, order: JobOrder, wall_ms: Callable[[], int], ended: Callable[[VerifyJob], None]
    ) -> None:
        self.order = order
        self._wall_ms = wall_ms
        self._ended = ended
        self._lock = threading.Lock()
        self._cancelled_by = ""
        self._over = threading.Event()
        self.state = JobState.RUNNING
        self.started_ms = wall_ms()
        self.ended_ms: int | None = None
        self._progress: dict[str, Any] | None = None
        self.result: dict[str, Any] | None = None
        self.problem: dict[str, Any] | None = None
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._process = subprocess.Popen(
            order.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._errors = threading.Thread(target=self._read_errors, name="job errors", daemon=True)
        self._errors.start()
        threading.Thread(target=self._read, name=f"job {self.id}", daemon=True).start()

    @property
    def id(self) -> str:
        """Its id."""
        return self.order.job.job_id

    @property
    def is_over(self) -> bool:
        """Whether its process has ended."""
        return self.state.is_over

    def wait(self, within_s: float) -> bool:
        """Wait for its end; return whether it is over."""
        return self._over.wait(within_s)

    def cancel(self, by: str) -> None:
        """End it, if it has not ended; returns at once."""
        with self._lock:
            if self.state is not JobState.RUNNING:
                return
            self.state, self._cancelled_by = JobState.CANCELLING, by
        assert self._process.stdin is not None
        self._process.stdin.close()
        late = threading.Timer(KILLED_AFTER_S, self._process.kill)
        late.daemon = True
        late.start()

    def end(self) -> JobEnd:
        """Return what became of it; it is over."""
        text, is_clean = f"by {self._cancelled_by}", None
        if self.result is not None:
            text, is_clean = str(self.result.get("summary", "")), bool(self.result.get("clean"))
        elif self.problem is not None:
            text = str(self.problem["detail"])
        return JobEnd(self.state, text, self.ended_ms or self._wall_ms(), is_clean)

    def to_json(self) -> dict[str, Any]:
        """Return what is known of it."""
        end = self.end() if self.is_over else None
        with self._lock:
            return {
                "id": self.id,
                "kind": "verify",
                "link": self.order.link,
                "state": self.state,
                "options": dict(self.order.job.options),
                "by": self.order.job.by,
                "host": self.order.job.host,
                "is_here": True,
                "text": "" if end is None else end.text,
                "verdict": self._verdict(),
                "progress": self._progress,
                "started_ms": self.started_ms,
                "ended_ms": self.ended_ms,
                "result": self.result,
                "problem": self.problem,
            }

    def _verdict(self) -> str:
        if self.result is not None:
            return "equal" if self.result.get("clean") else "different"
        return "open" if self._progress is None else str(self._progress.get("verdict", "open"))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(line)
        code = self._process.wait()
        self._errors.join()
        with self._lock:
            self._end(code)
        self._ended(self)
        self._over.set()

    def _take(self, line: str) -> None:
        """Take a line; Spark's own, which are no objects of ours, tell nothing here."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        with self._lock:
            self._progress = message.get("progress", self._progress)
            self.result = message.get("result", self.result)
            self.problem = message.get("problem", self.problem)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.strip():
                self._last_lines.append(line.strip()[:TEXT_MAX])

    def _end(self, code: int) -> None:
        self.ended_ms = self._wall_ms()
        if self.result is not None:
            self.state, self.problem = JobState.DONE, None
        elif self.state is JobState.CANCELLING:
            self.state, self.problem = JobState.CANCELLED, None
        else:
            self.state = JobState.FAILED
            if self.problem is None:
                last = self._last_lines[-1] if self._last_lines else f"it ended with {code}"
                usual = "invalid" if code == USAGE else "job_failed"
                self.problem = {"code": usual, "detail": last, "hint": None}
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
