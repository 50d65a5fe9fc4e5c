"""Failover by API: the same function as `heliostat failover`, with the link's name typed."""

from __future__ import annotations

import threading
from typing import Annotated, Literal

from fastapi import Body, FastAPI, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.operate.failover import failover
from heliostat.serve.admin_verbs import require_admin
from heliostat.serve.answers import LinkParameter
from heliostat.serve.owner_verbs import TOPICS_MAX, DryRun, WhyWished
from heliostat.serve.problems import documented
from heliostat.serve.questions import Asking

FAILS = (403, 404, 409, 413, 415, 422, 429, 503)
DRAIN_MAX_S = 60.0
"""A request waits for it; the command line takes longer ones."""
AT_ONCE = 2
Pattern = Annotated[str, Field(min_length=1, max_length=249)]
Fence = Literal["owner", "deny_rule", "lease"]


class FailoverOrder(WhyWished):
    """Which mirrors are to be given away."""

    model_config = ConfigDict(extra="forbid")

    link: str = ""
    """The link's name once more: what is typed to confirm it. Not needed for a dry run."""
    topics: Annotated[list[Pattern], Field(max_length=TOPICS_MAX, default_factory=list)]
    """Names at the source, `*` is a wildcard; none: all mirrors."""


class ForecastRow(BaseModel):
    """Which fence would hold, as it was known beforehand."""

    by: Fence
    within_s: float


class DrainedRow(BaseModel):
    """What waiting for the rest came to."""

    end: Literal["level", "no_progress", "time_over", "no_driver"]
    took_s: float
    records: int
    behind: list[str]
    """Partitions that did not become level."""


class TopicMissing(BaseModel):
    """What is known to be missing of a topic."""

    source: str
    missing: int


class PartitionEnd(BaseModel):
    """Where a partition ended."""

    source: str
    partition: int
    target: str
    target_partition: int
    copied_to: int
    """The source offset that would have been copied next."""
    target_end: int
    known_end: int | None
    """Where the source ended when it was last seen (null: not known)."""
    known_ms: int | None
    """When that was."""
    missing: int | None
    """At least so many records."""


class OpenTransaction(BaseModel):
    """A transaction that was open at the source when it was last seen."""

    source: str
    partition: int
    first: int
    records: int
    producer_id: int
    transactional_id: str
    age_s: float


class MovedGroupRow(BaseModel):
    """A group as it is at the target."""

    group: str
    published_ms: int
    again: int | None
    """Records that it reads again, as the driver measured it last."""
    at_most: int
    """It reads no more than these again."""
    partitions: int


class FailoverOutcome(BaseModel):
    """What became of a failover, or would."""

    link: str
    by: str
    why: str
    at_ms: int
    is_tried: bool
    """Whether nothing was changed, as it was only asked what would be done."""
    forecast: ForecastRow
    fenced_by: Fence | None
    is_source_fenced: bool
    """While it is not, producers may still write there."""
    drained: DrainedRow | None
    missing: int
    """At least so many records, of all partitions of which something is known."""
    partitions_not_known: int
    topics: list[TopicMissing]
    partitions: list[PartitionEnd]
    transactions: list[OpenTransaction]
    """One over several partitions may have arrived in part."""
    groups: list[MovedGroupRow]
    groups_sync: bool
    took_s: dict[str, float]
    """By step."""


def add_failover(app: FastAPI, asking: Asking) -> None:
    """Answer who fails a link over."""
    at_once = threading.BoundedSemaphore(AT_ONCE)

    @app.post(
        "/api/v1/links/{link}/failover",
        operation_id="failover_link",
        response_model=FailoverOutcome,
        responses=documented(*FAILS),
    )
    def failover_link(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[FailoverOrder | None, Body()] = None,
        dry_run: DryRun = False,
        drain_s: Annotated[
            float,
            Query(ge=0, le=DRAIN_MAX_S, description="First wait so long for what is still copied."),
        ] = 0.0,
    ) -> Response:
        """Give mirrors away as they are: needs the role admin, and the link's name typed.

        It takes as long as the fence does. Whoever lost the answer asks again: it tells the same.
        """
        chosen, order = asking.link(link), body or FailoverOrder(topics=[])
        by = require_admin(request)
        if not dry_run and order.link != chosen.name:
            raise HTTPException(422, "type the link's name: `link` in the body is not its name")
        if not at_once.acquire(blocking=False):
            text = f"{AT_ONCE} failovers are under way already"
            raise HTTPException(429, text, headers={"Retry-After": "5"})
        try:
            report = failover(
                asking.watch.config,
                chosen,
                order.topics,
                by=by,
                why=order.why,
                drain_s=drain_s,
                dry_run=dry_run,
            )
        finally:
            at_once.release()
        return JSONResponse(report.to_json())
