"""What a link would do, its schemas, and offsets translated, by API."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from heliostat.names import Offset, PartitionId, TopicName
from heliostat.operate.plan import plan_link
from heliostat.serve.answers import LinkParameter
from heliostat.serve.cluster_messages import PlanPage, SchemaPage, TranslatedOffsets
from heliostat.serve.pages import LIMIT, OFFSET_MAX, PARTITION_MAX, After, Limit
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking, page
from heliostat.topics.topic_plan import TopicPlan


def add_plans(app: FastAPI, asking: Asking) -> None:
    """Answer what a link would do at its target, and what of it is there."""
    config = asking.watch.config

    @app.get(
        "/api/v1/links/{link}/plan",
        operation_id="get_plan",
        response_model=PlanPage,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def get_plan(
        request: Request, link: LinkParameter, after: After = "", limit: Limit = LIMIT
    ) -> Response:
        """Return what the link would do to the target's topics now, as `heliostat plan` does.

        Whether Spark can run its pipelines, and what it would do to schemas, is not told here.
        """
        link_config = asking.link(link)

        def shown(plan: TopicPlan) -> dict[str, Any]:
            lines = plan.lines()
            rows = [
                {"place": str(place), "kind": kind, "text": text}
                for place, (kind, text) in enumerate(lines, 1)
            ]
            answer = page({"items": rows}, "items", lambda row: str(row["place"]), after, limit)
            items = [{"kind": row["kind"], "text": row["text"]} for row in answer["items"]]
            return {
                "is_empty": plan.is_empty,
                "mirrors": len(plan.mirrors),
                "kinds": Counter(kind for kind, _ in lines),
                "items": items,
                "next": answer["next"],
            }

        ask = partial(plan_link, config, link_config)
        return asking.answer(request, f"plan {link}", ask, shown)

    _add_schemas(app, asking)
    _add_offsets(app, asking)


def _add_schemas(app: FastAPI, asking: Asking) -> None:
    @app.get(
        "/api/v1/links/{link}/schemas",
        operation_id="list_schemas",
        response_model=SchemaPage,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def list_schemas(
        *,
        request: Request,
        link: LinkParameter,
        state: Annotated[
            list[str], Query(description="Only versions in one of these states.", max_length=10)
        ] = [],  # noqa: B006  # FastAPI copies it
        after: After = "",
        limit: Limit = LIMIT,
    ) -> Response:
        """Return which schemas of the source are at the target, as `heliostat schemas status`."""
        name = asking.link(link).name

        def ask() -> dict[str, Any]:
            # Only here: its HTTP client takes long to load.
            from heliostat.operate.schemas import link_schemas

            off = {"strategy": "off", "in_sync": True, "versions": [], "derived": []}
            return next(
                (schemas.to_json() for schemas in link_schemas(asking.watch.config, name)), off
            )

        def shown(schemas: dict[str, Any]) -> dict[str, Any]:
            rows = [row for row in schemas["versions"] if not state or row["state"] in state]
            answer = {
                "strategy": schemas["strategy"],
                "in_sync": schemas["in_sync"],
                "states": Counter(row["state"] for row in schemas["versions"]),
                "derived": schemas["derived"],
                "items": rows,
            }
            return page(answer, "items", _version, after, limit)

        return asking.answer(request, f"schemas {name}", ask, shown)


def _version(row: dict[str, Any]) -> str:
    return f"{row['subject']}/{row['version']}"


def _add_offsets(app: FastAPI, asking: Asking) -> None:
    @app.get(
        "/api/v1/links/{link}/offsets",
        operation_id="translate_offset",
        response_model=TranslatedOffsets,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def translate_offset(
        *,
        request: Request,
        link: LinkParameter,
        topic: Annotated[str, Query(max_length=249, description="Its name on the other side.")],
        partition: Annotated[int, Query(ge=0, le=PARTITION_MAX)],
        offset: Annotated[int, Query(ge=0, le=OFFSET_MAX)],
        to: Annotated[
            Literal["target", "source"], Query(description="The side to translate to.")
        ] = "target",
    ) -> Response:
        """Translate an offset of one side into the other's, as `heliostat offsets translate`."""
        link_config = asking.link(link)

        def ask() -> dict[str, Any]:
            # Only here: it loads numpy.
            from heliostat.offsets.translation import Question, Side
            from heliostat.operate.offsets import translated

            question = Question(TopicName(topic), PartitionId(partition), Offset(offset))
            return translated(asking.watch.config, link_config, [question], Side(to)).to_json()

        key = f"offset {link} {topic}/{partition}/{offset} {to}"
        return asking.answer(request, key, ask, lambda translation: translation)
