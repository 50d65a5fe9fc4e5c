"""Pause, resume, stop and start by API: who wishes what of which place, and what is answered."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.errors import ConnectionLost, Refused
from heliostat.names import LinkName, PartitionId, TopicName
from heliostat.operate.wishes import WishAnswer
from heliostat.serve import wishes_routes
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.questions import AT_ONCE
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch
from heliostat.serve.wishes_routes import WishOutcome
from heliostat.wishes.wish import Place, WishedState

__all__ = ["watch"]
TOKEN = "s3cret"  # noqa: S105  # a test's own


class Verb:
    """Stands for the verb, which has tests of its own."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.is_done = True
        self.error: Exception | None = None
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(
        self,
        _config: object,
        link: LinkConfig,
        wished: WishedState,
        topics: list[str | Place],
        *,
        by: str,
        why: str,
        within_s: float,
        dry_run: bool,
    ) -> WishAnswer:
        self.asked.append((link.name, wished.value, topics, by, why, within_s, dry_run))
        assert self.go_on.wait(10)
        if self.error is not None:
            raise self.error
        places = tuple(map(str, topics)) or ("the link",)
        waits = "" if self.is_done else "no owner"
        name, done = LinkName(link.name), self.is_done and not dry_run
        return WishAnswer(name, wished, places, places, 3, done, waits, (), 0.1, dry_run)


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Verb:
    made = Verb()
    monkeypatch.setattr(wishes_routes, "make_wish", made)
    return made


@pytest.fixture
def client(watch: Watch, verb: Verb) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


L = "/api/v1/links/l"
PLACE = Place(TopicName("a.b"), PartitionId(7))


@pytest.mark.parametrize(
    ("path", "body", "asked"),
    [
        ("/pause", {"why": "so"}, ("paused", [], "so")),
        ("/pause", None, ("paused", [], "")),
        ("/pause", {"topics": ["t", "u-1"]}, ("paused", ["t", "u-1"], "")),
        ("/resume", {"topics": ["t"]}, ("running", ["t"], "")),
        ("/stop", {"why": "moved"}, ("stopped", [], "moved")),
        ("/start", None, ("running", [], "")),
        ("/topics/a.b/pause", {"why": "x"}, ("paused", ["a.b"], "x")),
        ("/topics/a.b/partitions/7/resume", None, ("running", [PLACE], "")),
    ],
)
def test_each_path_is_a_wish_for_its_place(
    client: TestClient, verb: Verb, path: str, body: Any, asked: tuple[Any, ...]
) -> None:
    answer = client.post(L + path, json=body) if body is not None else client.post(L + path)
    assert answer.status_code == 200, answer.text
    WishOutcome.model_validate(answer.json())
    state, topics, why = asked
    assert verb.asked == [("l", state, topics, "api", why, 5.0, False)]


def test_a_wish_that_waits_is_202_and_a_trial_is_not(client: TestClient, verb: Verb) -> None:
    verb.is_done = False
    answer = client.post(f"{L}/pause?wait_s=0")
    assert (answer.status_code, answer.json()["waits"]) == (202, "no owner")
    assert client.post(f"{L}/pause?dry_run=true").status_code == 200
    assert [each[-2:] for each in verb.asked] == [(0.0, False), (5.0, True)]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/stop", {"topics": ["t"]}, 422),  # only a link can be stopped
        ("/pause", {"topics": ["a/b"]}, 422),
        ("/pause", {"reason": "so"}, 422),
        ("/pause?wait_s=99", {}, 422),
        ("/topics/t/stop", {}, 404),
        ("/rest", {}, 404),
    ],
)
def test_what_can_not_be_wished(
    client: TestClient, verb: Verb, path: str, body: Any, status: int
) -> None:
    assert client.post(L + path, json=body).status_code == status
    assert verb.asked == []


def test_errors_of_the_verb_are_problems(client: TestClient, verb: Verb) -> None:
    verb.error = Refused("the link has no topic x", hint="did you mean y?")
    refused = client.post(f"{L}/topics/x/pause")
    assert (refused.status_code, refused.json()["hint"]) == (409, "did you mean y?")
    verb.error = ConnectionLost("gone")
    assert client.post(f"{L}/pause").status_code == 503
    assert client.post("/api/v1/links/none/pause").status_code == 404


def test_no_more_than_some_are_written_at_once(client: TestClient, verb: Verb) -> None:
    verb.go_on.clear()
    threads = [threading.Thread(target=client.post, args=(f"{L}/pause",)) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    while len(verb.asked) < AT_ONCE:
        threads[0].join(0.01)
    assert client.post(f"{L}/pause").status_code == 429
    verb.go_on.set()
    for thread in threads:
        thread.join()
    assert client.post(f"{L}/pause").status_code == 200


def test_who_wishes_is_the_tokens_name(watch: Watch, verb: Verb, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    digest = __import__("hashlib").sha256(TOKEN.encode()).hexdigest()
    file.write_text(f"ana:operate:{digest}\nbob:view:{digest[::-1]}\n")
    file.chmod(0o600)
    app = Guard(make_app(watch), hosts=[HOST], tokens=Tokens(file))
    client = TestClient(app, base_url=f"http://{HOST}")
    assert client.post(f"{L}/pause").status_code == 401
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert client.post(f"{L}/pause", headers=headers).status_code == 200
    assert verb.asked[0][3] == "ana"
