"""`check` and `scan` by API: the verb's value, topics by pages, and rights only counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from unit.operate.test_scanned import cluster, topic
from unit.serve.test_app import HOST, watch

from heliostat.operate import check as checking
from heliostat.operate import scan as scanning
from heliostat.operate.finding import CheckReport, fine, problem
from heliostat.serve.app import make_app
from heliostat.serve.check_messages import CheckAnswer, ScanPage
from heliostat.serve.guard import Guard
from heliostat.serve.watch import Watch

__all__ = ["watch"]


@pytest.fixture
def client(watch: Watch) -> Iterator[TestClient]:
    app = Guard(make_app(watch), hosts=[HOST], tokens=None)
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as made:
        yield made


def test_a_check_is_that_of_the_verb(
    watch: Watch, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = CheckReport((fine("link l", "all"), problem("cluster e", "CODE", "bad", "do so")))
    monkeypatch.setattr(checking, "check", lambda *_: report)
    name = watch.config.links[0].name
    answer = client.get(f"/api/v1/links/{name}/check")
    seen = CheckAnswer.model_validate(answer.json(), extra="forbid")
    assert (seen.would_run, seen.problems, seen.findings[1].hint) == (False, 1, "do so")
    assert client.get("/api/v1/links/none/check").status_code == 404


def test_a_scan_has_pages_and_names_nobody(
    watch: Watch, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "scan", lambda _: cluster(topic("a"), topic("b"), topic("c")))
    alias = watch.config.links[0].source
    first = client.get(f"/api/v1/clusters/{alias}/scan?limit=2")
    page = ScanPage.model_validate(first.json(), extra="forbid")
    assert [row.name for row in page.items] == ["a", "b"]
    assert (page.acls, page.scram_users) == (0, None)
    rest = client.get(f"/api/v1/clusters/{alias}/scan?limit=2&after={page.next}").json()
    assert ([row["name"] for row in rest["items"]], rest["next"]) == (["c"], None)
    assert client.get("/api/v1/clusters/none/scan").status_code == 404
