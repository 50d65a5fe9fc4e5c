"""Jobs of a link, as they are kept on its target: what a service carries out beside it; pure.

    job/ID         what is done, by whom and where; written before it begins
    job/ID/beats   a number that the service raises as long as it is under way
    job/ID/ended   what became of it

Only the service whose row was the first under an id carries that job out, and only once: a job
that was cut short is not repeated. One without an end, whose number no longer grows, has lost its
service.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from heliostat.wishes.wish import NAME_CHARS_MAX

JOB_PREFIX = "job"
KEPT_MAX = 20
"""Jobs of a link that are over and still kept."""
TEXT_CHARS_MAX = 1_000
_ID_CHARS = 16
_ID = re.compile(f"[0-9a-f]{{{_ID_CHARS}}}")
_BEATS, _ENDED = "beats", "ended"


class JobState(StrEnum):
    """What becomes of a job."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CUT_SHORT = "cut_short"
    """The service that carried it out has ended before it: it is not repeated."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is under way."""
        return self not in (JobState.RUNNING, JobState.CANCELLING)


def job_id(key: str = "") -> str:
    """Return an id: a new one, or the same one each time for a key."""
    if key:
        return hashlib.sha256(key.encode()).hexdigest()[:_ID_CHARS]
    return secrets.token_hex(_ID_CHARS // 2)


@dataclass(frozen=True, slots=True)
class Job:
    """A comparison of a link's two sides.

    Parameters
    ----------
    options
        As they were given.
    by
        Who began it.
    at_ms
        When, by the clock of the service.
    host, service
        Machine and service that carry it out; each start of a service has another name.
    """

    job_id: str
    options: Mapping[str, Any]
    by: str
    at_ms: int
    host: str
    service: str

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return f"{JOB_PREFIX}/{self.job_id}"

    @property
    def begun_text(self) -> str:
        """What is told when it begins, by its service as by the link's driver."""
        return f"verify: begun by {self.by} as job {self.job_id}"

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {
            "kind": "verify",
            "options": dict(self.options),
            "by": self.by,
            "at_ms": self.at_ms,
            "host": self.host,
            "service": self.service,
        }

    @classmethod
    def from_json(cls, of_id: str, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        by, host, service = (str(value[name]) for name in ("by", "host", "service"))
        options, at_ms = dict(value["options"]), int(value["at_ms"])
        return cls(of_id, options, by[:NAME_CHARS_MAX], at_ms, host[:NAME_CHARS_MAX], service)


@dataclass(frozen=True, slots=True)
class JobEnd:
    """What became of a job.

    Parameters
    ----------
    text
        The result in a line, why it failed, or who cancelled it.
    is_clean
        Whether both sides are equal; None: that is not known.
    """

    state: JobState
    text: str
    at_ms: int
    is_clean: bool | None = None

    def told(self, of_id: str) -> str:
        """Return what is told of it, by its service as by the link's driver."""
        match self.state:
            case JobState.DONE:
                return f"verify: {self.text}"
            case JobState.FAILED:
                return f"verify: failed: {self.text}"
            case JobState.CANCELLED:
                return f"verify: job {of_id} is cancelled: {self.text}"
            case _:
                return f"verify: job {of_id} was cut short: {self.text}"

    @property
    def is_good(self) -> bool:
        """Whether nobody need look at it."""
        return self.state is JobState.CANCELLED or self.is_clean is True

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {
            "state": self.state.value,
            "text": self.text[:TEXT_CHARS_MAX],
            "at_ms": self.at_ms,
            "is_clean": self.is_clean,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        state, is_clean = JobState(value["state"]), value.get("is_clean")
        if not state.is_over:
            raise ValueError(f"{state} is no end")
        text, at_ms = str(value["text"])[:TEXT_CHARS_MAX], int(value["at_ms"])
        return cls(state, text, at_ms, None if is_clean is None else bool(is_clean))


@dataclass(frozen=True, slots=True)
class JobStanding:
    """A job, and how far it came."""

    job: Job
    end: JobEnd | None = None
    beats: int = 0
    """How often its service has said that it is under way."""
    is_lost: bool = False
    """Whether its service has gone without a word of its end."""

    @property
    def state(self) -> JobState:
        """How far it came."""
        if self.end is not None:
            return self.end.state
        return JobState.CUT_SHORT if self.is_lost else JobState.RUNNING


class JobRows:
    """All jobs of a link, in the order in which they were begun."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._beats: dict[str, int] = {}
        self._ends: dict[str, JobEnd] = {}

    def take(self, key: str, value: Mapping[str, Any] | None) -> None:
        """Take a row; raises `LookupError`, `TypeError` or `ValueError` if it is none.

        The first row of a job counts, as two may begin it under one key, and the last of its ends:
        a service that only seemed to have gone may end it after all.
        """
        of_id, kind = _parts(key)
        of_kind: dict[str, dict[str, Any]] = {
            "": self._jobs,
            _BEATS: self._beats,
            _ENDED: self._ends,
        }
        if value is None:
            of_kind[kind].pop(of_id, None)
        elif kind == _BEATS:
            self._beats[of_id] = int(value["beats"])
        elif kind == _ENDED:
            self._ends[of_id] = JobEnd.from_json(value)
        else:
            self._jobs.setdefault(of_id, Job.from_json(of_id, value))

    def standing(self, of_id: str) -> JobStanding | None:
        """Return how far a job came; None: there is none of that id."""
        job = self._jobs.get(of_id)
        if job is None:
            return None
        return JobStanding(job, self._ends.get(of_id), self._beats.get(of_id, 0))

    def standings(self) -> list[JobStanding]:
        """Return all jobs, the earliest first."""
        standings = (self.standing(of_id) for of_id in self._jobs)
        return [standing for standing in standings if standing is not None]

    def outdated(self) -> list[str]:
        """Return the keys of rows that need not be kept."""
        over = [of_id for of_id in self._jobs if of_id in self._ends]
        return [
            key
            for of_id in over[: max(0, len(over) - KEPT_MAX + 1)]
            for key in (f"{JOB_PREFIX}/{of_id}", beats_key(of_id), ended_key(of_id))
        ]


def told_between(before: list[JobStanding], now: list[JobStanding]) -> Iterator[tuple[str, bool]]:
    """Yield what is told of jobs that began or ended, and whether all is well with it."""
    by_id = {earlier.job.job_id: earlier for earlier in before}
    for standing in now:
        was = by_id.get(standing.job.job_id)
        if was is None:
            yield standing.job.begun_text, True
        if standing.end is not None and (was is None or was.end != standing.end):
            yield standing.end.told(standing.job.job_id), standing.end.is_good


def beats_key(of_id: str) -> str:
    """Return the key of the number that says that a job is under way."""
    return f"{JOB_PREFIX}/{of_id}/{_BEATS}"


def ended_key(of_id: str) -> str:
    """Return the key under which it is noted what became of a job."""
    return f"{JOB_PREFIX}/{of_id}/{_ENDED}"


def is_job_key(key: str) -> bool:
    """Return whether a row is about a job."""
    return key.split("/", 1)[0] == JOB_PREFIX


def _parts(key: str) -> tuple[str, str]:
    match key.split("/"):
        case [prefix, of_id] if prefix == JOB_PREFIX and _ID.fullmatch(of_id):
            return of_id, ""
        case [prefix, of_id, kind] if (
            prefix == JOB_PREFIX and _ID.fullmatch(of_id) and kind in {_BEATS, _ENDED}
        ):
            return of_id, kind
    raise ValueError(f"{key!r} is no job's key")
