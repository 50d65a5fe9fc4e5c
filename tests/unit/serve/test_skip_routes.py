"""Records are skipped by API: who may ask, and what the verb is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.errors import Refused
from heliostat.gaps.choices import Cause, GapChoice
from heliostat.gaps.ledger import GapRow
from heliostat.names import LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break
from heliostat.operate import skip as verb
from heliostat.operate.skip import PartitionSkip, Skipped
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.skip_routes import SkipOutcome
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch

__all__ = ["watch"]
PATH = "/api/v1/links/l/offsets/skip"
ORDERS = TopicPartition(TopicName("orders"), PartitionId(1))
ROW = GapRow(
    *(ORDERS.topic, ORDERS.partition, Offset(7), Offset(9), 3, Cause.SKIPPED, 5),
    *(GapChoice.CONTINUE, "user api", ORDERS.topic),
    jump=Break(7, 10),
    text="3 records (source offsets 7 to 9)",
)
BODY = {"confirm": "l", "items": [{"topic": "orders", "partition": 1, "to": 10}]}


class Verb:
    """Stands for the verb."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.refused: Refused | None = None

    def skip(
        self,
        _: object,
        link: LinkConfig,
        wanted: Mapping[TopicPartition, Offset],
        *,
        by: str,
        dry_run: bool,
    ) -> Skipped:
        self.asked.append((link.name, dict(wanted), by, dry_run))
        if self.refused is not None:
            raise self.refused
        items = PartitionSkip(ORDERS, Offset(7), Offset(10), ROW, "all that is there, then 10")
        return Skipped(LinkName("l"), (items,), dry_run)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Verb:
    made = Verb()
    monkeypatch.setattr(verb, "skip", made.skip)
    return made


@pytest.fixture
def client(watch: Watch, asked: Verb) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


@pytest.mark.parametrize("dry_run", [False, True])
def test_it_is_told_what_is_left_out_and_by_whom(
    client: TestClient, watch: Watch, asked: Verb, dry_run: bool
) -> None:
    answer = client.post(PATH, json=BODY, params={"dry_run": dry_run})
    assert answer.status_code == 200, answer.text
    told = SkipOutcome.model_validate(answer.json())
    [item] = told.items
    assert (item.first, item.last, item.count, told.is_tried) == (7, 9, 3, dry_run)
    assert asked.asked == [("l", {ORDERS: 10}, "api", dry_run)]
    events = [row.text for row in watch.service_events.rows(0)]
    assert any("link l: orders-1: left out" in text for text in events) is not dry_run


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (BODY | {"confirm": ""}, 422),
        (BODY | {"items": []}, 422),
        (BODY | {"items": [{"topic": "orders", "partition": 1, "to": -1}]}, 422),
        (BODY | {"items": [{"topic": "orders", "partition": 1}]}, 422),
    ],
)
def test_what_is_not_whole_or_not_confirmed_is_refused(
    client: TestClient, asked: Verb, body: dict[str, Any], status: int
) -> None:
    answer = client.post(PATH, json=body)
    assert (answer.status_code, asked.asked) == (status, [])


def test_a_refusal_of_the_verb_is_a_problem(client: TestClient, asked: Verb) -> None:
    asked.refused = Refused("link l is not stopped", hint="heliostat stop l")
    answer = client.post(PATH, json=BODY)
    assert (answer.status_code, answer.json()["detail"]) == (409, "link l is not stopped")


def test_only_an_admin_may_give_records_up(watch: Watch, asked: Verb, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    roles = {"ops": "operate", "root": "admin"}
    rows = [
        f"{who}:{role}:{hashlib.sha256(who.encode()).hexdigest()}" for who, role in roles.items()
    ]
    file.write_text("\n".join(rows))
    file.chmod(0o600)
    guarded = Guard(make_app(watch), hosts=[HOST], tokens=Tokens(file))
    client = TestClient(guarded, base_url=f"http://{HOST}")
    answers = [
        client.post(PATH, json=BODY, headers={"Authorization": f"Bearer {who}"}) for who in roles
    ]
    assert [answer.status_code for answer in answers] == [403, 200]
    assert [by for _, _, by, _ in asked.asked] == ["root"]
