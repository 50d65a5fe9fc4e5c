"""Messages about jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

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
    """A job; it runs until `ended_ms` is known."""

    id: str
    kind: Literal["verify"]
    link: str
    state: Literal["running", "cancelling", "done", "failed", "cancelled"]
    options: dict[str, Any]
    verdict: Literal["open", "equal", "different"]
    """So far, or of the result."""
    progress: JobProgress | None
    """Null: it is starting."""
    started_ms: int
    ended_ms: int | None
    result: dict[str, Any] | None
    """The report, as `heliostat verify --json`; its lists are cut, `left_out` says by how much."""
    problem: JobProblem | None


class JobPage(BaseModel):
    """Jobs since the service was started, the newest first."""

    items: list[Job]
