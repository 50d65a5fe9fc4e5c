"""A switch by API: who may, what must be typed, what is answered, and its row."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from unit.handover.test_steps import new_run
from unit.serve.test_app import HOST, watch

from heliostat.config import LinkConfig
from heliostat.errors import ConnectionLost, HeliostatError, Refused
from heliostat.handover.desk import Answer, Compared, Problem, SwitchOptions, Weight
from heliostat.handover.run import Run, RunState
from heliostat.names import LinkName, TopicName
from heliostat.operate.switch import SwitchPlan, SwitchWish
from heliostat.serve import switch_routes
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.switch_messages import PlannedSwitch, RunView
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch

__all__ = ["watch"]
URL, ROW = "/api/v1/links/l/switch", "/api/v1/links/l/run"


class Verb:
    """Stands for the verb."""

    def __init__(self) -> None:
        self.asked: list[SwitchWish] = []
        self.error: HeliostatError | None = None
        self.compare: Callable[..., Answer] | None = None
        self.is_kept = False
        self.row: Run | None = None

    def plan(self, _config: object, link: LinkConfig, wish: SwitchWish) -> SwitchPlan:
        self.asked.append(wish)
        problem = Problem("paused", "t is paused", "resume it", Weight.STOPS)
        topics = (TopicName("t"),)
        return SwitchPlan(LinkName(link.name), topics, SwitchOptions(), (problem,))

    def switch(
        self,
        _config: object,
        _link: LinkConfig,
        wish: SwitchWish,
        told: Callable[[Run], None],
        compare: Callable[..., Answer],
    ) -> Run:
        self.compare = compare
        self.asked.append(wish)
        if self.error is not None:
            raise self.error
        told(new_run())
        while self.is_kept:
            time.sleep(0.01)
        return replace(new_run(), state=RunState.DONE)

    def last_run(self, _config: object, _link: LinkConfig) -> Run | None:
        return self.row


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Verb:
    made = Verb()
    monkeypatch.setattr(switch_routes, "plan_switch", made.plan)
    monkeypatch.setattr(switch_routes, "switch", made.switch)
    monkeypatch.setattr(switch_routes, "last_run", made.last_run)
    return made


@pytest.fixture
def client(watch: Watch, verb: Verb) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


def test_a_dry_run_tells_what_is_in_the_way(client: TestClient, verb: Verb) -> None:
    answer = client.post(f"{URL}?dry_run=true", json={"topics": ["t"], "still_s": 3})
    assert answer.status_code == 200
    plan = PlannedSwitch.model_validate(answer.json())
    assert [each.code for each in plan.problems] == ["paused"]
    assert not plan.is_possible
    [wish] = verb.asked
    assert (wish.topics, wish.options.still_s, wish.by) == (("t",), 3, "api")


def test_the_links_name_is_typed_before_anything_begins(client: TestClient, verb: Verb) -> None:
    for body in (None, {}, {"confirm": "another"}):
        answer = client.post(URL, json=body)
        assert answer.status_code == 422
        assert answer.json()["field"] == "confirm"
    assert not verb.asked


def test_a_switch_is_begun_and_followed_by_its_row(client: TestClient, verb: Verb) -> None:
    verb.is_kept = True
    order = {"confirm": "l", "accept": ["one_way"], "back": True, "verify": "all"}
    answer = client.post(URL, json=order)
    assert answer.status_code == 202
    assert answer.headers["Location"] == ROW
    RunView.model_validate(answer.json())
    assert verb.asked[0].options.accepted == ("one_way",)
    assert verb.asked[0].goes_back
    assert verb.asked[0].options.verify is Compared.ALL
    assert client.post(URL, json={"confirm": "l"}).status_code == 409
    verb.is_kept = False
    verb.row = new_run()
    row = client.get(ROW)
    assert row.status_code == 200
    RunView.model_validate(row.json())


@pytest.mark.parametrize(
    ("error", "status"), [(Refused("under way elsewhere"), 409), (ConnectionLost("gone"), 503)]
)
def test_what_refuses_a_switch_is_answered(
    client: TestClient, verb: Verb, error: HeliostatError, status: int
) -> None:
    verb.error = error
    answer = client.post(URL, json={"confirm": "l"})
    assert answer.status_code == status
    assert answer.json()["detail"] == error.text


def test_a_link_that_was_never_switched_has_no_run(client: TestClient, verb: Verb) -> None:
    del verb
    assert client.get(ROW).status_code == 404


def test_only_an_admin_switches(watch: Watch, verb: Verb, tmp_path: Path) -> None:
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


def test_the_same_key_means_the_same_switch(client: TestClient, verb: Verb) -> None:
    """Given a lost answer / when it is asked again under its key / then nothing else is begun."""
    key, body = {"Idempotency-Key": "k"}, {"confirm": "l"}
    first = client.post(URL, json=body, headers=key)
    again = client.post(URL, json=body, headers=key)
    assert (first.status_code, again.status_code, len(verb.asked)) == (202, 202, 1)
    assert again.json()["id"] == first.json()["id"]
    assert client.post(URL, json={**body, "still_s": 3}, headers=key).status_code == 422
    verb.error = ConnectionLost("gone")
    assert client.post(URL, json=body, headers={"Idempotency-Key": "m"}).status_code == 503
    verb.error = None
    assert client.post(URL, json=body, headers={"Idempotency-Key": "m"}).status_code == 202
