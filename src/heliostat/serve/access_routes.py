"""Rights that follow the source, by API: the same function as `heliostat access`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from heliostat.operate.access import LinkAccess, link_access
from heliostat.serve.admin_verbs import FAILS, OneAtATime, TypedName, require_admin, require_typed
from heliostat.serve.answers import LinkParameter
from heliostat.serve.cluster_messages import OfClusters
from heliostat.serve.owner_verbs import DryRun
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking


class LinkRights(BaseModel):
    """What a link would do about rights and quotas, and why some of it is not done."""

    link: str
    is_on: bool
    """Whether the configuration wants any to be followed; else this is what would be done."""
    make: list[str]
    set: dict[str, float]
    """Limits of quotas, by entity."""
    keep_ready: list[str]
    """`Write` on mirrors, to be granted at their promotion: from now on."""
    kept_ready: int
    remove: list[str]
    asks: str
    """Why removals wait for a person; empty: they don't."""
    confirmation: str
    """Stands for just these removals; empty where nothing asks."""
    is_over: bool
    """Whether all mirrors were promoted, so that nothing is followed any more."""
    is_confirmed: bool
    somebody_elses: list[str]
    """Wanted, and there already: never changed."""
    refused: dict[str, str]
    notes: list[str]


class AccessAnswer(LinkRights, OfClusters):
    """The same, as clusters told it."""


class AccessOrder(TypedName):
    """Confirms removals."""

    removals: Annotated[str, Field(max_length=100)] = ""
    """The `confirmation` that was shown; empty: those of now."""


def add_access(app: FastAPI, asking: Asking) -> None:
    """Answer what is asked of rights."""
    running = OneAtATime()
    config = asking.watch.config

    @app.get(
        "/api/v1/links/{link}/access",
        operation_id="get_access",
        response_model=AccessAnswer,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def get_access(request: Request, link: LinkParameter) -> Response:
        """Return what follows, what is kept ready, and what asks, as `heliostat access`."""
        name = asking.link(link).name
        ask = partial(link_access, config, name)
        return asking.answer(request, f"access {name}", ask, _shown)

    @app.post(
        "/api/v1/links/{link}/access/confirm",
        operation_id="confirm_access",
        response_model=LinkRights,
        responses=documented(*FAILS),
    )
    def confirm_access(
        *,
        request: Request,
        link: LinkParameter,
        body: Annotated[AccessOrder | None, Body()] = None,
        dry_run: DryRun = False,
    ) -> Response:
        """Confirm the removals that were shown; the running link carries out just these.

        Needs the role admin, and the link's name typed. Done again it changes nothing.
        """
        name, order, by = asking.link(link).name, body or AccessOrder(), require_admin(request)
        require_typed(name, order, dry_run=dry_run)
        with running.of(name):
            confirmed_by = "" if dry_run else by
            views = link_access(config, name, allow_delete_by=confirmed_by, shown=order.removals)
        asking.questions.forget(f"access {name}")
        return JSONResponse(_shown(views))


def _shown(views: list[LinkAccess]) -> dict[str, object]:
    return views[0].to_json()
