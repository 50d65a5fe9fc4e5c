"""What clusters must answer, by API: the verb's value, pages, causes, and few questions at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient
from unit.serve.test_app import HOST, StillClock, watch

from heliostat.errors import (
    ConfigError,
    ConnectionLost,
    HeliostatError,
    Refused,
    RegistryUnreachable,
)
from heliostat.gaps.choices import Cause, GapChoice
from heliostat.gaps.dead_letters import DeadLetter
from heliostat.gaps.ledger import GapRow
from heliostat.groups.plan import GroupDecision
from heliostat.groups.values import CommitDecision, Reason, Skip
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.translation import Answer, Side
from heliostat.offsets.values import Why
from heliostat.operate.exposure import exposure_of
from heliostat.operate.gaps import GapReport, PendingDecision
from heliostat.operate.groups import GroupView, LinkGroups
from heliostat.operate.offsets import TranslatedOffsets
from heliostat.operate.status import LinkPicture
from heliostat.serve import exposure_routes, gaps_routes, groups_routes, plans_routes
from heliostat.serve.app import make_app
from heliostat.serve.cluster_messages import (
    GapPage,
    GroupDetails,
    GroupPage,
    LetterPage,
    PlanPage,
    SchemaPage,
    WholeLetters,
)
from heliostat.serve.exposure_messages import ExposureAnswer
from heliostat.serve.guard import Guard
from heliostat.serve.questions import AT_ONCE, KEPT_S, Questions
from heliostat.serve.watch import Watch
from heliostat.topics.topic_plan import GrowTopic, TopicPlan

__all__ = ["watch"]
T0 = TopicPartition(TopicName("t"), PartitionId(0))


@pytest.fixture
def client(watch: Watch) -> Iterator[TestClient]:
    app = Guard(make_app(watch), hosts=[HOST], tokens=None)
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as made:
        yield made


def decision(reason: Reason, reread: int) -> CommitDecision:
    return CommitDecision(
        T0, T0, Offset(9), Offset(9 - reread), Offset(9), reread, reason, reason.value
    )


def view(name: str, reason: Reason | None) -> GroupView:
    group = GroupId(name)
    if reason is None:
        return GroupView(group, Skip.EXCLUDED, "excluded", None)
    decided = GroupDecision(
        group, None, None, (decision(reason, int(reason is not Reason.SYNCED)),)
    )
    return GroupView(group, None, "include .*", decided)


GROUPS = LinkGroups(
    LinkName("l"),
    True,
    (view("a", Reason.SYNCED), view("b/c", Reason.ACTIVE_AT_TARGET), view("d", None)),
    {},
)


def test_groups_and_where_they_would_resume(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def group_views(_: object, *names: str) -> list[LinkGroups]:
        asked.append(names)
        one = [each for each in GROUPS.groups if names[1:] in ((), (each.group,))]
        return [LinkGroups(LinkName("l"), True, tuple(one), {})]

    monkeypatch.setattr(groups_routes, "group_views", group_views)
    page = client.get("/api/v1/links/l/groups?limit=2").json()
    GroupPage.model_validate(page)
    assert [(row["group"], row["in_sync"]) for row in page["items"]] == [
        ("a", True),
        ("b/c", False),
    ]
    assert page["reasons"] == {"SYNCED": 1, "ACTIVE_AT_TARGET": 1}
    more = client.get(f"/api/v1/links/l/groups?limit=2&after={page['next']}").json()
    assert [row["group"] for row in more["items"]] == ["d"]
    assert more["next"] is None
    assert len(asked) == 1, "all pages are of one answer"
    late = client.get("/api/v1/links/l/groups?open=true&selected=true").json()
    assert [(row["group"], row["reread_records"]) for row in late["items"]] == [("b/c", 1)]
    one = client.get("/api/v1/links/l/groups/b/c").json()
    GroupDetails.model_validate(one)
    assert one["items"][0]["reason"] == "ACTIVE_AT_TARGET"
    assert client.get("/api/v1/links/l/groups/none").status_code == 404


def test_what_would_be_lost(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def exposed(_: object, link: str, picture: LinkPicture, topics: tuple[str, ...]) -> object:
        assert (link, topics) == ("l", ())
        return exposure_of(picture, GROUPS, groups_at_ms=7)

    monkeypatch.setattr(exposure_routes, "exposure_of_link", exposed)
    found = client.get("/api/v1/links/l/exposure").json()
    ExposureAnswer.model_validate(found)
    assert (found["rereads"]["truth"], found["partitions"]) == ("not_known", [])
    every = client.get("/api/v1/links/l/exposure?partitions=true").json()
    ExposureAnswer.model_validate(every)
    assert [row["group"] for row in every["groups"]] == ["a", "b/c"]
    assert client.get("/api/v1/links/none/exposure").status_code == 404


def test_gaps_and_open_decisions(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tuple(
        GapRow(
            *(TopicName(f"t{n}"), PartitionId(0), Offset(1), Offset(n), n, next(iter(Cause)), n),
            *(next(iter(GapChoice)), "policy", TopicName("t")),
        )
        for n in range(3)
    )
    stop = PendingDecision(TopicName("t9"), None, "refused", "REMADE", "why", None, None)
    report = GapReport(LinkName("l"), "halt", rows, (stop,))
    monkeypatch.setattr(gaps_routes, "gap_reports", lambda *_: [report])
    page = client.get("/api/v1/links/l/gaps?limit=2").json()
    GapPage.model_validate(page)
    assert [row["topic"] for row in page["items"]] == ["t2", "t1"], "the newest first"
    assert (page["total"], page["stopped"][0]["topic"]) == (3, "t9")
    more = client.get("/api/v1/links/l/gaps", params={"after": page["next"]}).json()
    assert [row["topic"] for row in more["items"]] == ["t0"]
    assert client.get("/api/v1/links/l/gaps?topic=t1").json()["total"] == 1


def test_dead_letters_with_their_bytes(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    letter = DeadLetter(
        *(T0, Offset(7), Offset(7), False, 5, b"k", b"\xff", (("h", None),), next(iter(Cause))),
        *("too large", TopicName("t"), "policy", 9),
    )

    def letters_of(*wanted: object) -> list[DeadLetter]:
        return [letter] if len(wanted) == 2 or wanted[4] == 7 else []

    monkeypatch.setattr(gaps_routes, "letters_of", letters_of)
    page = client.get("/api/v1/links/l/dead-letters").json()
    LetterPage.model_validate(page)
    assert (page["total"], page["items"][0]["reason"]) == (1, "too large")
    whole = client.get("/api/v1/links/l/dead-letters/t/0/7").json()
    WholeLetters.model_validate(whole)
    assert (whole["items"][0]["value"], whole["items"][0]["headers"]) == ("/w==", [["h", None]])
    assert client.get("/api/v1/links/l/dead-letters/t/0/8").status_code == 404


def test_plan_schemas_and_offsets(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TopicPlan(grow=(GrowTopic(TopicName("t"), TopicName("t"), 1, 3),), notes=("hm",))
    monkeypatch.setattr(plans_routes, "plan_link", lambda *_: plan)
    page = client.get("/api/v1/links/l/plan?limit=1").json()
    PlanPage.model_validate(page)
    assert (page["is_empty"], page["kinds"]) == (False, {"grow": 1, "note": 1})
    assert page["items"] == [{"kind": "grow", "text": plan.describe()[0]}]
    more = client.get(f"/api/v1/links/l/plan?after={page['next']}").json()
    assert [row["text"] for row in more["items"]] == ["note: hm"]
    schemas = client.get("/api/v1/links/l/schemas").json()
    SchemaPage.model_validate(schemas)
    assert (schemas["strategy"], schemas["items"]) == ("off", [])
    asked: list[Any] = []

    def translated(_: object, link: Any, questions: Any, to: Side) -> TranslatedOffsets:
        asked.append((*questions[0], to))
        answer = Answer(*questions[0], TopicName("x"), Offset(8), Why.HOLE, "no record")
        return TranslatedOffsets(link.name, to, (answer,), True)

    monkeypatch.setattr("heliostat.operate.offsets.translated", translated)
    for to in ("target", "source"):
        path = f"/api/v1/links/l/offsets?topic=t&partition=0&offset=7&to={to}"
        (row,) = client.get(path).json()["items"]
        assert (row["to_offset"], row["exact"], row["why"]) == (8, False, "hole")
    assert asked == [("t", 0, 7, Side.TARGET), ("t", 0, 7, Side.SOURCE)]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ConnectionLost("nobody at home"), 503, "CONNECTION_LOST"),
        (RegistryUnreachable("nobody at home"), 503, "REGISTRY_UNREACHABLE"),
        (Refused("nobody at home"), 409, "REFUSED"),
        (ConfigError("nobody at home"), 409, "CONFIG_REFUSED"),
        (RuntimeError("nobody at home"), 500, "internal"),
    ],
)
def test_why_there_is_no_answer(
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    code: str,
) -> None:
    def lost(*_: object) -> None:
        raise error

    monkeypatch.setattr(plans_routes, "plan_link", lost)
    answer = client.get("/api/v1/links/l/plan")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert ("nobody at home" in answer.text) == isinstance(error, HeliostatError)
    assert client.get("/api/v1/links/none/plan").status_code == 404


def test_an_answer_holds_for_a_while_and_then_is_asked_for_again() -> None:
    clock, asked = StillClock(), []
    questions = Questions(clock)
    for _ in range(3):
        questions.get("q", lambda: asked.append(1))
    assert len(asked) == 1
    clock.sleep(KEPT_S)
    questions.get("q", lambda: asked.append(1))
    assert len(asked) == 2


def test_few_questions_run_at_once() -> None:
    questions, gate, begun = Questions(StillClock()), threading.Event(), threading.Semaphore(0)

    def ask() -> bool:
        begun.release()
        return gate.wait(10)

    threads = [threading.Thread(target=questions.get, args=(f"q{n}", ask)) for n in range(AT_ONCE)]
    for thread in threads:
        thread.start()
        assert begun.acquire(timeout=10)
    with pytest.raises(HTTPException) as refused:
        questions.get("one more", ask)
    assert refused.value.status_code == 429
    gate.set()
    for thread in threads:
        thread.join()
    assert questions.get("one more", lambda: 5).value == 5
