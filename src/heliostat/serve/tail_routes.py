"""Tails by API: what never crossed is shown, exported, appended, dropped.

What takes long goes on when it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol

from fastapi import Body, FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from heliostat.config import Config, LinkConfig
from heliostat.names import TopicName
from heliostat.serve.admin_verbs import FAILS, OneAtATime, TypedName, require_admin, require_typed
from heliostat.serve.answers import LinkParameter
from heliostat.serve.cluster_messages import OfClusters
from heliostat.serve.owner_verbs import TOPICS_MAX, DryRun, Topic
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking
from heliostat.wishes.wish import WHY_CHARS_MAX

WITHIN_S = 15.0
"""For how long one request appends or exports."""
SAMPLE_MAX = 100
Topics = Annotated[list[Topic], Field(max_length=TOPICS_MAX)]


class TailSample(BaseModel):
    """A record; bytes in base64."""

    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: list[tuple[str, str | None]]


class TailOfPartition(BaseModel):
    """What of a source partition never crossed."""

    topic: str
    partition: int
    target: str
    records: int
    """That are not dealt with yet."""
    bytes: int
    first: int | None
    last: int | None
    first_ms: int | None
    last_ms: int | None
    """The least and the greatest timestamp."""
    deleted: int
    """Offsets that never crossed and that the source has deleted since."""
    lost_at_source: int
    """Offsets that crossed, and that the source has lost: an unclean election."""
    appended: int
    refused: int
    """Records that could not be appended, and were exported."""
    dropped: int
    is_open: bool
    """Whether somebody appends it, or was stopped: appending goes on when it is asked for again."""
    sample: list[TailSample]


class OpenTransactionAtSource(BaseModel):
    """A transaction at the source that has not ended."""

    topic: str
    partition: int
    producer_id: int
    transactional_id: str
    """Empty: brokers don't show it."""
    first: int
    last_ms: int


class TailAnswer(OfClusters):
    """What a link's promoted topics have as a tail."""

    link: str
    partitions: int
    """That were looked at."""
    records: int
    rows: list[TailOfPartition]
    why_not: dict[str, str]
    """Topics whose tails can't be known, and why."""
    open_transactions: list[OpenTransactionAtSource]


class TailDestination(BaseModel):
    """Where records were exported to."""

    parquet: str | None
    topic: str | None


class TailMovement(BaseModel):
    """What was, or would be, appended and exported."""

    link: str
    appended: int
    exported: int
    refused: dict[str, int]
    """Records that were not appended but exported, by why."""
    destination: TailDestination | None
    is_tried: bool
    is_done: bool
    """Whether there was time for all of it; else ask again: it goes on, and copies none twice."""
    rows: list[TailOfPartition]
    """The tails as they were before."""


class TailDropOutcome(BaseModel):
    """What was, or would be, dropped."""

    link: str
    dropped: int
    is_tried: bool
    rows: list[TailOfPartition]


class AppendOrder(TypedName):
    """What is appended, and where that goes which may not be."""

    topics: Topics = Field(default_factory=list)
    """Names at the source; none: all that were given away."""
    refused_to_topic: Topic | None = None
    """A topic of the target that is no mirror."""


class ExportOrder(TypedName):
    """What is exported, and where."""

    topics: Topics = Field(default_factory=list)
    to_topic: Topic
    """A topic of the target that is no mirror."""


class DropOrder(TypedName):
    """What is given up, and why."""

    topics: Topics = Field(default_factory=list)
    why: Annotated[str, Field(min_length=1, max_length=WHY_CHARS_MAX)]


class Answered(Protocol):
    """What became of it."""

    def to_json(self) -> Mapping[str, Any]:
        """Return it."""
        ...


Verb = Callable[[Config, LinkConfig, str], Answered]


