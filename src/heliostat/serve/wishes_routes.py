"""Pause, resume, stop and start by API: a wish is written to the target, and answered."""

from __future__ import annotations

import threading
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from fastapi import Body, FastAPI, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.operate.wishes import make_wish
from heliostat.serve.answers import LinkParameter
from heliostat.serve.guard import CALLER
from heliostat.serve.pages import PARTITION_MAX
from heliostat.serve.problems import documented
from heliostat.serve.questions import AT_ONCE, Asking
from heliostat.wishes.wish import WHY_CHARS_MAX, WishedState

WAIT_S, WAIT_MAX_S = 5.0, 15.0
FAILS = (403, 404, 409, 413, 415, 429, 503)
TOPICS_MAX = 5_000
VERBS = {
    "pause": WishedState.PAUSED,
    "resume": WishedState.RUNNING,
    "stop": WishedState.STOPPED,
    "start": WishedState.RUNNING,
}
Topic = Annotated[str, StringConstraints(min_length=1, max_length=260, pattern="^[a-zA-Z0-9._-]+$")]
TopicParameter = Annotated[str, Path(description="Name at the source.", max_length=249)]
DryRun = Annotated[bool, Query(description="Only tell what would change.")]
Wait = Annotated[
    float, Query(description="Seconds to wait until it is carried out.", ge=0, le=WAIT_MAX_S)
]


class WhyWished(BaseModel):
    """Why it is wished; shown wherever it matters."""

    model_config = ConfigDict(extra="forbid")

    why: Annotated[str, Field(max_length=WHY_CHARS_MAX)] = ""


class TopicsWished(WhyWished):
    """The same, and for which topics or `TOPIC-PARTITION`; none: the link as a whole."""

    topics: Annotated[list[Topic], Field(max_length=TOPICS_MAX)] = []


class WishOutcome(BaseModel):
    """What became of a wish."""

    link: str
    wished: Literal["running", "paused", "stopped"]
    places: list[str]
    """The link, or its topics and partitions."""
    changed: list[str]
    """Those for which something else was wished before."""
    partitions: int
    """Partitions that it concerns, as far as they were reported."""
    is_done: bool
    """Whether the link's owner has carried it out."""
    waits: str
    """Why not yet; the wish stands all the same."""
    still_paused: list[str]
    """Topics and partitions that stay paused when the link goes on."""
    took_s: float
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""


class WishWriter(Protocol):
    """Writes a wish and answers with what became of it."""

    def __call__(self, request: Request, asked: Asked) -> Response:
        """Return the answer."""
        ...


class Asked(NamedTuple):
    """What is wished, and how."""

    link: str
    verb: str
    places: list[str]
    why: str
    dry_run: bool
    wait_s: float


def add_wishes(app: FastAPI, asking: Asking) -> None:
    """Answer what operators wish."""
    at_once = threading.BoundedSemaphore(AT_ONCE)

    def wish(request: Request, asked: Asked) -> Response:
        link = asking.link(asked.link)
        if not at_once.acquire(blocking=False):
            text = f"{AT_ONCE} wishes are being written already"
            raise HTTPException(429, text, headers={"Retry-After": "2"})
        try:
            answer = make_wish(
                asking.watch.config,
                link,
                VERBS[asked.verb],
                asked.places,
                by=request.scope.get(CALLER) or "api",
                why=asked.why,
                within_s=asked.wait_s,
                dry_run=asked.dry_run,
            )
        finally:
            at_once.release()
        return JSONResponse(answer.to_json(), 200 if answer.is_done or asked.dry_run else 202)

    for verb in VERBS:
        _add_link_verb(app, verb, wish)
    for verb in ("pause", "resume"):
        _add_topic_verb(app, verb, wish)


_RESPONSES: dict[int | str, dict[str, Any]] = {
    202: {"description": "It is written, and waits.", "model": WishOutcome},
    **documented(*FAILS),
}


def _add_link_verb(app: FastAPI, verb: str, wish: WishWriter) -> None:
    has_topics = verb in {"pause", "resume"}

    def of_link(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[WhyWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        why = "" if body is None else body.why
        return wish(request, Asked(link, verb, [], why, dry_run, wait_s))

    def of_link_or_topics(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[TopicsWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        wanted = body or TopicsWished()
        asked = Asked(link, verb, wanted.topics, wanted.why, dry_run, wait_s)
        return wish(request, asked)

    app.post(
        f"/api/v1/links/{{link}}/{verb}",
        operation_id=f"{verb}_link",
        response_model=WishOutcome,
        responses=_RESPONSES,
        description=f"As `heliostat {verb}`. 200: the link's owner has carried it out. 202: the "
        "wish stands, and waits, as `waits` says.",
    )(of_link_or_topics if has_topics else of_link)


def _add_topic_verb(app: FastAPI, verb: str, wish: WishWriter) -> None:
    @app.post(
        f"/api/v1/links/{{link}}/topics/{{topic}}/{verb}",
        operation_id=f"{verb}_topic",
        response_model=WishOutcome,
        responses=_RESPONSES,
    )
    def of_topic(
        *,
        request: Request,
        link: LinkParameter,
        topic: TopicParameter,
        body: Annotated[WhyWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        """Do that with one topic."""
        why = "" if body is None else body.why
        return wish(request, Asked(link, verb, [topic], why, dry_run, wait_s))

    @app.post(
        f"/api/v1/links/{{link}}/topics/{{topic}}/partitions/{{partition}}/{verb}",
        operation_id=f"{verb}_partition",
        response_model=WishOutcome,
        responses=_RESPONSES,
    )
    def of_partition(
        *,
        request: Request,
        link: LinkParameter,
        topic: TopicParameter,
        partition: Annotated[int, Path(ge=0, le=PARTITION_MAX)],
        body: Annotated[WhyWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        """Do that with one partition."""
        why = "" if body is None else body.why
        places = [f"{topic}-{partition}"]
        return wish(request, Asked(link, verb, places, why, dry_run, wait_s))
