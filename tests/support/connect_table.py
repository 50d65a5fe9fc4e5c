"""One table of requests to Kafka Connect's API, for a real worker and for ours."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

KINDS = ("Source", "Checkpoint", "Heartbeat")
MIRROR = "org.apache.kafka.connect.mirror.Mirror"
TOPIC = "foo"


class Answer(NamedTuple):
    """Status, headers that clients read, and body."""

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Step:
    """A request, and how far its answers must agree.

    Parameters
    ----------
    waits
        State that the connector of the path must have first, and with how many tasks.
    ours
        Our own status, where it differs on purpose.
    same
        Whether the bodies must be equal; otherwise their keys and types.
    kind
        Type of the body.
    """

    method: str
    path: str
    body: Any = None
    waits: tuple[str, int] | None = None
    ours: int | None = None
    same: bool = False
    kind: str = "application/json"

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.method} {self.path}"


def config(kind: str, bootstrap: str, **more: Any) -> dict[str, Any]:
    """Return a configuration like the technote's."""
    ends = {
        f"{side}.cluster.{name}": value
        for side, alias in (("source", "src"), ("target", "destn"))
        for name, value in (("alias", alias), ("bootstrap.servers", bootstrap))
    }
    own = {"replication.factor": 1, "offset-syncs.topic.replication.factor": 1} | {
        "refresh.topics.interval.seconds": 5,
        "sync.topic.acls.enabled": False,
        "tasks.max": "1",
    }
    factors = {f"{part}.topic.replication.factor": 1 for part in ("checkpoints", "heartbeats")}
    return {
        "name": kind.lower(),
        "connector.class": f"{MIRROR}{kind}Connector",
        "topics": TOPIC,
        **ends,
        **factors,
        **(own if kind == "Source" else {}),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def steps(bootstrap: str) -> list[Step]:
    """Return the table; its order counts."""
    made = {kind: config(kind, bootstrap) for kind in KINDS}
    return [
        *_of_nothing(),
        *_of_plugins(made),
        *_of_changes(made),
        *_of_states(made),
        *_of_offsets(),
        Step("DELETE", "/connectors/source"),
        Step("GET", "/connectors/source", same=True),
        Step("DELETE", "/connectors/heartbeat"),
    ]


def _of_nothing() -> list[Step]:
    none = "/connectors/none"
    return [
        Step("GET", "/"),
        Step("HEAD", "/"),
        Step("GET", "/health", same=True),
        Step("GET", "/connectors/", same=True),
        Step("GET", "/connectors?expand=status&expand=info", same=True),
        Step("GET", "/connectors/a/b/c", same=True),
        Step("PUT", "/connectors", {}, same=True),
        *(
            Step("GET", f"{none}{rest}", same=True)
            for rest in (
                *("", "/config", "/status", "/tasks", "/tasks/0/status", "/tasks/x/status"),
                *("/offsets", "/topics"),
            )
        ),
        Step("DELETE", none, same=True),
        Step("PATCH", f"{none}/config", {"a": "b"}, same=True),
        *(Step("PUT", f"{none}/{verb}", same=True) for verb in ("pause", "resume", "stop")),
        Step("POST", f"{none}/restart", same=True),
        Step("POST", f"{none}/restart?includeTasks=true", same=True),
        Step("POST", f"{none}/tasks/0/restart", same=True),
        Step("GET", "/admin/loggers"),
        Step("GET", "/admin/loggers/root"),
        Step("GET", "/admin/loggers/no.such.one", same=True),
        Step("PUT", "/admin/loggers/root", {}, same=True),
        Step("PUT", "/admin/loggers/root", {"level": "LOUD"}, same=True),
        Step("PUT", "/admin/loggers/no.such.one", {"level": "WARN"}, same=True),
        Step("PUT", "/admin/loggers/no.such.one?scope=cluster", {"level": "ERROR"}),
    ]


def _of_plugins(made: Mapping[str, dict[str, Any]]) -> list[Step]:
    plugins = "/connector-plugins"
    source = made["Source"]
    wrong: list[dict[str, Any]] = [
        {"tasks.max": 0},
        {"refresh.topics.interval.seconds": "abc"},
        {"sync.topic.configs.enabled": "maybe"},
        {"replication.factor": 99_999_999_999},
        {"offset-syncs.topic.location": "x"},
        {"errors.tolerance": "some"},
        {"replication.policy.class": "no.such.Class"},
        {"emit.offset-syncs.enabled": False},
        {"exactly.once.support": "required"},
    ]
    checked = f"{plugins}/MirrorSource/config/validate"
    sink = source | {"connector.class": "no.Such"}
    return [
        Step("GET", plugins),
        *(Step("GET", f"{plugins}/Mirror{kind}Connector/config") for kind in KINDS),
        Step("GET", f"{plugins}/None/config", same=True),
        *(
            Step("PUT", f"{plugins}/{MIRROR}{kind}Connector/config/validate", made[kind])
            for kind in KINDS
        ),
        *(Step("PUT", checked, source | change) for change in wrong),
        Step("PUT", checked, {k: v for k, v in source.items() if k != "source.cluster.alias"}),
        Step("PUT", checked, made["Heartbeat"], same=True),
        Step("PUT", checked, {"name": "x"}, ours=400),
        Step("PUT", f"{plugins}/None/config/validate", sink, ours=200),
    ]


def _of_changes(made: Mapping[str, dict[str, Any]]) -> list[Step]:
    source = made["Source"]
    body = {"name": "source", "config": source, "initial_state": "stopped"}
    return [
        Step("PUT", "/connectors/heartbeat/config", made["Heartbeat"]),
        Step("PUT", "/connectors/heartbeat/config", made["Heartbeat"]),
        Step("POST", "/connectors", {"name": "checkpoint", "config": made["Checkpoint"]}),
        Step("POST", "/connectors", {"name": "other", "config": source}, same=True),
        Step("POST", "/connectors", body | {"initial_state": "x"}, ours=400),
        Step("POST", "/connectors", body | {"more": 1}, ours=400),
        Step("POST", "/connectors", body | {"config": []}, ours=400),
        Step("POST", "/connectors", body),
        Step("POST", "/connectors", body, same=True),
        Step("PUT", "/connectors/other/config", source, same=True),
        Step("PUT", "/connectors/source/config", source | {"tasks.max": 0}, same=True),
        Step("PUT", "/connectors/source/config", {"a": {}}, ours=400),
        Step("GET", "/connectors/source/config", same=True),
        Step("GET", "/connectors/source/status", waits=("STOPPED", 0)),
        Step("PATCH", "/connectors/source/config", {"tasks.max": None, "offset.lag.max": 5}),
        Step("GET", "/connectors/source/config", same=True),
        Step("PUT", "/connectors/source/resume"),
        Step("GET", "/connectors", same=True),
        Step("DELETE", "/connectors/checkpoint/"),
    ]


def _of_states(made: Mapping[str, dict[str, Any]]) -> list[Step]:
    one, running = "/connectors/source", ("RUNNING", 1)
    return [
        Step("GET", f"{one}/status", waits=running),
        Step("GET", one, same=True),
        Step("GET", "/connectors", same=True),
        Step("GET", "/connectors?expand=status&expand=info"),
        Step("GET", "/connectors?expand=none"),
        Step("GET", f"{one}/tasks/0/status"),
        Step("GET", f"{one}/tasks/7/status", same=True),
        Step("POST", f"{one}/restart"),
        Step("POST", f"{one}/restart?includeTasks=False&onlyFailed=False", waits=running),
        Step("POST", f"{one}/restart?includeTasks=true&onlyFailed=true", waits=running),
        Step("POST", f"{one}/restart?includeTasks=TRUE", waits=running),
        Step("POST", f"{one}/tasks/0/restart", waits=running),
        Step("POST", f"{one}/tasks/7/restart", waits=running, same=True),
        Step("PUT", f"{one}/config", made["Source"], waits=running),
        Step("GET", f"{one}/topics"),
        Step("PUT", f"{one}/topics/reset"),
        Step("PUT", f"{one}/pause", waits=running),
        Step("PUT", f"{one}/pause"),
        Step("GET", f"{one}/status", waits=("PAUSED", 1)),
        Step("PUT", f"{one}/resume"),
        Step("GET", f"{one}/status", waits=running),
        Step("GET", "/connectors/heartbeat/status", waits=running),
    ]


def _of_offsets() -> list[Step]:
    one = "/connectors/source"
    where = {"cluster": "src", "topic": TOPIC, "partition": 0}
    good = {"offsets": [{"partition": where, "offset": {"offset": 4}}]}

    def changed(**change: Any) -> dict[str, Any]:
        place = {name: value for name, value in {**where, **change}.items() if value is not None}
        return {"offsets": [{"partition": place, "offset": {"offset": 4}}]}

    return [
        Step("GET", f"{one}/offsets"),
        Step("PATCH", f"{one}/offsets", good, same=True),
        Step("DELETE", f"{one}/offsets", same=True),
        Step("PUT", f"{one}/stop"),
        Step("GET", f"{one}/status", waits=("STOPPED", 0)),
        Step("GET", f"{one}/tasks", same=True),
        Step("PATCH", f"{one}/offsets", good, same=True),
        Step("PATCH", f"{one}/offsets", {"offsets": []}, same=True),
        Step("PATCH", f"{one}/offsets", {}, same=True),
        Step("PATCH", f"{one}/offsets", changed(topic=None), same=True),
        Step("PATCH", f"{one}/offsets", changed(partition="x"), same=True),
        Step("PATCH", f"{one}/offsets", changed(partition=-1), same=True),
        Step("PATCH", f"{one}/offsets", good, same=True, kind="text/plain"),
        Step("DELETE", f"{one}/offsets", ours=500),  # what was copied stays a mirror's position
    ]


def ask(url: str, step: Step) -> Answer:
    """Send a request over HTTP."""
    data = None if step.body is None else json.dumps(step.body).encode()
    headers = {"Content-Type": step.kind} if data else {}
    request = urllib.request.Request(  # noqa: S310  # loopback
        url + step.path, data, headers, method=step.method
    )
    try:
        with urllib.request.urlopen(request, timeout=100) as answer:  # noqa: S310  # loopback
            return _answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        return _answer(error.code, error.headers, error.read())


def _answer(status: int, headers: Any, content: bytes) -> Answer:
    kept = {name: str(headers[name]) for name in ("Content-Type", "Location") if headers[name]}
    try:
        return Answer(status, kept, json.loads(content) if content else None)
    except ValueError:
        return Answer(status, kept, content.decode(errors="replace"))


def shape(value: Any) -> Any:
    """Return keys and types of a body; of a list, those of its entries."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        shapes = [shape(each) for each in value]
        return [each for number, each in enumerate(shapes) if each not in shapes[:number]]
    return "null" if value is None else type(value).__name__
