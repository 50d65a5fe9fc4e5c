"""Links by API: conditions, keys, patches, and what is answered where something is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from httpx import Response
from starlette.testclient import TestClient
from support.home import HomeLog
from unit.serve.test_app import HOST, StillClock

from heliostat.config import LanesConfig, read_config_file
from heliostat.errors import ConnectionLost, Refused
from heliostat.names import LinkName
from heliostat.operate import home, link_definitions, link_removal
from heliostat.other_links import same_file
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.links_routes import MERGE_PATCH, ChangeOutcome, DefinedLink, DefinedLinks
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch

TEXT = """
clusters:
  summit: {bootstrap: ["127.0.0.1:1"]}
  usdf: {bootstrap: ["127.0.0.1:2"]}
service: {home: usdf}
links: [{name: one, source: summit, target: usdf, topics: {include: [a]}}]
"""
TWO: dict[str, Any] = {"source": "summit", "target": "usdf", "topics": {"include": ["b"]}}
L = "/api/v1/links/two/definition"
NEW = {"name": "two", "content": TWO, "why": "a trial"}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> HomeLog:
    monkeypatch.setattr(same_file, "CONNECT_WITHIN_S", 0.05)  # no source answers
    made = HomeLog()
    for module in (home, link_definitions, link_removal):
        monkeypatch.setattr(module, "home_book", made.book)
    return made


@pytest.fixture
def client_of(tmp_path: Path, log: HomeLog) -> Callable[[Tokens | None], TestClient]:
    path = tmp_path / "heliostat.yaml"
    path.write_text(TEXT)
    file = read_config_file(path)
    watch = Watch(file.config, StillClock())
    assert log.rows == []

    def client(tokens: Tokens | None) -> TestClient:
        app = make_app(watch, file=lambda: file)
        return TestClient(Guard(app, hosts=[HOST], tokens=tokens), base_url=f"http://{HOST}")

    return client


@pytest.fixture
def client(client_of: Callable[[Tokens | None], TestClient]) -> TestClient:
    return client_of(None)


def patch(client: TestClient, content: Any, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.patch(
        L, json={"content": content}, headers={"Content-Type": MERGE_PATCH, **named}
    )


def test_a_link_from_its_beginning_to_its_end(client: TestClient, log: HomeLog) -> None:
    tried = client.post("/api/v1/links?dry_run=true", json=NEW)
    assert (tried.status_code, tried.json()["is_tried"], log.rows) == (200, True, [])
    made = client.post("/api/v1/links", json=NEW)
    assert (made.status_code, made.headers["ETag"], made.headers["Location"]) == (201, '"0"', L)
    ChangeOutcome.model_validate(made.json())
    found = client.get(L)
    assert (found.json()["content"], found.headers["ETag"]) == (TWO, '"0"')
    assert (found.json()["by"], found.json()["why"]) == ("api", "a trial")
    DefinedLink.model_validate(found.json())
    assert client.get(L, headers={"If-None-Match": '"0"'}).status_code == 304
    changed = patch(client, {"topics": {"exclude": ["b1"]}}, If_Match='"0"')
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"1"')
    assert changed.json()["differs"] == ["topics.exclude"]
    whole = client.put(L, json={"content": TWO}, headers={"If-Match": "*"})
    assert (whole.json()["content"], whole.headers["ETag"]) == (TWO, '"2"')
    listing = client.get("/api/v1/definitions").json()
    DefinedLinks.model_validate(listing)
    assert [(row["name"], row["origin"]) for row in listing["items"]] == [
        ("one", "file"),
        ("two", "home"),
    ]
    gone = client.delete(f"{L}?why=over", headers={"If-Match": '"2"'})
    assert (gone.status_code, gone.json()["did"], "ETag" in gone.headers) == (200, "deleted", False)
    assert client.get(L).status_code == 404
    events = [row["text"] for row in client.get("/api/v1/events").json()["items"]]
    assert events == [
        "link two is created: api asks so, a trial",
        "link two is changed: api asks so",
        "link two is changed: api asks so",
        "link two is deleted: api asks so, over",
    ]


def test_a_change_says_which_definition_it_means(client: TestClient, log: HomeLog) -> None:
    client.post("/api/v1/links", json=NEW)
    content = {"topics": {"include": ["c"]}}
    for answer in (
        patch(client, content),
        client.put(L, json={"content": TWO}),
        client.delete(L),
    ):
        assert (answer.status_code, answer.json()["code"]) == (428, "condition_needed")
    for tag in ('"7"', "0", 'W/"0"', '"x"', '"0", "1"', '"' + "9" * 40 + '"'):
        answer = patch(client, content, If_Match=tag)
        assert (answer.status_code, answer.json()["code"]) == (412, "changed_since"), tag
    assert len(log.rows) == 1
    tried = client.delete(f"{L}?dry_run=true", headers={"If-Match": '"0"'})
    assert (tried.status_code, tried.json()["is_tried"]) == (200, True)
    assert len(log.rows) == 1


def test_links_of_the_file_are_refused(client: TestClient) -> None:
    one = L.replace("two", "one")
    shown = client.get(one)
    assert (shown.json()["origin"], shown.json()["content"]) == ("file", None)
    assert "ETag" not in shown.headers
    headers = {"If-Match": "*"}
    for answer in (
        client.post("/api/v1/links", json={**NEW, "name": "one"}),
        client.put(one, json={"content": TWO}, headers=headers),
        client.patch(one, json={"content": {}}, headers=headers),
        client.delete(one, headers=headers),
    ):
        assert answer.status_code == 409
        assert "declared in heliostat.yaml" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**NEW, "content": {**TWO, "target": "moon"}}, "content/target"),
        ({**NEW, "content": {**TWO, "topics": {"includ": []}}}, "content/topics/includ"),
        (
            {**NEW, "content": {**TWO, "topics": {"include": ["b", "("]}}},
            "content/topics/include/1",
        ),
        ({**NEW, "content": {**TWO, "name": "x"}}, "content/name"),
        ({**NEW, "name": "a.b"}, "name"),
        ({**NEW, "x": 1}, "x"),
        ({**NEW, "content": []}, "content"),
        ({"content": TWO}, "name"),
    ],
)
def test_what_is_wrong_names_its_field(client: TestClient, body: Any, field: str) -> None:
    answer = client.post("/api/v1/links", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert "hint" not in answer.json(), "each problem says what to do"
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_body_that_is_no_json_has_no_field(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    said = client.post("/api/v1/links", content=b'{"name"', headers=headers).json()
    assert (said["status"], said.get("field")) == (422, None)
    assert said["detail"] == "the body is no JSON: Expecting ':' delimiter (character 7)"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/v1/links", "GET, POST"),
        ("POST", L, "DELETE, GET, PATCH, PUT"),
        ("GET", "/api/v1/links/one/restart", "POST"),
    ],
)
def test_a_method_that_a_path_lacks_is_answered_with_those_it_has(
    client: TestClient, method: str, path: str, allowed: str
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    assert answer.json()["code"] == "method_not_allowed"


def test_what_is_asked_again_is_done_once(client: TestClient, log: HomeLog) -> None:
    key = {"Idempotency-Key": "k-1"}
    first = client.post("/api/v1/links", json=NEW, headers=key)
    again = client.post("/api/v1/links", json=NEW, headers=key)
    assert (again.status_code, again.json()["is_repeated"]) == (201, True)
    assert again.headers["ETag"] == first.headers["ETag"]
    for change in ({"name": "three"}, {"why": "another"}, {"content": {**TWO, "name": "two"}}):
        other = client.post("/api/v1/links", json={**NEW, **change}, headers=key)
        assert (other.status_code, len(log.rows)) == (422, 2), change
        assert "new key" in other.json()["hint"]
    taken = client.post("/api/v1/links", json=NEW)
    assert taken.status_code == 409
    assert "heliostat links change two" in taken.json()["hint"]


def test_a_home_that_is_away(client: TestClient, log: HomeLog) -> None:
    log.lost = ConnectionLost("it is away")
    assert client.post("/api/v1/links", json=NEW).status_code == 503
    assert client.get(L).status_code == 503
    assert client.get("/api/v1/definitions").json()["error"] == "it is away"


def test_topics_of_a_link_that_still_has_an_owner(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post("/api/v1/links", json=NEW)

    def refuse(*_: object) -> None:
        raise Refused("link two still has an owner", hint="delete it again")

    monkeypatch.setattr(link_removal, "_topics", lambda *_: (("heliostat.two.state",), ()))
    monkeypatch.setattr(link_removal, "_delete_topics", refuse)
    asked = f"{L}?state=true"
    headers = {"If-Match": "*"}
    assert client.delete(f"{asked}&dry_run=true", headers=headers).json()["topics"] == [
        "heliostat.two.state"
    ]
    answer = client.delete(asked, headers=headers)
    assert (answer.status_code, answer.json()["hint"]) == (409, "delete it again")


def test_who_may_only_look_changes_nothing(
    client_of: Callable[[Tokens | None], TestClient], log: HomeLog, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"
    digests = [hashlib.sha256(each.encode()).hexdigest() for each in ("ana", "bob")]
    file.write_text(f"ana:operate:{digests[0]}\nbob:view:{digests[1]}\n")
    file.chmod(0o600)
    client = client_of(Tokens(file))
    refused = client.post("/api/v1/links", json=NEW, headers={"Authorization": "Bearer bob"})
    assert (refused.status_code, log.rows) == (403, [])
    made = client.post("/api/v1/links", json=NEW, headers={"Authorization": "Bearer ana"})
    assert made.status_code == 201
    assert log.rows[0].definition is not None
    assert log.rows[0].definition.by == "ana"


def test_a_form_of_another_site_can_not_ask(client: TestClient) -> None:
    headers = {"Content-Type": "text/plain"}
    assert client.post("/api/v1/links", content=b"{}", headers=headers).status_code == 415


def test_links_that_come_and_go_are_shown(tmp_path: Path) -> None:
    """Given a watch / when its configuration changes / then what stays is kept as it is."""
    path = tmp_path / "heliostat.yaml"
    path.write_text(TEXT + "metrics: {foreign: true}\n")
    config = read_config_file(path).config
    clock = StillClock()
    watch = Watch(config, clock)
    client = TestClient(make_app(watch))
    one = watch.follower(LinkName("one"))
    two = config.links[0].model_copy(update={"name": "two"})
    changed = config.links[0].model_copy(update={"lanes": LanesConfig(count=3)})
    watch.change_to(config.model_copy(update={"links": (changed, two)}))
    assert [row["name"] for row in client.get("/api/v1/links").json()["items"]] == ["one", "two"]
    assert watch.follower(LinkName("one")) is one
    assert one.link.lanes.count == 3
    assert 'link="two"' in watch.metrics().decode()
    turned = two.model_copy(update={"source": "usdf", "target": "summit"})
    two_before = watch.follower(LinkName("two"))
    watch.change_to(config.model_copy(update={"links": (turned,)}))
    assert [row["source"] for row in client.get("/api/v1/links").json()["items"]] == ["usdf"]
    assert watch.follower(LinkName("two")) is not two_before
    assert client.get("/api/v1/links/one").status_code == 404
    watch.config = config.model_copy(update={"links": ()})  # as while those that go end
    clock.sleep(2)
    assert client.get("/api/v1/links").json()["items"] == []
    assert client.get("/api/v1/links/two").status_code == 404
