"""What all verbs have in common that a link's owner carries out: bodies, parameters, the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

from fastapi import Body, FastAPI, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from heliostat.config import Config, LinkConfig
from heliostat.names import PartitionId, TopicName
from heliostat.serve.answers import LinkParameter
from heliostat.serve.guard import caller_of
from heliostat.serve.pages import PARTITION_MAX
from heliostat.serve.problems import documented
from heliostat.serve.questions import AT_ONCE, Asking
from heliostat.wishes.wish import WHY_CHARS_MAX, Place

WAIT_S, WAIT_MAX_S = 5.0, 15.0
FAILS = (403, 404, 409, 413, 415, 429, 503)
TOPICS_MAX = 5_000
Topic = Annotated[str, StringConstraints(min_length=1, max_length=260, pattern="^[a-zA-Z0-9._-]+$")]
TopicParameter = Annotated[str, Path(description="Name at the source.", max_length=249)]
PlaceParameter = Annotated[
    str, Path(description="Name at the source, or `TOPIC-PARTITION`.", max_length=260)
]
DryRun = Annotated[bool, Query(description="Only tell what would change.")]
Wait = Annotated[
    float, Query(description="Seconds to wait until it is carried out.", ge=0, le=WAIT_MAX_S)
]
Responses = dict[int | str, dict[str, Any]]


class WhyWished(BaseModel):
    """Why it is wished; shown wherever it matters."""

    model_config = ConfigDict(extra="forbid")

    why: Annotated[str, Field(max_length=WHY_CHARS_MAX)] = ""


class TopicsWished(WhyWished):
    """The same, and for which topics or `TOPIC-PARTITION`; none: the link as a whole."""

    topics: Annotated[list[Topic], Field(max_length=TOPICS_MAX)] = []


class Given(NamedTuple):
    """What a request says beside the verb's own fields."""

    link: str
    why: str
    dry_run: bool
    wait_s: float
    key: str = ""
    """Its idempotency key."""


class OwnerAnswer(Protocol):
    """What became of what was asked."""

    @property
    def is_done(self) -> bool:
        """Whether the link's owner has carried it out."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """Return it."""
        ...


Ask = Callable[[Config, LinkConfig, str], OwnerAnswer]
"""Asks it of a link, by the name of who asks."""
PlaceVerb = Callable[[Request, Given, Sequence[str | Place]], Response]
"""Asks something of topics and partitions: places, or named as `TOPIC` and `TOPIC-PARTITION`."""


class OwnerVerbs:
    """Asks verbs of one kind, a few at once.

    Parameters
    ----------
    asking
        What knows the links.
    kind
        What is written, in the plural.
    """

    def __init__(self, asking: Asking, kind: str) -> None:
        self._asking = asking
        self._kind = kind
        self._at_once = threading.BoundedSemaphore(AT_ONCE)

    def answer(self, request: Request, given: Given, ask: Ask) -> Response:
        """Return what became of it: 200 if it is done, 202 if it waits."""
        link = self._asking.link(given.link)
        if not self._at_once.acquire(blocking=False):
            text = f"{AT_ONCE} {self._kind} are being written already"
            raise HTTPException(429, text, headers={"Retry-After": "2"})
        try:
            answer = ask(self._asking.watch.config, link, caller_of(request))
        finally:
            self._at_once.release()
        return JSONResponse(answer.to_json(), 200 if answer.is_done or given.dry_run else 202)


def responses_of(outcome: type[BaseModel], waits: str = "It is written, and waits.") -> Responses:
    """Return how such a verb may answer beside 200."""
    return {202: {"description": waits, "model": outcome}, **documented(*FAILS)}


class PlaceWords(NamedTuple):
    """How the document of the API tells of a verb for a place."""

    summary: str
    description: str


def add_place_verb(
    app: FastAPI,
    verb: str,
    ask: PlaceVerb,
    outcome: type[BaseModel],
    responses: Responses,
    *,
    of_topic: PlaceWords,
    of_partition: PlaceWords,
) -> None:
    """Answer a verb for one topic, and for one partition."""

    @app.post(
        f"/api/v1/links/{{link}}/topics/{{topic}}/{verb}",
        operation_id=f"{verb}_topic",
        response_model=outcome,
        responses=responses,
        summary=of_topic.summary,
        description=of_topic.description,
    )
    def ask_of_topic(
        *,
        request: Request,
        link: LinkParameter,
        topic: PlaceParameter,
        body: Annotated[WhyWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        why = "" if body is None else body.why
        return ask(request, Given(link, why, dry_run, wait_s), [topic])

    @app.post(
        f"/api/v1/links/{{link}}/topics/{{topic}}/partitions/{{partition}}/{verb}",
        operation_id=f"{verb}_partition",
        response_model=outcome,
        responses=responses,
        summary=of_partition.summary,
        description=of_partition.description,
    )
    def ask_of_partition(
        *,
        request: Request,
        link: LinkParameter,
        topic: TopicParameter,
        partition: Annotated[int, Path(ge=0, le=PARTITION_MAX)],
        body: Annotated[WhyWished | None, Body()] = None,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
    ) -> Response:
        why = "" if body is None else body.why
        place = Place(TopicName(topic), PartitionId(partition))
        return ask(request, Given(link, why, dry_run, wait_s), [place])
