"""Jobs that the service has begun: one at a time for a link, and the last ones that ended."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heliostat.names import LinkName
from heliostat.serve.under_way import UnderWay
from heliostat.serve.verify_job import JobOrder, JobState, VerifyJob
from heliostat.serve.watch import Watch

KEPT_MAX = 20
RUNNING_MAX = 2
"""Each has a JVM of its own."""
PROGRAM = (sys.executable, "-m", "heliostat.cli.entry")


class LinkIsBusy(Exception):
    """A job of that link runs."""

    def __init__(self, job: VerifyJob) -> None:
        super().__init__(job.id)
        self.job = job


class TooManyJobs(Exception):
    """As many run as may."""


class Jobs:
    """All that are known. Thread-safe.

    Parameters
    ----------
    watch
        Whose links they are about.
    config_file
        The configuration, which each reads anew.
    program
        How a verb is called.
    """

    def __init__(
        self,
        watch: Watch,
        config_file: Path = Path("heliostat.yaml"),
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self._watch = watch
        self._config_file = config_file
        self._program = program
        self._jobs: dict[str, VerifyJob] = {}
        self.under_way = UnderWay()
        """All that the service carries out, jobs among it."""
        self._lock = threading.Lock()

    def verify(self, link: LinkName, options: dict[str, Any], words: Sequence[str]) -> VerifyJob:
        """Begin to compare a link's two sides.

        Raises
        ------
        LinkIsBusy, TooManyJobs
            Such a job of this link runs; others do.
        """
        command = [
            *self._program,
            *("verify", "-c", str(self._config_file.absolute()), "--link", link),
            *("--json", "--progress", *words),
        ]
        with self._lock:
            running = [job for job in self._jobs.values() if not job.state.is_over]
            for job in running:
                if job.order.link == link:
                    raise LinkIsBusy(job)
            if len(running) >= RUNNING_MAX:
                raise TooManyJobs
            over = [key for key, job in self._jobs.items() if job.state.is_over]
            for key in over[: max(0, len(self._jobs) - KEPT_MAX + 1)]:
                del self._jobs[key]
            order = JobOrder(link, options, command)
            job = self.under_way.begin(
                lambda: VerifyJob(order, self._watch.clock.wall_ms, self._tell)
            )
            self._jobs[job.id] = job
        self._watch.follower(link).events.info(f"verify: begun by API as job {job.id}")
        return job

    def get(self, job_id: str) -> VerifyJob | None:
        """Return a job; None: there is none of that id, or it was long ago."""
        with self._lock:
            return self._jobs.get(job_id)

    def of(self, link: LinkName | None) -> list[VerifyJob]:
        """Return those of a link, or all, the newest first."""
        with self._lock:
            found = [job for job in self._jobs.values() if link in (None, job.order.link)]
        return found[::-1]

    def stop(self) -> None:
        """Cancel all that run."""
        for job in self.of(None):
            job.cancel()

    def _tell(self, job: VerifyJob) -> None:
        """Tell how a job has ended, among the events of its link."""
        events = self._watch.follower(job.order.link).events
        match job.state:
            case JobState.DONE if job.result is not None:
                tell = events.info if job.result.get("clean") else events.warn
                tell(f"verify: {job.result.get('summary', '')}")
            case JobState.FAILED if job.problem is not None:
                events.warn(f"verify: failed: {job.problem['detail']}")
            case _:
                events.info("verify: cancelled")
