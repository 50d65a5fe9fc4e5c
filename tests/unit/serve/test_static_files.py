"""The page's files: who gets the page, what its policy allows; nothing else can be asked for."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from unit.serve.test_app import CLUSTERS, HOST, StillClock, tokens_file

from heliostat.config import Config
from heliostat.config.gaps import GapPolicy
from heliostat.gaps.choices import CAUSE_OF_CODE
from heliostat.groups.values import SETTLED, Reason
from heliostat.schemas.status import SchemaState
from heliostat.serve.app import make_app
from heliostat.serve.guard import Guard
from heliostat.serve.static_files import FOLDER, MEDIA_TYPES, add_page, inline_hashes
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch
from heliostat.topics.topic_plan import TopicPlan

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
VENDOR = FOLDER / "vendor"


@pytest.fixture
def watch() -> Watch:
    links = [{"name": "l", "source": "summit", "target": "usdf"}]
    return Watch(Config.model_validate({"clusters": CLUSTERS, "links": links}), StillClock())


@pytest.fixture
def client(watch: Watch) -> Iterator[TestClient]:
    with TestClient(
        Guard(make_app(watch), hosts=[HOST], tokens=None), base_url=f"http://{HOST}"
    ) as made:
        yield made


def test_browsers_get_the_page_and_others_do_not(client: TestClient) -> None:
    page = client.get("/", headers=HTML)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "Accept" in page.headers["vary"]
    assert page.headers["cache-control"] == "no-cache"
    for accept in ("*/*", "application/json"):
        answer = client.get("/", headers={"Accept": accept})
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


def test_the_policy_allows_the_import_map_and_no_other_inline_script(client: TestClient) -> None:
    page = client.get("/", headers=HTML)
    policy = page.headers["content-security-policy"]
    (script,) = re.findall(r'<script type="importmap">(.*?)</script>', page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert not re.search(r"\s(style|on\w+)=", page.text), "the policy would forbid it"
    other = client.get("/static/app.js").headers["content-security-policy"]
    assert "sha256" not in other


def test_hashes_are_of_scripts_without_a_source() -> None:
    assert inline_hashes(b'<script src="a.js"></script><p>') == []
    assert len(inline_hashes(b'<script type="importmap">{}</script><script>1\n2</script>')) == 2


def test_each_file_is_served_with_its_type_and_a_tag(client: TestClient) -> None:
    names = [path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()]
    assert len(names) > 20
    for name in set(names) - {"index.html"}:
        answer = client.get(f"/static/{name}")
        assert answer.status_code == 200, name
        assert answer.content == (FOLDER / name).read_bytes()
        assert answer.headers["content-type"] == MEDIA_TYPES[Path(name).suffix]
        tag = {"If-None-Match": answer.headers["etag"]}
        assert client.get(f"/static/{name}", headers=tag).status_code == 304


def test_all_that_the_page_names_is_there(client: TestClient) -> None:
    page = client.get("/", headers=HTML).text
    for name in re.findall(r'"(?:\./)?(static/[^"]+)"', page):
        assert client.get(f"/{name}").status_code == 200, name
    for path in FOLDER.rglob("*.js"):
        if path.parent != VENDOR:
            for target in re.findall(r'from "(\.[^"]+)"', path.read_text()):
                assert (path.parent / target).is_file(), f"{path.name} imports {target}"
    assert not re.search(r"https?://(?!www\.w3\.org)", page), "nothing comes from elsewhere"


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/none.js",
        "/static/../app.py",
        "/static/..%2f..%2fserve/app.py",
        "/static/%2e%2e/__init__.py",
        "/static/vendor/../../../serve/app.py",
        "/static//etc/passwd",
        "/static/index.html",
        "/static/app.js%00",
        "/static/..\\app.py",
    ],
)
def test_nothing_else_can_be_asked_for(client: TestClient, path: str) -> None:
    assert client.get(path, headers=HTML).status_code == 404


def test_only_known_kinds_of_files_are_read(tmp_path: Path) -> None:
    for name in ("index.html", "a.js", "secret.key", ".env"):
        (tmp_path / name).write_text("x")
    app = FastAPI()
    add_page(app, tmp_path)
    with TestClient(app) as client:
        assert client.get("/static/a.js").status_code == 200
        assert client.get("/static/secret.key").status_code == 404
        assert client.get("/static/.env").status_code == 404


def test_the_page_opens_without_a_token_and_shows_nothing(watch: Watch, tmp_path: Path) -> None:
    app = Guard(make_app(watch), hosts=None, tokens=Tokens(tokens_file(tmp_path)))
    with TestClient(app) as client:
        assert client.get("/", headers=HTML).status_code == 200
        assert client.get("/static/app.js").status_code == 200
        assert client.get("/api/v1/links").status_code == 401


def test_vendored_files_are_those_of_the_lock() -> None:
    lock = json.loads((VENDOR / "vendor.lock.json").read_text())
    files = {row["file"]: row["sha256"] for each in lock["packages"] for row in each["files"]}
    actual = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name != "vendor.lock.json"
    }
    assert actual == files
    for each in lock["packages"]:
        assert any(row["file"].startswith("LICENSE") for row in each["files"]), each["package"]


def test_the_page_knows_what_can_be_decided_on() -> None:
    text = (FOLDER / "pure" / "choices.js").read_text()
    table = text.split("export const CHOICES = {")[1].split("\n};")[0]
    assert set(re.findall(r"^  (\w+):", table, re.MULTILINE)) == {
        str(code) for code in CAUSE_OF_CODE
    }


def keys_of(text: str, table: str) -> set[str]:
    """Return the keys of an object that stands at the top of a module of the page."""
    _, _, begun = text.partition(f"const {table} = {{")
    return set(re.findall(r"^  (\w+):", begun.partition("\n}")[0], re.MULTILINE))


def test_the_page_knows_what_clusters_answer() -> None:
    text = (FOLDER / "pure" / "cluster_answers.js").read_text()
    assert keys_of(text, "GROUP_HELP") <= {reason.name for reason in Reason}
    (settled,) = re.findall(r"SETTLED = new Set\(\[(.*?)\]\)", text)
    assert set(re.findall(r"\w+", settled)) == {reason.name for reason in SETTLED}
    assert keys_of(text, "SCHEMA_STATES") == {state.value for state in SchemaState}
    kinds = re.findall(r'\("(\w+)", ', inspect.getsource(TopicPlan.lines))
    assert keys_of(text, "PLAN_KINDS") == set(kinds)
    policies = get_args(GapPolicy)
    assert keys_of((FOLDER / "views" / "gaps.js").read_text(), "POLICIES") == set(policies)
