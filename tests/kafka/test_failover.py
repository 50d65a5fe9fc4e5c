"""Mirrors that are failed over while their source is dead: what is told, and what really was."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import heliostat
from support.group_sides import Reader, write_values
from support.links import LinkProcess, ends, wait_for, wait_level, write_config
from support.records import Sample, encode, write_everywhere
from support.tools import ROOT

from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import HeliostatError
from heliostat.names import TopicName
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

SHEET = ROOT / "docs" / "failover.md"
PARTITIONS = 2
HELD = 12
"""Records of the topic with an open transaction that the source has after it began."""
A_BATCH = 5


class Scene:
    """A link with a source of its own: a topic under load, one with an open transaction."""

    def __init__(self, source: Cluster, pair: ClusterPair, folder: Path) -> None:
        self.folder, self.source, self.target = folder, source, pair.target.bootstrap
        prefix = self.prefix = fresh_name("fail")
        self.busy = create_topic(source, f"{prefix}-busy", partitions=PARTITIONS)
        self.held = create_topic(source, f"{prefix}-held")
        self.link = fresh_name("link")
        self.sizes = {self.busy: PARTITIONS, self.held: 1}
        self.config = write_config(
            folder,
            source.bootstrap,
            self.target,
            name=self.link,
            topics={"include": [f"{prefix}-.*"], "refresh_interval_s": 1},
            groups={"sync": True, "interval_s": 1, "include": [f"{prefix}-.*"]},
            lanes={"lease_s": 6},
        )
        write_values(source.bootstrap, self.held, [b"%d" % n for n in range(3)])
        self.group = f"{prefix}-readers"

    @contextmanager
    def load(self) -> Iterator[None]:
        """Write to the busy topic until the source is gone."""
        is_over = threading.Event()
        batch = encode([Sample(b"k", b"v", int(time.time() * 1000))] * A_BATCH)

        def write() -> None:
            while not is_over.is_set():
                try:
                    write_everywhere(
                        self.source.bootstrap.split(","), {self.busy: PARTITIONS}, batch
                    )
                except (HeliostatError, OSError):
                    return

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join(60)

    @contextmanager
    def open_transaction(self) -> Iterator[None]:
        """Begin a transaction that never ends, as its cluster goes."""
        producer = KafkaProducer(
            bootstrap_servers=self.source.bootstrap.split(","),
            transactional_id=fresh_name("writer"),
            transaction_timeout_ms=600_000,
            acks="all",
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(self.held, b"open", partition=0).get(30)
        try:
            yield
        finally:
            producer.close(timeout=0)

    def await_held(self) -> None:
        """Wait until the driver has seen what the open transaction holds back."""

        def is_seen() -> bool:
            [status] = heliostat(self.config, "status", "--json").json
            return [row["records"] for row in status["held_back"]] == [HELD]

        wait_for("the open transaction", is_seen, 30.0)

    def sheet(self) -> list[list[str]]:
        """Return the commands of the sheet for the day of the disaster, in order."""
        _, _, text = SHEET.read_text().partition("## The day of the disaster")
        lines = re.findall(r"^ +heliostat (.+)$", text.partition("\n## ")[0], re.MULTILINE)
        names = {
            "summit-to-usdf": self.link,
            "lsst.sal.ESS.*": f"{self.prefix}-h*",
            "failover.md": str(self.folder / "failover.md"),
            "failover.json": str(self.folder / "failover.json"),
        }
        return [[names.get(word, word) for word in shlex.split(line)] for line in lines]

    def typed(self, words: list[str]) -> dict[str, Any]:
        """Carry a command out as an operator does, who is asked for the link's name."""
        answer = heliostat(self.config, *words, "--json", questions=f"{self.link}\n")
        assert answer.returncode == 0, answer.said
        return dict(answer.json)

    def target_ends(self) -> dict[str, list[int]]:
        return {name: list(map(int, each)) for name, each in ends(self.target, self.sizes).items()}

    def failover(self, *words: str) -> dict[str, Any]:
        answer = heliostat(self.config, "failover", self.link, "--json", *words)
        assert answer.returncode == 0, answer.said
        return dict(answer.json)

    def write_here(self, *topics: TopicName) -> None:
        batch = encode([Sample(b"n", b"new", int(time.time() * 1000))])
        chosen = {name: self.sizes[name] for name in topics or self.sizes}
        write_everywhere(self.target.split(","), chosen, batch)

    def prepare(self, link: LinkProcess) -> None:
        """Let the link copy all there is, and a group read some of it."""
        wait_level(link, self.source.bootstrap, self.target, self.sizes)
        with Reader(self.source.bootstrap, self.held, self.group) as reader:
            reader.read_to_end()
            reader.consumer.commit()
        wait_for(
            "published offsets", lambda: heliostat(self.config, "groups").returncode == 0, 60.0
        )


def named(report: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["source"], row["partition"]): row for row in report["partitions"]}


