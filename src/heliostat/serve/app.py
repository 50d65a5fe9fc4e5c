"""The service's addresses: health, metrics, and the reading API; each shows what is observed."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Scope

from heliostat import __version__
from heliostat.config import Config, ConfigFile, LinkConfig
from heliostat.errors import HeliostatError
from heliostat.metrics.text import CONTENT_TYPE
from heliostat.names import LinkName
from heliostat.serve.access_routes import add_access
from heliostat.serve.answers import LinkParameter, answer, configured, status_of
from heliostat.serve.apply_routes import add_apply
from heliostat.serve.bodies import Bodies
from heliostat.serve.caller_routes import add_caller
from heliostat.serve.check_routes import add_check
from heliostat.serve.configuration_routes import add_configuration
from heliostat.serve.connect.paths import ConnectPaths
from heliostat.serve.drill_routes import add_drill
from heliostat.serve.events_routes import add_events
from heliostat.serve.explain_routes import add_explain
from heliostat.serve.exposure_routes import add_exposure
from heliostat.serve.failover_routes import add_failover
from heliostat.serve.gaps_routes import add_gaps
from heliostat.serve.groups_routes import add_groups
from heliostat.serve.history_routes import add_history
from heliostat.serve.jobs import Jobs
from heliostat.serve.levels_routes import add_levels
from heliostat.serve.links_routes import add_definitions
from heliostat.serve.messages import (
    BeatingFlow,
    Health,
    LinkDetails,
    LinkLimit,
    LinkPage,
    LinkRestarts,
    LinkSummary,
    PartitionField,
    PartitionPage,
    PartitionProblems,
    PausedPlace,
    Readiness,
    StandingWish,
    TopicPage,
    TopicPreference,
    Version,
)
from heliostat.serve.mirrormaker2_routes import add_mirrormaker2
from heliostat.serve.pages import LIMIT, LIMIT_MAX, field_of, topics_page
from heliostat.serve.plans_routes import add_plans
from heliostat.serve.problems import FieldRefused, Problem, documented, of_error, problem
from heliostat.serve.questions import Asking
from heliostat.serve.restart_routes import add_restarts
from heliostat.serve.reverse_routes import add_reverse
from heliostat.serve.rolling_routes import add_rolling
from heliostat.serve.skip_routes import add_skip
from heliostat.serve.static_files import add_page
from heliostat.serve.switch_routes import Switches, add_switch
from heliostat.serve.tail_routes import add_tail
from heliostat.serve.verify_routes import add_verify
from heliostat.serve.watch import Watch
from heliostat.serve.wishes_routes import add_wishes
from heliostat.status.order import ORDERS
from heliostat.status.values import MAX_LAG_S, LinkStatus

MaxLag = Annotated[
    float, Query(ge=0, le=1e9, description="Greatest lag (s) of a link that is in sync.")
]
TITLE = "Heliostat"
API_VERSION = "1"
ABOUT = "Watches and steers links between Kafka clusters, and compares their two sides."


def make_app(
    watch: Watch,
    jobs: Jobs | None = None,
    file: Callable[[], ConfigFile] | None = None,
    connect: ASGIApp | None = None,
) -> FastAPI:
    """Return what answers requests.

    Parameters
    ----------
    watch, jobs
        What is known, and what was begun.
    file
        Returns the configuration file; by default one that holds what the watch has.
    connect
        Answers requests at Kafka Connect's paths; None: these are not there.
    """
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        responses=documented(400, 401, 405, 421, 422, 500),
    )
    bodies = Bodies(watch.clock, lambda: watch.changes)
    _add_health(app, watch, bodies)
    add_mirrormaker2(app, watch, bodies)
    _add_links(app, watch, bodies)
    add_events(app, watch)
    add_configuration(app, watch, bodies)
    jobs = jobs or Jobs(watch)
    asking = Asking(watch, bodies, jobs.under_way)
    add_explain(app, asking)
    add_exposure(app, asking)
    add_failover(app, asking)
    add_history(app, asking, bodies)
    add_groups(app, asking)
    add_gaps(app, asking)
    add_skip(app, asking)
    add_plans(app, asking)
    add_check(app, asking)
    add_verify(app, asking, jobs)
    add_wishes(app, asking)
    add_restarts(app, asking)
    add_apply(app, asking)
    add_levels(app, asking)
    add_tail(app, asking)
    switches = Switches(asking, jobs)
    add_switch(app, asking, switches)
    add_rolling(app, asking, switches)
    add_reverse(app, asking)
    add_access(app, asking)
    of_file = file or partial(_as_file, watch.config)
    add_drill(app, asking, of_file)
    add_definitions(app, watch, of_file)
    add_caller(app)
    add_page(app)
    _add_problems(app)
    if connect is not None:
        app.add_middleware(ConnectPaths, connect=connect)
    return app


def _as_file(config: Config) -> ConfigFile:
    raw = config.model_dump(mode="json", exclude_unset=True)
    return ConfigFile(FilePath("heliostat.yaml"), raw, config)


def health_app(watch: Watch) -> FastAPI:
    """Return what answers on the second address: health and metrics only."""
    app = FastAPI(title=TITLE, version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    bodies = Bodies(watch.clock, lambda: watch.changes)
    _add_health(app, watch, bodies)
    add_mirrormaker2(app, watch, bodies)
    _add_problems(app)
    return app


def _add_health(app: FastAPI, watch: Watch, bodies: Bodies) -> None:
    @app.get("/livez", operation_id="livez")
    async def livez() -> Health:
        """Whether the service answers, whatever its clusters do."""
        return Health(status="ok")

    @app.get("/readyz", operation_id="readyz", responses={503: {"model": Readiness}})
    def readyz(response: Response) -> Readiness:
        """Whether the state of each link is known."""
        statuses = [watched.observation.status for watched in watch.observe_all().values()]
        waiting = {
            status.link: "; ".join(status.troubles)
            for status in statuses
            if status.state == "unreachable"  # that it never ran is known, too
        }
        response.status_code = 503 if waiting else 200
        return Readiness(status="waiting" if waiting else "ok", waiting=waiting)

    @app.get(
        "/metrics",
        operation_id="metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "For Prometheus"}},
    )
    def metrics(request: Request) -> Response:
        """Return all metrics, at most a second old."""
        return answer(request, bodies, "metrics", watch.metrics, CONTENT_TYPE)

    @app.get("/version", operation_id="version")
    async def version() -> Version:
        """Which version answers."""
        return Version(version=__version__, python=platform.python_version())


def _add_links(app: FastAPI, watch: Watch, bodies: Bodies) -> None:
    @app.get("/api/v1/links", operation_id="list_links", response_model=LinkPage)
    def list_links(request: Request, max_lag_s: MaxLag = MAX_LAG_S) -> Response:
        """Return all links in a few figures each."""

        def make() -> bytes:
            by_link = watch.observe_all()
            items = [
                _summary(link, watched.observation.status, max_lag_s)
                for link in watch.config.links
                if (watched := by_link.get(LinkName(link.name))) is not None
            ]
            return LinkPage(items=items, as_of_ms=watch.clock.wall_ms()).model_dump_json().encode()

        return answer(request, bodies, f"links {max_lag_s}", make)

    @app.get(
        "/api/v1/links/{link}",
        operation_id="get_link",
        response_model=LinkDetails,
        responses=documented(404),
    )
    def get_link(request: Request, link: LinkParameter, max_lag_s: MaxLag = MAX_LAG_S) -> Response:
        """Return a link, as `heliostat status --json` does, but for its topics."""
        status, link_config = status_of(watch, link), configured(watch, link)

        def make() -> bytes:
            summary = _summary(link_config, status, max_lag_s).model_dump()
            row = {**summary, **asdict(replace(status, topics=[]))}  # thousands, left out anyway
            row.pop("topics")
            return json.dumps(row).encode()

        return answer(request, bodies, f"link {link} {max_lag_s}", make)

    @app.get(
        "/api/v1/links/{link}/problems",
        operation_id="list_problems",
        response_model=PartitionProblems,
        responses=documented(404),
    )
    def list_problems(request: Request, link: LinkParameter) -> Response:
        """Return partitions that are not copied as they should be, those to decide on first."""
        status = status_of(watch, link)

        def make() -> bytes:
            rows = sorted(status.problems, key=lambda item: not item.is_stopped)
            items = [asdict(item) for item in rows]
            page = {"items": items, "stopped": status.stopped, "as_of_ms": status.at_ms}
            return json.dumps(page).encode()

        return answer(request, bodies, f"problems {link}", make)

    _add_topics(app, watch, bodies)
    _add_partitions(app, watch, bodies)


def _add_topics(app: FastAPI, watch: Watch, bodies: Bodies) -> None:
    @app.get(
        "/api/v1/links/{link}/topics",
        operation_id="list_topics",
        response_model=TopicPage,
        responses=documented(404),
    )
    def list_topics(
        *,
        request: Request,
        link: LinkParameter,
        topic: Annotated[
            list[str], Query(description="Names at either side; * is a wildcard.", max_length=20)
        ] = [],  # noqa: B006  # FastAPI copies it
        state: Annotated[
            list[str], Query(description="Only those with such a partition.", max_length=20)
        ] = [],  # noqa: B006  # the same
        sort: Annotated[str, Query(pattern=f"^({'|'.join(ORDERS)})$")] = "lag",
        after: Annotated[str, Query(description="The `next` of the page before.")] = "",
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT,
        fields: Annotated[str, Query(description="Only these, with commas between them.")] = "",
    ) -> Response:
        """Return the topics of a link in pages."""
        status = status_of(watch, link)

        def make() -> bytes:
            items, following = topics_page(
                status.topics,
                patterns=topic,
                states=state,
                order=sort,
                after=after,
                limit=limit,
                fields=[name for name in fields.split(",") if name],
            )
            page = {"items": items, "next": following, "as_of_ms": status.at_ms}
            return json.dumps(page).encode()

        return answer(request, bodies, f"topics {link} {request.url.query}", make)

    @app.get(
        "/api/v1/links/{link}/topics/{topic}",
        operation_id="get_topic",
        responses=documented(404),
    )
    def get_topic(link: LinkParameter, topic: Annotated[str, Path(max_length=249)]) -> Any:
        """Return one topic of a link, by its name at the source."""
        for row in status_of(watch, link).topics:
            if row.source == topic:
                return row
        raise HTTPException(404, f"link {link} has no topic {topic}")


def _add_partitions(app: FastAPI, watch: Watch, bodies: Bodies) -> None:
    @app.get(
        "/api/v1/links/{link}/partitions",
        operation_id="list_partitions",
        response_model=PartitionField,
        responses=documented(404),
    )
    def list_partitions(request: Request, link: LinkParameter) -> Response:
        """Return all partitions of a link in short: rows of numbers that refer to names."""
        status_of(watch, link)

        def make() -> bytes:
            return json.dumps(field_of(watch.partitions(LinkName(link)), watch.clock)).encode()

        return answer(request, bodies, f"partitions {link}", make)

    @app.get(
        "/api/v1/links/{link}/topics/{topic}/partitions",
        operation_id="list_topic_partitions",
        response_model=PartitionPage,
        responses=documented(404),
    )
    def list_topic_partitions(
        link: LinkParameter, topic: Annotated[str, Path(max_length=249)]
    ) -> PartitionPage:
        """Return the partitions of one topic, by its name at the source, with all that is known."""
        status_of(watch, link)
        rows = [row for row in watch.partitions(LinkName(link)) if row.source == topic]
        if not rows:
            raise HTTPException(404, f"link {link} has no topic {topic}")
        return PartitionPage(items=rows, as_of_ms=watch.clock.wall_ms())


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the framework names those of the first route only
            headers["Allow"] = ", ".join(sorted(_methods_of(app, request.scope)))
        if isinstance(error, FieldRefused):
            return problem(422, str(error.detail), field=error.field, hint=error.hint)
        return problem(error.status_code, str(error.detail), headers=headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":  # its place is a position in the text
            position = first["loc"][-1]
            return problem(
                422, f"the body is no JSON: {first['ctx']['error']} (character {position})"
            )
        field = "/".join(str(part) for part in first["loc"][1:])
        return problem(422, str(first["msg"]), field=field or None)

    @app.exception_handler(HeliostatError)
    async def failed(_: Request, error: HeliostatError) -> Response:
        return of_error(error)

    @app.exception_handler(Exception)
    async def crashed(_: Request, error: Exception) -> Response:
        return problem(500, f"an error of the service itself ({type(error).__name__})")

    def document() -> dict[str, Any]:
        """Return the OpenAPI document, in which problems refer to one schema."""
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=API_VERSION, description=ABOUT, routes=app.routes
            )
            made["components"]["schemas"]["Problem"] = Problem.model_json_schema()
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # as FastAPI describes


def _methods_of(app: FastAPI, scope: Scope) -> set[str]:
    """Return the methods that a path takes, of all its routes."""
    return {
        method
        for route in app.routes
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


def _summary(link: LinkConfig, status: LinkStatus, max_lag_s: float) -> LinkSummary:
    why = status.why_not_in_sync(max_lag_s)
    return LinkSummary(
        name=link.name,
        source=link.source,
        target=link.target,
        state=status.state,
        wish=StandingWish(**status.wish) if status.wish else None,
        paused=[PausedPlace(**place) for place in status.paused],
        paused_count=status.paused_count,
        wish_waits=status.wish_waits,
        restarts=LinkRestarts(**status.restarts) if status.restarts else None,
        limits=[LinkLimit(**limit) for limit in status.limits],
        preferences=[TopicPreference(**preference) for preference in status.preferences],
        in_sync=not why,
        why_not_in_sync=why,
        topics=len(status.topics),
        partitions=status.partitions,
        records_per_s=status.records_per_s,
        bytes_per_s=status.bytes_per_s,
        lag_records=status.lag_records,
        lag_s=status.lag_s,
        unknown=status.unknown,
        would_be_lost=status.would_be_lost,
        unfenced=status.unfenced,
        without_mirror=status.without_mirror,
        rereads=status.rereads,
        latency_p50_ms=status.latency_p50_ms,
        latency_p99_ms=status.latency_p99_ms,
        problems=len(status.problems),
        stopped=status.stopped,
        refused=len(status.refused),
        flows=[
            BeatingFlow(source=source, target=other, age_s=max(0.0, (status.at_ms - at_ms) / 1000))
            for source, other, at_ms in status.driver.get("interchange", {}).get("flows", ())
        ],
    )
