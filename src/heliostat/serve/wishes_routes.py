"""Pause, resume, stop and start by API: a wish is written to the target, and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel
from starlette.responses import Response

from heliostat.operate.wishes import make_wish
from heliostat.serve.answers import LinkParameter
from heliostat.serve.owner_verbs import (
    WAIT_S,
    DryRun,
    Given,
    OwnerVerbs,
    PlaceVerb,
    PlaceWords,
    TopicsWished,
    Wait,
    WhyWished,
    add_place_verb,
    responses_of,
)
from heliostat.serve.questions import Asking
from heliostat.wishes.wish import Place, WishedState

VERBS = {
    "pause": WishedState.PAUSED,
    "resume": WishedState.RUNNING,
    "stop": WishedState.STOPPED,
    "start": WishedState.RUNNING,
}
OF_TOPICS = ("pause", "resume")
"""Those that topics and partitions know, too."""
TOPIC = PlaceWords("Of Topic", "Do that with one topic.")
PARTITION = PlaceWords("Of Partition", "Do that with one partition.")


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


_RESPONSES = responses_of(WishOutcome)


def add_wishes(app: FastAPI, asking: Asking) -> None:
    """Answer what operators wish."""
    verbs = OwnerVerbs(asking, "wishes")
    writers = {verb: _writer(verbs, wished) for verb, wished in VERBS.items()}
    for verb, wish in writers.items():
        _add_link_verb(app, verb, wish, has_topics=verb in OF_TOPICS)
    for verb in OF_TOPICS:
        wish = writers[verb]
        add_place_verb(
            app, verb, wish, WishOutcome, _RESPONSES, of_topic=TOPIC, of_partition=PARTITION
        )


def _writer(verbs: OwnerVerbs, wished: WishedState) -> PlaceVerb:
    def wish(request: Request, given: Given, places: Sequence[str | Place]) -> Response:
        return verbs.answer(
            request,
            given,
            lambda config, link, by: make_wish(
                config,
                link,
                wished,
                places,
                by=by,
                why=given.why,
                within_s=given.wait_s,
                dry_run=given.dry_run,
            ),
        )

    return wish


def _add_link_verb(app: FastAPI, verb: str, wish: PlaceVerb, *, has_topics: bool) -> None:
    def of_link(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[WhyWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        why = "" if body is None else body.why
        return wish(request, Given(link, why, dry_run, wait_s), [])

    def of_link_or_topics(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[TopicsWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        wanted = body or TopicsWished()
        return wish(request, Given(link, wanted.why, dry_run, wait_s), wanted.topics)

    app.post(
        f"/api/v1/links/{{link}}/{verb}",
        operation_id=f"{verb}_link",
        response_model=WishOutcome,
        responses=_RESPONSES,
        description=f"As `heliostat {verb}`. 200: the link's owner has carried it out. 202: the "
        "wish stands, and waits, as `waits` says.",
    )(of_link_or_topics if has_topics else of_link)
