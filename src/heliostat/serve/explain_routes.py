"""Why something of a link is as it is: the same function as `heliostat explain`, by API."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.responses import Response

from heliostat.explaining.values import Explanation
from heliostat.names import LinkName
from heliostat.operate.explain import Seen, explain_link
from heliostat.operate.status import LinkPicture
from heliostat.serve.answers import LinkParameter, status_of
from heliostat.serve.problems import documented
from heliostat.serve.questions import FROM_CLUSTERS, Asking
from heliostat.serve.watch import Watch
from heliostat.status.history import FINE_S, level_in_s


def explained(watch: Watch, link: str, what: str) -> Explanation:
    """Return the explanation by what the service has seen, and by clusters where that is needed."""
    name = LinkName(link)
    picture = LinkPicture(status_of(watch, link), tuple(watch.partitions(name)))
    snapshot = Seen(picture, level_in_s=level_in_s(watch.history(name, FINE_S)))
    return explain_link(watch.config, link, what, snapshot)


def add_explain(app: FastAPI, asking: Asking) -> None:
    """Answer why something is as it is."""

    @app.get(
        "/api/v1/links/{link}/explain",
        operation_id="explain",
        response_model=Explanation,
        responses=documented(404, *FROM_CLUSTERS),
    )
    def explain(
        link: LinkParameter,
        what: Annotated[
            str,
            Query(
                description="`TOPIC`, `TOPIC-P`, `TOPIC-P@OFFSET` or `group G`; empty: the link.",
                max_length=600,
            ),
        ] = "",
    ) -> Response:
        """Return why it is as it is, since when and what to do, as `heliostat explain --json`."""
        watch, what = asking.watch, what.strip()
        status_of(watch, link)
        ask = partial(explained, watch, link, what)
        explanation: Explanation = asking.questions.get(f"explain {link} {what}", ask).value
        return Response(json.dumps(explanation.to_json()), media_type="application/json")
