"""Two sources, one target, and a file with a link from each."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from support.clusters import fresh_name
from support.command import Answer, heliostat
from support.records import encode, odd_records, split, write_batches

from heliostat.names import TopicName
from heliostat_sandbox import Cluster

ANSWER_WITHIN_S = 180


@dataclass(frozen=True)
class FanIn:
    """Two links under test, in the order of `sources`."""

    sources: Mapping[str, Cluster]
    target: Cluster
    config: Path
    topic: TopicName
    """Name of the topic at both sources."""
    links: Sequence[str]

    def heliostat(self, *words: str) -> Answer:
        return heliostat(self.config, *words)

    def said(self, *words: str) -> Any:
        """Return the JSON of a command that must end with exit code 0."""
        done = self.heliostat(*words, "--json")
        assert done.returncode == 0, done.said
        return done.json

    def write(self, alias: str, topic: str, partition: int, records: int) -> None:
        """Write records of every shape."""
        rng = random.Random(f"{alias} {topic} {partition} {records}")
        batches = [encode(part) for part in split(odd_records(rng, records), rng)]
        write_batches(self.sources[alias].bootstrap, topic, batches, partition=partition)


def fan_in_of(
    folder: Path,
    sources: Mapping[str, Cluster],
    target: Cluster,
    topic: TopicName,
    *,
    defaults: Mapping[str, Any],
    topics: Sequence[Mapping[str, Any]] = ({}, {}),
) -> FanIn:
    """Write the file: `defaults` of both links, and each link's own `topics`."""
    addresses = {alias: each.bootstrap for alias, each in sources.items()}
    addresses["base"] = target.bootstrap
    links = [fresh_name("link") for _ in sources]
    config = {
        "clusters": {alias: {"bootstrap": each.split(",")} for alias, each in addresses.items()},
        "spark": {"master": "local[2]"},
        "defaults": {**defaults, "lanes": {"lease_s": 5}},
        "links": [
            {"name": name, "source": alias, "target": "base", "topics": dict(own)}
            for name, alias, own in zip(links, sources, topics, strict=True)
        ],
    }
    path = folder / "heliostat.yaml"
    path.write_text(yaml.safe_dump(config))
    return FanIn(sources, target, path, topic, links)
