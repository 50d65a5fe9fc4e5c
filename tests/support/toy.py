"""The technote's toy: its schema, both sides' clusters and registries, and one link."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from support.avro_clients import AvroReader, AvroWriter, Record, open_registry
from support.clusters import ClusterPair, fresh_name
from support.command import said
from support.links import wait_for, write_config
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import Cluster

JOHN: Record = {"bar": "John Doe", "baz": 1.0}
JANE: Record = {"bar": "Jane Doe", "baz": 2.0}
WAITS_S = 3.0
"""How long a record must stay unseen: lanes try again within this."""
MORE_TURNS = 2
"""Turns of each link after which what had to come back would have."""


def foo(*more: str) -> str:
    """The toy's schema; with `more` fields of later versions."""
    fields: list[dict[str, Any]] = [
        {"name": "bar", "type": "string"},
        {"name": "baz", "type": "float"},
    ]
    fields += [{"name": name, "type": "string", "default": ""} for name in more]
    return json.dumps({"type": "record", "name": "foo", "fields": fields})


def with_own(count: int) -> RegistryDouble:
    """A registry that has schemas of its own, under the ids from 1 on."""
    double = RegistryDouble()
    for number in range(count):
        text = json.dumps({"type": "record", "name": f"own{number}", "fields": []})
        double.register(f"own-{number}-value", {"schema": text})
    return double


@dataclass
class Toy:
    """Both clusters and registries, a name for the topic, and a configuration of one link."""

    pair: ClusterPair
    source: RegistryServer
    target: RegistryServer
    config: Path
    foo: TopicName = field(default_factory=lambda: fresh_name("foo"))

    def configure(self, naming: Any = "same", **schemas: Any) -> None:
        write_config(
            self.config.parent,
            self.pair.source.bootstrap,
            self.pair.target.bootstrap,
            name=fresh_name("toy"),
            topics={"include": [self.foo], "refresh_interval_s": 0.5, "naming": naming},
            schemas={"strategy": "preserve", "interval_s": 1, **schemas},
            registries=(self.source.url, self.target.url),
        )

    def writer(self, *more: str, registry: RegistryServer | None = None) -> AvroWriter:
        return AvroWriter(self.pair.source.bootstrap, (registry or self.source).url, foo(*more))

    def reader(self, topic: str = "", *, context: str = "") -> AvroReader:
        registry = self.target.url + (f"/contexts/{context}" if context else "")
        return AvroReader(self.pair.target.bootstrap, registry, topic or self.foo)

    def origin(self) -> AvroReader:
        """The same consumer at the source."""
        return AvroReader(self.pair.source.bootstrap, self.source.url, self.foo)


def topics_of(cluster: Cluster, part: str) -> dict[str, int]:
    """Partitions by topic, of those whose name has this part."""
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        found = admin.describe_topics()
    return {name: len(info.partitions) for name, info in found.items() if part in name}


def subjects(server: RegistryServer, part: str) -> set[str]:
    """Subjects of all contexts whose name has this part."""
    with open_registry(server.url) as registry:
        return {name for name in registry.get_subjects(subject_prefix=":*:") if part in name}


def both_ways(toy: Toy, name: str, strategy: str, *, back_every_s: float = 0.5) -> None:
    """Configure two links in one file, in opposite directions: both select what has this name."""
    toy.configure({"format": "${source}.${topic}"}, strategy=strategy, exclude=["own.*"])
    config = yaml.safe_load(toy.config.read_text())
    (there,) = config["links"]
    there["topics"]["include"] = [f".*{name}.*"]
    topics = {**there["topics"], "refresh_interval_s": back_every_s}
    names = {"name": f"{there['name']}-back", "source": "west", "target": "east"}
    config["links"].append({**there, **names, "topics": topics})
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
