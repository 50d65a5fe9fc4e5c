"""Restarts by API: an order is written to the target, carried out once, and answered."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from fastapi import Body, FastAPI, Path, Request
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.operate.orders import order_restart
from heliostat.serve.answers import LinkParameter
from heliostat.serve.guard import CALLER
from heliostat.serve.pages import PARTITION_MAX
from heliostat.serve.problems import documented
from heliostat.serve.questions import AT_ONCE, Asking
from heliostat.serve.wishes_routes import (
    FAILS,
    WAIT_S,
    DryRun,
    TopicParameter,
    TopicsWished,
    Wait,
    WhyWished,
)


class OrderStage(BaseModel):
    """An order, and how far it came."""

    id: str
    place: str
    """The link, a topic or a partition."""
    by: str
    at_ms: int
    why: str
    stage: Literal["waits", "begun", "done", "cut_short"]
    """`cut_short`: the driver ended after it had begun: it may have been done or not, and is not
    repeated."""
    begun_ms: int | None
    ended_ms: int | None
    text: str
    """What it came to."""


class RestartOutcome(BaseModel):
    """What became of an order to restart."""

    link: str
    places: list[str]
    orders: list[OrderStage]
    """One for each place; empty: it was only tried."""
    lanes: int
    """Lanes that begin anew, as they last reported."""
    stopped: int
    """Stopped partitions that are tried again."""
    is_done: bool
    waits: str
    """Why not yet; it is still carried out, once."""
    took_s: float
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""


_RESPONSES: dict[int | str, dict[str, Any]] = {
    202: {"description": "It is ordered, and waits, or was cut short.", "model": RestartOutcome},
    **documented(*FAILS),
}


def add_restarts(app: FastAPI, asking: Asking) -> None:
    """Answer what operators order."""
    at_once = threading.BoundedSemaphore(AT_ONCE)

    def order(
        request: Request,
        name: str,
        topics: Sequence[str],
        why: str,
        *,
        dry_run: bool,
        wait_s: float,
    ) -> Response:
        link = asking.link(name)
        if not at_once.acquire(blocking=False):
            text = f"{AT_ONCE} orders are being written already"
            raise HTTPException(429, text, headers={"Retry-After": "2"})
        try:
            answer = order_restart(
                asking.watch.config,
                link,
                topics,
                by=request.scope.get(CALLER) or "api",
                why=why,
                within_s=wait_s,
                dry_run=dry_run,
            )
        finally:
            at_once.release()
        return JSONResponse(answer.to_json(), 200 if answer.is_done or dry_run else 202)

    _add_link(app, order)
    _add_places(app, order)


class OrderWriter(Protocol):
    """Writes orders and answers with what became of them."""

    def __call__(
        self,
        request: Request,
        name: str,
        topics: Sequence[str],
        why: str,
        *,
        dry_run: bool,
        wait_s: float,
    ) -> Response:
        """Return the answer."""
        ...


def _add_link(app: FastAPI, order: OrderWriter) -> None:
    @app.post(
        "/api/v1/links/{link}/restart",
        operation_id="restart_link",
        response_model=RestartOutcome,
        responses=_RESPONSES,
    )
    def restart_link(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[TopicsWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        """Let a link begin anew, or try again what is stopped of these topics, once."""
        wanted = body or TopicsWished()
        return order(request, link, wanted.topics, wanted.why, dry_run=dry_run, wait_s=wait_s)


def _add_places(app: FastAPI, order: OrderWriter) -> None:
    @app.post(
        "/api/v1/links/{link}/topics/{topic}/restart",
        operation_id="restart_topic",
        response_model=RestartOutcome,
        responses=_RESPONSES,
    )
    def restart_topic(
        *,
        request: Request,
        link: LinkParameter,
        topic: TopicParameter,
        body: Annotated[WhyWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        """Try again what is stopped of one topic."""
        why = "" if body is None else body.why
        return order(request, link, [topic], why, dry_run=dry_run, wait_s=wait_s)

    @app.post(
        "/api/v1/links/{link}/topics/{topic}/partitions/{partition}/restart",
        operation_id="restart_partition",
        response_model=RestartOutcome,
        responses=_RESPONSES,
    )
    def restart_partition(
        *,
        request: Request,
        link: LinkParameter,
        topic: TopicParameter,
        partition: Annotated[int, Path(ge=0, le=PARTITION_MAX)],
        body: Annotated[WhyWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        """Try one partition again, if it is stopped."""
        why = "" if body is None else body.why
        places = [f"{topic}-{partition}"]
        return order(request, link, places, why, dry_run=dry_run, wait_s=wait_s)
