"""The configuration as it is in force, by API; no secret ever."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from heliostat.operate.configuration import settings_in_force
from heliostat.serve.answers import answer, status_of
from heliostat.serve.bodies import Bodies
from heliostat.serve.problems import documented
from heliostat.serve.watch import Watch


class SettingRow(BaseModel):
    """One value that is in force; `(not shown)` for what may be a secret."""

    path: str
    value: Any
    is_default: bool


class Configuration(BaseModel):
    """What is in force since the service was started."""

    items: list[SettingRow]


def add_configuration(app: FastAPI, watch: Watch, bodies: Bodies) -> None:
    """Answer what is configured."""

    @app.get(
        "/api/v1/configuration",
        operation_id="get_configuration",
        response_model=Configuration,
        responses=documented(404),
    )
    def get_configuration(
        request: Request,
        link: Annotated[
            str | None, Query(max_length=100, description="Only what concerns this link.")
        ] = None,
    ) -> Response:
        """Return the configuration as it is in force, without secrets, as `heliostat config`."""
        if link is not None:
            status_of(watch, link)
        config = watch.config

        def make() -> bytes:
            rows = settings_in_force(config, None if link is None else config.link(link))
            return json.dumps({"items": [row.to_json() for row in rows]}).encode()

        return answer(request, bodies, f"configuration {link}", make)
