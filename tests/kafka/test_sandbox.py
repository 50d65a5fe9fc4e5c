"""Sandbox clusters and their load, on real brokers."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import yaml
from click.testing import CliRunner
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name, until
from support.provoked import Provoked

from heliostat.clusters.admin import LATEST, ClusterAdmin
from heliostat.config import ClusterConfig
from heliostat.errors import ConnectionLost, Refused, SandboxError
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat_sandbox import (
    Cluster,
    ClusterSpec,
    GenericShape,
    LoadGenerator,
    Storage,
    TopicLoad,
    efd_load,
    efd_topics,
    named,
    prepare_topics,
    start_many,
)
from heliostat_sandbox.cluster import TMPFS_FOLDER
from heliostat_sandbox.commands import sandbox_group
from heliostat_sandbox.jars import KAFKA
from heliostat_sandbox.kept_classes import archive_of
from heliostat_sandbox.ports import free_ports
from heliostat_sandbox.protocol import ask_metadata

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

StartCluster = Callable[..., Cluster]


def ends(cluster: Cluster, topics: list[TopicName]) -> dict[TopicPartition, int]:
    """Where each partition's log ends."""
    with ClusterAdmin(cluster.bootstrap.split(",")) as admin:
        asked = {
            TopicPartition(topic, PartitionId(partition)): LATEST
            for topic, info in admin.describe_topics(topics).items()
            for partition in range(len(info.partitions))
        }
        return {item: end.offset for item, end in admin.list_offsets(asked).items()}


def fill(cluster: Cluster, topic: TopicName, records: int = 20, partitions: int = 1) -> None:
    # acks=-1: what only a killed leader had would be gone with it.
    LoadGenerator(cluster.bootstrap, [], acks=-1).fill(TopicLoad(topic, partitions), records)


def test_a_broker_is_stopped_killed_paused_and_comes_back_with_its_records(
    start_cluster: StartCluster,
) -> None:
    cluster = start_cluster(settings={"log.retention.hours": "7"})
    (broker,) = cluster.brokers
    assert cluster.bootstrap == str(broker.endpoint)
    with ClusterAdmin([cluster.bootstrap]) as admin:
        assert admin.cluster_id() == cluster.cluster_id
        settings = admin.describe_broker_configs()
    assert settings["log.retention.hours"].value == "7"
    assert settings["auto.create.topics.enable"].value == "false"
    topic = create_topic(cluster)
    fill(cluster, topic)
    first_pid, endpoint = broker.pid, broker.endpoint

    broker.stop()
    assert not broker.is_alive()
    assert not psutil.pid_exists(first_pid)
    with pytest.raises(ConnectionLost):
        ask_metadata(endpoint, [], 1.0)
    broker.start()
    assert (broker.endpoint, broker.pid != first_pid) == (endpoint, True)
    fill(cluster, topic)

    broker.kill()
    assert not broker.is_alive()
    broker.start()
    assert ends(cluster, [topic]) == {TopicPartition(topic, PartitionId(0)): 40}

    broker.pause()
    assert broker.is_alive()
    with pytest.raises(ConnectionLost):
        ask_metadata(endpoint, [], 1.0)
    broker.resume()
    broker.wait_ready()
    broker.pause()
    broker.restart()  # a paused broker hears SIGTERM too
    assert ends(cluster, [topic]) == {TopicPartition(topic, PartitionId(0)): 40}

    pid, folder = broker.pid, cluster.folder
    cluster.stop()
    assert not psutil.pid_exists(pid)
    assert not folder.exists()
    cluster.stop()  # once more does no harm


def test_a_broker_loads_the_class_archive_of_set_up(cluster_pair: ClusterPair) -> None:
    """Given the archive of set-up / when a broker starts / then its JVM uses it, without output."""
    archive = archive_of(KAFKA)
    assert archive.is_file(), "scripts/setup makes it"
    (broker,) = cluster_pair.source.brokers
    assert str(archive) in {each.path for each in psutil.Process(broker.pid).memory_maps()}
    assert "cds" not in (broker.folder / "broker.out").read_text()


@pytest.mark.thorough
def test_three_brokers_survive_the_loss_of_one(start_cluster: StartCluster) -> None:
    cluster = start_cluster("three", brokers=3, heap_mb=256, storage=Storage.TMPFS)
    assert [broker.broker_id for broker in cluster.brokers] == [1, 2, 3]
    assert cluster.folder.is_relative_to(TMPFS_FOLDER)
    for broker in cluster.brokers:
        assert broker.known_brokers() == {1, 2, 3}
    topic = create_topic(cluster, partitions=3, replicas=3)
    fill(cluster, topic, 30, 3)
    cluster.brokers[0].kill()
    others = cluster.brokers[1:]

    def is_led_by_others() -> bool:
        leaders = ask_metadata(others[0].endpoint, [topic]).topics[topic].leaders
        return set(leaders.values()) <= {2, 3}

    until(is_led_by_others, "the two others to lead all partitions")
    cluster.brokers[0].start()
    assert sum(ends(cluster, [topic]).values()) == 30
    pids = [broker.pid for broker in cluster.brokers]
    cluster.stop()
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not cluster.folder.exists()


