"""The service's own answers are counted by the template of their route, whatever is asked."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from unit.serve.test_app import watch as watch  # noqa: PLC0414  # a fixture

from heliostat.metrics import families as f
from heliostat.metrics.text import Samples
from heliostat.serve.app import make_app
from heliostat.serve.route_times import NO_ROUTE, OTHER_METHOD
from heliostat.serve.watch import Watch


def test_answers_are_counted_by_route_method_and_code(watch: Watch) -> None:
    client = TestClient(watch.routes.timed(make_app(watch)))
    client.get("/api/v1/links/l")
    client.get("/api/v1/links/l")
    client.get("/api/v1/links/none")
    client.get("/static/app.js")
    for number in range(20):
        client.get(f"/no/such/{number}")
    client.request("BREW", "/livez")
    samples = Samples()
    watch.routes.write(samples)
    [family] = text_string_to_metric_families(samples.text())
    counts = {
        (each.labels["route"], each.labels["method"], each.labels["code"]): each.value
        for each in family.samples
        if each.name == f"{f.HTTP_SECONDS.name}_count"
    }
    route = "/api/v1/links/{link}"
    assert counts[route, "GET", "200"] == 2
    assert counts[route, "GET", "404"] == 1
    assert counts[NO_ROUTE, "GET", "404"] == 20
    assert any(key[1] == OTHER_METHOD for key in counts)
    assert len(counts) == 5
