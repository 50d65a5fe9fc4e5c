"""Why something of a link is as it is: the same function as `heliostat explain`, by API."""

from __future__ import annotations

import json
import threading
from typing import Annotated

from fastapi import FastAPI, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response

from heliostat.explaining.values import Explanation
from heliostat.names import LinkName
from heliostat.operate.explain import Seen, explain_link
from heliostat.operate.status import LinkPicture
from heliostat.serve.answers import LinkParameter, status_of
from heliostat.serve.problems import documented
from heliostat.serve.watch import Watch
from heliostat.status.history import FINE_S, level_in_s

AT_ONCE = 3
"""Some ask clusters, and a dead one holds a thread until it is given up."""
WAITS_S = 2.0
KEPT_S = 2.0
KEPT_MAX = 64


class Explanations:
    """Gives explanations: few are made at once, and each holds for all who ask just then."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._kept: dict[tuple[str, str], tuple[float, bytes]] = {}

    def body(self, link: str, asked: str) -> bytes:
        """Return the explanation as JSON.

        Raises
        ------
        HTTPException
            So many are being made that this one would wait for long.
        """
        key = link, asked.strip()
        if not self._free.acquire(timeout=WAITS_S):
            text = f"{AT_ONCE} explanations are being made; ask again in a few seconds"
            raise HTTPException(503, text, headers={"Retry-After": "3"})
        try:
            made_s, body = self._kept.get(key, (0.0, b""))
            if not body or self._watch.clock.monotonic_s() - made_s > KEPT_S:
                body = json.dumps(self._explain(*key).to_json()).encode()
                kept = list(self._kept.items())[-KEPT_MAX:]
                self._kept = {**dict(kept), key: (self._watch.clock.monotonic_s(), body)}
            return body
        finally:
            self._free.release()

    def _explain(self, link: str, asked: str) -> Explanation:
        watch, name = self._watch, LinkName(link)
        picture = LinkPicture(status_of(watch, link), tuple(watch.partitions(name)))
        seen = Seen(picture, level_in_s=level_in_s(watch.history(name, FINE_S)))
        return explain_link(watch.config, link, asked, seen)


def add_explain(app: FastAPI, watch: Watch) -> None:
    """Answer why something is as it is."""
    explanations = Explanations(watch)

    @app.get(
        "/api/v1/links/{link}/explain",
        operation_id="explain",
        response_model=Explanation,
        responses=documented(404, 503),
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
        status_of(watch, link)
        return Response(explanations.body(link, what), media_type="application/json")
