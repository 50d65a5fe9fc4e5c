"""`heliostat apply` on real brokers: drift is shown, mended as far as it can be, and told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.group_sides import partition_of, wait_for_coordinators, write_values
from support.links import LinkProcess, looking_at, wait_for, wait_level, write_config

from heliostat.clusters.admin import CommittedOffset, NewTopic
from heliostat.names import GroupId, Offset, TopicName
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


def setting(cluster: Cluster, topic: TopicName, key: str) -> tuple[str | None, bool]:
    found = looking_at(cluster.bootstrap, lambda admin: admin.describe_configs([topic]))[topic]
    return found[key].value, found[key].is_own


def alter(cluster: Cluster, topic: TopicName, **values: str | None) -> None:
    changes = {key.replace("_", "."): value for key, value in values.items()}
    answer = looking_at(cluster.bootstrap, lambda admin: admin.alter_configs({topic: changes}))
    assert answer == {topic: None}


def applied(config: Path, *words: str, code: int) -> dict[str, Any]:
    answer = heliostat(config, "apply", "--yes", "--json", *words)
    assert answer.returncode == code, answer.said
    rows: list[dict[str, Any]] = answer.json
    assert len(rows) == 1
    return rows[0]


def fates(row: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(each["kind"], each["item"]): each["fate"] for each in row["changes"]}


def test_without_a_driver_it_does_what_is_planned_once(
    start_cluster: Callable[..., Cluster], cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a link that nobody runs / when applied / then topics are there, drift is mended,

    nothing is unset or deleted unless it is allowed, and copies that the target lacks are told.
    """
    source, target = start_cluster("three", brokers=3), cluster_pair.target
    prefix = fresh_name("apply")
    a = create_topic(source, f"{prefix}-a", partitions=2, replicas=3, configs={"retention.ms": "5"})
    pinned = create_topic(source, f"{prefix}-b", configs={"segment.ms": "77777"})
    topics = {"include": [rf"{prefix}-.*"], "config_set": {"segment.ms": "88888"}}
    config = write_config(
        tmp_path, source.bootstrap, target.bootstrap, name=fresh_name("three"), topics=topics
    )
    tried = heliostat(config, "apply", "--dry-run")
    assert tried.returncode == 0, tried.said
    assert "would" in tried.stdout
    assert looking_at(target.bootstrap, lambda x: x.describe_topics([a]))[a].is_missing
    assert fates(applied(config, code=0)) == {
        ("create_topic", a): "done",
        ("create_topic", pinned): "done",
    }
    again = applied(config, code=0)
    assert (again["changes"], again["is_tried"]) == ([], False)
    planned = heliostat(config, "plan")
    assert planned.returncode == 0, planned.said
    assert f"fewer copies than the source: {a} (1 instead of 3)" in planned.stdout

    alter(source, a, retention_ms=None, max_message_bytes="2000000")
    alter(target, a, segment_ms="6")
    alter(target, pinned, retention_ms="12345")
    looking_at(source.bootstrap, lambda admin: admin.grow_partitions({a: 3}))
    wait_for(
        "the plan grows it",
        lambda: f"grow {a}: 2 → 3" in heliostat(config, "plan").stdout,
    )
    row = applied(config, code=1)
    assert fates(row) == {
        ("grow_topic", a): "done",
        ("set_config", f"{a}: max.message.bytes"): "done",
        ("set_config", f"{a}: segment.ms"): "done",
        ("unset_config", f"{a}: retention.ms"): "held_back",
    }
    [other] = row["drift"]
    assert other.startswith(f"{pinned}: retention.ms is 12345")
    assert setting(target, a, "segment.ms") == ("88888", True)
    assert setting(target, a, "retention.ms") == ("5", True), "nothing is unset"
    assert fates(applied(config, code=1)) == {("unset_config", f"{a}: retention.ms"): "held_back"}
    row = applied(config, "--allow-delete", code=0)
    assert fates(row) == {("unset_config", f"{a}: retention.ms"): "done"}
    assert not setting(target, a, "retention.ms")[1]
    assert setting(target, pinned, "retention.ms") == ("12345", True), "it is not the link's"
    assert applied(config, "--allow-delete", code=0)["changes"] == []


def test_what_the_target_refuses_is_named_and_the_rest_is_done(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    source, target = cluster_pair.source, cluster_pair.target
    prefix = fresh_name("refused")
    good, bad = (create_topic(source, f"{prefix}-{letter}") for letter in "ab")
    topics = {"include": [rf"{prefix}-.*"]}
    config = write_config(tmp_path, source.bootstrap, target.bootstrap, topics=topics)
    made = NewTopic(bad, 2, 1)
    looking_at(target.bootstrap, lambda admin: admin.create_topics([made]))
    row = applied(config, code=1)
    assert fates(row) == {("create_topic", good): "done"}
    assert set(row["refused"]) == {bad}


@pytest.mark.spark
def test_a_running_link_does_it_as_ordered(cluster_pair: ClusterPair, tmp_path: Path) -> None:
    """Given a link that looks once an hour / when applied / then it looks now, and copies on;

    drift that it can't mend is in its status.
    """
    source, target = cluster_pair.source, cluster_pair.target
    prefix, group = fresh_name("ordered"), GroupId(fresh_name("group"))
    topic = create_topic(source, f"{prefix}-a")
    topics = {
        "include": [rf"{prefix}-.*"],
        "refresh_interval_s": 3600,
        "replication_factor": 1,
    }
    config = write_config(
        tmp_path,
        source.bootstrap,
        target.bootstrap,
        topics=topics,
        groups={"sync": True, "include": [group], "interval_s": 1},
    )
    write_values(source.bootstrap, topic, [b"%03d" % number for number in range(20)])
    wait_for_coordinators(source.bootstrap, target.bootstrap)
    with LinkProcess(config) as link:
        wait_level(link, source.bootstrap, target.bootstrap, {topic: 1})
        alter(target, topic, retention_ms="12345")
        later = create_topic(source, f"{prefix}-b")
        at_three = {group: {partition_of(topic): CommittedOffset(Offset(3))}}
        looking_at(source.bootstrap, lambda admin: admin.commit_offsets(at_three))
        row = applied(config, code=0)
        assert row["by_owner"]
        assert fates(row)["create_topic", later] == "done"
        assert set(fates(row).values()) == {"done"}
        [other] = row["drift"]
        assert other.startswith(f"{topic}: retention.ms is 12345")

        def drift() -> Any:
            [status] = heliostat(config, "status", "--json").json
            return status["drift"]["items"]

        [item] = wait_for("drift is in the status", drift)
        assert (item["target"], item["setting"], item["has"]) == (topic, "retention.ms", "12345")
        assert applied(config, code=0)["changes"] == []
        assert link.text().count("apply of the link") == 2, "ordered, and done"
