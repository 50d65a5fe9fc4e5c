"""What is planned, done once by API: by the running link, or by claiming one without a driver."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Body, FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from heliostat.operate.apply import HowToApply, apply_link
from heliostat.serve.admin_verbs import IdempotencyKey, TypedName, require_admin, require_typed
from heliostat.serve.answers import LinkParameter
from heliostat.serve.owner_verbs import (
    WAIT_S,
    DryRun,
    Given,
    OwnerVerbs,
    Wait,
    responses_of,
)
from heliostat.serve.questions import Asking
from heliostat.wishes.wish import WHY_CHARS_MAX


class ApplyOrder(TypedName):
    """Why it is applied; shown wherever it matters."""

    why: Annotated[str, Field(max_length=WHY_CHARS_MAX)] = ""


class ChangeFate(BaseModel):
    """One change of one item, and what became of it."""

    kind: str
    item: str
    """Name of what is changed: a topic, a setting of one, a group."""
    what: str
    why: str
    is_deletion: bool
    fate: Literal["planned", "done", "failed", "held_back", "waits"]
    text: str
    """Why it is not done."""


class ApplyOutcome(BaseModel):
    """What became of each change."""

    link: str
    by_owner: bool
    """Whether a running link did it, or would."""
    changes: list[ChangeFate]
    """Empty: there was nothing to change."""
    refused: dict[str, str]
    """Topics that are not mirrored, and why."""
    drift: list[str]
    """What differs and no link can change."""
    waits: str
    is_done: bool
    is_tried: bool
    """Whether nothing was changed, as it was only asked what would be."""
    took_s: float


_RESPONSES = responses_of(ApplyOutcome, "Something failed, was held back or waits.")


def add_apply(app: FastAPI, asking: Asking) -> None:
    """Answer `apply`."""
    verbs = OwnerVerbs(asking, "orders")

    @app.post(
        "/api/v1/links/{link}/apply",
        operation_id="apply_link",
        response_model=ApplyOutcome,
        responses=_RESPONSES,
    )
    def apply_of(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[ApplyOrder | None, Body()] = None,
        allow_delete: Annotated[
            bool, Query(description="Also unset settings, and leave mirrors to other links.")
        ] = False,
        dry_run: DryRun = False,
        wait_s: Wait = WAIT_S,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Do once at the target what the plan says, without copying; try it with `dry_run`.

        Needs a token of role `admin`, where there are tokens, and the link's name typed; to try
        it, one of `operate`.
        """
        order = body or ApplyOrder()
        if not dry_run:
            require_admin(request)
        require_typed(asking.link(link).name, order, dry_run=dry_run)
        why = order.why
        answer = verbs.answer(
            request,
            Given(link, why, dry_run, wait_s),
            lambda config, of, by: apply_link(
                config,
                of,
                HowToApply(by, why, wait_s, dry_run, allow_delete, idempotency_key or ""),
            ),
        )
        asking.questions.forget(f"plan {link}")
        return answer
