"""Events by API: what has happened lately as JSON, and as a stream of what happens."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import FastAPI, Header, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from heliostat.names import LinkName
from heliostat.operate.events import EventChoice
from heliostat.serve.answers import status_of
from heliostat.serve.messages import EventPage
from heliostat.serve.pages import LIMIT, LIMIT_MAX
from heliostat.serve.problems import documented
from heliostat.serve.watch import Watch

STREAM = "text/event-stream"
STREAMS_MAX = 64
EVERY_S = 1.0
ALIVE_EVERY = 15
"""Looks between two lines that only keep the connection."""
AGAIN_MS = 3_000


class Streams:
    """Streams of events to clients that stay connected. Their number is bounded.

    Parameters
    ----------
    watch
        Whose events.
    is_ending
        Whether the service ends: streams do then, too.
    """

    def __init__(self, watch: Watch, is_ending: Callable[[], bool]) -> None:
        self._watch = watch
        self._is_ending = is_ending
        self._free = STREAMS_MAX
        self._lock = threading.Lock()

    def take(self) -> None:
        """Take a place; 429 if there is none."""
        with self._lock:
            if not self._free:
                text = f"{STREAMS_MAX} clients follow events already"
                raise HTTPException(429, text, headers={"Retry-After": "5"})
            self._free -= 1

    def give_back(self) -> None:
        """Give it back."""
        with self._lock:
            self._free += 1

    async def lines(
        self, link: LinkName | None, after: int, choice: EventChoice
    ) -> AsyncIterator[str]:
        """Yield events that are asked for as they come; ends when the service does."""
        yield f"retry: {AGAIN_MS}\n\n"
        quiet = 0
        while not self._is_ending():
            rows = self._watch.events(link, after)
            after = rows[-1].id if rows else after
            for row in filter(choice.has, rows):
                yield f"id: {row.id}\ndata: {json.dumps(asdict(row))}\n\n"
            quiet = 0 if rows else quiet + 1
            if quiet >= ALIVE_EVERY:
                quiet = 0
                yield ": still here\n\n"
            await asyncio.sleep(EVERY_S)


class _Stream(StreamingResponse):
    """Gives its place back however it ends, also before it has begun."""

    def __init__(self, streams: Streams, lines: AsyncIterator[str]) -> None:
        super().__init__(lines, media_type=STREAM, headers={"X-Accel-Buffering": "no"})
        self._streams = streams

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it while the client stays."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.give_back()


def add_events(app: FastAPI, watch: Watch) -> None:
    """Answer what has happened, and what happens; `app.state.is_ending` ends streams."""
    app.state.is_ending = lambda: False
    streams = Streams(watch, lambda: app.state.is_ending())  # noqa: PLW0108  # it is replaced later

    @app.get(
        "/api/v1/events",
        operation_id="list_events",
        response_model=EventPage,
        responses={
            200: {"content": {STREAM: {"schema": {"type": "string"}}}},
            **documented(404, 429),
        },
    )
    def list_events(
        *,
        request: Request,
        link: Annotated[str | None, Query(max_length=100)] = None,
        after: Annotated[int, Query(ge=0, description="Number of the last event known.")] = 0,
        limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = LIMIT,
        level: Annotated[Literal["INFO", "WARN"], Query(description="At least.")] = "INFO",
        topic: Annotated[
            str | None, Query(max_length=249, description="At the source; * is a wildcard.")
        ] = None,
        last_event_id: Annotated[
            int | None, Header(ge=0, description="As a stream gave it; in place of `after`.")
        ] = None,
    ) -> Response:
        """Return what has happened lately, the newest last, or follow it.

        Who accepts `text/event-stream` gets each event as it comes, and a line every 15 s that
        keeps the connection.
        """
        if link is not None:
            status_of(watch, link)
        name = None if link is None else LinkName(link)
        begin = after if last_event_id is None else last_event_id
        choice = EventChoice(level, topic)
        if STREAM in request.headers.get("accept", ""):
            streams.take()
            return _Stream(streams, streams.lines(name, begin, choice))
        page = EventPage(items=[*filter(choice.has, watch.events(name, begin))][-limit:])
        return Response(page.model_dump_json(), media_type="application/json")
