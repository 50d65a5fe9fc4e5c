"""Messages about jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from heliostat.wishes.job import JobStanding, JobState

OFFSET_MAX = (1 << 63) - 1
Offset = Annotated[int | None, Field(ge=0, le=OFFSET_MAX)]


class VerifyOptions(BaseModel):
    """What is compared, as `heliostat verify` has it."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    topics: Annotated[
        list[
            Annotated[
                str, StringConstraints(min_length=1, max_length=249, pattern="^[a-zA-Z0-9._-]+$")
            ]
        ],
        Field(max_length=1000),
    ] = []
    """Only these source topics; none = all."""
    start: Annotated[Offset, Field(alias="from")] = None
    """First offset, in every partition."""
    until: Offset = None
    """End offset, not included."""
    complete: bool = False
    """Count records missing at the end of the target as lost."""
    decode_all: bool = False
    """Decode equal batches, too."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.until is not None and self.until < (self.start or 0):
            raise ValueError("until is before from")
        return self

    def words(self) -> list[str]:
        """Return them as words of a command line."""
        words = [f"--topic={topic}" for topic in self.topics]
        if self.start is not None:
            words.append(f"--from={self.start}")
        if self.until is not None:
            words.append(f"--until={self.until}")
        return [
            *words,
            *(["--complete"] if self.complete else []),
            *(["--decode-all"] if self.decode_all else []),
        ]


class JobProgress(BaseModel):
    """How far a comparison is."""

    phase: Literal["preparing", "comparing", "explaining"]
    topics: int
    topics_done: int
    partitions: int
    partitions_done: int
    offsets: int
    """Source offsets to be compared; some may have no record."""
    offsets_done: int
    records: int
    """Records compared so far."""
    partitions_different: int
    """So far; what differs may turn out to be compacted, and no difference."""
    partitions_unread: int
    verdict: Literal["open", "equal", "different"]
    """So far; `open`: nothing is compared yet."""


class JobProblem(BaseModel):
    """Why a job has failed."""

    code: str
    detail: str
    hint: str | None


class Job(BaseModel):
    """A job; it runs until `ended_ms` is known, or it was cut short."""

    id: str
    kind: Literal["verify"]
    link: str
    state: Literal["running", "cancelling", "done", "failed", "cancelled", "cut_short"]
    """`cut_short`: the service that carried it out has gone; it is not repeated."""
    options: dict[str, Any]
    by: str
    """Who began it."""
    host: str
    """Machine of the service that carries it out, or did."""
    is_here: bool
    """Whether that is this service: only it knows progress and report, and can cancel it."""
    text: str
    """What it came to, in a line; empty: nothing yet."""
    verdict: Literal["open", "equal", "different"]
    """So far, or of the result."""
    progress: JobProgress | None
    """Null: it is starting, or not here."""
    started_ms: int
    ended_ms: int | None
    result: dict[str, Any] | None
    """The report, as `heliostat verify --json`; its lists are cut, `left_out` says by how much."""
    problem: JobProblem | None


class JobPage(BaseModel):
    """Jobs, the newest first."""

    items: list[Job]
    error: str | None
    """Why jobs of other services are not known."""


def standing_json(link: str, standing: JobStanding) -> dict[str, Any]:
    """Return a job of another service as a `Job`."""
    job, end = standing.job, standing.end
    is_clean = None if end is None else end.is_clean
    text = "" if end is None else end.text
    has_failed = standing.state is JobState.FAILED
    return {
        "id": job.job_id,
        "kind": "verify",
        "link": link,
        "state": standing.state,
        "options": dict(job.options),
        "by": job.by,
        "host": job.host,
        "is_here": False,
        "text": text,
        "verdict": "open" if is_clean is None else "equal" if is_clean else "different",
        "progress": None,
        "started_ms": job.at_ms,
        "ended_ms": None if end is None else end.at_ms,
        "result": None,
        "problem": {"code": "job_failed", "detail": text, "hint": None} if has_failed else None,
    }
