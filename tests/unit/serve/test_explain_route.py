"""Explanations by API: what the service has seen is not read again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, TOPICS, watch

from heliostat.errors import ConnectionLost
from heliostat.operate import explain as explaining
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.watch import Watch
from heliostat.status.history import level_in_s

__all__ = ["watch"]
PATH = "/api/v1/links/l/explain"


@pytest.fixture
def client(watch: Watch) -> Iterator[TestClient]:
    app = Guard(make_app(watch), hosts=[HOST], tokens=None)
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as made:
        yield made


def no_answer(*_: Any, **__: Any) -> Any:
    raise ConnectionLost("it does not answer")


def test_what_was_reported_is_explained_without_a_cluster(client: TestClient) -> None:
    whole = client.get(PATH)
    assert (whole.status_code, whole.json()["kind"]) == (200, "stopped")
    late = client.get(PATH, params={"what": "t2"}).json()
    assert (late["kind"], late["asked"]) == ("late", "t2")
    assert "2 records are missing" in late["answer"]
    assert client.get(PATH, params={"what": "t0-0"}).json()["kind"] == "copied"
    assert TOPICS > 3


def test_a_cluster_that_does_not_answer_makes_it_say_less(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "ClusterAdmin", no_answer)
    monkeypatch.setattr(explaining, "group_views", no_answer)
    found = client.get(PATH, params={"what": "absent"})
    assert (found.status_code, found.json()["kind"]) == (200, "not_mirrored")
    assert any("it does not answer" in reason for reason in found.json()["reasons"])
    assert client.get(PATH, params={"what": "group g"}).json()["kind"] == "unknown"


def test_what_is_asked_wrongly_is_a_problem(client: TestClient) -> None:
    assert client.get("/api/v1/links/none/explain").status_code == 404
    assert client.get(PATH, params={"what": "x" * 601}).status_code == 422


def test_how_long_a_link_needs_is_told_by_its_lag_of_late() -> None:
    columns = {
        "at_ms": [n * 5000 for n in range(9)],
        "lag_records": [900 - 100 * n for n in range(9)],
    }
    assert level_in_s(columns) == pytest.approx(5.0)
    assert level_in_s({"at_ms": [], "lag_records": []}) is None
