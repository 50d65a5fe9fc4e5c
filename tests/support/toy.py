"""The technote's toy: its schema, both sides' clusters and registries, and links."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import yaml
from support.avro_clients import AvroReader, AvroWriter, Record, open_registry
from support.clusters import ClusterPair, fresh_name, until
from support.command import said
from support.links import RunningLink, wait_for, write_config
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import Cluster

JOHN: Record = {"bar": "John Doe", "baz": 1.0}
JANE: Record = {"bar": "Jane Doe", "baz": 2.0}
LATER: Record = {**JANE, "qux": "x"}
"""A record of the schema's second version."""
MORE_TURNS = 2
"""Turns of each link after which what had to come back would have."""


def foo(topic: str, *more: str) -> str:
    """The toy's schema; with `more` fields of later versions. No other topic's has its id."""
    fields: list[dict[str, Any]] = [
        {"name": "bar", "type": "string"},
        {"name": "baz", "type": "float"},
    ]
    fields += [{"name": name, "type": "string", "default": ""} for name in more]
    return json.dumps({"type": "record", "name": "foo", "doc": topic, "fields": fields})


def with_own(count: int) -> RegistryDouble:
    """A registry that has schemas of its own, under the ids from 1 on."""
    double = RegistryDouble()
    for number in range(count):
        text = json.dumps({"type": "record", "name": f"own{number}", "fields": []})
        double.register(f"own-{number}-value", {"schema": text})
    return double


def register_own(url: str, count: int) -> None:
    """Register schemas of its own at a real registry, whose subjects begin with `own-`."""
    for number in range(count):
        name = fresh_name("Own").replace("-", "_")
        text = json.dumps({"type": "record", "name": name, "fields": []})
        with AvroWriter("", url, text) as writer:
            writer.encode(f"own-{number}", {})


@dataclass
class Toy:
    """Both clusters and registries, a name for the topic, and a configuration of one link."""

    pair: ClusterPair
    source: RegistryServer
    target: RegistryServer
    config: Path
    prefix: str = ""
    """What mirrors are called with."""
    schemas: dict[str, Any] = field(default_factory=dict)
    """Settings of the link, besides those of all."""
    foo: TopicName = field(default_factory=lambda: fresh_name("foo"))

    @property
    def mirror(self) -> str:
        """The topic's name at the target."""
        return f"{self.prefix}{self.foo}"

    @property
    def link(self) -> str:
        """Name of the link, the first one if there are several."""
        name: str = yaml.safe_load(self.config.read_text())["links"][0]["name"]
        return name

    @property
    def strategy(self) -> str:
        """What the link does with schemas."""
        return str(self.schemas.get("strategy", "preserve"))

    def configure(self, **schemas: Any) -> None:
        """Write the configuration; the link selects all topics whose names begin like this one."""
        self.schemas |= schemas
        self.config.parent.mkdir(exist_ok=True)
        write_config(
            self.config.parent,
            self.pair.source.bootstrap,
            self.pair.target.bootstrap,
            name=fresh_name("toy"),
            topics={
                "include": [f"{self.foo}.*"],
                "refresh_interval_s": 0.5,
                "naming": {"prefix": self.prefix} if self.prefix else "same",
            },
            schemas={"interval_s": 1, **self.schemas, "strategy": self.strategy},
            registries=(self.source.url, self.target.url),
        )

    def writer(
        self,
        *more: str,
        registry: RegistryServer | None = None,
        put_id: Callable[..., bytes] | None = None,
    ) -> AvroWriter:
        """A producer at the source; the schema has `more` fields."""
        url = (registry or self.source).url
        return AvroWriter(self.pair.source.bootstrap, url, foo(self.foo, *more), put_id)

    def reader(self, *, context: str = "") -> AvroReader:
        registry = self.target.url + (f"/contexts/{context}" if context else "")
        return AvroReader(self.pair.target.bootstrap, registry, self.mirror)

    def origin(self) -> AvroReader:
        """The same consumer at the source."""
        return AvroReader(self.pair.source.bootstrap, self.source.url, self.foo)

    def wait_held(self, reader: AvroReader, offset: int) -> None:
        """Wait until the link says that the record of partition 0 at this offset waits.

        Its reader must have seen no more than before.
        """
        before = reader.seen.copy()

        def reasons() -> list[str]:
            [status] = said(self.config, "status")
            return [
                row["reason"]
                for row in status["problems"]
                if (row["source"], row["code"]) == (self.foo, "SCHEMA_UNREADABLE")
            ]

        until(
            lambda: any(each.startswith(f"source offset {offset}:") for each in reasons()),
            lambda: f"{self.foo} waiting at {offset}, there is {reasons()}",
        )
        assert (reader.seen, reader.failures) == (before, [])