def check_after_return(scene: Scene, report: dict[str, Any]) -> None:
    """Compare what was told with the source, once it is back."""
    rows = named(report)
    scene.source.brokers[0].restart()

    def real_ends() -> dict[tuple[str, int], int]:
        found = ends(scene.source.bootstrap, scene.sizes).items()
        real = {(name, n): int(end) for name, every in found for n, end in enumerate(every)}
        return real if min(real.values()) >= 0 else {}

    real = wait_for("the source's ends", real_ends, 60.0)
    for place, row in rows.items():
        assert row["copied_to"] <= row["known_end"] <= real[place], (place, row, real)
        assert row["missing"] <= real[place] - row["copied_to"]
        assert row["known_ms"] is not None
    print({place: (row["missing"], real[place] - row["copied_to"]) for place, row in rows.items()})
    assert rows[scene.held, 0]["missing"] == HELD


def test_a_dead_source_is_failed_over_while_the_driver_lives(
    start_cluster: Callable[..., Cluster], cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a link under load / when its source is killed and it is failed over / then the driver

    gives the mirrors up, others write them, and what is told to be missing is missing at least.
    """
    scene = Scene(start_cluster("gone"), cluster_pair, tmp_path)
    with LinkProcess(scene.config) as link:
        scene.prepare(link)
        [status] = heliostat(scene.config, "status", "--json").json
        assert status["failover_fence"]["by"] == "owner"
        with scene.load(), scene.open_transaction():
            write_values(scene.source.bootstrap, scene.held, [b"held"] * (HELD - 1))
            scene.await_held()
            scene.source.brokers[0].kill()
        time.sleep(5)
        exposure, dry_run, drain, again, some = scene.sheet()
        assert heliostat(scene.config, *exposure, "--json").json
        tried = scene.typed(dry_run)
        assert tried["is_tried"]
        assert tried["forecast"]["by"] == "owner"
        began_s = time.monotonic()
        report = scene.typed(drain)
        took_s = time.monotonic() - began_s
        assert report["fenced_by"] == "owner", report
        assert report["took_s"]["fence"] < 5.0, report["took_s"]
        print(report["took_s"], took_s)
        assert report["drained"]["end"] == "no_progress"
        assert report["drained"]["behind"], "a source that is gone makes nothing level"
        assert named(tried).keys() == named(report).keys()
        assert [row["source"] for row in report["transactions"]] == [scene.held]
        assert report["transactions"][0]["records"] == HELD
        assert report["is_target_open"]
        assert "arrived in part" in (scene.folder / "failover.md").read_text()
        [group] = report["groups"]
        assert (group["group"], group["again"], group["at_most"]) == (scene.group, 0, 0)
        [status] = heliostat(scene.config, "status", "--json").json
        assert status["unfenced"]["topics"] == sorted(scene.sizes)
        before = scene.target_ends()
        scene.write_here()
        for told in (scene.typed(again), scene.failover("--last")):
            assert told["partitions"] == report["partitions"]
            assert told["transactions"] == report["transactions"]
            assert told["is_target_open"]
        assert "is open since" in (scene.folder / "failover.md").read_text()
        assert {row["source"] for row in scene.typed(some)["partitions"]} == {scene.held}
        assert json.loads((scene.folder / "failover.json").read_text())["transactions"]
        check_after_return(scene, report)
        time.sleep(8)
        after = scene.target_ends()
        assert after == {name: [end + 1 for end in every] for name, every in before.items()}
        link.kill_all()


def test_a_dead_source_and_a_dead_driver_are_failed_over_by_leases(
    start_cluster: Callable[..., Cluster], cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a source and a driver that are killed / when it is failed over / then leases are waited

    out, and a driver that is started once the source is back leaves the mirrors alone.
    """
    scene = Scene(start_cluster("gone"), cluster_pair, tmp_path)
    with LinkProcess(scene.config) as link:
        scene.prepare(link)
        with scene.load(), scene.open_transaction():
            write_values(scene.source.bootstrap, scene.held, [b"held"] * (HELD - 1))
            scene.await_held()
            link.kill_all()
            scene.source.brokers[0].kill()
    time.sleep(6)
    [status] = heliostat(scene.config, "status", "--json").json
    assert status["failover_fence"]["by"] == "lease", status
    report = scene.failover("--yes")
    assert report["fenced_by"] == "lease"
    assert report["took_s"]["fence"] < status["failover_fence"]["within_s"]
    print(report["took_s"], status["failover_fence"])
    [status] = heliostat(scene.config, "status", "--json").json
    assert status["unfenced"]["count"] == len(scene.sizes)
    before = scene.target_ends()
    scene.write_here()
    check_after_return(scene, report)
    with LinkProcess(scene.config) as link:
        other = create_topic(scene.source, TopicName(f"{scene.prefix}-other"))
        write_values(scene.source.bootstrap, other, [b"x"])
        wait_level(link, scene.source.bootstrap, scene.target, {other: 1})
        after = scene.target_ends()
        assert after == {name: [end + 1 for end in every] for name, every in before.items()}
        link.kill_all()
    assert json.dumps(report)


def test_a_driver_frozen_in_mid_send_writes_nothing_into_what_was_promoted(
    start_cluster: Callable[..., Cluster], cluster_pair: ClusterPair, tmp_path: Path
) -> None:
    """Given a link under load that freezes / when a run of the verb is killed and another called /

    then the mirrors end where that one says, whatever the link had under way.
    """
    scene = Scene(start_cluster("gone"), cluster_pair, tmp_path)
    with LinkProcess(scene.config) as link:
        scene.prepare(link)
        with scene.load():
            time.sleep(2)
            frozen = [process for process in link.tree() if process.is_running()]
            for process in frozen:
                process.suspend()
        words = ("failover", scene.link, "--topics", scene.busy, "--yes", "--json")
        command = [sys.executable, "-m", "heliostat.cli.entry", *words, "-c", str(scene.config)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as verb:
            assert verb.stderr is not None
            while b"leases are waited out" not in (line := verb.stderr.readline()):
                assert line, "it ended before it waited"
            verb.kill()
        report = scene.failover("--topics", scene.busy, "--yes")
        assert report["fenced_by"] == "lease"
        told = [row["target_end"] for row in report["partitions"]]
        assert scene.target_ends()[scene.busy] == told
        scene.write_here(scene.busy)
        for process in frozen:
            process.resume()
        write_values(scene.source.bootstrap, scene.held, [b"later"])
        wait_for("the other topic is copied", lambda: scene.target_ends()[scene.held] == [4], 90.0)
        assert scene.target_ends()[scene.busy] == [end + 1 for end in told]
        link.kill_all()


@pytest.mark.parametrize(
    ("count", "partitions_each"), [(100, 5), pytest.param(50, 100, marks=pytest.mark.long)]
)
def test_many_partitions_are_given_away_within_seconds(
    cluster_pair: ClusterPair, tmp_path: Path, count: int, partitions_each: int
) -> None:
    """Given a link of 500 or 5,000 partitions / when it is failed over / then its driver has given

    them up, and their ends are known, within five seconds.
    """
    prefix, name = fresh_name("many"), fresh_name("link")
    topics = {
        create_topic(cluster_pair.source, f"{prefix}-{n}", partitions=partitions_each): n
        for n in range(count)
    }
    source, target = cluster_pair.source.bootstrap, cluster_pair.target.bootstrap
    config = write_config(tmp_path, source, target, name=name, topics={"include": [f"{prefix}-.*"]})
    with LinkProcess(config) as link:

        def is_copying() -> bool:
            [status] = heliostat(config, "status", "--json").json
            return bool(status["states"].get("copying") == count * partitions_each)

        wait_for("all partitions", is_copying, 180.0)
        report = heliostat(config, "failover", name, "--yes", "--json").json
        print(report["took_s"])
        assert report["fenced_by"] == "owner"
        assert len(report["partitions"]) == len(topics) * partitions_each
        assert report["took_s"]["fence"] + report["took_s"]["ends"] < 5.0, report["took_s"]
        link.kill_all()


@pytest.mark.long
def test_what_a_half_dead_source_still_has_is_copied_first(
    cluster_pair: ClusterPair, start_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    """Given a source of three brokers, a link that is behind, and two brokers that die / when it is

    failed over with a drain / then what the third one has is copied, its progress is told, and the
    others' partitions are named.
    """
    source = start_cluster("half", brokers=3)
    target, name = cluster_pair.target.bootstrap, fresh_name("half")
    topic = create_topic(source, name, partitions=3)
    config = write_config(
        tmp_path, source.bootstrap, target, name=name, topics={"include": [topic]}
    )
    batch = encode([Sample(b"k", b"v" * 100, int(time.time() * 1000))] * 200)
    with ClusterAdmin(source.bootstrap.split(",")) as admin:
        leaders = {
            part.partition: part.leader for part in admin.describe_topics([topic])[topic].partitions
        }
    with LinkProcess(config) as link:
        write_everywhere(source.bootstrap.split(","), {topic: 3}, batch)
        wait_level(link, source.bootstrap, target, {topic: 3})
        assert heliostat(config, "pause", name, "--topic", topic).returncode == 0
        write_everywhere(source.bootstrap.split(","), {topic: 3}, batch)
        alive = source.brokers[0]
        for broker in source.brokers[1:]:
            broker.kill()
        assert heliostat(config, "resume", name, "--topic", topic).returncode == 0
        answer = heliostat(config, "failover", name, "--drain", "60", "--yes", "--json")
        link.kill_all()
    assert answer.returncode == 0, answer.said
    of_alive = [number for number, leader in leaders.items() if leader == alive.broker_id]
    print(answer.stderr, answer.json["drained"])
    assert "partitions not level" in answer.stderr
    behind = {f"{topic}-{number}" for number in leaders if number not in of_alive}
    assert set(answer.json["drained"]["behind"]) == behind
    landed = ends(target, {topic: 3})[topic]
    assert [int(landed[number]) for number in of_alive] == [400] * len(of_alive)
