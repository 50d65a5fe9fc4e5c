"""Forth and back again, several times: nothing is copied twice, nothing is lost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.links import LinkProcess, RunningLink, wait_for, wait_level
from support.records import Sample, encode, write_batches

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.clusters.plain_records import PlainReader
from heliostat.config import Config, load_config
from heliostat.errors import BrokerError
from heliostat.handover.promotion import PromotedBy
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate.promotion import promote
from heliostat.operate.reverse import reverse
from heliostat.operate.reversing.values import ReturnState, Tail
from heliostat.operate.tail import drop_tail

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

LEGS = 3
ZERO = PartitionId(0)


class Scene:
    """Two clusters, a link each way, and three topics."""

    def __init__(self, pair: ClusterPair, folder: Path) -> None:
        self.prefix = fresh_name("return")
        self.sites = {"east": pair.source.bootstrap, "west": pair.target.bootstrap}
        self.moved, self.tailed, self.kept = (
            create_topic(pair.source, f"{self.prefix}-{letter}", partitions=1) for letter in "abc"
        )
        self.names = {("east", "west"): fresh_name("there"), ("west", "east"): fresh_name("back")}
        self.file = self._config(folder / "both.yaml", *self.names)
        self.files = {way: self._config(folder / f"{way[0]}.yaml", way) for way in self.names}
        self.config: Config = load_config(self.file)
        self.count = 0

    def _config(self, path: Path, *ways: tuple[str, str]) -> Path:
        links = [
            {
                "name": self.names[way],
                "source": way[0],
                "target": way[1],
                "topics": {"include": [rf"{self.prefix}-.*"], "refresh_interval_s": 1},
                "lanes": {"lease_s": 5},
                "groups": {"sync": True, "include": [rf"{self.prefix}-.*"], "interval_s": 1},
            }
            for way in ways
        ]
        clusters = {name: {"bootstrap": site.split(",")} for name, site in self.sites.items()}
        spark = {"master": "local[2]"}
        path.write_text(yaml.safe_dump({"clusters": clusters, "spark": spark, "links": links}))
        return path

    def link(self, *way: str) -> str:
        return self.names[way[0], way[1]]

    def write(self, site: str, *topics: TopicName) -> None:
        """Write the next number into each of the topics."""
        for topic in topics:
            value = str(self.count).encode()
            batch = encode([Sample(b"k", value, int(time.time() * 1000))])
            write_batches(self.sites[site].split(","), topic, [batch])
            self.count += 1

    def records(self, site: str, topic: TopicName) -> list[tuple[int, bytes | None]]:
        partition = TopicPartition(topic, PartitionId(0))
        with PlainReader(self.access(site), committed=True) as reader:
            [bounds] = reader.bounds([partition]).values()
            read = reader.read(partition, bounds.start, bounds.end)
            return [(record.offset, record.value) for record in read]

    def access(self, site: str) -> Reachable:
        return self.config.clusters[site].access()

    def write_in_a_transaction(self, site: str, topic: TopicName) -> None:
        """Write the next number; its transaction's marker takes an offset."""
        name = {"bootstrap.servers": self.sites[site], "transactional.id": f"{topic}-writer"}
        producer = Producer(name)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, str(self.count).encode(), b"k", partition=0)
        producer.commit_transaction(30)
        self.count += 1

    def commit(self, site: str, group: str, topic: TopicName, offset: int) -> None:
        """Commit an offset of a group that does not run."""
        commits = {GroupId(group): {TopicPartition(topic, ZERO): CommittedOffset(Offset(offset))}}

        def is_done() -> bool:
            """Whether it is: a cluster's first group has no coordinator for a while."""
            [answers] = admin.commit_offsets(commits).values()
            return not isinstance(answers, BrokerError) and set(answers.values()) == {None}

        with ClusterAdmin(self.access(site)) as admin:
            wait_for("a commit", is_done, 60.0)

    def committed(self, site: str, group: str, topic: TopicName) -> int | None:
        """Return a group's offset; None: it has none, or a first group has no coordinator yet."""
        with ClusterAdmin(self.access(site)) as admin:
            [rows] = admin.committed_offsets([GroupId(group)]).values()
        row = None if isinstance(rows, BrokerError) else rows.get(TopicPartition(topic, ZERO))
        return row.offset if isinstance(row, CommittedOffset) else None

    def member(self, site: str, group: str, topic: TopicName) -> Consumer:
        """Return a member of a group that reads from where it last was."""
        names = {"bootstrap.servers": self.sites[site], "group.id": group}
        reading = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**names, **reading})
        consumer.subscribe([topic])
        return consumer

    def settings(self, site: str, topic: TopicName) -> dict[str, str | None]:
        """Return a topic's own settings."""
        with ClusterAdmin(self.access(site)) as admin:
            entries = admin.describe_configs([topic])[topic]
        assert not isinstance(entries, BrokerError)
        return {key: entry.value for key, entry in entries.items() if entry.is_own}


def values_of(consumer: Consumer, count: int) -> list[bytes | None]:
    """Read so many records, and commit."""
    values: list[bytes | None] = []
    until_s = time.monotonic() + 60.0
    while len(values) < count and time.monotonic() < until_s:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            values.append(message.value())
    consumer.commit(asynchronous=False)
    return values


@pytest.fixture
def scene(cluster_pair: ClusterPair, tmp_path: Path) -> Scene:
    return Scene(cluster_pair, tmp_path)


