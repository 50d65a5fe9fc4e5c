"""The EFD's link as it is shipped: secured clusters, registries and an InfluxDB around its file."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from support.avro_clients import AvroReader, AvroWriter, Record
from support.clusters import HEAP_MB, create_topic, until
from support.command import heliostat, said
from support.influxd import Influxd
from support.links import LinkProcess
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer
from support.shipped import example_config, readme_verbs
from support.toy import subjects, topics_of, with_own

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import Cluster, ClusterSpec, start_many
from heliostat_sandbox.ports import free_ports
from heliostat_sandbox.security import Listener, Mechanism, SandboxSecurity

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

LINK = "summit-to-usdf"
PASSWORD = "of-the-sandbox"  # noqa: S105  # a throw-away cluster's
WEEK_MS = "604800000"
SUMMIT = {"log.retention.ms": WEEK_MS, "log.cleaner.min.compaction.lag.ms": WEEK_MS}
"""What the Summit sets at its brokers, and not at its topics."""
FORCES = "lsst.sal.MTM1M3.forceActuatorData"
VISIT = "lsst.sal.ScriptQueue.logevent_nextVisit"
TEMPERATURE = "lsst.sal.ESS.temperature"
RAFT = "lsst.MTCamera.raft"
LATE = "lsst.sal.MTMount.elevation"
TEST = "lsst.sal.Test.scalars"
READ = 2
START_WITHIN_S = 300.0
"""Loops may have to be compiled first."""
GROUP = "telegraf-kafka-consumer-efd"


def schema_of(topic: str) -> str:
    """An EFD topic's schema: its public field is `value`."""
    namespace, _, name = topic.rpartition(".")
    private = [
        {"name": "private_efdStamp", "type": "double", "default": 0.0, "units": "second"},
        {"name": "private_seqNum", "type": "int", "default": 0, "description": "Sequence number."},
    ]
    fields = [*private, {"name": "value", "type": "float", "units": "deg_C"}]
    return json.dumps({"type": "record", "namespace": namespace, "name": name, "fields": fields})


def record(number: int) -> Record:
    return {"private_efdStamp": 1.0e9 + number, "private_seqNum": number, "value": number / 2}


class Site:
    """Both sites of the link, and what its file is given by the environment."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        security = SandboxSecurity(
            users={"replicator": PASSWORD},
            mechanisms=(Mechanism.SCRAM_SHA_512,),
            super_users=("User:replicator",),
        )
        specs = [
            ClusterSpec("efd-summit", heap_mb=HEAP_MB, security=security, settings=SUMMIT),
            ClusterSpec("efd-usdf", heap_mb=HEAP_MB, security=security),
        ]
        self.summit, self.usdf = (stack.enter_context(cluster) for cluster in start_many(specs))
        self.here = stack.enter_context(RegistryServer(with_own(5)))
        self.there = stack.enter_context(RegistryServer(RegistryDouble()))
        self.influx = Influxd(folder, free_ports(2))  # type: ignore[arg-type]  # two of them
        stack.callback(self.influx.stop)
        self.influx.start()
        self.influx.query("CREATE DATABASE heliostat")
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.secrets = folder / "secrets"
        self.secrets.mkdir()
        summit, usdf = self.summit.credentials, self.usdf.credentials
        shutil.copy(summit.ca_file, self.secrets / "summit-ca.pem")
        shutil.copy(usdf.ca_file, self.secrets / "usdf-ca.pem")
        for name in ("replicator.pem", "replicator.key"):
            shutil.copy(usdf.folder / name, self.secrets)
        self.variables = {
            "SUMMIT_BOOTSTRAP": summit.bootstraps[Listener.SASL_SSL],
            "SUMMIT_PASSWORD": PASSWORD,
            "SUMMIT_REGISTRY": self.here.url,
            "USDF_BOOTSTRAP": usdf.bootstraps[Listener.SSL],
            "USDF_REGISTRY": self.there.url,
            "EFD_SECRETS": str(self.secrets),
            "HELIOSTAT_LISTEN": self.address,
            "INFLUX_URL": self.influx.url,
            "INFLUX_DATABASE": "heliostat",
        }

    def write(self, topic: str, *numbers: int, partition: int = 0) -> None:
        with AvroWriter(self.summit.bootstrap, self.here.url, schema_of(topic)) as writer:
            writer.write(topic, *(record(number) for number in numbers), partition=partition)

    def reader(self, topic: str) -> AvroReader:
        """A consumer at USDF, which knows nothing but USDF's registry."""
        return AvroReader(self.usdf.bootstrap, self.there.url, f"summit.{topic}")

    def metrics(self) -> str:
        return httpx.get(f"http://{self.address}/metrics", timeout=10).text


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with ExitStack() as stack:
        made = Site(stack, tmp_path)
        for name, value in made.variables.items():
            monkeypatch.setenv(name, value)
        yield made


