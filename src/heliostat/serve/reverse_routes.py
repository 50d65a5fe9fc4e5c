"""The way back by API: the same function as `heliostat reverse`, with the link's name typed."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from heliostat.names import LinkName
from heliostat.operate.reverse import reverse
from heliostat.operate.reversing.values import Evidence, ReturnState, Reversal, Tail
from heliostat.serve.admin_verbs import (
    FAILS,
    IdempotencyKey,
    TypedName,
    require_admin,
    require_typed,
)
from heliostat.serve.answers import LinkParameter
from heliostat.serve.long_verbs import (
    WAIT_MAX_S,
    Course,
    LongVerbs,
    WaitForEnd,
    answered,
    last_course,
)
from heliostat.serve.owner_verbs import TOPICS_MAX, DryRun, Topic
from heliostat.serve.problems import documented
from heliostat.serve.questions import Asking


class ReverseOrder(TypedName):
    """By which link topics are copied back, and what becomes of tails."""

    back: Annotated[str, Field(min_length=1, max_length=100)]
    """A link in the other direction; if it runs, it rests while its state is written."""
    topics: Annotated[list[Topic], Field(max_length=TOPICS_MAX, default_factory=list)]
    """Names at the old source; none: all that were promoted."""
    tail: Tail = Tail.REFUSE
    """What becomes of topics whose old source has records that never crossed."""


class PartitionReturned(BaseModel):
    """One partition: where both logs are equal, and where copying goes on."""

    partition: int
    source_end: int
    target_end: int
    old_end: int
    """Log end at the old source."""
    tail: int
    """Records there that never crossed, at most."""
    evidence: Evidence
    """What shows that both logs are equal up to the promotion."""


class TopicReturned(BaseModel):
    """What becomes, or became, of a topic."""

    topic: str
    """Its name at the old source."""
    mirror: str
    """Its name at the new primary."""
    state: ReturnState
    why: str
    tail: int
    """Records that never crossed, at most."""
    is_recreated: bool
    """Whether the topic is made anew at the old source."""
    partitions: list[PartitionReturned]


class GroupReturned(BaseModel):
    """A group at the old source whose offset lay beyond the promotion."""

    group: str
    topic: str
    partition: int
    offset: int
    until: int
    """The promotion's, to which it is set."""
    has_members: bool
    """Whether it runs there: then it stays where it is."""


class ReversalOutcome(BaseModel):
    """What becomes, or became, of all topics."""

    link: str
    back: str
    is_written: bool
    """Whether it was done; start the link that leads back then."""
    topics: list[TopicReturned]
    groups: list[GroupReturned]
    open_subjects: list[str]
    """Lines about subjects of the old source's registry that stay open, and why."""


class ReverseCourse(Course):
    """A way back under way, or as it ended."""

    result: ReversalOutcome | None


def _report(reversal: Reversal) -> str:
    return "\n".join(reversal.describe())


def add_reverse(app: FastAPI, asking: Asking) -> None:
    """Answer who lets a link lead back."""
    verbs = LongVerbs(asking.watch.clock, _report, asking.under_way)

    @app.get(
        "/api/v1/links/{link}/reverse",
        operation_id="get_reverse",
        response_model=ReverseCourse,
        responses=documented(404),
    )
    def get_reverse(link: LinkParameter) -> Response:
        """Return the way back, or the look at it, that this service was asked for last."""
        of = asking.link(link)
        return last_course(verbs, LinkName(of.name), f"reverse {of.name}")

    @app.post(
        "/api/v1/links/{link}/reverse",
        operation_id="reverse_link",
        response_model=ReversalOutcome,
        responses={
            202: {"description": "It is under way.", "model": ReverseCourse},
            **documented(*FAILS),
        },
    )
    def reverse_link(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[ReverseOrder, Body()],
        dry_run: DryRun = False,
        wait_s: WaitForEnd = WAIT_MAX_S,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Have a link copy to the old source what came since; role admin, the name typed."""
        of, back = asking.link(link), asking.link(body.back)
        by = require_admin(request)
        require_typed(of.name, body, dry_run=dry_run)
        config = asking.watch.config
        begun = verbs.begin(
            LinkName(of.name),
            lambda _: reverse(
                config, of, back, body.topics, tail=body.tail, dry_run=dry_run, by=by
            ),
            by=by,
            key=idempotency_key,
            asked=body,
            is_tried=dry_run,
        )
        return answered(begun, wait_s, f"/api/v1/links/{of.name}/reverse")
