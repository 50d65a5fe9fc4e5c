"""Restarts by API: who orders what of which place, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.names import LinkName, PartitionId, TopicName
from heliostat.operate.orders import OrderAnswer
from heliostat.serve import restart_routes
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.restart_routes import RestartOutcome
from heliostat.serve.watch import Watch
from heliostat.wishes.order import Ended, Order, OrderStanding, Stage
from heliostat.wishes.wish import Place

__all__ = ["watch"]
L = "/api/v1/links/l"
PLACE = Place(TopicName("a.b"), PartitionId(7))


class Verb:
    """Stands for the verb."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.keys: list[str] = []
        self.stage = Stage.DONE

    def __call__(
        self,
        _config: object,
        link: LinkConfig,
        topics: list[str],
        *,
        by: str,
        why: str,
        within_s: float,
        dry_run: bool,
        key: str,
    ) -> OrderAnswer:
        self.keys.append(key)
        self.asked.append((link.name, list(topics), by, why, within_s, dry_run))
        ended = None if self.stage is Stage.WAITS else Ended(self.stage, "2 lanes began anew", 5)
        orders = () if dry_run else (OrderStanding(Order("a" * 32, Place(), by, 4), None, ended),)
        waits = "no owner" if self.stage is Stage.WAITS else ""
        return OrderAnswer(LinkName(link.name), ("the link",), orders, 2, 0, waits, 0.1, dry_run)


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Verb:
    made = Verb()
    monkeypatch.setattr(restart_routes, "order_restart", made)
    return made


@pytest.fixture
def client(watch: Watch, verb: Verb) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


@pytest.mark.parametrize(
    ("path", "body", "topics"),
    [
        ("/restart", None, []),
        ("/restart", {"topics": ["t", "u-1"], "why": "x"}, ["t", "u-1"]),
        ("/topics/a.b/restart", {"why": "x"}, ["a.b"]),
        ("/topics/a.b/partitions/7/restart", None, [PLACE]),
        ("/topics/a.b-7/restart", None, ["a.b-7"]),
    ],
)
def test_each_path_is_an_order_for_its_place(
    client: TestClient, verb: Verb, path: str, body: Any, topics: list[str]
) -> None:
    answer = client.post(f"{L}{path}", json=body)
    assert answer.status_code == 200
    assert RestartOutcome(**answer.json()).orders[0].stage == "done"
    why = "" if body is None else body["why"]
    assert verb.asked == [("l", topics, "api", why, restart_routes.WAIT_S, False)]


@pytest.mark.parametrize(
    ("stage", "query", "status"),
    [
        (Stage.WAITS, "", 202),
        (Stage.CUT_SHORT, "", 202),
        (Stage.WAITS, "?dry_run=true", 200),
    ],
)
def test_what_is_not_done_is_accepted(
    client: TestClient, verb: Verb, stage: Stage, query: str, status: int
) -> None:
    verb.stage = stage
    answer = client.post(f"{L}/restart{query}")
    assert answer.status_code == status
    assert RestartOutcome(**answer.json()).is_done is False


def test_another_link_is_not_found(client: TestClient) -> None:
    assert client.post("/api/v1/links/other/restart").status_code == 404


@pytest.mark.parametrize("path", ["/restart", "/topics/a.b/restart"])
def test_a_key_is_handed_on_and_a_long_one_refused(
    client: TestClient, verb: Verb, path: str
) -> None:
    assert client.post(f"{L}{path}", headers={"Idempotency-Key": "k1"}).status_code == 200
    assert verb.keys == ["k1"]
    answer = client.post(f"{L}{path}", headers={"Idempotency-Key": "k" * 201})
    assert answer.status_code == 422
