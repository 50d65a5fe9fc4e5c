"""Figures under the names of MirrorMaker 2's metrics, for boards and alerts made for it."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.metrics.text import CONTENT_TYPE
from heliostat.serve.answers import answer
from heliostat.serve.bodies import Bodies
from heliostat.serve.problems import documented
from heliostat.serve.watch import Watch


def add_mirrormaker2(app: FastAPI, watch: Watch, bodies: Bodies) -> None:
    """Add the address."""

    @app.get(
        "/metrics/mirrormaker2",
        operation_id="metrics_mirrormaker2",
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {}}, "description": "For Prometheus"},
            **documented(404),
        },
    )
    def mirrormaker2(request: Request) -> Response:
        """Return figures of links under MirrorMaker 2's names, if that is configured."""
        if watch.config.metrics.mirrormaker2 is None:
            raise HTTPException(404, "metrics.mirrormaker2 is not set in the configuration")
        return answer(request, bodies, "mirrormaker2", watch.mirrormaker2, CONTENT_TYPE)