def add_tail(app: FastAPI, asking: Asking) -> None:
    """Answer what is asked about tails."""
    _add_look(app, asking)
    running = OneAtATime()

    def answered(
        request: Request, name: str, body: TypedName, verb: Verb, *, dry_run: bool
    ) -> Response:
        by = require_admin(request)
        link = asking.link(name)
        require_typed(link.name, body, dry_run=dry_run)
        with running.of(link.name):
            answer = verb(asking.watch.config, link, by).to_json()
        asking.questions.forget(f"tail {link.name} ")
        return JSONResponse(answer, 200 if answer.get("is_done", True) else 202)

    _add_moves(app, answered)
    _add_drop(app, answered)


def _add_look(app: FastAPI, asking: Asking) -> None:
    config = asking.watch.config

    @app.get(
        "/api/v1/links/{link}/tail",
        operation_id="show_tail",
        response_model=TailAnswer,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def get_tail(
        request: Request,
        link: LinkParameter,
        topic: Annotated[list[Topic] | None, Query(description="Only of these.")] = None,
        sample: Annotated[int, Query(ge=0, le=SAMPLE_MAX)] = 3,
    ) -> Response:
        """Return what never crossed, as `heliostat tail show`."""
        from heliostat.operate.tail import show_tail  # loads what compares contents

        link_config, topics = asking.link(link), topic or []
        key = f"tail {link_config.name} {sample} {' '.join(topics)}"
        return asking.answer(
            request,
            key,
            lambda: show_tail(config, link_config, topics, sample=sample),
            lambda report: report.to_json(),
        )


def _add_moves(app: FastAPI, answered: Callable[..., Response]) -> None:
    goes_on: dict[int | str, dict[str, Any]] = {
        202: {"description": "Not all of it in time: ask again.", "model": TailMovement},
        **documented(*FAILS),
    }

    @app.post(
        "/api/v1/links/{link}/tail/append",
        operation_id="append_tail",
        response_model=TailMovement,
        responses=goes_on,
    )
    def append(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[AppendOrder, Body()],
        dry_run: DryRun = False,
    ) -> Response:
        """Append what never crossed to the topics that were mirrors, each record once."""

        def verb(config: Config, of: LinkConfig, by: str) -> Answered:
            from heliostat.operate.destination import Destination
            from heliostat.operate.tail_moves import append_tail

            to = body.refused_to_topic
            refused_to = None if to is None else Destination(topic=TopicName(to))
            return append_tail(
                config, of, body.topics, refused_to, by=by, dry_run=dry_run, within_s=WITHIN_S
            )

        return answered(request, link, body, verb, dry_run=dry_run)

    @app.post(
        "/api/v1/links/{link}/tail/export",
        operation_id="export_tail",
        response_model=TailMovement,
        responses=goes_on,
    )
    def export(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[ExportOrder, Body()],
        dry_run: DryRun = False,
    ) -> Response:
        """Write what never crossed to a topic of the target."""

        def verb(config: Config, of: LinkConfig, by: str) -> Answered:
            from heliostat.operate.destination import Destination
            from heliostat.operate.tail_moves import export_tail

            to = Destination(topic=TopicName(body.to_topic))
            return export_tail(
                config, of, body.topics, to, by=by, dry_run=dry_run, within_s=WITHIN_S
            )

        return answered(request, link, body, verb, dry_run=dry_run)


def _add_drop(app: FastAPI, answered: Callable[..., Response]) -> None:
    @app.post(
        "/api/v1/links/{link}/tail/drop",
        operation_id="drop_tail",
        response_model=TailDropOutcome,
        responses=documented(*FAILS),
    )
    def drop(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[DropOrder, Body()],
        dry_run: DryRun = False,
    ) -> Response:
        """Give up what never crossed, with a row in the ledger."""

        def verb(config: Config, of: LinkConfig, by: str) -> Answered:
            from heliostat.operate.tail import drop_tail

            return drop_tail(config, of, body.topics, by=by, why=body.why, dry_run=dry_run)

        return answered(request, link, body, verb, dry_run=dry_run)
