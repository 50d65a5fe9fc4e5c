"""Restarts by API: an order is written to the target, carried out once, and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Body, FastAPI, Header, Request
from pydantic import BaseModel
from starlette.responses import Response

from heliostat.operate.orders import order_restart
from heliostat.serve.answers import LinkParameter
from heliostat.serve.owner_verbs import (
    WAIT_S,
    DryRun,
    Given,
    OwnerVerbs,
    PlaceWords,
    TopicsWished,
    Wait,
    add_place_verb,
    responses_of,
)
from heliostat.serve.problems import problem
from heliostat.serve.questions import Asking
from heliostat.wishes.wish import Place

KEY_CHARS_MAX = 200
_ONCE = "The same under the same key is ordered once; kept for a day."
TOPIC = PlaceWords(
    "Restart Topic",
    "Try again what is stopped of one topic. It takes an Idempotency-Key as a restart of the link.",
)
PARTITION = PlaceWords(
    "Restart Partition",
    "Try one partition again, if it is stopped. It takes an Idempotency-Key, too.",
)


class OrderStage(BaseModel):
    """An order, and how far it came."""

    id: str
    verb: Literal["restart", "apply"]
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
    is_repeated: bool
    """Whether the same was asked under the same key before, and nothing is ordered now."""


_RESPONSES = responses_of(RestartOutcome, "It is ordered, and waits, or was cut short.")


def add_restarts(app: FastAPI, asking: Asking) -> None:
    """Answer what operators order."""
    verbs = OwnerVerbs(asking, "orders")

    def order(request: Request, given: Given, places: Sequence[str | Place]) -> Response:
        key = given.key or request.headers.get("Idempotency-Key", "")
        if len(key) > KEY_CHARS_MAX:
            return problem(422, f"Idempotency-Key has more than {KEY_CHARS_MAX} characters")
        return verbs.answer(
            request,
            given,
            lambda config, link, by: order_restart(
                config,
                link,
                places,
                by=by,
                why=given.why,
                within_s=given.wait_s,
                dry_run=given.dry_run,
                key=key,
            ),
        )

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
        idempotency_key: Annotated[
            str | None, Header(min_length=1, max_length=KEY_CHARS_MAX, description=_ONCE)
        ] = None,
    ) -> Response:
        """Let a link begin anew, or try again what is stopped of these topics, once."""
        wanted = body or TopicsWished()
        given = Given(link, wanted.why, dry_run, wait_s, idempotency_key or "")
        return order(request, given, wanted.topics)

    add_place_verb(
        app, "restart", order, RestartOutcome, _RESPONSES, of_topic=TOPIC, of_partition=PARTITION
    )
