"""Three clients that people have drive our API unchanged: fetched as published, run as commands."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from support.connect_clients import Client
from unit.connect.kept import partition
from unit.connect.technote import CHECKPOINT, HEARTBEAT, REPLICATOR, SOURCE
from unit.serve.connect.test_connect_routes import LINK, Service

pytestmark = pytest.mark.thorough
START_S = 10.0
Start = Callable[..., Callable[..., str]]


class Served(Service):
    """The same, at an address."""

    def __init__(self) -> None:
        super().__init__()
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        settings = uvicorn.Config(self.client.app, lifespan="off", log_config=None, ws="none")
        self.server = uvicorn.Server(settings)


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    made.links.runs(LINK, partition("foo"), partition("bar", lane=1, state="BLOCKED"))
    run = threading.Thread(target=made.server.run, kwargs={"sockets": [made.listener]})
    run.start()
    until_s = time.monotonic() + START_S
    while not made.server.started and time.monotonic() < until_s:
        time.sleep(0.01)
    yield made
    made.server.should_exit = True
    run.join(START_S)


@pytest.fixture
def command(served: Served) -> Iterator[Start]:
    """Start a client; return what runs its commands, each of which must succeed."""
    with ExitStack() as clients:

        def start(lock: str, function: str, option: str, **env: str) -> Callable[..., str]:
            client = clients.enter_context(Client(lock, function, [option, served.url], env))

            def run(*words: str) -> str:
                code, text = client.run(*words)
                assert (code, "Traceback" in text) == (0, False), (words, text)
                return text

            return run

        yield start


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Configurations as files: the technote's, and a sink's."""
    sink = {"connector.class": "a.JdbcSinkConnector", "name": "sink", "topics": "foo"}
    kinds: dict[str, Any] = {
        "heartbeat": HEARTBEAT,
        "checkpoint": CHECKPOINT,
        "source": SOURCE,
        "replicator": REPLICATOR,
        "sink": sink,
        "posted": {"name": "posted", "config": {**SOURCE, "name": "posted"}},
        "named": {**SOURCE, "name": "source-2"},
    }
    for kind, config in kinds.items():
        (tmp_path / kind).write_text(json.dumps(config))
    return {kind: str(tmp_path / kind) for kind in kinds}


def test_kafkaconnect(served: Served, files: dict[str, str], command: Start) -> None:
    """Given the first users' command / when it does all it can / then none ends in a traceback."""
    secret = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    run = command("connect_clients", "kafkaconnect.cli:main", "-c", **secret)

    for kind in ("heartbeat", "checkpoint", "source"):
        name = {"source": "mirror-source"}.get(kind, kind)
        assert json.loads(run("upload", files[kind], "-n", name, "--dry-run"))["error_count"] == 0
        assert f'"name": "{name}"' in run("upload", files[kind], "-n", name)
    assert json.loads(run("list")) == ["checkpoint", "heartbeat", "mirror-source"]
    status = json.loads(run("status", "mirror-source"))
    assert [task["state"] for task in status["tasks"]] == ["RUNNING", "FAILED"]
    assert json.loads(run("info", "heartbeat"))["type"] == "source"
    assert json.loads(run("config", "mirror-source"))["topics"] == "foo"
    assert len(json.loads(run("tasks", "mirror-source"))) == 2
    assert json.loads(run("topics", "mirror-source"))["mirror-source"]["topics"]
    assert len(json.loads(run("plugins"))) == 4
    for verb in ("restart", "pause", "resume"):
        assert run(verb, "mirror-source") == "\n"
    assert [wish[2] for wish in served.links.wished] == ["paused", "running"]
    options = ("-h", files["heartbeat"], "-c", files["checkpoint"], "-m", files["source"])
    assert "pause" in run("help")
    assert run("create", "mirrormaker2", "-n", "x", *options).count('"type": "source"') == 3
    run("upload", files["replicator"], "-n", "replicator")
    for name in ("replicator", "x-mirror-source"):
        assert run("delete", name) == "\n"
    assert "not found" in run("status", "replicator")
    before = json.loads(run("list"))
    told = run("create", "influxdb-sink", "foo") + run("create", "s3-sink", files["sink"])
    assert "keep this one on your Connect cluster" in run("upload", files["sink"], "-n", "s")
    told += run("create", "jdbc-sink", files["sink"])
    assert "1 error" in told
    assert json.loads(run("list")) == before


def test_kafka_connect_py(served: Served, files: dict[str, str], command: Start) -> None:
    """Given another client / when it makes, changes and deletes a connector / then it can."""
    done = command("connect_clients", "kafka_connect.cli:cli", "-u")

    def run(*words: str) -> Any:
        text = done(*words)
        return json.loads(text) if text.strip() else None

    name, source = "mirror-source", json.dumps(SOURCE)
    # Its validate-config sends a string in place of an object, which no worker takes.
    assert "400" in done("validate-config", str(SOURCE["connector.class"]), "-d", source)
    assert run("create", "-d", json.dumps({"name": name, "config": SOURCE}))["name"] == name
    assert run("update", name, "-d", source)["config"]["topics"] == "foo"
    assert run("update", "source-2", "-f", files["named"])["type"] == "source"
    assert run("list") == [name, "source-2"]
    assert list(run("list", "--expand", "status")) == [name, "source-2"]
    run("delete", "source-2")
    assert run("list") == [name]
    assert run("get", name)["config"] == run("config", name)
    assert run("task-status", name, "0")["state"] == "RUNNING"
    assert run("list-plugins")
    run("restart-task", name, "1")
    served.links.restarted.clear()
    assert run("status", "mirror-source")["tasks"][1]["trace"]
    for verb in ("pause", "resume", "restart"):
        run(verb, "mirror-source")
    assert run("list-topics", "mirror-source")
    assert len(run("list-tasks", "mirror-source")) == 2
    assert run("info")["version"] == "4.3.0"
    assert served.links.restarted == [(LINK, [], "connect")]
    run("reset-topics", name)
    assert run("list-topics", name)[name]["topics"] == []


def test_kcm(files: dict[str, str], command: Start) -> None:
    """Given a third one, which needs a trace of what has failed / then it shows that."""
    run = command("connect_kcm", "kafka_connect_manager.cli:app", "--host")
    run("add", "-f", files["posted"])
    assert "posted" in run("list")
    assert "TOO_LARGE" in run("status", "--connector", "posted")
    run("update", "posted", "-f", files["posted"])
