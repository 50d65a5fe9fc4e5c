"""Whether a link would run, and what a cluster has: the functions of `check` and `scan`, by API."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.names import Alias
from heliostat.operate.finding import CheckReport
from heliostat.operate.scanned import ScannedCluster
from heliostat.serve.answers import LinkParameter
from heliostat.serve.check_messages import CheckAnswer, ScanPage
from heliostat.serve.pages import LIMIT, After, Limit
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking, page

AliasParameter = Annotated[str, Path(description="The cluster's name.", max_length=100)]


def add_check(app: FastAPI, asking: Asking) -> None:
    """Answer whether a link would run, and what is at a cluster."""
    watch = asking.watch

    @app.get(
        "/api/v1/links/{link}/check",
        operation_id="check_link",
        response_model=CheckAnswer,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def check_link(request: Request, link: LinkParameter) -> Response:
        """Return whether the link would run from the service's machine, as `heliostat check`.

        Changes nothing. The service's own address, Spark's start and `--try` are left out.
        """
        link_config = asking.link(link)

        def ask() -> CheckReport:
            from heliostat.operate.check import check  # only here: it loads the planner

            return check(watch.config, [link_config])

        return asking.answer(request, f"check {link}", ask, CheckReport.to_json)

    @app.get(
        "/api/v1/clusters/{alias}/scan",
        operation_id="scan_cluster",
        response_model=ScanPage,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def scan_cluster(
        request: Request, alias: AliasParameter, after: After = "", limit: Limit = LIMIT
    ) -> Response:
        """Return what a cluster has, as `heliostat scan` without rates, a page of topics by name.

        Who may do what is only counted.
        """
        cluster = watch.config.clusters.get(Alias(alias))
        if cluster is None:
            names = ", ".join(watch.config.clusters)
            raise HTTPException(404, f"there is no cluster {alias}; there are {names}")

        def ask() -> ScannedCluster:
            from heliostat.operate.scan import scan  # only here: it loads the registry's client

            return scan(cluster)

        shown = partial(_scanned, after=after, limit=limit)
        return asking.answer(request, f"scan {alias}", ask, shown)


def _scanned(content: ScannedCluster, *, after: str, limit: int) -> dict[str, Any]:
    answer = content.to_json()
    for part in ("acls", "quotas", "scram_users"):
        answer[part] = None if answer[part] is None else len(answer[part])
    return page(answer, "topics", lambda row: str(row["name"]), after, limit)
