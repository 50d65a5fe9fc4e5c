"""Limits and priorities by API: as `heliostat limit` and `heliostat prefer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.config import Config, LinkConfig
from heliostat.operate.levels import Asked, LevelAnswer, limit, prefer
from heliostat.records.copier.lane_limits import Priority
from heliostat.serve.answers import LinkParameter
from heliostat.serve.owner_verbs import (
    TOPICS_MAX,
    WAIT_S,
    DryRun,
    Given,
    OwnerVerbs,
    Topic,
    TopicParameter,
    Wait,
    WhyWished,
    responses_of,
)
from heliostat.serve.questions import Asking
from heliostat.wishes.rate import rate_of

Pattern = Annotated[
    str, StringConstraints(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._*-]+$")
]


class LimitWished(WhyWished):
    """A limit in bytes a second, as text: `20MB/s`, or `none`."""

    limit: Annotated[str, Field(max_length=40)]


class LimitsWished(LimitWished):
    """The same for the link as a whole, or for each of these topics."""

    topics: Annotated[list[Topic], Field(default_factory=list, max_length=TOPICS_MAX)]


class PreferenceWished(WhyWished):
    """A priority for topics by their names at the source, or by patterns with `*`."""

    topics: Annotated[list[Pattern], Field(min_length=1, max_length=TOPICS_MAX)]
    priority: Literal["high", "normal", "low"]


class LevelOutcome(BaseModel):
    """What became of a limit or a priority."""

    link: str
    wished: str
    bytes_per_second: int | None
    """The limit; null: none, or it is a priority."""
    places: list[str]
    """The link, or topics, or patterns."""
    changed: list[str]
    """Those for which something else was wished before."""
    topics: int
    """Topics that it concerns, as far as they were reported."""
    partitions: int
    """All of theirs."""
    is_done: bool
    """Whether the link's owner has carried it out."""
    waits: str
    """Why not yet; the wish stands all the same."""
    took_s: float
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""


Verb = Callable[[Config, LinkConfig, Asked], LevelAnswer]
Wisher = Callable[[Request, Given, Verb], Response]
_RESPONSES = responses_of(LevelOutcome)


def _rate(text: str) -> int | None:
    try:
        return rate_of(text)
    except ValueError as error:
        raise HTTPException(422, str(error)) from error


def add_levels(app: FastAPI, asking: Asking) -> None:
    """Answer what operators wish of speed and order."""
    verbs = OwnerVerbs(asking, "wishes")

    def wish(request: Request, given: Given, verb: Verb) -> Response:
        return verbs.answer(
            request,
            given,
            lambda config, link, by: verb(
                config, link, Asked(by, given.why, given.wait_s, given.dry_run)
            ),
        )

    _add_limits(app, wish)
    _add_preferences(app, wish)


def _add_limits(app: FastAPI, wish: Wisher) -> None:
    @app.post(
        "/api/v1/links/{link}/limit",
        operation_id="limit_link",
        response_model=LevelOutcome,
        responses=_RESPONSES,
    )
    def of_link(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[LimitsWished, Body()],
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        """As `heliostat limit`: of the link, or of topics."""
        rate, topics = _rate(body.limit), body.topics
        given = Given(link, body.why, dry_run, wait_s)
        return wish(
            request, given, lambda config, of, asked: limit(config, of, rate, topics, asked=asked)
        )

    @app.post(
        "/api/v1/links/{link}/topics/{topic}/limit",
        operation_id="limit_topic",
        response_model=LevelOutcome,
        responses=_RESPONSES,
    )
    def of_topic(
        *,
        request: Request,
        link: LinkParameter,
        topic: TopicParameter,
        body: Annotated[LimitWished, Body()],
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        """Limit one topic."""
        rate = _rate(body.limit)
        given = Given(link, body.why, dry_run, wait_s)
        return wish(
            request, given, lambda config, of, asked: limit(config, of, rate, [topic], asked=asked)
        )


def _add_preferences(app: FastAPI, wish: Wisher) -> None:
    @app.post(
        "/api/v1/links/{link}/prefer",
        operation_id="prefer_topics",
        response_model=LevelOutcome,
        responses=_RESPONSES,
    )
    def of_topics(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[PreferenceWished, Body()],
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        """As `heliostat prefer`."""
        topics, priority = body.topics, Priority(body.priority)
        given = Given(link, body.why, dry_run, wait_s)
        return wish(
            request,
            given,
            lambda config, of, asked: prefer(config, of, topics, priority, asked=asked),
        )
