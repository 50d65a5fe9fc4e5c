"""A rolling switch by API: who may, what must be typed, what is answered, and what is told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from support.clusters import until
from unit.handover.test_steps import new_run
from unit.serve.test_app import HOST, watch
from unit.serve.test_switch_routes import Verb, verb

from heliostat.config import LinkConfig
from heliostat.errors import ConnectionLost, HeliostatError, Refused
from heliostat.names import LinkName, Offset, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.operate.crossing import Crossed, Crossing, Stage, Tell
from heliostat.operate.rolling import Rolling, RollingStage, RollingTopic
from heliostat.operate.source_writers import SourceWriter, SourceWriters, Writing
from heliostat.operate.turning import Turned
from heliostat.serve import rolling_routes
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.rolling_messages import (
    CrossingCourse,
    CrossingOutcome,
    RollingView,
    TurnCourse,
    TurnOutcome,
    WritersView,
)
from heliostat.serve.switch_messages import PlannedSwitch, RunView
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch

__all__ = ["verb", "watch"]
URL, RUN = "/api/v1/links/l/rolling", "/api/v1/links/l/run"
L, T = LinkName("l"), TopicName("t")
PLACE = TopicPartition(T, PartitionId(0))


class Verbs:
    """Stands for the verbs of a rolling switch."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.error: HeliostatError | None = None
        self.stage = Stage.PASSED

    def turn(
        self, _: object, link: LinkConfig, topics: list[str], by: str, *, dry_run: bool
    ) -> Turned:
        self.asked.append((link.name, topics, by, dry_run))
        if self.error is not None:
            raise self.error
        refused = {TopicName("u"): "u is compacted"} if dry_run else {}
        return Turned(L, {PLACE: Offset(7)}, (T,), refused, dry_run)

    def wait(
        self, _: object, __: LinkConfig, topics: list[str], within_s: float, tell: Tell
    ) -> Crossed:
        self.asked.append((topics, within_s))
        row = Crossing(PLACE, Offset(9), self.stage, 9, 2_000)
        tell((row,))
        return Crossed(L, 1_000, (row,), 1.0)

    def writers(self, _: object, __: LinkConfig, topics: list[str]) -> SourceWriters:
        self.asked.append(topics)
        return SourceWriters((SourceWriter(ProducerId(7), "pay", {PLACE: Writing(5)}),), ("who",))

    def rolling(self, _: object, link: LinkConfig) -> Rolling:
        row = RollingTopic(T, RollingStage.MIRROR, 3)
        return Rolling(LinkName(link.name), True, (row,), (LinkName("back"),))


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> Verbs:
    made = Verbs()
    invented: dict[str, Callable[..., Any]] = {
        "turn_in_place": made.turn,
        "wait_until_crossed": made.wait,
        "writers_of": made.writers,
        "rolling_of": made.rolling,
    }
    for name, each in invented.items():
        monkeypatch.setattr(rolling_routes, name, each)
    return made


@pytest.fixture
def client(watch: Watch) -> TestClient:
    return TestClient(Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}")


def told(watch: Watch) -> list[str]:
    return [each.text for each in watch.follower(L).events.rows()]


def test_mirrors_are_merged_once_the_name_is_typed(
    client: TestClient, verbs: Verbs, watch: Watch
) -> None:
    """Given a dry run that tells what can't be / when it is done / then its events tell by whom,

    its cuts are kept as a file for the link back, and the same key does not do it again.
    """
    tried = client.post(f"{URL}/turn?dry_run=true", json={"topics": ["t"]})
    outcome = TurnOutcome.model_validate(tried.json())
    assert (outcome.is_possible, outcome.refused) == (False, {"u": "u is compacted"})
    for body in (None, {}, {"confirm": "m"}):
        refused = client.post(f"{URL}/turn", json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, "confirm")
    for _ in range(2):
        done = client.post(f"{URL}/turn", json={"confirm": "l"}, headers={"Idempotency-Key": "k"})
        assert TurnOutcome.model_validate(done.json()).cuts == {"t": {"0": 7}}
    assert verbs.asked == [("l", ["t"], "api", True), ("l", [], "api", False)]
    course = TurnCourse.model_validate(client.get(f"{URL}/turn").json())
    assert (course.state, course.text) == ("done", "t:0:7")
    assert told(watch)[-2:] == [
        "merging in place is begun by api",
        "merging in place by api: 1 mirrors (1 partitions) are merged topics",
    ]


