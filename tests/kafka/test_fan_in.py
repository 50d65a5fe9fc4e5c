"""Two sources into one target: the same names at both, kept apart by the naming's format."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import RunningLink, ends, wait_for, wait_level
from support.records import encode, odd_records, split, write_batches, write_transaction

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat.sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FORMAT = "${source}__${topic}"
ALIASES = ("hilo", "hilo__b")
"""The second makes the first one's names where its topics begin with `b__`."""
RECORDS = 200


@dataclass(frozen=True)
class FanIn:
    """Two sources, one target, and a file with a link from each."""

    sources: Mapping[str, Cluster]
    target: Cluster
    config: Path
    topic: TopicName
    """Of this name at both sources, with other records and another number of partitions."""

    def heliostat(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "heliostat.cli.main", *words, "-c", str(self.config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)

    def write(self, alias: str, rng: random.Random, topic: str, partition: int = 0) -> None:
        batches = [encode(part) for part in split(odd_records(rng, RECORDS), rng)]
        write_batches(self.sources[alias].bootstrap, topic, batches, partition=partition)

    def at_target(self) -> set[TopicName]:
        with ClusterAdmin(self.target.bootstrap) as admin:
            return {name for name in admin.describe_topics() if self.topic in name}


@pytest.fixture
def fan_in(
    cluster_pair: ClusterPair, start_cluster: Callable[..., Cluster], tmp_path: Path
) -> FanIn:
    other = start_cluster("other-source", settings={"log.retention.ms": "-1"})
    sources = dict(zip(ALIASES, (cluster_pair.source, other), strict=True))
    topic = fresh_name("fan-in")
    clusters = {alias: {"bootstrap": each.bootstrap.split(",")} for alias, each in sources.items()}
    clusters["base"] = {"bootstrap": cluster_pair.target.bootstrap.split(",")}
    config = {
        "clusters": clusters,
        "spark": {"master": "local[2]"},
        "defaults": {
            "topics": {
                "include": [f".*{topic}.*"],
                "naming": {"format": FORMAT},
                "refresh_interval_s": 1,
            },
            "lanes": {"round_s": 5},
        },
        "links": [
            {"name": fresh_name("link"), "source": alias, "target": "base"} for alias in ALIASES
        ],
    }
    path = tmp_path / "heliostat.yaml"
    path.write_text(yaml.safe_dump(config))
    return FanIn(sources, cluster_pair.target, path, topic)


def test_two_sources_keep_their_topics_apart_at_one_target(fan_in: FanIn) -> None:
    """Given one name at two sources / when both are copied / then each has its mirror, verified."""
    rng, topic, target = random.Random(17), fan_in.topic, fan_in.target.bootstrap
    one, other = (fan_in.sources[alias] for alias in ALIASES)
    create_topic(one, topic, partitions=2)
    create_topic(other, topic)
    fan_in.write(ALIASES[0], rng, topic, 0)
    fan_in.write(ALIASES[0], rng, topic, 1)
    fan_in.write(ALIASES[1], rng, topic)
    # Both links would write `hilo__b__shared-...`: that one is refused, and nothing else.
    shared = f"shared-{topic}"
    for cluster, name in ((one, f"b__{shared}"), (other, shared)):
        create_topic(cluster, name)
    fan_in.write(ALIASES[0], rng, f"b__{shared}")
    with RunningLink(fan_in.config) as link:
        wait_level(link, one.bootstrap, target, {topic: 2}, prefix=f"{ALIASES[0]}__")
        wait_level(link, other.bootstrap, target, {topic: 1}, prefix=f"{ALIASES[1]}__")
        late = f"late-{topic}"
        create_topic(other, late)
        write_transaction(other.bootstrap, late, 7, commit=True)
        fan_in.write(ALIASES[1], rng, topic)
        wait_level(link, other.bootstrap, target, {topic: 1}, prefix=f"{ALIASES[1]}__")
        mirror = f"{ALIASES[1]}__{late}"  # without the marker behind the records
        wait_for("the topic made meanwhile", lambda: ends(target, {mirror: 1}) == {mirror: [7]})
        refused = wait_for("both links to refuse it", lambda: _refused(fan_in, shared))
        assert all("writes into hilo__b__shared" in reason for reason in refused)
        assert _verified(fan_in, topic, late) == 4 * RECORDS + 7
        assert link.stop() == 0, link.text()[-2000:]
    assert fan_in.at_target() == {
        f"{ALIASES[0]}__{topic}",
        f"{ALIASES[1]}__{topic}",
        f"{ALIASES[1]}__{late}",
    }


def _refused(fan_in: FanIn, shared: str) -> list[str]:
    """Why each link refuses the topic, once both say so."""
    links: list[dict[str, Any]] = json.loads(fan_in.heliostat("status", "--json").stdout)
    found = [
        reason
        for link in links
        for name, reason in link["driver"].get("refused", {}).items()
        if name.endswith(shared)
    ]
    return found if len(found) == len(ALIASES) else []


def _verified(fan_in: FanIn, *topics: str) -> int:
    """Records of these topics that `heliostat verify` finds equal, of both links together."""
    words = [word for topic in topics for word in ("--topic", topic)]
    done = fan_in.heliostat("verify", "--complete", "--json", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(json.loads(done.stdout)["records"])