def test_switched_and_reversed_again_and_again(scene: Scene) -> None:
    """Given a topic that is switched / when it is reversed each time / then only what is new is

    copied, at equal offsets; another topic of the first link is copied all the while; one with a
    tail is refused until the operator says what becomes of it.
    """
    way = ("east", "west")
    links = {link.name: link for link in scene.config.links}
    for leg in range(LEGS):
        source, target = way
        moved = [scene.moved, *([scene.tailed] if leg == 0 else [])]
        also = [scene.kept] if source == "east" else []
        with LinkProcess(scene.files[way]) as link:
            scene.write(source, *moved, *also)
            level = dict.fromkeys([*moved, *also], 1)
            wait_level(link, scene.sites[source], scene.sites[target], level)
            there = links[scene.link(*way)]
            promote(scene.config, there, moved, PromotedBy.SWITCH, by="a test")
            assert link.stop() == 0
        scene.write(target, *moved)
        if leg == 0:
            scene.write(source, scene.tailed)
        back = links[scene.link(target, source)]
        seen = reverse(scene.config, there, back, [scene.moved], dry_run=True)
        assert [(each.state, each.tail) for each in seen.topics] == [(ReturnState.READY, 0)]
        words = ("--topics", scene.moved, "--yes")
        done = heliostat(scene.file, "reverse", there.name, back.name, *words)
        assert done.returncode == 0, done.said
        again = reverse(scene.config, there, back, [scene.moved])
        assert [each.state for each in again.topics] == [ReturnState.DONE]
        if leg == 0:
            [tailed] = reverse(scene.config, there, back, [scene.tailed]).topics
            assert (tailed.state, tailed.tail) == (ReturnState.REFUSED, 1)
            kept = reverse(scene.config, there, back, [scene.tailed], tail=Tail.KEEP)
            assert kept.is_written
        way = target, source
    with LinkProcess(scene.files[way]) as link:
        wait_level(link, scene.sites[way[0]], scene.sites[way[1]], {scene.moved: 1})
        link.kill_all()
    both = [scene.records(site, scene.moved) for site in scene.sites]
    assert both[0] == both[1]
    assert [offset for offset, _ in both[0]] == list(range(2 * LEGS))
    values = [value for _, value in scene.records("east", scene.tailed)]
    assert [values[0], values[2]] == [value for _, value in scene.records("west", scene.tailed)]
    assert len(values) == 3
    assert [value for _, value in scene.records("west", scene.kept)] == [
        value for _, value in scene.records("east", scene.kept)
    ]


@pytest.mark.long
def test_both_links_run_while_a_tail_is_made_anew(scene: Scene) -> None:
    """Given both links under way, a topic with a tail, and one whose offsets differ / when the

    first link is reversed / then a tail that is not rescued is refused; after that its topic is
    made anew as it was, at equal offsets; groups beyond the promotion are set back, older ones
    translated. The link that leads back only rested meanwhile. A consumer that still runs at the
    old source gets what is new there, and moves without reading anything again.
    """
    there, back = (
        next(each for each in scene.config.links if each.name == name)
        for name in (scene.link("east", "west"), scene.link("west", "east"))
    )
    moved, tailed = scene.moved, scene.tailed
    ahead, older, last = (f"{scene.prefix}-{name}" for name in ("ahead", "older", "last"))
    with ClusterAdmin(scene.access("east")) as admin:
        admin.alter_configs({tailed: {"retention.ms": "777000000"}})
    with RunningLink(scene.file) as links:
        scene.write("east", tailed, tailed)
        for _ in range(3):
            scene.write_in_a_transaction("east", moved)
        wait_for("all is copied", lambda: len(scene.records("west", moved)) == 3)
        wait_for("all is copied", lambda: len(scene.records("west", tailed)) == 2, 60.0)
        at_old = scene.member("east", last, moved)
        read = values_of(at_old, 3)
        wait_for("published", lambda: scene.committed("west", last, moved) == 3, 60.0)
        promote(scene.config, there, [moved, tailed], PromotedBy.FAILOVER, by="a test")
        scene.write("east", tailed)
        scene.write("west", moved, tailed)
        scene.commit("east", ahead, moved, 9)
        scene.commit("west", older, moved, 1)
        seen = reverse(scene.config, there, back, tail=Tail.RECREATE, dry_run=True)
        states = {each.topic: each.state for each in seen.topics}
        assert states == {moved: ReturnState.READY, tailed: ReturnState.REFUSED}
        [beyond] = seen.groups
        assert (beyond.group, beyond.offset) == (ahead, 9)
        assert beyond.until in {5, 6}  # before the last marker, or behind it
        drop_tail(scene.config, there, [tailed], by="a test", why="a test")
        words = ("--tail", "recreate", "--yes")
        done = heliostat(scene.file, "reverse", there.name, back.name, *words)
        assert done.returncode == 0, done.said
        assert scene.committed("east", ahead, moved) == beyond.until
        wait_for("it is copied back", lambda: len(scene.records("east", tailed)) == 3)
        wait_for("it is copied back", lambda: len(scene.records("east", moved)) == 4)
        wait_for("translated", lambda: scene.committed("east", older, moved) == 2, 60.0)
        read += values_of(at_old, 1)
        at_old.close()
        wait_for("it can move", lambda: scene.committed("west", last, moved) == 4, 60.0)
        scene.write("west", moved)
        at_new = scene.member("west", last, moved)
        read += values_of(at_new, 1)
        assert at_new.poll(2.0) is None
        at_new.close()
        wait_for("it is copied back", lambda: len(scene.records("east", moved)) == 5)
        again = reverse(scene.config, there, back)
        assert [each.state for each in again.topics] == [ReturnState.DONE] * 2
        assert not links.code
    assert read == [value for _, value in scene.records("west", moved)]
    assert scene.records("east", tailed) == scene.records("west", tailed)
    assert [offset for offset, _ in scene.records("east", moved)] == [0, 2, 4, 6, 7]
    assert scene.settings("east", tailed)["retention.ms"] == "777000000"
