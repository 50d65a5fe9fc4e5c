"""What the routes share: the link of a path, and an answer made at most once a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Path, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.config import LinkConfig
from heliostat.names import LinkName
from heliostat.serve.bodies import Bodies
from heliostat.serve.watch import Watch
from heliostat.status.values import LinkStatus

LinkParameter = Annotated[str, Path(description="Name of the link.", max_length=100)]


def status_of(watch: Watch, link: str) -> LinkStatus:
    """Return a link as it is seen now; 404 if there is none of that name."""
    try:
        return watch.observe(LinkName(link)).observation.status
    except KeyError:
        names = ", ".join(watch.names)
        raise HTTPException(404, f"there is no link {link}; there are {names}") from None


def configured(watch: Watch, link: str) -> LinkConfig:
    """Return a link as it is configured; 404 if it has gone meanwhile."""
    try:
        return watch.config.link(link)
    except KeyError:
        raise HTTPException(404, f"there is no link {link} any more") from None


def answer(
    request: Request,
    bodies: Bodies,
    key: str,
    make: Callable[[], bytes],
    media_type: str = "application/json",
) -> Response:
    """Return an answer made at most once a second, as was asked."""
    return bodies.get(key, make).response(request, media_type)