@pytest.mark.provokes("SANDBOX")
def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(
    tmp_path: Path, provoked: Provoked
) -> None:
    before = set(psutil.Process().children())
    wrong = {"log.retention.hours": "long"}
    with pytest.raises(SandboxError, match=r"log\.retention\.hours") as caught:
        start_many(
            [
                ClusterSpec("good", heap_mb=HEAP_MB, parent=tmp_path),
                ClusterSpec("bad", settings=wrong, heap_mb=HEAP_MB, parent=tmp_path),
            ]
        )
    provoked("SANDBOX", caught.value)
    assert set(psutil.Process().children()) == before
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SandboxError, match="1 or 3"):
        Cluster.start("two", brokers=2)


@pytest.mark.thorough
def test_a_port_that_was_taken_meanwhile_is_replaced(start_cluster, monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other_link:
        taken = other_link.getsockname()[1]
        offers = [[taken, *free_ports(1)], free_ports(2)]
        monkeypatch.setattr("heliostat_sandbox.cluster.free_ports", lambda _: offers.pop(0))
        cluster = start_cluster()
        assert cluster.brokers[0].endpoint.port != taken
        assert offers == []


@pytest.fixture
def sandbox(monkeypatch, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """`heliostat sandbox`, with a state folder of its own; all is down after the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    runner = CliRunner()

    def run(*arguments: str, code: int = 0) -> str:
        result = runner.invoke(sandbox_group, arguments)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    yield run
    named.down()


def test_named_clusters_outlive_the_command_until_they_are_taken_down(sandbox) -> None:
    assert "nothing runs" in sandbox("status")
    set_hours = ("--set", "log.retention.hours=5")
    shown = sandbox("up", "east", "--heap-mb", str(HEAP_MB), *set_hours, "--tmpfs", "--secure")
    (east,) = json.loads(sandbox("status", "east", "--json"))
    (broker,) = east["brokers"]
    assert (east["name"], east["alive"], east["bootstrap"]) == ("east", True, broker["address"])
    assert broker["log_bytes"] > 0
    with ClusterAdmin([east["bootstrap"]]) as admin:
        assert admin.cluster_id() == east["cluster_id"]
        assert admin.describe_broker_configs()["log.retention.hours"].value == "5"

    again = json.loads(sandbox("up", "east", "--registry", "--json"))
    assert again[0]["brokers"][0]["pid"] == broker["pid"], "what runs stays as it is"
    registry = named.open_registry("east")
    assert registry is not None
    assert again[0]["registry"] == {
        "url": registry.url,
        "pid": registry.identity.pid,
        "alive": True,
    }
    assert httpx.get(f"{registry.url}/subjects").json() == []

    topic = fresh_name()
    sandbox("load", "east", "--topic", topic, "--partitions", "2", "--fill", "30")
    counts = json.loads(sandbox("load", "east", "--topics", "5", "--seconds", "1", "--json"))
    assert counts["sent"] == counts["acknowledged"] > 0

    opened = named.open_cluster("east")
    assert opened is not None
    assert sum(ends(opened, [topic]).values()) == 30
    registry.kill()
    assert registry.url in sandbox("status", code=1)
    sandbox("up", "east", "--registry")
    registry = named.open_registry("east")
    assert registry is not None
    assert "DEAD" in sandbox("stop", "east", "--kill")
    sandbox("status", code=1)
    with pytest.raises(Refused, match="dead"):
        sandbox("up", "east")
    with pytest.raises(Refused, match="no such broker"):
        sandbox("start", "east", "--broker", "2")
    assert "alive" in sandbox("start", "east")
    assert "PAUSED" in sandbox("pause", "east", "--broker", "1")
    assert "alive" in sandbox("resume", "east")
    opened = named.open_cluster("east")  # its new pid is written down
    assert opened is not None
    assert sum(ends(opened, [topic]).values()) == 30, "with its data"
    sections = yaml.safe_load(shown[shown.index("    east:") :])
    secured = ClusterConfig.model_validate(sections["east"])
    with ClusterAdmin(secured.access()) as admin:
        assert topic in admin.describe_topics()

    assert "stopped: east" in sandbox("down", "east")
    assert not opened.brokers[0].is_alive()
    assert not registry.is_alive
    assert not Path(broker["log_folder"]).exists()
    assert "nothing runs" in sandbox("status")


def test_down_spares_a_process_that_reused_a_brokers_pid(sandbox, tmp_path: Path) -> None:
    folder = named.state_folder() / "old"
    folder.mkdir(parents=True)
    row = {
        "broker_id": 1,
        "host": "127.0.0.1",
        "port": 1,
        "pid": os.getpid(),  # this very process, started at another time
        "started_at_s": time.time() - 1e6,
        "folder": str(tmp_path / "gone"),
        "command": ["false"],
    }
    state = {
        "name": "old",
        "cluster_id": "x",
        "folder": str(tmp_path / "gone"),
        "storage": "disk",
        "brokers": [row],
    }
    (folder / named.STATE_FILE).write_text(json.dumps(state))
    assert "DEAD" in sandbox("status", code=1)
    assert "stopped: old" in sandbox("down")


@pytest.mark.parametrize("arguments", [("up", "A B"), ("down", "nope"), ("load", "nope")])
def test_invalid_cluster_names_are_refused(sandbox, arguments) -> None:
    with pytest.raises(Refused):
        sandbox(*arguments)


def test_a_setting_without_a_value_is_wrong_usage(sandbox) -> None:
    assert "KEY=VALUE" in sandbox("up", "east", "--set", "x", code=2)


@pytest.mark.parametrize("idempotent", [False, True])
def test_counts_of_the_load_equal_those_of_the_brokers(cluster_pair, idempotent: bool) -> None:
    cluster = cluster_pair.source
    prefix = fresh_name()
    loads = [
        TopicLoad(TopicName(f"{prefix}.a"), 3, 400.0, GenericShape(50, 4, tombstones=0.2)),
        TopicLoad(TopicName(f"{prefix}.b"), 1, 300.0, GenericShape(50), 10, "lz4"),
    ]
    grown = TopicLoad(loads[1].topic, 2, 300.0, GenericShape(50), 10, "zstd")
    new = TopicLoad(TopicName(f"{prefix}.c"), 1, 100.0)
    generator = LoadGenerator(cluster.bootstrap, loads, seed=4, idempotent=idempotent)
    with generator:
        until(lambda: generator.counts.acknowledged > 500, "some records")
        generator.add([grown, new])
        second = TopicPartition(grown.topic, PartitionId(1))
        until(lambda: second in generator.acknowledged, "records in the new partition")
        until(lambda: any(item.topic == new.topic for item in generator.acknowledged), "topic c")
    counts = generator.counts
    assert (counts.refused, counts.unknown) == (0, 0)
    assert counts.sent == counts.acknowledged
    held = ends(cluster, [load.topic for load in [*loads, new]])
    assert {item: end for item, end in held.items() if end} == generator.acknowledged


def test_load_continues_when_the_cluster_comes_back(start_cluster: StartCluster) -> None:
    cluster = start_cluster()
    load = TopicLoad(fresh_name(), 2, 300.0)
    with LoadGenerator(cluster.bootstrap, [load], acks=-1, idempotent=True) as generator:
        until(lambda: generator.counts.acknowledged > 100, "records before")
        cluster.brokers[0].kill()
        cluster.brokers[0].start()
        before = generator.counts.acknowledged
        until(lambda: generator.counts.acknowledged > before + 100, "records after")
    counts = generator.counts
    held = sum(ends(cluster, [load.topic]).values())
    assert counts.acknowledged <= held <= counts.sent


@pytest.mark.parametrize(
    ("batch_records", "codec", "distinct"),
    [(1, "none", None), (1, "none", 10), (100, "none", 3), (30, "gzip", None)],
)
def test_fill_appends_exactly_the_requested_number(
    cluster_pair, batch_records, codec, distinct
) -> None:
    load = TopicLoad(fresh_name(), 3, batch_records=batch_records, codec=codec)
    generator = LoadGenerator(cluster_pair.source.bootstrap, [])
    made = generator.fill(load, 1_001, distinct_batches=distinct)
    assert made.total() == 1_001
    assert max(made.values()) - min(made.values()) <= batch_records
    assert ends(cluster_pair.source, [load.topic]) == made


def test_efd_topics_are_created_as_in_the_catalogue(cluster_pair) -> None:
    cluster = cluster_pair.source
    catalogue = efd_topics(25, compact_events=True, log_append_time=True, hot_partitions=3)
    loads = efd_load(catalogue, 400.0)
    prepare_topics(cluster.bootstrap, loads)
    with ClusterAdmin([cluster.bootstrap]) as admin:
        infos = admin.describe_topics([each.name for each in catalogue])
        configs = admin.describe_configs([each.name for each in catalogue])
    for each in catalogue:
        assert len(infos[each.name].partitions) == each.partitions
        own = {key: entry.value for key, entry in configs[each.name].items() if entry.is_own}
        assert own == each.configs
    with LoadGenerator(cluster.bootstrap, loads) as generator:
        until(lambda: generator.counts.acknowledged > 200, "records")
    held = ends(cluster, [each.name for each in catalogue])
    assert {item: end for item, end in held.items() if end} == generator.acknowledged
