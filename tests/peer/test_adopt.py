"""Mirrors change hands between a real MirrorMaker 2 and a link under load, both ways."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.clusters import ClusterPair, create_topic, fresh_name
from support.links import RunningLink, ends, wait_for, write_config
from support.mirror_maker import ALIAS, MirrorMaker

from heliostat.cli.main import run
from heliostat.clusters.plain_records import PlainReader
from heliostat.mm2 import adopt_clusters as adoption_sides
from heliostat.names import PartitionId, TopicName, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.peer, pytest.mark.thorough]

PARTITIONS = 3
RECORDS_PER_S = 300
SETTINGS = {
    # Long enough that a kill finds records that landed and are not committed.
    "B.offset.flush.interval.ms": "4000",
    # One that is killed is missed soon; brokers allow no less.
    "B.session.timeout.ms": "6000",
    "B.heartbeat.interval.ms": "1500",
}
WITHIN_S = 240.0


class Load:
    """Records whose values are all different, in order within a partition, until stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.05):
            for _ in range(RECORDS_PER_S // 20):
                self._producer.send(
                    self._topic,
                    value=b"%d" % number,
                    key=b"k" if number % 3 else None,
                    headers=[("n", b"%d" % number)],
                    partition=number % PARTITIONS,
                )
                number += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(30)
        self._producer.close()


@pytest.fixture
def topic(cluster_pair: ClusterPair) -> TopicName:
    return create_topic(cluster_pair.source, fresh_name("adopt"), partitions=PARTITIONS)


@pytest.fixture
def load(cluster_pair: ClusterPair, topic: TopicName) -> Iterator[Load]:
    found = Load(cluster_pair.source.bootstrap, topic)
    yield found
    found.stop()


def read(bootstrap: str, topic: str) -> list[list[tuple[Any, ...]]]:
    """Everything but offsets, by partition."""
    partitions = [TopicPartition(TopicName(topic), PartitionId(n)) for n in range(PARTITIONS)]
    with PlainReader(bootstrap, committed=True) as reader:
        bounds = reader.bounds(partitions)
        return [
            [tuple(record)[1:] for record in reader.read(each, *bounds[each])]
            for each in partitions
        ]


def total(bootstrap: str, topic: str) -> int:
    return sum(max(0, end) for end in ends(bootstrap, {topic: PARTITIONS})[topic])


def grows(bootstrap: str, topic: str, by: int, what: str) -> None:
    """Wait until every partition has `by` more records than now."""
    begin = ends(bootstrap, {topic: PARTITIONS})[topic]
    wait_for(
        what,
        lambda: all(
            now >= max(0, then) + by
            for now, then in zip(ends(bootstrap, {topic: PARTITIONS})[topic], begin, strict=True)
        ),
        WITHIN_S,
    )


def positions(bootstrap: str, topic: str) -> dict[int, int]:
    """What MirrorMaker 2 has committed, by partition."""
    found: dict[int, int] = {}
    with PlainReader(bootstrap, committed=True) as reader:
        parts = reader.partitions(TopicName(f"mm2-offsets.{ALIAS}.internal"))
        for each, bounds in reader.bounds(parts).items():
            for record in reader.read(each, *bounds):
                _, where = json.loads(record.key or b"")
                if where.get("topic") == topic and record.value:
                    found[where["partition"]] = json.loads(record.value)["offset"]
    return found


def settle(pair: ClusterPair, topic: str, mirror: str) -> None:
    """Wait until as many different records are at the target as at the source."""

    def is_done() -> bool:
        here, there = read(pair.source.bootstrap, topic), read(pair.target.bootstrap, mirror)
        return all(set(a) <= set(b) for a, b in zip(here, there, strict=True))

    wait_for("all records at the target", is_done, WITHIN_S)


def adopt(config: Path, *words: str) -> int:
    return run(["adopt", "-c", str(config), "--alias", ALIAS, *words])


def config_of(folder: Path, pair: ClusterPair, topic: str) -> Path:
    topics = {"include": [topic], "naming": {"prefix": f"{ALIAS}."}}
    # A name of its own: its state must not hold mirrors of other tests' links.
    name = fresh_name("link")
    return write_config(
        folder, pair.source.bootstrap, pair.target.bootstrap, name=name, topics=topics
    )


def first_of_each(records: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(records))


def test_mirrors_change_hands_both_ways_in_the_middle_of_load(
    cluster_pair: ClusterPair,
    topic: TopicName,
    load: Load,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    mirror = f"{ALIAS}.{topic}"
    config = config_of(tmp_path, cluster_pair, topic)
    with MirrorMaker(tmp_path, source, target, topic, SETTINGS) as maker:
        wait_for("a commit", lambda: len(positions(target, topic)) == PARTITIONS, WITHIN_S)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(adoption_sides, "WORKERS_GONE_WITHIN_S", 0.5)
            assert adopt(config, "--yes") == 1
        assert "MirrorMaker 2 runs" in capsys.readouterr().err
        grows(target, mirror, 50, "records behind the committed ones")
        maker.kill()
    committed = positions(target, topic)
    assert total(target, mirror) > sum(committed.values()) + PARTITIONS  # something to find

    assert adopt(config, "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    (found,) = plan["topics"]
    assert [p["verdict"] for p in found["partitions"]] == ["exact"] * PARTITIONS
    assert adopt(config, "--yes") == 0

    with RunningLink(config) as link:
        grows(target, mirror, 100, "our link to go on")
        assert adopt(config, "--back", "--dry-run") == 0  # only looks
        assert link.stop() == 0
    capsys.readouterr()
    assert adopt(config, "--back", "--yes", "--json") == 0
    back = json.loads(capsys.readouterr().out)["partitions"]
    assert {p["partition"]: p["next_offset"] - 1 for p in back} == positions(target, topic)

    with MirrorMaker(tmp_path, source, target, topic, SETTINGS):
        grows(target, mirror, 50, "MirrorMaker 2 to go on")
        load.stop()
        settle(cluster_pair, topic, mirror)
    assert read(target, mirror) == read(source, topic)


def test_mirror_makers_duplicates_are_mapped_and_none_are_added(
    cluster_pair: ClusterPair,
    topic: TopicName,
    load: Load,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    mirror = f"{ALIAS}.{topic}"
    config = config_of(tmp_path, cluster_pair, topic)
    with MirrorMaker(tmp_path, source, target, topic, SETTINGS) as maker:
        wait_for("a commit", lambda: len(positions(target, topic)) == PARTITIONS, WITHIN_S)
        grows(target, mirror, 50, "records behind the committed ones")
        maker.kill()
    with MirrorMaker(tmp_path, source, target, topic, SETTINGS) as maker:
        grows(target, mirror, 20, "a second run")
        maker.kill()
    assert adopt(config, "--yes", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["topics"]
    assert {p["verdict"] for p in found["partitions"]} <= {"mapped", "exact"}
    doubled = sum(p["doubled"] for p in found["partitions"])
    assert doubled > 0  # by MirrorMaker 2 alone: that is what a killed one does

    with RunningLink(config):
        grows(target, mirror, 50, "our link to go on")
        load.stop()
        settle(cluster_pair, topic, mirror)
    here, there = read(source, topic), read(target, mirror)
    assert [first_of_each(each) for each in there] == here
    assert sum(map(len, there)) - sum(map(len, here)) == doubled