@pytest.mark.parametrize(
    ("error", "status"), [(Refused("it is compacted"), 409), (ConnectionLost("gone"), 503)]
)
def test_what_refuses_a_turn_is_answered_and_told(
    client: TestClient, verbs: Verbs, watch: Watch, error: HeliostatError, status: int
) -> None:
    verbs.error = error
    answer = client.post(f"{URL}/turn", json={"confirm": "l"})
    assert (answer.status_code, answer.json()["detail"]) == (status, error.text)
    assert told(watch)[-1] == f"merging in place: {error.text}"


def test_what_crosses_is_waited_for(client: TestClient, verbs: Verbs, watch: Watch) -> None:
    assert client.get(f"{URL}/wait").status_code == 404
    assert client.post(f"{URL}/wait", json={"topics": []}).status_code == 422
    answer = client.post(f"{URL}/wait", json={"topics": ["t"], "within_s": 7})
    assert CrossingOutcome.model_validate(answer.json()).has_crossed
    course = CrossingCourse.model_validate(client.get(f"{URL}/wait").json())
    assert course.text.startswith("t: all that summit had is at usdf, 1.0 s after it was asked")
    assert told(watch)[-1] == "waiting until t has crossed by api: all has crossed"
    verbs.stage = Stage.STOPPED
    answer = client.post(f"{URL}/wait", json={"topics": ["t"]})
    assert not answer.json()["has_crossed"]
    assert verbs.asked == [(["t"], 7), (["t"], 300)]


def test_who_writes_and_what_is_merged_are_looked_at(client: TestClient, verbs: Verbs) -> None:
    view = WritersView.model_validate(client.get(f"{URL}/writers?topic=t").json())
    assert [each.transactional_id for each in view.writers] == ["pay"]
    assert view.refused == ["who"]
    assert verbs.asked == [["t"]]
    rolling = RollingView.model_validate(client.get(URL).json())
    assert [(each.topic, each.stage) for each in rolling.topics] == [("t", RollingStage.MIRROR)]
    assert rolling.backs == ["back"]


def test_a_rolling_switch_is_finished_as_a_run(client: TestClient, verb: Verb) -> None:
    """It is tried, begun once the name is typed, taken back, and is one run with a switch: whose

    row is told as soon as it has ended, whatever was told before.
    """
    assert client.get(RUN).status_code == 404
    plan = client.post(f"{URL}/finish?dry_run=true", json={})
    assert not PlannedSwitch.model_validate(plan.json()).is_possible
    assert client.post(f"{URL}/finish", json={}).json()["field"] == "confirm"
    verb.is_kept = True
    begun = client.post(f"{URL}/finish", json={"confirm": "l", "back": True})
    assert (begun.status_code, begun.headers["Location"]) == (202, RUN)
    RunView.model_validate(begun.json())
    assert client.post("/api/v1/links/l/switch", json={"confirm": "l"}).status_code == 409
    verb.is_kept, verb.row = False, new_run()
    until(lambda: not client.get(RUN).json().get("is_carried_out", True), "its row is told")
    assert [(wish.finishes, wish.goes_back) for wish in verb.asked] == [(True, False), (True, True)]


def test_only_an_admin_changes_and_an_operator_may_wait(
    watch: Watch, verbs: Verbs, verb: Verb, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ops:operate:{hashlib.sha256(b'secret').hexdigest()}\n")
    file.chmod(0o600)
    guard = Guard(make_app(watch), hosts=[HOST], tokens=Tokens(file))
    headers = {"Authorization": "Bearer secret"}
    client = TestClient(guard, base_url=f"http://{HOST}", headers=headers)
    for path in ("turn", "finish"):
        assert client.post(f"{URL}/{path}?dry_run=true", json={}).status_code == 403
    assert verbs.asked == verb.asked == []
    assert client.post(f"{URL}/wait", json={"topics": ["t"]}).status_code == 200
    assert told(watch)[-1].startswith("waiting until t has crossed by ops")
