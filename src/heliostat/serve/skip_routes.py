"""Mirrors of a stopped link skip records, by API."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.serve.admin_verbs import FAILS, OneAtATime, TypedName, require_admin, require_typed
from heliostat.serve.answers import LinkParameter
from heliostat.serve.owner_verbs import TOPICS_MAX, DryRun, Topic
from heliostat.serve.pages import OFFSET_MAX, PARTITION_MAX
from heliostat.serve.problems import documented
from heliostat.serve.questions import Asking


class SkipPlace(BaseModel):
    """A partition, and where it goes on."""

    topic: Topic
    """Name at the source."""
    partition: Annotated[int, Field(ge=0, le=PARTITION_MAX)]
    to: Annotated[int, Field(ge=0, le=OFFSET_MAX)]
    """The source offset to copy next."""


class SkipOrder(TypedName):
    """What is left out: all of it, or nothing."""

    items: Annotated[list[SkipPlace], Field(min_length=1, max_length=TOPICS_MAX)]


class SkippedPartition(BaseModel):
    """What of a partition is, or would be, left out."""

    topic: str
    partition: int
    position: int
    """The source offset that would be copied next."""
    to: int
    first: int | None
    """The first source offset that is left out; null: it goes on there anyway."""
    last: int | None
    count: int | None
    """Records; null: not known."""
    records: str
    """The same in words."""
    consumers: str
    """What consumers of the mirror see."""


class SkipOutcome(BaseModel):
    """What is, or would be, left out."""

    link: str
    items: list[SkippedPartition]
    is_tried: bool
    """Whether nothing was written, as it was only asked what would be done."""


def add_skip(app: FastAPI, asking: Asking) -> None:
    """Answer what mirrors skip."""
    running = OneAtATime()

    @app.post(
        "/api/v1/links/{link}/offsets/skip",
        operation_id="skip_records",
        response_model=SkipOutcome,
        responses=documented(*FAILS),
    )
    def skip_records(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[SkipOrder, Body()],
        dry_run: DryRun = False,
    ) -> Response:
        """Have mirrors of a stopped link go on at later source offsets, with rows in the ledger.

        The same again changes nothing.
        """
        from heliostat.operate.skip import skip  # loads what reads offset maps

        by, of = require_admin(request), asking.link(link)
        require_typed(of.name, body, dry_run=dry_run)
        wanted = {
            TopicPartition(TopicName(place.topic), PartitionId(place.partition)): Offset(place.to)
            for place in body.items
        }
        with running.of(of.name):
            answer = skip(asking.watch.config, of, wanted, by=by, dry_run=dry_run)
        asking.questions.forget(f"gaps {of.name}")
        if not dry_run:
            for text in answer.told():
                asking.watch.service_events.info(f"link {of.name}: {text}")
        return JSONResponse(answer.to_json())
