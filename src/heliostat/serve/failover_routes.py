"""Failover by API: the same function as `heliostat failover`, with the link's name typed."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import Body, FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.handover.failover import FailoverReport
from heliostat.handover.held_back import HeldBack
from heliostat.names import LinkName
from heliostat.operate.failover import failover, last_failover
from heliostat.serve.admin_verbs import (
    FAILS,
    IdempotencyKey,
    TypedName,
    require_admin,
    require_typed,
)
from heliostat.serve.answers import LinkParameter
from heliostat.serve.long_verbs import WAIT_MAX_S, Course, LongVerbs, WaitForEnd, answered
from heliostat.serve.owner_verbs import TOPICS_MAX, DryRun
from heliostat.serve.problems import documented
from heliostat.serve.questions import Asking
from heliostat.serve.switch_messages import OpenedRow
from heliostat.wishes.wish import WHY_CHARS_MAX

DRAIN_MAX_S = 3_600.0
Pattern = Annotated[str, Field(min_length=1, max_length=249)]
Fence = Literal["owner", "deny_rule", "lease"]


class FailoverOrder(TypedName):
    """Which mirrors are to be given away."""

    why: Annotated[str, Field(max_length=WHY_CHARS_MAX)] = ""
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
    opening: list[OpenedRow]
    """None where it is told by its rows."""
    is_target_open: bool
    """Whether rights that were held back are granted, and the registry is open to producers."""
    drained: DrainedRow | None
    missing: int
    """At least so many records, of all partitions of which something is known."""
    partitions_not_known: int
    topics: list[TopicMissing]
    partitions: list[PartitionEnd]
    transactions: list[HeldBack]
    """One over several partitions may have arrived in part."""
    transactions_not_named: int
    """Partitions more in which transactions that are not named hold back records."""
    groups: list[MovedGroupRow]
    groups_sync: bool
    took_s: dict[str, float]
    """By step."""


class FailoverCourse(Course):
    """A failover under way, or as it ended."""

    result: FailoverOutcome | None


def add_failover(app: FastAPI, asking: Asking) -> None:
    """Answer who fails a link over."""
    verbs = LongVerbs(asking.watch.clock, FailoverReport.markdown, asking.under_way)
    _add_begin(app, asking, verbs)

    @app.get(
        "/api/v1/links/{link}/failover",
        operation_id="get_failover",
        response_model=FailoverCourse,
        responses=documented(404, 409, 429, 503),
    )
    def get_failover(link: LinkParameter) -> Response:
        """Return the link's failover that is under way, or the last one, with its report.

        One that this service did not carry out is told by its rows at the target.
        """
        of = asking.link(link)
        begun = verbs.last(LinkName(of.name))
        if begun is not None and not (begun.is_tried and begun.is_over):
            return JSONResponse(begun.to_json())
        ask = partial(last_failover, asking.watch.config, of)
        report = asking.questions.get(f"failover {of.name}", ask).value
        if report is None:
            raise HTTPException(404, f"link {of.name} was never failed over")
        return JSONResponse(_as_course(report))


def _as_course(report: FailoverReport) -> dict[str, object]:
    """Return a failover of another process as it ended."""
    return {
        "id": "",
        "by": report.by,
        "is_tried": False,
        "state": "done",
        "told": [],
        "started_ms": report.at_ms,
        "ended_ms": report.at_ms,
        "result": report.to_json(),
        "text": report.markdown(),
        "problem": None,
    }


def _add_begin(app: FastAPI, asking: Asking, verbs: LongVerbs[FailoverReport]) -> None:
    @app.post(
        "/api/v1/links/{link}/failover",
        operation_id="failover_link",
        response_model=FailoverOutcome,
        responses={
            202: {"description": "It is under way.", "model": FailoverCourse},
            **documented(*FAILS),
        },
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
        wait_s: WaitForEnd = WAIT_MAX_S,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Give mirrors away as they are: needs the role admin, and the link's name typed.

        It takes as long as the fence does. Whoever lost the answer asks again: it tells the same.
        """
        of, order = asking.link(link), body or FailoverOrder(topics=[])
        by = require_admin(request)
        require_typed(of.name, order, dry_run=dry_run)
        begun = verbs.begin(
            LinkName(of.name),
            lambda tell: failover(
                asking.watch.config,
                of,
                order.topics,
                by=by,
                why=order.why,
                drain_s=drain_s,
                dry_run=dry_run,
                tell=tell,
            ),
            by=by,
            key=idempotency_key,
            asked=(order, drain_s),
            is_tried=dry_run,
        )
        return answered(begun, wait_s, f"/api/v1/links/{of.name}/failover")
