"""A drill by API: who may, what must be typed, what is answered, and its report."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from unit.handover.test_drill import DRAWN, LINK, Desk, World
from unit.serve.test_app import HOST, watch

from heliostat.config import ConfigFile, LinkConfig
from heliostat.errors import ConnectionLost, HeliostatError, Refused
from heliostat.handover.drill import DrillWish, new_note
from heliostat.handover.drill_report import DrillReport, DrillStep
from heliostat.handover.drill_steps import rehearse
from heliostat.names import LinkName
from heliostat.operate.drill import DrillPlan
from heliostat.serve import drill_routes
from heliostat.serve.app import make_app
from heliostat.serve.drill_messages import DrillView, PlannedDrill
from heliostat.serve.guard import Guard
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch

__all__ = ["watch"]
URL = "/api/v1/links/l/drill"


class Verb:
    """Stands for the verb."""

    def __init__(self) -> None:
        self.asked: list[DrillWish] = []
        self.error: HeliostatError | None = None
        self.is_kept = False

    def plan(self, _file: ConfigFile, link: LinkConfig, wish: DrillWish) -> DrillPlan:
        self.asked.append(wish)
        look, note = Desk(World()).look(), new_note(LinkName(link.name), wish, DRAWN, 1)
        return DrillPlan(LinkName(link.name), wish, look, note, ("old",))

    def drill(
        self,
        _file: ConfigFile,
        _link: LinkConfig,
        wish: DrillWish,
        told: Callable[[DrillStep], None],
    ) -> DrillReport:
        self.asked.append(wish)
        if self.error is not None:
            raise self.error
        report = rehearse(Desk(World()), LINK, wish, DRAWN, told)
        while self.is_kept:
            time.sleep(0.01)
        return report

    def clean(self, _file: ConfigFile, _link: LinkConfig) -> tuple[str, ...]:
        return ("old",)


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Verb:
    made = Verb()
    monkeypatch.setattr(drill_routes, "plan_drill", made.plan)
    monkeypatch.setattr(drill_routes, "drill", made.drill)
    monkeypatch.setattr(drill_routes, "clean_drills", made.clean)
    monkeypatch.setattr(drill_routes, "AT_ONCE_S", 0.1)
    return made


@pytest.fixture
def client(watch: Watch, verb: Verb) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


def test_a_dry_run_tells_what_would_be_made(client: TestClient, verb: Verb) -> None:
    answer = client.post(f"{URL}?dry_run=true", json={"partitions": 12, "failover": True})
    assert answer.status_code == 200
    plan = PlannedDrill.model_validate(answer.json())
    assert sum(plan.topics.values()) == 12
    assert plan.left_behind == ["old"]
    assert verb.asked == [DrillWish(12, failover=True, by="api")]


def test_the_links_name_is_typed_before_anything_begins(client: TestClient, verb: Verb) -> None:
    for body in (None, {}, {"confirm": "another"}):
        assert client.post(URL, json=body).status_code == 422
    assert not verb.asked


def test_a_drill_is_followed_until_its_report(client: TestClient, verb: Verb) -> None:
    assert client.get(URL).status_code == 404
    verb.is_kept = True
    key = {"Idempotency-Key": "k"}
    answer = client.post(URL, json={"confirm": "l"}, headers=key)
    assert answer.status_code == 202
    assert answer.headers["Location"] == URL
    assert client.post(URL, json={"confirm": "l"}, headers=key).status_code == 202
    assert len(verb.asked) == 1, "it is the same one"
    view = DrillView.model_validate(answer.json())
    assert (view.is_over, view.report) == (False, None)
    assert view.steps
    assert client.post(URL, json={"confirm": "l"}).status_code == 409
    verb.is_kept = False
    until_s = time.monotonic() + 5
    while not (seen := DrillView.model_validate(client.get(URL).json())).is_over:
        assert time.monotonic() < until_s
    assert seen.report is not None
    assert seen.report.verdict == "ready"


def test_what_crashed_is_cleaned(client: TestClient) -> None:
    view = client.post(URL, json={"confirm": "l", "clean": True}).json()
    assert view["cleaned"] == ["old"]


@pytest.mark.parametrize(
    ("error", "status"), [(Refused("under way elsewhere"), 409), (ConnectionLost("gone"), 503)]
)
def test_what_refuses_a_drill_is_answered(
    client: TestClient, verb: Verb, error: HeliostatError, status: int
) -> None:
    verb.error = error
    answer = client.post(URL, json={"confirm": "l"})
    assert answer.status_code == status
    assert answer.json()["detail"] == error.text


def test_only_an_admin_drills(watch: Watch, verb: Verb, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    digest = hashlib.sha256(b"secret").hexdigest()
    file.write_text(f"ops:operate:{digest}\n")
    file.chmod(0o600)
    guard = Guard(make_app(watch), hosts=[HOST], tokens=Tokens(file))
    client = TestClient(guard, base_url=f"http://{HOST}")
    headers = {"Authorization": "Bearer secret"}
    answer = client.post(f"{URL}?dry_run=true", json={}, headers=headers)
    assert answer.status_code == 403
    assert not verb.asked
