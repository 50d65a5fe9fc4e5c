"""Events as a stream: where a client goes on, who ends it, how many there are."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.names import LinkName
from heliostat.operate.events import EventChoice
from heliostat.ops.events import Subject
from heliostat.serve import events_routes
from heliostat.serve.app import make_app
from heliostat.serve.events_routes import ALIVE_EVERY, STREAMS_MAX, Streams
from heliostat.serve.guard import Guard
from heliostat.serve.watch import Watch

__all__ = ["watch"]
STREAM = {"Accept": "text/event-stream"}


def streamed(text: str) -> list[dict[str, Any]]:
    """Return ids and data of a stream's text."""
    blocks = [block for block in text.split("\n\n") if block.startswith("id:")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


def test_a_client_goes_on_where_it_was(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given events and a client that has lost its connection / when it comes again with the last

    id / then it gets what is newer.
    """
    monkeypatch.setattr(events_routes, "EVERY_S", 0.01)
    events = watch.follower(LinkName("l")).events
    for text in ("one", "two"):
        events.info(text)
    app = make_app(watch)
    looks = iter([False, True, False, True, False, True, False, True])
    app.state.is_ending = lambda: next(looks)
    with TestClient(Guard(app, hosts=[HOST], tokens=None), base_url=f"http://{HOST}") as client:
        answer = client.get("/api/v1/events", headers=STREAM)
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.startswith("retry: ")
        first, second = streamed(answer.text)
        assert json.loads(second["data"])["text"] == "two"

        def after(place: str) -> list[str]:
            got = client.get("/api/v1/events?link=l", headers={**STREAM, "Last-Event-ID": place})
            return [json.loads(row["data"])["text"] for row in streamed(got.text)]

        assert after(first["id"]) == ["two"]
        assert after(second["id"]) == []
        assert client.get("/api/v1/events").json()["items"][-1]["text"] == "two", "JSON stays"
        assert client.get("/api/v1/events?link=x", headers=STREAM).status_code == 404
        wrong = client.get("/api/v1/events", headers={"Last-Event-ID": "x"})
        assert wrong.status_code == 422


def test_only_what_is_asked_for_comes(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_routes, "EVERY_S", 0)
    events = watch.follower(LinkName("l")).events
    events.info("t-0 is copied again", Subject(topic="t", partition=0))
    events.warn("u-0 is blocked", Subject(topic="u", partition=0))
    events.info("t and 3 more are paused: an operator wishes so")
    app = make_app(watch)
    looks = iter([False, True])
    app.state.is_ending = lambda: next(looks)
    with TestClient(Guard(app, hosts=[HOST], tokens=None), base_url=f"http://{HOST}") as client:

        def texts(query: str) -> list[str]:
            rows = client.get(f"/api/v1/events?{query}").json()["items"]
            return [row["text"].split()[0] for row in rows]

        assert texts("level=WARN") == ["u-0"]
        assert texts("topic=t") == ["t-0", "t"]
        assert texts("topic=*&limit=1") == ["t"]
        assert client.get("/api/v1/events?level=x").status_code == 422
        got = client.get("/api/v1/events?level=WARN", headers=STREAM)
        assert [json.loads(row["data"])["text"] for row in streamed(got.text)] == ["u-0 is blocked"]


def test_a_quiet_stream_is_kept_and_its_number_bounded(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_routes, "EVERY_S", 0)
    looks = 0

    def is_ending() -> bool:
        nonlocal looks
        looks += 1
        return looks > ALIVE_EVERY

    async def lines(of: Streams) -> list[str]:
        return [line async for line in of.lines(None, 0, EventChoice())]

    streams = Streams(watch, is_ending)
    assert asyncio.run(lines(streams))[-1] == ": still here\n\n"
    for _ in range(STREAMS_MAX):
        streams.take()
    with pytest.raises(HTTPException) as refused:
        streams.take()
    assert refused.value.status_code == 429
    streams.give_back()
    streams.take()
