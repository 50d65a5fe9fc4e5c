"""Figures over time by API: a link's as the service keeps them, a topic's from its target."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from heliostat.names import LinkName
from heliostat.operate.history import DAY_S, Past
from heliostat.serve.answers import LinkParameter, answer, status_of
from heliostat.serve.bodies import Bodies
from heliostat.serve.messages import HistoryColumns, TopicHistory
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking
from heliostat.status.history import COARSE_S, columns_of


def add_history(app: FastAPI, asking: Asking, bodies: Bodies) -> None:
    """Answer what figures were."""
    watch = asking.watch

    @app.get(
        "/api/v1/links/{link}/history",
        operation_id="get_history",
        response_model=HistoryColumns,
        responses=documented(404),
    )
    def get_history(
        request: Request,
        link: LinkParameter,
        step: Annotated[
            Literal["5", "60"], Query(description="Seconds between points: 15 min, or a day.")
        ] = "5",
    ) -> Response:
        """Return a link's figures over time, as columns of the same length."""
        status_of(watch, link)

        def make() -> bytes:
            columns = watch.history(LinkName(link), int(step))
            return json.dumps({"step_s": int(step), **columns}).encode()

        return answer(request, bodies, f"history {link} {step}", make)

    @app.get(
        "/api/v1/links/{link}/topics/{topic}/history",
        operation_id="get_topic_history",
        response_model=TopicHistory,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def get_topic_history(
        request: Request,
        link: LinkParameter,
        topic: Annotated[str, Path(max_length=249, description="Its name at the source.")],
        since_s: Annotated[
            int, Query(ge=COARSE_S, le=DAY_S, description="How far back, in seconds.")
        ] = DAY_S,
    ) -> Response:
        """Return a topic's figures over time, as `heliostat history --topic` does."""
        asking.link(link)
        ask = partial(watch.topic_past, LinkName(link), topic, since_s)
        key = json.dumps(["history", link, topic, since_s])
        return asking.answer(request, key, ask, _topic_columns)


def _topic_columns(past: Past) -> dict[str, object]:
    return {"topic": past.topic, "step_s": past.step_s, **columns_of(past.points)}