class Tour:
    """Toys whose links run in one process: one start serves many tests, each with a fresh topic.

    Parameters
    ----------
    pair
        Both clusters.
    folder
        For configurations.
    """

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.config = folder / "heliostat.yaml"
        """All links in one file; each has one of its own as well."""
        self._pair = pair
        self._toys: dict[str, Toy] = {}
        self._open = ExitStack()
        self._running: RunningLink | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._open:
            self.stop()

    def serve(self, double: RegistryDouble) -> RegistryServer:
        """Start a registry that runs as long as the tour."""
        return self._open.enter_context(RegistryServer(double))

    def add(self, name: str, source: Any, target: Any, *, prefix: str = "", **schemas: Any) -> Toy:
        """Add a link between two registries that are open; it starts with the next `start`."""
        config = self.config.parent / name / "heliostat.yaml"
        toy = Toy(self._pair, source, target, config, prefix, schemas, fresh_name(name))
        toy.configure()
        self._toys[name] = toy
        return toy

    def toy(self, name: str, ending: str = "") -> Toy:
        """Return a fresh topic of a link, with this ending; start all links if they don't run."""
        if self._running is None:
            self.start()
        toy = self._toys[name]
        return replace(toy, foo=TopicName(f"{fresh_name(toy.foo)}{ending}"))

    def start(self) -> None:
        """Start all links."""
        configs = [toy.config for toy in self._toys.values()]
        self._running = RunningLink(join_configs(self.config, configs))

    def stop(self) -> None:
        """Stop all links if they run."""
        if self._running is not None:
            with self._running as running:
                self._running = None
                assert running.stop() == 0, running.text()

    def text(self) -> str:
        """What the links have written since the last start."""
        return "" if self._running is None else self._running.text()


def join_configs(path: Path, configs: Sequence[Path]) -> Path:
    """Write a configuration with the links of several; each keeps its registries."""
    parts = [yaml.safe_load(each.read_text()) for each in configs]
    clusters: dict[str, Any] = {}
    links: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        for alias, cluster in part["clusters"].items():
            clusters[f"{alias}-{number}"] = cluster
        for link in part["links"]:
            sides = {side: f"{link[side]}-{number}" for side in ("source", "target")}
            links.append({**link, **sides})
    path.write_text(yaml.safe_dump({**parts[0], "clusters": clusters, "links": links}))
    return path


def topics_of(cluster: Cluster, part: str) -> dict[str, int]:
    """Partitions by topic, of those whose name has this part."""
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        found = admin.describe_topics()
    return {name: len(info.partitions) for name, info in found.items() if part in name}


def subjects(server: RegistryServer, part: str) -> set[str]:
    """Subjects of all contexts whose name has this part."""
    with open_registry(server.url) as registry:
        return {name for name in registry.get_subjects(subject_prefix=":*:") if part in name}


def both_ways(toy: Toy) -> None:
    """Configure two links in one file, in opposite directions: both select what has this name.

    Mirrors, and contexts where there are any, are called after the side that they come from.
    """
    toy.configure(exclude=["own.*"])
    config = yaml.safe_load(toy.config.read_text())
    [link] = config["links"]
    config["links"] = []
    for source, target in (("east", "west"), ("west", "east")):
        naming = {"include": [f".*{toy.foo}.*"], "naming": {"prefix": f"{source}."}}
        context = {"context": f".{source}"} if toy.strategy == "isolate" else {}
        way = {
            "name": f"{link['name']}-from-{source}",
            "source": source,
            "target": target,
            "topics": {**link["topics"], **naming},
            "schemas": {**link["schemas"], **context},
        }
        config["links"].append({**link, **way})
    toy.config.write_text(yaml.safe_dump(config))


def wait_turns(config: Path) -> None:
    """Until each link has looked at both clusters and both registries some more times."""
    began_ms = time.time() * 1000

    def drivers() -> list[dict[str, Any]]:
        return [row["driver"] for row in said(config, "status")]

    began = [driver["turns"] for driver in drivers()]
    wait_for(
        "more turns",
        lambda: all(
            driver["turns"] >= turns + MORE_TURNS
            and driver["schemas"]["at_ms"] > began_ms + MORE_TURNS * 1000
            for driver, turns in zip(drivers(), began, strict=True)
        ),
    )
