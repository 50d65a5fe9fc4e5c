"""Jobs that services have begun: one at a time for a link, and the last ones that ended.

Each is noted at its link's target before it begins and when it ends: every service shows it, and
one whose service is gone is told as cut short.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from heliostat.config import LinkConfig
from heliostat.errors import HeliostatError
from heliostat.names import LinkName
from heliostat.ops.asked import each_answer
from heliostat.serve.job_notes import BEAT_S, QUIET_S, Notes, require_same
from heliostat.serve.under_way import UnderWay
from heliostat.serve.verify_job import JobOrder, VerifyJob
from heliostat.serve.watch import Watch
from heliostat.wishes.job import KEPT_MAX, Job, JobEnd, JobStanding, JobState, job_id

RUNNING_MAX = 2
"""Each has a JVM of its own."""
PROGRAM = (sys.executable, "-m", "heliostat.cli.entry")
AGAIN_S = 5.0
"""Between two tries to note an end."""
NOTED_WITHIN_S = 2.0
"""What is cut short is noted, while the service ends."""
LINKS_AT_ONCE = 4
LOST = "the service that carried it out has ended; it is not repeated, begin another one"


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
    notes
        Where they are noted; None: nowhere.
    """

    def __init__(
        self,
        watch: Watch,
        config_file: Path = Path("heliostat.yaml"),
        program: Sequence[str] = PROGRAM,
        notes: Notes | None = None,
    ) -> None:
        self._watch = watch
        self._config_file = config_file
        self._program = program
        self._notes = notes
        self._jobs: dict[str, VerifyJob] = {}
        self.under_way = UnderWay()
        """All that the service carries out, jobs among it."""
        self._lock = threading.Lock()
        self._beginning = threading.Lock()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Look for jobs that were cut short; returns at once."""
        threading.Thread(target=self._settle, name="jobs", daemon=True).start()

    def verify(
        self, link: LinkName, options: dict[str, Any], words: Sequence[str], *, by: str, key: str
    ) -> VerifyJob | JobStanding:
        """Begin to compare a link's two sides; return it, or the one begun under the same key.

        Raises
        ------
        LinkIsBusy, TooManyJobs
            Such a job of this link runs; others do.
        KeyUsed
            Something else was begun under this key.
        ConnectionLost, BrokerError
            It can't be noted at the target, and is not begun.
        """
        of_id = job_id(f"{link}\n{key}" if key else "")
        service = "" if self._notes is None else self._notes.service
        job = Job(of_id, options, by, self._watch.clock.wall_ms(), socket.gethostname(), service)
        command = [
            *self._program,
            *("verify", "-c", str(self._config_file.absolute()), "--link", link),
            *("--json", "--progress", *words),
        ]
        with self._beginning:
            own = self.get(of_id)
            if own is not None:
                require_same(own.order.job, job)
                return own
            self._require_place(link)
            config = self._watch.config.link(link)
            if self._notes is not None:
                before = self._notes.begin(config, job)
                if before is not None:
                    return before
            return self._begin(config, JobOrder(link, job, command))

    def _require_place(self, link: LinkName) -> None:
        with self._lock:
            running = [job for job in self._jobs.values() if not job.is_over]
            for job in running:
                if job.order.link == link:
                    raise LinkIsBusy(job)
            if len(running) >= RUNNING_MAX:
                raise TooManyJobs
            over = [key for key, job in self._jobs.items() if job.is_over]
            for key in over[: max(0, len(self._jobs) - KEPT_MAX + 1)]:
                del self._jobs[key]

    def _begin(self, link: LinkConfig, order: JobOrder) -> VerifyJob:
        """Begin what was noted."""
        wall_ms = self._watch.clock.wall_ms
        self._watch.follower(order.link).events.info(order.job.begun_text)
        try:
            job = self.under_way.begin(lambda: VerifyJob(order, wall_ms, self._tell))
        except Exception:
            end = JobEnd(JobState.CUT_SHORT, "it could not be begun", wall_ms())
            self._note_end(link, order.job.job_id, end)
            raise
        with self._lock:
            self._jobs[job.id] = job
        threading.Thread(
            target=self._keep_noted, args=(link, job), name=f"job {job.id} notes", daemon=True
        ).start()
        return job

    def get(self, of_id: str) -> VerifyJob | None:
        """Return a job of this service; None: there is none of that id, or it was long ago."""
        with self._lock:
            return self._jobs.get(of_id)

    def of(self, link: LinkName | None) -> list[VerifyJob]:
        """Return those of this service, of a link or all, the newest first."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if link in (None, job.order.link)]
        return jobs[::-1]

    def noted(self, link: LinkName) -> list[JobStanding]:
        """Return those that other services have noted of a link, the newest first.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer, or refuses.
        """
        if self._notes is None:
            return []
        standings = self._notes.of(self._watch.config.link(link))
        return [standing for standing in standings[::-1] if self.get(standing.job.job_id) is None]

    def find_noted(self, of_id: str) -> tuple[LinkName, JobStanding] | None:
        """Return a job of another service, and its link; None: no target that answers has it."""
        names = self._watch.names
        asks = {name: lambda name=name: self.noted(name) for name in names}
        for name, answer in each_answer(asks, LINKS_AT_ONCE).items():
            for standing in () if isinstance(answer, BaseException) else answer:
                if standing.job.job_id == of_id:
                    return name, standing
        return None

    def stop(self) -> None:
        """Cut short all that run, and note so as long as there is time."""
        self._stopping.set()
        threads: list[threading.Thread] = []
        for job in self.of(None):
            if not job.is_over:
                threads.append(threading.Thread(target=self._cut_short, args=(job,), daemon=True))
                threads[-1].start()
                job.cancel("the end of its service")
        for thread in threads:
            thread.join(NOTED_WITHIN_S)

    def _cut_short(self, job: VerifyJob) -> None:
        link = self._watch.config.link(job.order.link)
        self._note_end(link, job.id, JobEnd(JobState.CUT_SHORT, LOST, self._watch.clock.wall_ms()))

    def _tell(self, job: VerifyJob) -> None:
        """Tell how a job has ended, among the events of its link."""
        if not self._stopping.is_set():
            events, end = self._watch.follower(job.order.link).events, job.end()
            (events.info if end.is_good else events.warn)(end.told(job.id))

    def _keep_noted(self, link: LinkConfig, job: VerifyJob) -> None:
        """Say at the target that a job is under way, then how it ended."""
        beats = 0
        while not job.wait(BEAT_S):
            beats += 1
            if self._notes is not None:
                with suppress(HeliostatError):  # the next one tells the same
                    self._notes.beat(link, job.id, beats)
        while not self._stopping.is_set() and not self._note_end(link, job.id, job.end()):
            self._stopping.wait(AGAIN_S)

    def _note_end(self, link: LinkConfig, of_id: str, end: JobEnd) -> bool:
        """Note an end; return whether it is."""
        try:
            if self._notes is not None:
                self._notes.end(link, of_id, end)
        except HeliostatError:
            return False
        return True

    def _settle(self) -> None:
        """Note what was cut short before this service began; until nothing is left to be seen."""
        left = set(self._watch.names)
        while left and self._notes is not None:
            left = {name for name in left if self._is_open(name)}
            if not left or self._stopping.wait(QUIET_S):
                return

    def _is_open(self, name: LinkName) -> bool:
        """Note lost jobs of a link as cut short; return whether others seem to be under way."""
        try:
            link, standings = self._watch.config.link(name), self.noted(name)
        except KeyError:
            return False  # the link has gone
        except HeliostatError:
            return True
        for standing in standings:
            if standing.is_lost:
                end = JobEnd(JobState.CUT_SHORT, LOST, self._watch.clock.wall_ms())
                self._note_end(link, standing.job.job_id, end)
                self._watch.follower(name).events.warn(end.told(standing.job.job_id))
        return any(standing.state is JobState.RUNNING for standing in standings)
