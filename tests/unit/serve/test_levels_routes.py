"""Limits and priorities by API: who wishes what, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.errors import Refused
from heliostat.names import LinkName
from heliostat.operate.levels import Asked, LevelAnswer
from heliostat.records.copier.lane_limits import Priority
from heliostat.serve import levels_routes
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.levels_routes import LevelOutcome
from heliostat.serve.watch import Watch

__all__ = ["watch"]
L = "/api/v1/links/l"


class Verbs:
    """Stand for the verbs, which have tests of their own."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.is_done = True
        self.error: Exception | None = None

    def limit(
        self, _: object, link: LinkConfig, rate: int | None, topics: list[str], *, asked: Asked
    ) -> LevelAnswer:
        return self._answer(link, rate, topics, asked)

    def prefer(
        self, _: object, link: LinkConfig, topics: list[str], priority: Priority, *, asked: Asked
    ) -> LevelAnswer:
        return self._answer(link, priority.value, topics, asked)

    def _answer(self, link: LinkConfig, level: Any, topics: list[str], asked: Asked) -> LevelAnswer:
        self.asked.append((level, list(topics), asked.by, asked.why, asked.dry_run))
        if self.error is not None:
            raise self.error
        places, done = tuple(topics) or ("the link",), self.is_done and not asked.dry_run
        told = "" if self.is_done else "no owner"
        return LevelAnswer(
            LinkName(link.name), str(level), places, places, 3, 7, done, told, 0.1, asked.dry_run
        )


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> Verbs:
    made = Verbs()
    monkeypatch.setattr(levels_routes, "limit", made.limit)
    monkeypatch.setattr(levels_routes, "prefer", made.prefer)
    return made


@pytest.fixture
def client(watch: Watch, verbs: Verbs) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


@pytest.mark.parametrize(
    ("path", "body", "asked"),
    [
        ("/limit", {"limit": "20MB/s", "why": "so"}, (20_000_000, [], "so")),
        ("/limit", {"limit": "none"}, (None, [], "")),
        ("/limit", {"limit": "1kB/s", "topics": ["t", "u"]}, (1_000, ["t", "u"], "")),
        ("/topics/a.b/limit", {"limit": "1MiB/s"}, (1 << 20, ["a.b"], "")),
        ("/prefer", {"topics": ["t", "u.*"], "priority": "high"}, ("high", ["t", "u.*"], "")),
    ],
)
def test_each_path_is_a_wish(
    client: TestClient, verbs: Verbs, path: str, body: Any, asked: tuple[Any, ...]
) -> None:
    answer = client.post(L + path, json=body)
    assert answer.status_code == 200, answer.text
    LevelOutcome.model_validate(answer.json())
    level, topics, why = asked
    assert verbs.asked == [(level, topics, "api", why, False)]
    verbs.is_done = False
    assert client.post(f"{L}{path}?wait_s=0", json=body).status_code == 202
    assert client.post(f"{L}{path}?dry_run=true", json=body).status_code == 200
    assert verbs.asked[-1][-1]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/limit", None),
        ("/limit", {}),
        ("/limit", {"limit": 20_000_000}),
        ("/limit", {"limit": "20MB"}),
        ("/limit", {"limit": "0MB/s"}),
        ("/limit", {"limit": "1MB/s", "topics": ["a*"]}),
        ("/limit", {"limit": "1MB/s", "until": "noon"}),
        ("/topics/t/limit", {"limit": "1MB/s", "topics": ["u"]}),
        ("/prefer", {"topics": [], "priority": "high"}),
        ("/prefer", {"topics": ["a"], "priority": "urgent"}),
        ("/prefer", {"topics": ["[a]"], "priority": "high"}),
    ],
)
def test_what_can_not_be_wished(client: TestClient, verbs: Verbs, path: str, body: Any) -> None:
    answer = client.post(L + path, json=body)
    assert answer.status_code == 422, answer.text
    assert verbs.asked == []


def test_refusals_are_problems(client: TestClient, verbs: Verbs) -> None:
    verbs.error = Refused("the link has no topic x", hint="did you mean y?")
    refused = client.post(f"{L}/topics/x/limit", json={"limit": "1MB/s"})
    assert (refused.status_code, refused.json()["hint"]) == (409, "did you mean y?")
