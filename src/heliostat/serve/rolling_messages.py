"""Messages about a rolling switch: what is merged, the turn in place, what crosses, who writes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from heliostat.operate.rolling import RollingStage
from heliostat.serve.admin_verbs import TypedName
from heliostat.serve.cluster_messages import OfClusters
from heliostat.serve.long_verbs import Course
from heliostat.serve.owner_verbs import TOPICS_MAX, Topic
from heliostat.serve.switch_messages import OpenedRow, SwitchProblem

WITHIN_MAX_S = 3_600.0


class RollingTopicRow(BaseModel):
    """A topic of a link that merges."""

    topic: str
    stage: RollingStage
    """`mirror`: nothing of it is copied until it is merged in place."""
    partitions: int | None
    """Null: not known any more, of a topic that was given away."""


class RollingView(OfClusters):
    """How far a rolling switch is."""

    link: str
    merges: bool
    """Whether the link merges its topics (`topics.naming`); if not there is no rolling switch."""
    topics: list[RollingTopicRow]
    backs: list[str]
    """Links that bring records of these topics back."""


class TurnOrder(TypedName):
    """Which mirrors become merged topics."""

    topics: Annotated[list[Topic], Field(max_length=TOPICS_MAX, default_factory=list)]
    """Names at the source; none: all mirrors of the link."""


class TurnOutcome(BaseModel):
    """What was merged in place, or would be."""

    link: str
    is_tried: bool
    is_possible: bool
    """Whether each mirror can be merged; if one can't, none is."""
    topics: list[str]
    """Those that were mirrors until now."""
    partitions: int
    """Of these."""
    refused: dict[str, str]
    """Mirrors that can't be merged in place, and why; a dry run only."""
    opening: list[OpenedRow]
    """What was opened at the target for its producers, or would be: rights, the registry."""
    cuts: dict[str, dict[str, int]]
    """By topic and partition: below it all is the mirror's. The `topics.start` of the link back."""


class TurnCourse(Course):
    """A turn under way, or as it ended; `text` is a file for `topics.start` of the link back."""

    result: TurnOutcome | None


class CrossingOrder(BaseModel):
    """Which topics are waited for, and how long."""

    model_config = ConfigDict(extra="forbid")

    topics: Annotated[list[Topic], Field(min_length=1, max_length=TOPICS_MAX)]
    """Merged topics, by their names at the source."""
    within_s: Annotated[float, Field(ge=0, le=WITHIN_MAX_S)] = 300.0


class CrossingRow(BaseModel):
    """A partition, and the end that it had at the source when that was asked."""

    topic: str
    partition: int
    end: int
    stage: Literal["waits", "passed", "stopped"]
    position: int | None
    """All below it is at the target, as reported since (null: nothing was reported yet)."""
    passed_ms: int | None
    code: str
    text: str
    """Why it is stopped, or what it waits for."""


class CrossingOutcome(BaseModel):
    """What waiting came to."""

    link: str
    has_crossed: bool
    """Whether all has that the topics had: who stopped before may go on at the target."""
    asked_ms: int
    took_s: float
    topics: dict[str, bool]
    partitions: list[CrossingRow]
    problems: list[SwitchProblem]
    """Why it was not waited any longer."""


class CrossingCourse(Course):
    """Waiting that is under way, or as it ended."""

    result: CrossingOutcome | None


class WritingRow(BaseModel):
    """What a producer has written last into one partition."""

    topic: str
    partition: int
    last_ms: int
    """Timestamp of its last batch; -1: the leader knows none."""
    open_from: int | None
    """Where its open transaction begins (null: none is open)."""


class SourceWriterRow(BaseModel):
    """A producer that is no link's."""

    producer_id: int
    transactional_id: str
    """Empty: it has none, or no broker names it."""
    last_ms: int
    partitions: list[WritingRow]


class WritersView(OfClusters):
    """Who has written merged topics at the source lately; who has no producer id never is here."""

    link: str
    writers: list[SourceWriterRow]
    """Who wrote last comes first."""
    refused: list[str]
    """A line for each thing that is not known: somebody may be missing, or not be named."""
