"""Tails by API: who may ask for what, and what the verbs are asked."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.names import LinkName, Offset, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.operate import tail, tail_moves
from heliostat.operate.destination import Destination
from heliostat.operate.tail import TailDropped, TailReport, TailRow
from heliostat.operate.tail_moves import TailMoved
from heliostat.rescue.source_rest import OpenProducer
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.tail_routes import TailAnswer, TailDropOutcome, TailMovement
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch

__all__ = ["watch"]
L = "/api/v1/links/l/tail"
SOURCE = TopicPartition(TopicName("orders"), PartitionId(1))
SAMPLE = {
    "offset": 7,
    "timestamp_ms": 5,
    "key": "YQ==",
    "value": None,
    "headers": [["h", None]],
}
ROW = TailRow(
    *(SOURCE, SOURCE, 3, 30, Offset(7), Offset(9), 5, 6, 0, 2, 1, 0, 0, False),
    sample=(SAMPLE,),
)
REPORT = TailReport(
    LinkName("l"),
    (ROW,),
    {TopicName("b"): "it was deleted"},
    (OpenProducer(SOURCE, ProducerId(4), "tx", Offset(8), 6),),
    2,
)


class Verbs:
    """Stand for the verbs."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.is_done = True

    def show(self, _: object, link: LinkConfig, topics: list[str], *, sample: int) -> TailReport:
        self.asked.append((link.name, list(topics), sample))
        return REPORT

    def move(self, _: object, link: LinkConfig, *words: Any, **more: Any) -> TailMoved:
        self.asked.append((link.name, words, more))
        moved = TailMoved(REPORT, 3, 1, {"why": 1}, None, more["dry_run"])
        return moved if self.is_done else TailMoved(*_fields(moved)[:-1], is_done=False)

    def drop(self, _: object, link: LinkConfig, *words: Any, **more: Any) -> TailDropped:
        self.asked.append((link.name, words, more))
        return TailDropped(REPORT, more["dry_run"])


def _fields(moved: TailMoved) -> list[Any]:
    return [getattr(moved, name) for name in TailMoved.__slots__]


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> Verbs:
    made = Verbs()
    monkeypatch.setattr(tail, "show_tail", made.show)
    monkeypatch.setattr(tail, "drop_tail", made.drop)
    monkeypatch.setattr(tail_moves, "append_tail", made.move)
    monkeypatch.setattr(tail_moves, "export_tail", made.move)
    return made


@pytest.fixture
def client(watch: Watch, verbs: Verbs) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


def test_a_tail_is_shown_with_all_that_is_known_of_it(client: TestClient, verbs: Verbs) -> None:
    """Given a link with a tail / when it is asked for / then it is told as it is."""
    got = client.get(f"{L}?topic=orders&sample=1")
    assert got.status_code == 200
    answer = TailAnswer.model_validate(got.json())
    assert verbs.asked == [("l", ["orders"], 1)]
    assert (answer.records, answer.rows[0].lost_at_source) == (3, 2)
    assert answer.open_transactions[0].transactional_id == "tx"
    assert answer.why_not == {"b": "it was deleted"}


def test_what_changes_something_needs_the_links_name(client: TestClient, verbs: Verbs) -> None:
    """Given a request without the link's name / when it is no dry run / then nothing is asked."""
    body = {"topics": ["orders"], "why": "measured again"}
    assert client.post(f"{L}/drop", json=body).status_code == 422
    assert client.post(f"{L}/append", json={"confirm": "k"}).status_code == 422
    assert not verbs.asked
    got = client.post(f"{L}/drop?dry_run=true", json=body)
    assert TailDropOutcome.model_validate(got.json()).is_tried
    got = client.post(f"{L}/drop", json={**body, "confirm": "l"})
    assert TailDropOutcome.model_validate(got.json()).dropped == 3
    expected = {"by": "api", "why": "measured again"}
    assert verbs.asked == [
        ("l", (["orders"],), {**expected, "dry_run": True}),
        ("l", (["orders"],), {**expected, "dry_run": False}),
    ]


def test_what_is_not_done_in_time_is_asked_again(client: TestClient, verbs: Verbs) -> None:
    """Given a tail that takes long / when it is appended / then 202 says to ask again."""
    body = {"confirm": "l", "refused_to_topic": "kept"}
    got = client.post(f"{L}/append", json=body)
    assert (got.status_code, TailMovement.model_validate(got.json()).is_done) == (200, True)
    verbs.is_done = False
    got = client.post(f"{L}/append", json=body)
    assert (got.status_code, TailMovement.model_validate(got.json()).is_done) == (202, False)
    (_, words, more), _ = verbs.asked
    assert words == ([], Destination(topic=TopicName("kept")))
    assert more == {"by": "api", "dry_run": False, "within_s": 15.0}


def test_a_tail_is_exported_to_a_topic(client: TestClient, verbs: Verbs) -> None:
    """Given a topic / when a tail is exported there / then the verb is asked for it."""
    assert client.post(f"{L}/export", json={"confirm": "l"}).status_code == 422
    got = client.post(f"{L}/export", json={"confirm": "l", "to_topic": "kept"})
    assert got.status_code == 200
    assert verbs.asked[0][1] == ([], Destination(topic=TopicName("kept")))


@pytest.mark.parametrize(("role", "status"), [("view", 403), ("operate", 403), ("admin", 200)])
def test_only_an_admin_may(
    watch: Watch, verbs: Verbs, tmp_path: Path, role: str, status: int
) -> None:
    """Given a token / when a tail is appended, even to try / then it is an admin's, or refused."""
    file = tmp_path / "tokens"
    file.write_text(f"ann:{role}:{hashlib.sha256(b'secret').hexdigest()}\n")
    file.chmod(0o600)
    guard = Guard(make_app(watch), hosts=[HOST], tokens=Tokens(file))
    client = TestClient(guard, base_url=f"http://{HOST}")
    client.headers["Authorization"] = "Bearer secret"
    got = client.post(f"{L}/append?dry_run=true", json={})
    assert got.status_code == status
    assert [more["by"] for _, _, more in verbs.asked] == (["ann"] if status == 200 else [])
    assert client.get(L).status_code == 200
