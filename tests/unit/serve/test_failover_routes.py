"""Failover by API: the link's name is typed, and the role is admin."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.handover.test_failover import report
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.errors import ConnectionLost
from heliostat.handover.failover import FailoverReport
from heliostat.serve import failover_routes
from heliostat.serve.app import make_app
from heliostat.serve.failover_routes import FailoverCourse, FailoverOutcome
from heliostat.serve.guard import Guard
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch

__all__ = ["watch"]
PATH = "/api/v1/links/l/failover"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def failover(
        _config: object, link: LinkConfig, topics: list[str], **words: Any
    ) -> FailoverReport:
        words.pop("tell")("it waits")
        calls.append((link.name, topics, words))
        return report()

    monkeypatch.setattr(failover_routes, "failover", failover)
    return calls


@pytest.fixture
def client(watch: Watch) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


def test_it_is_done_once_the_name_is_typed(client: TestClient, asked: list[Any]) -> None:
    body = {"confirm": "l", "topics": ["t", "u.*"], "why": "fire"}
    answer = client.post(f"{PATH}?drain_s=3", json=body)
    assert answer.status_code == 200, answer.text
    FailoverOutcome.model_validate(answer.json())
    words = {"by": "api", "why": "fire", "drain_s": 3.0, "dry_run": False}
    assert asked == [("l", ["t", "u.*"], words)]


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("", None, 422),
        ("", {"confirm": "m"}, 422),
        ("", {"topics": ["t"]}, 422),
        ("?dry_run=true", None, 200),
        ("?dry_run=true", {"topics": ["t"]}, 200),
        ("?drain_s=3601", {"confirm": "l"}, 422),
        ("", {"confirm": "l", "force": True}, 422),
    ],
)
def test_nothing_is_done_without_the_name(
    client: TestClient, asked: list[Any], query: str, body: Any, status: int
) -> None:
    assert client.post(f"{PATH}{query}", json=body).status_code == status
    assert [words["dry_run"] for _, _, words in asked] == ([True] if status == 200 else [])


def test_only_an_admin_may(watch: Watch, asked: list[Any], tmp_path: Path) -> None:
    lines = [
        f"{role}:{role}:{hashlib.sha256(role.encode()).hexdigest()}"
        for role in ("operate", "admin")
    ]
    file = tmp_path / "tokens"
    file.write_text("\n".join(lines))
    file.chmod(0o600)
    app = Guard(make_app(watch), hosts=[HOST], tokens=Tokens(file))
    client = TestClient(app, base_url=f"http://{HOST}")

    def status(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return client.post(PATH, json={"confirm": "l"}, headers=headers).status_code

    assert (status("operate"), status("admin")) == (403, 200)
    assert [words["by"] for _, _, words in asked] == ["admin"]


def test_one_that_takes_long_is_followed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, calls = threading.Event(), list[bool]()

    def failover(*_: Any, tell: Callable[[str], None], dry_run: bool, **__: Any) -> FailoverReport:
        calls.append(dry_run)
        tell("its leases are waited out")
        may_end.wait(20)
        if len(calls) > 1:
            raise ConnectionLost("the target is gone")
        return report()

    monkeypatch.setattr(failover_routes, "failover", failover)
    monkeypatch.setattr(failover_routes, "last_failover", lambda *_: None)
    assert client.get(PATH).status_code == 404
    body, once = {"confirm": "l"}, {"Idempotency-Key": "k"}
    begun = client.post(f"{PATH}?wait_s=0.1", json=body, headers=once)
    assert (begun.status_code, begun.headers["Location"]) == (202, PATH)
    course = FailoverCourse.model_validate(client.get(PATH).json())
    assert (course.state, course.told) == ("running", ["its leases are waited out"])
    again = client.post(f"{PATH}?wait_s=0", json=body, headers=once)
    assert again.json()["id"] == begun.json()["id"], "the same, once"
    other = client.post(PATH, json={**body, "why": "another"}, headers=once)
    assert (other.status_code, len(calls)) == (422, 1), "not taken for the first one"
    assert client.post(PATH, json=body).status_code == 409
    may_end.set()
    assert client.post(PATH, json=body, headers=once).status_code == 200
    course = FailoverCourse.model_validate(client.get(PATH).json())
    assert course.state == "done"
    assert course.text.startswith("# Failover")
    assert client.post(PATH, json=body).status_code == 503
    course = FailoverCourse.model_validate(client.get(PATH).json())
    assert course.problem is not None
    assert (course.state, course.problem.code) == ("failed", "CONNECTION_LOST")
    assert calls == [False, False]


def test_one_of_another_process_is_told_by_its_rows(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover_routes, "last_failover", lambda *_: report())
    course = FailoverCourse.model_validate(client.get(PATH).json())
    assert (course.id, course.state) == ("", "done")
    assert course.result is not None
