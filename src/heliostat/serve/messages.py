"""The answers of the reading API, as its OpenAPI document describes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from heliostat.handover.fence_forecast import FenceForecast
from heliostat.handover.held_back import HeldBack
from heliostat.handover.unfenced import Unfenced
from heliostat.records.copier.lane import LineUse
from heliostat.status.event_log import EventRow
from heliostat.status.loss import Loss, Rereads
from heliostat.status.values import PartitionProblem, PartitionStatus, TopicStatus


class Health(BaseModel):
    """That the service answers."""

    status: str


class Readiness(BaseModel):
    """Whether the state of each link is known."""

    status: str
    waiting: dict[str, str]
    """Links of which it is not known, and why."""


class Version(BaseModel):
    """Which version answers."""

    version: str
    python: str


class BeatingFlow(BaseModel):
    """A flow between two clusters that heartbeats at the link's target tell of."""

    source: str
    target: str
    age_s: float
    """Of its newest heartbeat."""


class StandingWish(BaseModel):
    """What an operator wishes, who it is, when and why."""

    state: Literal["running", "paused", "stopped"]
    by: str
    at_ms: int
    why: str


class PausedPlace(StandingWish):
    """The same of a topic or partition."""

    place: str


class LinkRestarts(BaseModel):
    """How a link goes that has halted once, as docs/stops.md says."""

    phase: Literal["runs", "waits", "refused", "gave_up"]
    count: int
    """Restarts since the last quiet time."""
    limit: int
    """After so many it gives up."""
    total: int
    code: str
    """Why it halted last."""
    reason: str
    halted_ms: int
    next_ms: int | None
    """When it begins again."""
    host: str
    text: str
    """How it goes on, while it is halted."""


class LevelWish(BaseModel):
    """Who wishes a limit or priority, when and why."""

    by: str
    at_ms: int
    why: str


class LinkLimit(LevelWish):
    """A limit of the link (`topic` is null) or of a topic, in bytes a second."""

    topic: str | None
    bytes_per_second: int
    used_bytes_per_second: int
    throttled_s: float
    """For how long lanes have held fetches back since the driver began, of all lanes together."""


class TopicPreference(LevelWish):
    """The priority of a topic, or of those that match."""

    topics: str
    priority: Literal["high", "normal", "low"]


class LinkFigures(BaseModel):
    """What all answers about a link have; lags that are null are not known."""

    name: str
    source: str
    target: str
    state: str
    wish: StandingWish | None
    """What is wished of it, if it is not to run."""
    paused: list[PausedPlace]
    """Topics and partitions that are paused by name; 20 at most."""
    paused_count: int
    wish_waits: str
    """Why what is wished now is not carried out, where no driver runs the link; empty: it is."""
    restarts: LinkRestarts | None
    """Null: it never halted."""
    limits: list[LinkLimit]
    """20 at most."""
    preferences: list[TopicPreference]
    """The newest last, which counts before others; 20 at most."""
    in_sync: bool
    why_not_in_sync: list[str]
    partitions: int
    records_per_s: float
    bytes_per_s: float
    lag_records: int | None
    lag_s: float | None
    unknown: int
    """Partitions that may lack more."""
    would_be_lost: Loss
    """What would be lost if the source were gone now."""
    unfenced: Unfenced | None
    """Topics that were failed over: until the source is fenced it may still be written; null: none
    were."""
    without_mirror: int
    """Selected topics that have no mirror: lost as a whole."""
    rereads: Rereads | None
    """What consumer groups would read again; null: the driver does not tell."""
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    stopped: int
    """Partitions that are stopped until a person decides; other problems are retried."""
    flows: list[BeatingFlow]
    """Of whichever MirrorMaker 2 or link writes heartbeats; its own among them."""


class LinkSummary(LinkFigures):
    """A link in a few figures."""

    topics: int
    problems: int
    refused: int


class LinkPage(BaseModel):
    """All links."""

    items: list[LinkSummary]
    as_of_ms: int


class MirrorDrift(BaseModel):
    """What of a mirror differs from what is wanted."""

    source: str
    target: str
    kind: Literal["config", "partitions", "replication_factor", "min_insync_replicas"]
    setting: str
    """Its key; empty: it is no setting."""
    wants: str | None
    """Null: that it is not set."""
    has: str | None
    why: str
    hint: str
    is_mended: bool
    """Whether the link mends it by itself."""


class LinkDrift(BaseModel):
    """Where mirrors differ from what is wanted."""

    count: int
    mirrors: int
    kinds: dict[str, int]
    items: list[MirrorDrift]
    """20 at most."""


class LinkDetails(LinkFigures):
    """A link with all that is known but its topics, as docs/reference/status.md describes."""

    at_ms: int
    states: dict[str, int]
    notes: list[str]
    lanes: list[dict[str, Any]]
    driver: dict[str, Any]
    owner: dict[str, Any]
    heartbeat_age_s: float | None
    source_line: LineUse | None
    target_line: LineUse | None
    open_records: int
    mapped: int
    failover_fence: FenceForecast
    """What would keep the link out of its mirrors if it was failed over now."""
    held_back: list[HeldBack]
    drift: LinkDrift | None
    """Null: not known yet."""
    troubles: list[str]
    problems: list[PartitionProblem]
    refused: dict[str, str]


class TopicPage(BaseModel):
    """Topics of a link; `next` is the cursor of the next page, null at the last."""

    items: list[TopicStatus | dict[str, Any]]
    """With `fields` only those of each."""
    next: str | None
    as_of_ms: int


class PartitionProblems(BaseModel):
    """Partitions that are not copied as they should be."""

    items: list[PartitionProblem]
    """Those that wait for a person's decision first."""
    stopped: int
    """How many do; the others are retried by themselves."""
    as_of_ms: int


class PartitionField(BaseModel):
    """All partitions of a link in short."""

    topics: list[str]
    states: list[str]
    rows: list[Annotated[list[float | None], Field(min_length=7, max_length=7)]]
    """Place of the topic, number, place of the state, records a second, lag in records and in
    seconds (null: not known), next source offset to copy (-1: not known)."""
    as_of_ms: int


class PartitionPage(BaseModel):
    """Partitions of one topic."""

    items: list[PartitionStatus]
    as_of_ms: int


class HistoryColumns(BaseModel):
    """Figures over time; all columns have the same length, the oldest first."""

    step_s: int
    at_ms: list[int]
    records_per_s: list[float]
    bytes_per_s: list[float]
    lag_records: list[int | None]
    lag_s: list[float | None]
    latency_p50_ms: list[float | None]
    latency_p99_ms: list[float | None]
    state: list[str]


class TopicHistory(HistoryColumns):
    """Figures of a topic over time: each minute while it is busy or late, else each ten."""

    topic: str
    as_of_ms: int


class EventPage(BaseModel):
    """Events, the newest last."""

    items: list[EventRow]
