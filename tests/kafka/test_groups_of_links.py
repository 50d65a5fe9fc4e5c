"""`groups.sync` of a running link, and `heliostat groups`, as operators use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.cleaning import hurry_cleaner
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.group_sides import Reader, partition_of, wait_for_coordinators, write_values
from support.links import LinkProcess, RunningLink, ends, wait_for, wait_level, write_config
from support.records import write_transaction

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.names import GroupId, Offset, TopicName

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]
VALUES = [b"%03d" % number for number in range(100)]


def groups(config: Path, *words: str) -> tuple[int, str]:
    done = heliostat(config, "groups", *words)
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode, done.stdout


def reasons(config: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads(groups(config, "--json")[1])[0]["reasons"]
    return found


def test_a_running_link_keeps_groups_in_sync_and_reports_it(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a running link / when consumers move / then they read the rest, also after a kill."""
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    topic = create_topic(cluster_pair.source)
    moves, stays, other = fresh_name("moves"), fresh_name("stays"), fresh_name("other")
    write_values(source, topic, VALUES)
    settings: dict[str, Any] = {
        "topics": {"include": [topic], "naming": {"prefix": "east."}, "refresh_interval_s": 1},
        "groups": {"sync": True, "include": [moves, stays], "interval_s": 0.5},
    }
    config = write_config(tmp_path, source, target, **settings)
    mirror = f"east.{topic}"

    def committed(group: str) -> CommittedOffset | None:
        with ClusterAdmin(target.split(",")) as admin:
            return admin.committed_offsets([GroupId(group)])[GroupId(group)].get(
                partition_of(mirror)
            )

    def commit(group: str, offset: int) -> None:
        row = {partition_of(topic): CommittedOffset(Offset(offset), "own words")}
        with ClusterAdmin(source.split(",")) as admin:
            answer = admin.commit_offsets({GroupId(group): row})
        assert answer == {group: dict.fromkeys(row)}

    wait_for_coordinators(source, target)
    commit(stays, 7)
    commit(other, 7)
    with Reader(source, topic, moves) as reader:
        reader.read(42)
        reader.commit(42)
    with LinkProcess(config) as link:
        wait_level(link, source, target, {topic: 1}, prefix="east.")
        wait_for("the consumer's offset", lambda: committed(moves) == CommittedOffset(Offset(42)))
        assert wait_for("the other one's", lambda: committed(stays)) == CommittedOffset(
            Offset(7), "own words"
        )
        assert committed(other) is None
        assert groups(config)[0] == 0
        code, text = groups(config, "--explain", moves)
        assert code == 0
        assert f"{topic}-0 → {mirror}-0  source 42  target 42  wanted 42  reread 0" in text
        assert "SYNCED" in text
        link.kill_driver()
    with Reader(target, mirror, moves) as reader:
        assert reader.read(58) == VALUES[42:]
        commit(moves, 43)
        code, text = groups(config, "--explain", moves)
        assert code == 1
        assert "ACTIVE_AT_TARGET" in text
        assert "member kafka-python" in text
    commit(stays, 3)  # a reset, while no driver runs
    with RunningLink(config) as link:
        wait_for("the reset", lambda: committed(stays) == CommittedOffset(Offset(3), "own words"))

        def told() -> dict[str, Any]:
            [status] = heliostat(config, "status", "--json").json
            found: dict[str, Any] = status["driver"].get("groups", {})
            return found

        found = wait_for("groups in the status", lambda: told().get("reasons") and told())
        assert found["groups"] == 2
        assert set(found["took_ms"]) == {"list", "source offsets", "target", "plan", "commit"}
        assert link.stop() == 0, link.text()[-2000:]
    assert sum(reasons(config).values()) == 2


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}
KEPT_AS_IT_IS = {
    "config_set": {"min.compaction.lag.ms": "3600000"},
    "config_exclude": ["max.compaction.lag.ms", "segment.bytes"],
}
"""The mirror is not cleaned while the test looks."""


def compact(pair: ClusterPair, topic: str) -> None:
    """3,000 records of 100 keys, of which the cleaner leaves fewer than half."""
    producer = KafkaProducer(bootstrap_servers=pair.source.bootstrap.split(","), linger_ms=5)
    for number in range(3000):
        value = (b"%d" % number).ljust(700)
        producer.send(topic, key=b"k%d" % (number * 7 % 100), value=value, partition=0)
    producer.flush()
    producer.close()

    def count() -> int:
        with Reader(pair.source.bootstrap, topic, fresh_name("count")) as reader:
            return len(reader.read_to_end())

    wait_for("the cleaner", lambda: count() < 2000)


def test_consumers_of_mapped_mirrors_read_the_next_record(
    cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given sources with holes / when consumers move / then they read exactly what is left."""
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    hurry_cleaner(source)
    compacted = create_topic(cluster_pair.source, configs=COMPACTED)
    compact(cluster_pair, compacted)
    transactional = create_topic(cluster_pair.source)
    for number in range(20):
        write_transaction(source, transactional, 1 + number % 4, commit=number % 3 != 1)
    wait_for_coordinators(source, target)
    prefix = fresh_name("moves")
    topics = [compacted, transactional]
    config = write_config(
        tmp_path,
        source,
        target,
        topics={"include": topics, "refresh_interval_s": 1} | KEPT_AS_IT_IS,
        groups={"sync": True, "include": [f"{prefix}.*"], "interval_s": 0.5},
    )
    left: dict[tuple[TopicName, str], list[bytes]] = {}
    for topic in topics:
        with Reader(source, topic, fresh_name("all")) as reader:
            values = reader.read_to_end()
        for stop in (1, len(values) // 3, len(values) // 2, len(values) - 1, len(values)):
            group = f"{prefix}-{topic}-{stop}"
            with Reader(source, topic, group) as reader:
                reader.read(stop)
                reader.commit(stop)
            left[topic, group] = values[stop:]
    with RunningLink(config) as link:
        wait_for("all groups in sync", lambda: reasons(config) == {"SYNCED": len(left)})
        ends_of = [ends(cluster, dict.fromkeys(topics, 1)) for cluster in (source, target)]
        assert all(ends_of[0][topic] != ends_of[1][topic] for topic in topics), "mapped mirrors"
        for (topic, group), values in left.items():
            with Reader(target, topic, group) as reader:
                assert reader.read_to_end() == values
        assert link.stop() == 0, link.text()[-2000:]
