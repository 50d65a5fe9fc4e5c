"""Two sources into one target: equal topic names, kept apart by the naming format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.fan_in import FanIn, fan_in_of
from support.links import RunningLink, ends, wait_for, wait_level
from support.records import write_transaction

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

FORMAT = "${source}__${topic}"
ALIASES = ("hilo", "hilo__b")
"""The second makes the first one's names where its topics begin with `b__`."""
RECORDS = 200


@pytest.fixture
def fan_in(
    cluster_pair: ClusterPair, start_cluster: Callable[..., Cluster], tmp_path: Path
) -> FanIn:
    other = start_cluster("other-source", settings={"log.retention.ms": "-1"})
    sources = dict(zip(ALIASES, (cluster_pair.source, other), strict=True))
    topic = fresh_name("fan-in")
    topics = {"include": [f".*{topic}.*"], "naming": {"format": FORMAT}, "refresh_interval_s": 1}
    return fan_in_of(tmp_path, sources, cluster_pair.target, topic, defaults={"topics": topics})


def at_target(fan_in: FanIn) -> set[TopicName]:
    """Mirrors of the topic."""
    with ClusterAdmin(fan_in.target.bootstrap) as admin:
        return {name for name in admin.describe_topics() if fan_in.topic in name}


def test_two_sources_keep_their_topics_apart_at_one_target(fan_in: FanIn) -> None:
    """Given one name at two sources / when both are copied / then each has its mirror, verified."""
    topic, target = fan_in.topic, fan_in.target.bootstrap
    one, other = (fan_in.sources[alias] for alias in ALIASES)
    create_topic(one, topic, partitions=2)
    create_topic(other, topic)
    fan_in.write(ALIASES[0], topic, 0, RECORDS)
    fan_in.write(ALIASES[0], topic, 1, RECORDS)
    fan_in.write(ALIASES[1], topic, 0, RECORDS)
    # Both links would write `hilo__b__shared-...`: that one is refused, and nothing else.
    shared = f"shared-{topic}"
    for cluster, name in ((one, f"b__{shared}"), (other, shared)):
        create_topic(cluster, name)
    fan_in.write(ALIASES[0], f"b__{shared}", 0, RECORDS)
    with RunningLink(fan_in.config) as link:
        wait_level(link, one.bootstrap, target, {topic: 2}, prefix=f"{ALIASES[0]}__")
        wait_level(link, other.bootstrap, target, {topic: 1}, prefix=f"{ALIASES[1]}__")
        late = f"late-{topic}"
        create_topic(other, late)
        write_transaction(other.bootstrap, late, 7, commit=True)
        fan_in.write(ALIASES[1], topic, 0, RECORDS)
        wait_level(link, other.bootstrap, target, {topic: 1}, prefix=f"{ALIASES[1]}__")
        mirror = f"{ALIASES[1]}__{late}"  # without the marker after the records
        wait_for("the topic made meanwhile", lambda: ends(target, {mirror: 1}) == {mirror: [7]})
        refused = wait_for("both links to refuse it", lambda: _refused(fan_in, shared))
        assert all("writes into hilo__b__shared" in reason for reason in refused)
        assert _verified(fan_in, topic, late) == 4 * RECORDS + 7
        assert link.stop() == 0, link.text()[-2000:]
    assert at_target(fan_in) == {
        f"{ALIASES[0]}__{topic}",
        f"{ALIASES[1]}__{topic}",
        f"{ALIASES[1]}__{late}",
    }


def _refused(fan_in: FanIn, shared: str) -> list[str]:
    """Return why each link refuses the topic, once both do."""
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
    return int(fan_in.said("verify", "--complete", *words)["records"])
