"""How long the service's own answers take, by route, for its metrics."""

from __future__ import annotations

import time

from heliostat.metrics import families as f
from heliostat.metrics.text import Samples, labels
from heliostat.ops.request_times import BOUNDS_S, RequestTimes
from heliostat.serve.guard import App, Message, Receive, Scope, Send

SERIES_MAX = 300
"""Most combinations of route, method and code; there are fewer."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
NO_ROUTE = "(none)"
"""Refused before any route was looked for, or there is none for it."""
OTHER_METHOD = "other"


class RouteTimes:
    """Counts answers by route, method and code. Thread-safe."""

    def __init__(self) -> None:
        self._times = RequestTimes(SERIES_MAX)

    def timed(self, app: App) -> App:
        """Return an app of which each answer is counted once it begins: a stream may last."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began_s = time.monotonic()

            async def send_counted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    took_s = time.monotonic() - began_s
                    self._times.took(_labels_of(scope, message["status"]), took_s)
                await send(message)

            await app(scope, receive, send_counted)

        return answer

    def write(self, samples: Samples) -> None:
        """Add the samples."""
        for labelled, seconds, counts in self._times.rows():
            samples.add_histogram(f.HTTP_SECONDS, labelled, BOUNDS_S, counts, seconds)


def _labels_of(scope: Scope, code: int) -> str:
    method = scope["method"] if scope["method"] in METHODS else OTHER_METHOD
    route = getattr(scope.get("route"), "path", NO_ROUTE)
    return labels({"route": route, "method": method, "code": code})
