"""Connect's paths beside page and API: one port, one guard, and errors in the shape of each."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from unit.connect.technote import SOURCE
from unit.serve.connect.test_connect_routes import LINK, C, Service
from unit.serve.test_app import HOST, watch

from heliostat.config import Config, LinkSettings
from heliostat.connect.file_clusters import FileClusters
from heliostat.names import Alias, LinkName
from heliostat.serve.app import make_app
from heliostat.serve.connect.watched_links import connectors_of, home_cluster_id
from heliostat.serve.guard import Guard
from heliostat.serve.tokens import Tokens
from heliostat.serve.watch import Watch

__all__ = ["watch"]
TOKENS = {"ann": "operate", "bob": "view"}


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def guarded(watch: Watch, service: Service, tmp_path: Path) -> TestClient:
    file = tmp_path / "tokens"
    lines = [
        f"{name}:{role}:{hashlib.sha256(f'of {name}'.encode()).hexdigest()}\n"
        for name, role in TOKENS.items()
    ]
    file.write_text("".join(lines))
    file.chmod(0o600)
    app = make_app(watch, connect=service.app)
    return TestClient(Guard(app, hosts=[HOST], tokens=Tokens(file)), base_url=f"http://{HOST}")


def basic(name: str) -> dict[str, str]:
    """Return what a client sends for a URL with a name and a password."""
    text = base64.b64encode(f"anything:of {name}".encode()).decode()
    return {"Authorization": f"Basic {text}"}


def test_a_token_is_the_password_and_names_who_asks(service: Service, guarded: TestClient) -> None:
    refused = guarded.get("/connectors")
    assert (refused.status_code, refused.json()["error_code"]) == (401, 401)
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert guarded.get("/").status_code == 401
    assert guarded.get("/", headers={"Accept": "text/html"}).status_code == 200
    assert guarded.get("/connectors", headers=basic("bob")).json() == []
    refused = guarded.put(f"{C}/config", json=SOURCE, headers=basic("bob"))
    assert (refused.status_code, "may only look" in refused.json()["message"]) == (403, True)
    assert guarded.put(f"{C}/config", json=SOURCE, headers=basic("ann")).status_code == 201
    assert service.store.read()[str(SOURCE["name"])].by == "ann"
    assert guarded.put(f"{C}/pause", headers=basic("ann")).status_code == 202
    assert service.links.wished == [(LINK, "destn", "paused", "ann")]
    assert guarded.get("/api/v1/links", headers=basic("bob")).json()["items"]
    changed = {"topics": "other"}
    assert guarded.patch(f"{C}/config", json=changed, headers=basic("ann")).status_code == 200
    assert guarded.delete(C, headers=basic("bob")).status_code == 403
    assert guarded.delete(C, headers=basic("ann")).status_code == 204
    of = f"connector {SOURCE['name']} (link {LINK})"
    did = ("created", "changed", "deleted")
    assert service.told == [f"{of} is {each}: ann asks so" for each in did]


def test_other_sites_and_other_types_are_refused(guarded: TestClient) -> None:
    ann = basic("ann")
    other = guarded.put(f"{C}/pause", headers={**ann, "Origin": "http://evil"})
    assert (other.status_code, other.json()["error_code"]) == (403, 403)
    text = guarded.put(f"{C}/config", content="a=b", headers={**ann, "Content-Type": "text/plain"})
    assert (text.status_code, text.json()["error_code"]) == (415, 415)
    assert guarded.get("/connectors", headers={"Host": "evil"}).status_code == 421


def test_links_of_a_watch_are_shown(watch: Watch) -> None:
    connectors = connectors_of(watch, FileClusters.of_config(watch.config, ["l"]), 8083)
    (shown,) = connectors.shown.all().values()
    assert (shown.stored.name, shown.is_declared) == ("l", True)
    assert [task.state for task in shown.view.tasks] == ["FAILED"]
    assert shown.view.tasks[0].trace.startswith("t3-0: it is too large")
    assert connectors.shown.links.status(LinkName("none")) is None
    assert connectors.shown.links.partitions(LinkName("none")) == ()
    assert home_cluster_id(watch.config)() == ""


def test_what_the_file_says_of_clusters() -> None:
    config = Config.model_validate(
        {
            "clusters": {"a": {"bootstrap": ["A:1", "b:2"]}, "b": {"bootstrap": "c:3"}},
            "service": {"connect": {"target": "b"}},
            "links": [{"name": "l", "source": "a", "target": "b"}],
        }
    )
    file = FileClusters.of_config(config, ["l"])
    assert file.addresses == {"a": {"a:1", "b:2"}, "b": {"c:3"}}
    assert (file.links, file.registries) == (frozenset({"l"}), frozenset())
    assert (file.target, file.strategy) == (Alias("b"), "preserve")
    defaults = LinkSettings.model_validate({"schemas": {"strategy": "rewrite"}})
    changed = config.model_copy(update={"defaults": defaults})
    assert FileClusters.of_config(changed, ["l"]).strategy == "rewrite"