def group_at(cluster: Cluster, group: str, topic: str, commit: int | None = None) -> int:
    """Return a group's offset of a topic's first partition, after it has committed one, if so."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        if commit is not None:
            place = TopicPartition(topic, 0, commit)
            consumer.commit(offsets=[place], asynchronous=False)
        [place] = consumer.committed([TopicPartition(topic, 0)], timeout=10)
        return int(place.offset)
    finally:
        consumer.close()


def priorities(config: Path) -> dict[str, str]:
    [status] = said(config, "status")
    rows: list[dict[str, Any]] = status["preferences"]
    return {str(row["topics"]): str(row["priority"]) for row in rows}


def test_the_link_runs_as_it_is(site: Site, tmp_path: Path) -> None:
    """Given the shipped file and what its environment names / when a few topics are written, made

    and grown / then their records are decoded at USDF, priorities are in force, and figures are
    served and in InfluxDB.
    """
    config = example_config("efd", tmp_path)
    lines = (config.parent / "efd.env").read_text(encoding="utf-8").splitlines()
    names = {line.partition("=")[0] for line in lines if not line.startswith("#")}
    assert names | {"SUMMIT_PASSWORD"} == set(site.variables)
    for topic, partitions in ((TEMPERATURE, 1), (FORCES, 2), (RAFT, 1), (TEST, 1)):
        create_topic(site.summit, topic, partitions=partitions)
        site.write(topic, 1, 2, 3)
    create_topic(site.summit, VISIT, configs={"cleanup.policy": "compact"})
    group_at(site.summit, GROUP, TEMPERATURE, READ)
    _each(config, {"acls": (), "check": ("--no-spark",), "topics": ()})
    [adopt] = readme_verbs("efd", "adopt")
    assert "the target has no topic mm2-offsets.summit.internal" in heliostat(config, *adopt).said
    planned = heliostat(config, "plan")
    assert planned.returncode == 1, planned.said  # there is something to do
    assert f"summit.{TEMPERATURE}" in planned.stdout
    assert "Test.scalars" not in planned.stdout
    with LinkProcess(config, "--plain") as run, ExitStack() as stack:
        until(lambda: " runs" in run.text(), run.text, START_WITHIN_S)
        readers = {
            topic: stack.enter_context(site.reader(topic))
            for topic in (TEMPERATURE, FORCES, RAFT, VISIT, LATE)
        }
        for topic in (TEMPERATURE, FORCES, RAFT):
            readers[topic].wait([record(number) for number in (1, 2, 3)])
        _appears_and_grows(site, readers)
        _priorities(config, run)
        until(
            lambda: group_at(site.usdf, f"summit.{GROUP}", f"summit.{TEMPERATURE}") == READ,
            run.text,
        )
        _figures(site, run)
        until(lambda: heliostat(config, "status").returncode == 0, run.text)
        _each(config, dict.fromkeys(("status", "history", "exposure", "schemas", "verify"), ()))
        [verified] = said(config, "schemas", "verify")
        assert (verified["differences"], verified["missing"]) == ([], [])
        assert run.stop() == 0, run.text()
    names = set(topics_of(site.usdf, "summit."))
    assert names == {f"summit.{t}" for t in (TEMPERATURE, FORCES, RAFT, VISIT, LATE)} | {
        "summit.heartbeats"
    }
    assert subjects(site.there, TEMPERATURE) == {
        f"{TEMPERATURE}-value",
        f"summit.{TEMPERATURE}-value",
    }


def _each(config: Path, verbs: Mapping[str, tuple[str, ...]]) -> None:
    """Call the page's commands with these verbs, and with words besides."""
    commands = list(readme_verbs("efd", *verbs))
    assert {words[0] for words in commands} == set(verbs)
    for words in commands:
        done = heliostat(config, *words, *verbs[words[0]])
        assert done.returncode == 0, f"{words}: {done.said}"


def _appears_and_grows(site: Site, readers: dict[str, AvroReader]) -> None:
    create_topic(site.summit, LATE)
    site.write(LATE, 1)
    with ClusterAdmin(site.summit.bootstrap.split(",")) as admin:
        assert admin.grow_partitions({TopicName(FORCES): 3}) == {FORCES: None}
    site.write(FORCES, 4, partition=2)
    site.write(VISIT, 1)
    readers[LATE].wait([record(1)])
    readers[FORCES].wait([record(1), record(2), record(3)], [], [record(4)])
    readers[VISIT].wait([record(1)])
    mirror = TopicName(f"summit.{VISIT}")
    with ClusterAdmin(site.usdf.bootstrap.split(",")) as admin:
        entries: Any = admin.describe_configs([mirror])[mirror]
    assert entries["min.compaction.lag.ms"].value == WEEK_MS
    assert entries["cleanup.policy"].value == "compact"


def _priorities(config: Path, run: LinkProcess) -> None:
    commands = list(readme_verbs("efd", "prefer", "limit"))
    assert len(commands) == 5
    for words in commands:
        done = heliostat(config, *words)
        assert done.returncode == 0, done.said + run.text()
    assert sorted(priorities(config).values()) == ["high", "high", "low"]
    [status] = said(config, "status")
    assert status["limits"] == []


def _figures(site: Site, run: LinkProcess) -> None:
    until(lambda: f'topic="{TEMPERATURE}"' in site.metrics(), run.text)
    assert 'heliostat_link_state{link="summit-to-usdf"' in site.metrics()
    began_s = time.monotonic()
    until(lambda: site.influx.query('SELECT * FROM "heliostat_topic"', "heliostat"), run.text)
    [series] = site.influx.query('SELECT last("state") FROM "heliostat_link"', "heliostat")
    assert series["values"][0][1] == "running", time.monotonic() - began_s
