"""Consumer groups and where they would resume, by API."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.operate.groups import GroupView, LinkGroups, group_views
from heliostat.serve.answers import LinkParameter
from heliostat.serve.cluster_messages import GroupDetails, GroupPage
from heliostat.serve.pages import LIMIT, After, Limit
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking, page


def add_groups(app: FastAPI, asking: Asking) -> None:
    """Answer what groups of a link are, and where each stands."""
    config = asking.watch.config

    @app.get(
        "/api/v1/links/{link}/groups",
        operation_id="list_groups",
        response_model=GroupPage,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def list_groups(
        *,
        request: Request,
        link: LinkParameter,
        selected: Annotated[bool, Query(description="Only those that the link selects.")] = False,
        open_only: Annotated[
            bool, Query(alias="open", description="Only those that are not in sync.")
        ] = False,
        after: After = "",
        limit: Limit = LIMIT,
    ) -> Response:
        """Return groups of the source, and whether each is in sync, as `heliostat groups`."""
        name = asking.link(link).name

        def shown(all_groups: list[LinkGroups]) -> dict[str, Any]:
            views = [
                view
                for view in all_groups[0].groups
                if (view.skip is None or not selected) and not (open_only and view.is_in_sync)
            ]
            answer = {
                "sync": all_groups[0].sync,
                "reasons": all_groups[0].reasons,
                "items": [_row(view) for view in views],
            }
            return page(answer, "items", lambda row: str(row["group"]), after, limit)

        return asking.answer(request, f"groups {name}", partial(group_views, config, name), shown)

    @app.get(
        "/api/v1/links/{link}/groups/{group:path}",
        operation_id="get_group",
        response_model=GroupDetails,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def get_group(
        request: Request, link: LinkParameter, group: Annotated[str, Path(max_length=1000)]
    ) -> Response:
        """Return one group, partition by partition, as `heliostat groups --explain`."""
        name = asking.link(link).name

        def shown(all_groups: list[LinkGroups]) -> dict[str, Any]:
            if not all_groups[0].groups:
                raise HTTPException(404, f"the source has no group {group} that we may see")
            view = next(
                (group_view for group_view in all_groups[0].groups if group_view.group == group),
                all_groups[0].groups[0],
            )
            row = view.to_json()
            return {
                **_row(view),
                "sync": all_groups[0].sync,
                "items": row.get("partitions", []),
                "target_members": row.get("target_members", []),
            }

        ask = partial(group_views, config, name, group)
        return asking.answer(request, f"group {name} {group}", ask, shown)


def _row(view: GroupView) -> dict[str, Any]:
    decided = view.decided
    source = None if decided is None else decided.source
    target = None if decided is None else decided.target
    return {
        "group": view.group,
        "target_group": view.target_group or view.group,
        "selected": view.skip is None,
        "why": view.why,
        "in_sync": view.is_in_sync,
        "problem": (decided.problem or None) if decided is not None else None,
        "partitions": len(view.rows),
        "open_partitions": len(view.open_rows),
        "reread_records": view.reread_records,
        "source_state": None if source is None else source.state,
        "target_state": None if target is None else target.state,
    }
