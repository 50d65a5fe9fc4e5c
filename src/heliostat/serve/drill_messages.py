"""Messages about a drill."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from heliostat.handover.drill import DrillWish
from heliostat.serve.admin_verbs import TypedName

_DEFAULT = DrillWish()


class DrillOrder(TypedName):
    """What is to be rehearsed, as `heliostat drill` has it."""

    partitions: Annotated[int, Field(ge=1, le=10_000)] = _DEFAULT.partitions
    """Of all made-up topics together."""
    records_a_second: Annotated[int, Field(ge=1, le=10_000)] = _DEFAULT.records_a_second
    """What producers write."""
    failover: bool = False
    """Rehearse a failover, too."""
    still_s: Annotated[float, Field(ge=0, le=3_600)] = _DEFAULT.still_s
    """How long the source's ends must stand still."""
    clean: bool = False
    """Only remove what drills have left that crashed."""

    def wish(self, by: str) -> DrillWish:
        """Return what the verb is asked."""
        return DrillWish(self.partitions, self.records_a_second, self.failover, self.still_s, by=by)


class LinkSize(BaseModel):
    """How large the real link is."""

    partitions: int
    topics: int
    groups: int
    missing: int
    """Records that are missing at its target now."""


class RightMissing(BaseModel):
    """A right that the link's principal has not."""

    cluster: str
    right: str
    left_out: Literal["all", "groups", "rules", "way_back", "nothing"]
    """What can't be rehearsed without it."""


class PlannedDrill(BaseModel):
    """What a drill would do; nothing was changed."""

    link: str
    options: dict[str, Any]
    size: LinkSize
    missing_rights: list[RightMissing]
    notes: list[str]
    """What is not rehearsed, whatever rights there are."""
    topics: dict[str, int]
    """Names that it might take, with how many partitions."""
    groups: list[str]
    steps: list[str]
    left_behind: list[str]
    """Drills that have crashed, and would be cleaned first."""
    is_possible: bool


class CheckedFigure(BaseModel):
    """A figure that was counted, and what it must be."""

    what: str
    wanted: int
    is_bound: bool
    """Whether less is as well."""
    actual: int
    is_met: bool


class RehearsedStep(BaseModel):
    """A step of a drill."""

    name: str
    state: Literal["done", "failed", "left_out"]
    took_s: float
    text: str
    checks: list[CheckedFigure]
    facts: dict[str, Any]
    pause_s: float | None
    """How long producers wrote nowhere."""


class ScaledTime(BaseModel):
    """What a step would take with the real link's size."""

    name: str
    took_s: float
    least_s: float
    most_s: float
    how: str


class ScaledTimes(BaseModel):
    """What a real switch would take."""

    least_s: float
    most_s: float
    pause_least_s: float
    pause_most_s: float
    steps: list[ScaledTime]


class RehearsalReport(BaseModel):
    """A drill, as it ended."""

    id: str
    link: str
    by: str
    began_ms: int
    options: dict[str, Any]
    verdict: Literal["ready", "in_part", "not_ready"]
    verdict_text: str
    size: LinkSize
    missing_rights: list[RightMissing]
    notes: list[str]
    steps: list[RehearsedStep]
    scaled: ScaledTimes
    left: str
    """What could not be removed; empty: nothing is left."""
    cleaned: list[str]
    """Drills that had crashed, and were cleaned before."""


class DrillView(BaseModel):
    """A drill that this service carries out, or has."""

    link: str
    by: str
    is_over: bool
    steps: list[RehearsedStep]
    """Those that have ended."""
    report: RehearsalReport | None
    """Once it is over; null: it only cleaned, or was refused."""
    cleaned: list[str]
    error: str
    """Why it was refused; empty: it was not."""
