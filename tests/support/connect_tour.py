"""The first users' own tour: two clusters, a file without links, `kafkaconnect` as published."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml
from support.clusters import fresh_name
from support.connect_clients import Client
from support.connect_table import Step, ask
from support.links import ends_or_errors
from support.records import Sample, encode, write_everywhere

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import Cluster
from heliostat_sandbox.ports import free_ports


class ConnectTour:
    """Both clusters, and the file of a `heliostat run` that answers as Kafka Connect does.

    Parameters
    ----------
    registries
        Addresses of the clusters' schema registries, if they have some.
    strategy
        How the file says that schemas go; without one it does not say.
    """

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        folder: Path,
        registries: tuple[str, ...] = (),
        strategy: str = "",
    ) -> None:
        self.source, self.target = source.bootstrap, target.bootstrap
        self.cluster = source
        self.folder = folder
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.config = folder / "heliostat.yaml"
        clusters: dict[str, dict[str, Any]] = {
            "src": {"bootstrap": self.source},
            "destn": {"bootstrap": self.target},
        }
        for cluster, url in zip(clusters.values(), registries, strict=False):
            cluster["schema_registry"] = {"urls": [url]}
        service = {"home": "destn", "listen": f"127.0.0.1:{port}"}
        spark = {"master": "local[2]"}
        file = {"clusters": clusters, "service": service, "spark": spark, "links": []}
        if strategy:
            file["defaults"] = {"schemas": {"strategy": strategy}}
        self.config.write_text(yaml.safe_dump(file))
        self.topic = TopicName(fresh_name("foo"))

    def upload(self, client: Client, name: str, config: Mapping[str, object]) -> None:
        """Upload a MirrorMaker 2 connector of the technote, for these clusters and this topic."""
        named = str(config["topics"]).replace("foo", self.topic)
        changed = {
            **config,
            "topics": named,
            "source.cluster.bootstrap.servers": self.source,
            "target.cluster.bootstrap.servers": self.target,
        }
        if "refresh.topics.interval.seconds" in config:
            changed["refresh.topics.interval.seconds"] = 1
        self.upload_as_is(client, name, changed)

    def upload_as_is(self, client: Client, name: str, config: Mapping[str, object]) -> None:
        """Upload a configuration."""
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(config))
        code, text = client.run("upload", str(file), "--name", name)
        assert code == 0, text

    def options(self) -> list[str]:
        """Return what `kafkaconnect` is told in each command."""
        return ["-c", self.url]

    def status(self, client: Client, name: str) -> dict[str, object]:
        """Return how a connector is."""
        _, text = client.run("status", name)
        return dict(json.loads(text))

    def states(self, client: Client) -> tuple[str, list[str]]:
        """Return the states of the MirrorSource and of its tasks."""
        status: dict[str, object] = self.status(client, "mirror-source")
        connector, tasks = status["connector"], status["tasks"]
        assert isinstance(connector, dict)
        assert isinstance(tasks, list)
        return connector["state"], [task["state"] for task in tasks]

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Ask what `kafkaconnect` can't; return the status of the answer, and its body."""
        answer = ask(self.url, Step(method, path, body))
        return answer.status, answer.body

    def offsets(self) -> dict[int, int]:
        """Return the offset of each partition of the topic, as Connect tells it."""
        _, told = self.ask("GET", "/connectors/mirror-source/offsets")
        rows = ((row["partition"], row["offset"]["offset"]) for row in told["offsets"])
        return {place["partition"]: at for place, at in rows if place["topic"] == self.topic}

    def alter(self, offsets: Mapping[int, int]) -> tuple[int, Any]:
        """Set offsets of partitions of the topic."""
        rows = [
            {
                "partition": {"cluster": "src", "topic": self.topic, "partition": number},
                "offset": {"offset": offset},
            }
            for number, offset in offsets.items()
        ]
        return self.ask("PATCH", "/connectors/mirror-source/offsets", {"offsets": rows})

    def write(self, partitions: int) -> None:
        """Write a record into each of the first partitions."""
        batch = encode([Sample(b"k", b"v", int(time.time() * 1000))])
        write_everywhere(self.source.split(","), {self.topic: partitions}, batch)

    def mirror(self, prefix: str = "src.") -> Sequence[object]:
        """Return the ends of the mirror's partitions; none if it is not there."""
        name = TopicName(f"{prefix}{self.topic}")
        with closing(ClusterAdmin(self.target.split(","))) as admin:
            topic = admin.describe_topics([name])[name]
        if topic.error is not None:
            return []
        return ends_or_errors(self.target, {name: len(topic.partitions)})[name]
