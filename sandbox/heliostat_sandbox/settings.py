"""Settings of a sandbox's brokers, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heliostat.names import BrokerId
from heliostat.ops.quick_jvm import QUICK_JVM
from heliostat_sandbox.ports import LOOPBACK
from heliostat_sandbox.security import Listener

REPLICAS_MAX = 3
"""Greatest replication factor of the cluster's own topics; else the number of brokers."""

DEFAULTS: Mapping[str, str] = {
    # As on the EFD's clusters: topics are created explicitly.
    "auto.create.topics.enable": "false",
    # A group starts at once instead of waiting 3 s for more members.
    "group.initial.rebalance.delay.ms": "0",
    # By default 50 partitions each are created at first use, one after another.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    # Brokers share the machine with the programs that are measured.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "background.threads": "2",
    # The default of 128 MiB does not fit a small heap.
    "log.cleaner.dedupe.buffer.size": "16777216",
    # A killed broker can register again only after its old session has expired, 9 s by default.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    # Retention and log cleaner first run after 1 s instead of 30.
    "log.initial.task.delay.ms": "1000",
}

SEVERAL_BROKERS: Mapping[str, str] = {
    # Healthy brokers must not be fenced on a busy machine; a single one stalls with its controller.
    "broker.session.timeout.ms": "6000",
}

LOG4J2 = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/broker.log
appender.file.filePattern = {folder}/broker.%i.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d{{ISO8601}}] %p %m (%c{{1}})%n
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of one broker: for clients and brokers, for controllers, for secured listeners."""

    clients: int
    controllers: int
    secured: Mapping[Listener, int] = field(default_factory=dict)
    far: Mapping[Listener, int] = field(default_factory=dict)
    """Ports of the listeners behind a long line."""
    lines: Mapping[Listener, int] = field(default_factory=dict)
    """Ports at which those are advertised: the line's other end."""

    @property
    def by_listener(self) -> Mapping[Listener, int]:
        """Ports of all listeners that clients may use."""
        return {Listener.PLAINTEXT: self.clients, **self.secured, **self.far}

    @property
    def advertised(self) -> Mapping[Listener, int]:
        """Ports that clients are told."""
        return {**self.by_listener, **self.lines}


def server_properties(
    broker: BrokerId,
    ports: Mapping[BrokerId, Ports],
    data: Path,
    overrides: Mapping[str, str],
    *,
    zookeeper: int | None = None,
) -> dict[str, str]:
    """Return all settings of one broker; `overrides` win.

    Every broker is also a controller (combined mode), with a fixed list of voters; given the port
    of a `zookeeper`, it is only a broker, as before KRaft.
    """
    own = ports[broker]
    replicas = str(min(len(ports), REPLICAS_MAX))
    offered, advertised = (
        [f"{listener.value}://{LOOPBACK}:{port}" for listener, port in ports_of.items()]
        for ports_of in (own.by_listener, own.advertised)
    )
    protocols = [f"{each.value}:{each.protocol}" for each in own.by_listener]
    settings = {
        **DEFAULTS,
        **(SEVERAL_BROKERS if len(ports) > 1 else {}),
        "listeners": ",".join(offered),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(protocols),
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data),
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
    }
    if zookeeper is not None:
        return {
            **settings,
            "broker.id": str(broker),
            "zookeeper.connect": f"{LOOPBACK}:{zookeeper}",
            **overrides,
        }
    voters = ",".join(f"{each}@{LOOPBACK}:{item.controllers}" for each, item in ports.items())
    settings["listeners"] += f",CONTROLLER://{LOOPBACK}:{own.controllers}"
    settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    return {
        **settings,
        "node.id": str(broker),
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        **overrides,
    }


def write_settings(folder: Path, properties: Mapping[str, str]) -> None:
    """Write server.properties and the logging settings into a broker's folder."""
    lines = [f"{key}={_escaped(value)}\n" for key, value in properties.items()]
    (folder / "server.properties").write_text("".join(lines), encoding="utf-8")
    text = LOG4J2.format(folder=folder)
    (folder / "log4j2.properties").write_text(text, encoding="utf-8")


def _escaped(value: str) -> str:
    """Escape a value for Java's `Properties`."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


SMALL_HEAP_MB = 400
"""With a smaller heap, a broker's JVM uses only its fast compiler (C1)."""


def java_options(folder: Path, heap_mb: int) -> Sequence[str]:
    """Return the JVM's options, as `kafka-server-start.sh` sets them, without its GC log.

    A broker with a small heap is to start quickly rather than run fast: tests start dozens.
    """
    usual = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
    return (
        f"-Xmx{heap_mb}m",
        f"-Xms{min(heap_mb, 256)}m",
        *(QUICK_JVM if heap_mb < SMALL_HEAP_MB else usual),
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
    )
