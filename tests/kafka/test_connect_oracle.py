"""Our Kafka Connect API answers as a real worker of 4.3.0 does: one table of requests for both."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from support.connect_table import KINDS, TOPIC, Answer, Step, ask, shape, steps
from support.connect_worker import ConnectWorker
from unit.connect.kept import MemoryStore, PlainLinks, partition

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.connect.config_keys import keys_of
from heliostat.connect.file_clusters import FileClusters
from heliostat.names import Alias, TopicName
from heliostat.operate.connectors import Connectors
from heliostat.operate.shown_connectors import ShownConnectors
from heliostat.serve.connect.app import connect_app
from heliostat.serve.connect.loggers import Loggers
from heliostat.serve.connect.paths import ConnectPaths
from heliostat.serve.guard import Guard
from heliostat_sandbox import Cluster

pytestmark = pytest.mark.thorough
STATE_S = 60.0
OUR_OWN = ("/admin/loggers", "/connector-plugins", "/", "/admin/loggers/root")
"""Lists of what is ours, or of the worker's own: each of their entries must be alike, no more."""


def our_api(bootstrap: str) -> TestClient:
    """Return our API over connectors in memory, and a link that is as it is wished to be."""
    links = PlainLinks()
    links.runs("src-to-destn", partition(TOPIC, position=5), state="stopped")
    ends = frozenset({bootstrap})
    file = FileClusters({Alias("src"): ends, Alias("destn"): ends})
    store = MemoryStore()
    shown = ShownConnectors(store, links, lambda: file, "here:8083")
    connectors = Connectors(store, shown, SystemClock())
    app = connect_app(connectors, Loggers(SystemClock()), lambda: "id")
    guard = Guard(ConnectPaths(app, app), hosts=None, tokens=None)
    return TestClient(guard, base_url="http://localhost")


def answered(client: TestClient, step: Step) -> Answer:
    kind = {} if step.body is None else {"Content-Type": step.kind}
    content = None if step.body is None else json.dumps(step.body)
    answer = client.request(step.method, step.path, content=content, headers=kind)
    named = ("Content-Type", "Location")
    kept = {name: answer.headers[name] for name in named if name in answer.headers}
    try:
        body = answer.json() if answer.content else None
    except ValueError:
        body = answer.text
    return Answer(answer.status_code, kept, body)


def wait_for(url: str, step: Step) -> None:
    """Wait until the worker's connector is in the state that a step needs."""
    assert step.waits is not None
    name = step.path.split("/")[2]
    until_s = time.monotonic() + STATE_S
    while True:  # ends: it is, or the time is over
        body = ask(url, Step("GET", f"/connectors/{name}/status")).body
        now = body.get("connector", {}).get("state"), len(body.get("tasks", ()))
        states = {task["state"] for task in body.get("tasks", ())} | {now[0]}
        if now == step.waits and states == {now[0]}:
            return
        assert time.monotonic() < until_s, (step.name, body)
        time.sleep(0.1)


def differences(step: Step, theirs: Answer, ours: Answer) -> list[str]:
    """Return in what our answer differs where it should not."""
    found: list[str] = []
    if ours.status != (step.ours or theirs.status):
        found.append(f"status {ours.status}, theirs {theirs.status}")
    if step.ours is not None:
        return found
    if ("Location" in ours.headers) != ("Location" in theirs.headers):
        found.append("Location")
    types = [each.headers.get("Content-Type", "").partition(";")[0] for each in (ours, theirs)]
    if types[0] != types[1]:
        found.append(f"Content-Type {types[0]!r}, theirs {types[1]!r}")
    if step.same and in_order(ours.body) != in_order(theirs.body):
        found.append(f"body {ours.body}, theirs {theirs.body}")
    one, other = alike(step, ours.body), alike(step, theirs.body)
    if one != other:
        found.append(f"shape {one}, theirs {other}")
    return found


def in_order(body: Any) -> Any:
    """Return a body; names that it lists have no order."""
    return sorted(body) if isinstance(body, list) else body


def alike(step: Step, body: Any) -> Any:
    """Return what of a body must agree: keys and types; of a validation also what is wrong."""
    path = step.path.partition("?")[0]
    if path.endswith("/validate") and isinstance(body, dict) and "configs" in body:
        errors = {
            row["value"]["name"]: (row["value"]["errors"], row["value"]["value"])
            for row in body["configs"]
            if row["value"]["errors"]
        }
        texts = {name: [text[:60] for text in told[0]] for name, told in errors.items()}
        return body["name"], body["error_count"], body["groups"], texts, shape(body["configs"][0])
    if path in OUR_OWN and isinstance(body, dict | list):
        rows = list(body.values()) if isinstance(body, dict) else body
        return shape(rows[0]).keys() if rows and isinstance(rows[0], dict) else type(body)
    return shape(body)


def make_topic(cluster: Cluster) -> None:
    """Make the topic that is mirrored."""
    with ClusterAdmin(ClusterAccess((cluster.bootstrap,))) as admin:
        admin.create_topics([NewTopic(TopicName(TOPIC), 1, 1)])


def test_every_answer_is_like_a_real_workers(
    start_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Given a worker and our API / when both are sent the same requests / then statuses, headers

    that clients read, keys and types are alike, and texts where clients read these.
    """
    cluster = start_cluster("oracle")
    make_topic(cluster)
    client = our_api(cluster.bootstrap)
    found: dict[str, list[str]] = {}
    with ConnectWorker(cluster.bootstrap, tmp_path) as worker:
        for step in steps(cluster.bootstrap):
            if step.waits is not None:
                wait_for(worker.url, step)
            theirs, ours = ask(worker.url, step), answered(client, step)
            told = differences(step, theirs, ours)
            if told and step.waits is not None and step.method == "GET":
                wait_for(worker.url, step)  # a rebalance of the worker came between
                told = differences(step, ask(worker.url, step), ours)
            if told:
                found[f"{len(found)} {step.name} {step.body}"[:200]] = told
        for kind in KINDS:
            path = f"/connector-plugins/Mirror{kind}Connector/config"
            theirs = ask(worker.url, Step("GET", path))
            rows = {row["name"]: {**row, "documentation": ""} for row in theirs.body}
            own = {key.name: key.to_json() for key in keys_of(f"Mirror{kind}Connector")}
            assert own == rows
    assert found == {}
