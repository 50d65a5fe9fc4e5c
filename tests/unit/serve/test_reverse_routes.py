"""The way back by API: what is asked of the verb, who may, and what is answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.errors import Refused
from heliostat.names import LinkName, TopicName
from heliostat.operate.reversing.values import ReturnState, Reversal, Tail, TopicReturn
from heliostat.serve import reverse_routes
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.reverse_routes import ReversalOutcome, ReverseCourse
from heliostat.serve.watch import Watch

__all__ = ["watch"]
PATH = "/api/v1/links/l/reverse"
T = TopicName("t")
LOOKED = Reversal(
    LinkName("l"), LinkName("b"), (TopicReturn(T, T, ReturnState.READY, "both logs are equal"),)
)


@pytest.fixture
def client(watch: Watch) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


def test_it_is_looked_at_first_and_done_once_the_name_is_typed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def reverse(
        _: object, link: LinkConfig, back: LinkConfig, topics: list[str], **words: Any
    ) -> Reversal:
        calls.append((link.name, back.name, topics, words))
        return replace(LOOKED, is_written=not words["dry_run"])

    monkeypatch.setattr(reverse_routes, "reverse", reverse)
    body = {"back": "l", "topics": ["t"], "tail": "keep"}
    assert client.get(PATH).status_code == 404
    looked = client.post(f"{PATH}?dry_run=true", json=body)
    assert looked.status_code == 200, looked.text
    assert not ReversalOutcome.model_validate(looked.json()).is_written
    refused = client.post(PATH, json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "confirm")
    done = client.post(PATH, json={**body, "confirm": "l"})
    assert ReversalOutcome.model_validate(done.json()).is_written
    words = [{"tail": Tail.KEEP, "dry_run": each, "by": "api"} for each in (True, False)]
    assert calls == [("l", "l", ["t"], each) for each in words]
    course = ReverseCourse.model_validate(client.get(PATH).json())
    assert (course.state, course.text) == ("done", "t: ready: both logs are equal")


@pytest.mark.parametrize(
    ("body", "status"), [({}, 422), ({"back": "gone"}, 404), ({"back": "l"}, 409)]
)
def test_what_is_wrong_is_said(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, body: dict[str, str], status: int
) -> None:
    def reverse(*_: object, **__: object) -> Reversal:
        raise Refused("link l leads from a to b")

    monkeypatch.setattr(reverse_routes, "reverse", reverse)
    assert client.post(f"{PATH}?dry_run=true", json=body).status_code == status
