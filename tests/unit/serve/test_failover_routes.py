"""Failover by API: the link's name is typed, and the role is admin."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.handover.test_failover import report
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.handover.failover import FailoverReport
from heliostat.serve import failover_routes
from heliostat.serve.app import make_app
from heliostat.serve.failover_routes import FailoverOutcome
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
        calls.append((link.name, topics, words))
        return report()

    monkeypatch.setattr(failover_routes, "failover", failover)
    return calls


@pytest.fixture
def client(watch: Watch) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


def test_it_is_done_once_the_name_is_typed(client: TestClient, asked: list[Any]) -> None:
    body = {"link": "l", "topics": ["t", "u.*"], "why": "fire"}
    answer = client.post(f"{PATH}?drain_s=3", json=body)
    assert answer.status_code == 200, answer.text
    FailoverOutcome.model_validate(answer.json())
    words = {"by": "api", "why": "fire", "drain_s": 3.0, "dry_run": False}
    assert asked == [("l", ["t", "u.*"], words)]


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("", None, 422),
        ("", {"link": "m"}, 422),
        ("", {"topics": ["t"]}, 422),
        ("?dry_run=true", None, 200),
        ("?dry_run=true", {"topics": ["t"]}, 200),
        ("?drain_s=61", {"link": "l"}, 422),
        ("", {"link": "l", "force": True}, 422),
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
        return client.post(PATH, json={"link": "l"}, headers=headers).status_code

    assert (status("operate"), status("admin")) == (403, 200)
    assert [words["by"] for _, _, words in asked] == ["admin"]
