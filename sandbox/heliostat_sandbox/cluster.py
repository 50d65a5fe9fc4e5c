"""Clusters of real brokers on loopback, started in seconds and removed without a trace."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from heliostat.errors import SandboxError
from heliostat.names import BrokerId, ClusterId, Endpoint
from heliostat_sandbox.accounts import Accounts
from heliostat_sandbox.broker import MAIN_CLASS, READY_TIMEOUT_S, Broker, BrokerPlan
from heliostat_sandbox.far_line import FarLine, end_line, start_line
from heliostat_sandbox.jars import ensure_jars
from heliostat_sandbox.java import find_java
from heliostat_sandbox.kept_classes import class_options
from heliostat_sandbox.ports import LOOPBACK, free_ports
from heliostat_sandbox.process import OwnProcess
from heliostat_sandbox.security import (
    SECURED,
    Credentials,
    Listener,
    Mechanism,
    SandboxSecurity,
    bootstraps_of,
    make_credentials,
    security_java_options,
    security_properties,
)
from heliostat_sandbox.settings import Ports, java_options, server_properties, write_settings
from heliostat_sandbox.storage import META, bootstrap_checkpoint, format_folder, new_cluster_id
from heliostat_sandbox.versions import KAFKA_4_3, KafkaVersion, kafka_version
from heliostat_sandbox.zookeeper import end_zookeeper, start_zookeeper

HEAP_MB = 512
BROKER_COUNTS = (1, 3)
"""Two voters survive no loss; more than three only take memory."""
START_ATTEMPTS = 3
"""Another process may take a free port before the broker does; then others are tried."""
BIND_FAILURE = "Address already in use"


class Storage(Enum):
    """Where the logs of a cluster are kept."""

    DISK = "disk"
    TMPFS = "tmpfs"
    """In memory: no stalls of the disk, to measure latency with thousands of partitions."""


TMPFS_FOLDER = Path("/dev/shm")  # noqa: S108 - it is the machine's tmpfs, that is the point


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A cluster to start; the parameters are those of `Cluster.start`."""

    name: str
    brokers: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    storage: Storage = Storage.DISK
    heap_mb: int = HEAP_MB
    parent: Path | None = None
    version: str = KAFKA_4_3
    security: SandboxSecurity | None = None
    own_settings: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Settings of single brokers, by broker id from 1 on; they win over `settings`."""
    jars: Sequence[Path] = ()
    """Further classes of its brokers, such as policies."""
    line: FarLine | None = None
    """What clients of `bootstrap_far` and of secured listeners connect through."""


class Cluster:
    """A running cluster. As a context manager it stops when the block ends.

    Parameters
    ----------
    name
        Name in folders and errors.
    cluster_id
        Cluster id with which it was formatted.
    folder
        Has a folder for each broker.
    brokers
        Its brokers, by rising id.
    credentials
        Files and settings for clients of its secured listeners, if it has any.
    zookeeper
        The ZooKeeper process, for brokers before KRaft.
    line
        The process of the long line before its brokers.
    bootstrap_far
        Addresses at the other end of the line; empty without one.
    """

    def __init__(
        self,
        name: str,
        cluster_id: ClusterId,
        folder: Path,
        brokers: Sequence[Broker],
        *,
        credentials: Credentials | None = None,
        zookeeper: OwnProcess | None = None,
        line: OwnProcess | None = None,
        bootstrap_far: str = "",
    ) -> None:
        self.bootstrap_far = bootstrap_far
        self._line = line
        self.name = name
        self.cluster_id = cluster_id
        self.folder = folder
        self.brokers = tuple(brokers)
        self._credentials = credentials
        self._zookeeper = zookeeper

    @classmethod
    def start(
        cls,
        name: str,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        storage: Storage = Storage.DISK,
        heap_mb: int = HEAP_MB,
        parent: Path | None = None,
        version: str = KAFKA_4_3,
        security: SandboxSecurity | None = None,
    ) -> Cluster:
        """Start a cluster of 1 or 3 brokers and wait until all of them serve.

        Its processes end with this one, whatever ends it.

        Parameters
        ----------
        name
            Name in folders and errors; need not be unique.
        brokers
            Number of brokers: 1 or 3.
        settings
            Broker settings that win over the sandbox's own.
        storage
            Where logs are stored.
        heap_mb
            `-Xmx` of each broker, in MB.
        parent
            Folder in which the cluster's folder is created; a temporary one by default.
        version
            Kafka version, one of `heliostat_sandbox.versions`.
        security
            Secured listeners beside the open one, users, ACLs.

        Raises
        ------
        SandboxError
            It did not start; the text has the end of broker.log. Nothing is left running.
        """
        own = dict(settings or {})
        spec = ClusterSpec(name, brokers, own, storage, heap_mb, parent, version, security)
        return start_many([spec])[0]

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, `host:port`, separated by commas."""
        return ",".join(str(broker.endpoint) for broker in self.brokers)

    @property
    def credentials(self) -> Credentials:
        """Addresses, files and settings for clients of the secured listeners.

        Raises
        ------
        SandboxError
            It was started without `security`.
        """
        if self._credentials is None:
            raise SandboxError("the cluster has no secured listeners", name=self.name)
        return self._credentials

    @property
    def accounts(self) -> Accounts:
        """Administration of passwords and ACLs while it runs."""
        return Accounts(self.bootstrap)

    def stop(self) -> None:
        """End all brokers at once and delete the cluster's folder.

        They are killed, as their data is deleted anyway and a clean shutdown takes seconds. For a
        clean shutdown use the brokers' own `stop`.
        """
        try:
            with contextlib.ExitStack() as each:  # a failure of one must not spare the others
                if self._zookeeper is not None:
                    each.callback(end_zookeeper, self._zookeeper)
                if self._line is not None:
                    each.callback(end_line, self._line)
                for broker in self.brokers:
                    each.callback(broker.kill)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every broker serves.

        Raises
        ------
        SandboxError
            A broker ended, or did not become ready in time.
        """
        for broker in self.brokers:
            broker.wait_ready(timeout_s)

    def settle(self) -> None:
        """Read the cluster id that ZooKeeper gave, and create users; once, when all serve.

        Raises
        ------
        SandboxError
            The cluster refuses a user.
        """
        if self._zookeeper is not None:
            text = (self.brokers[0].log_folder / META).read_text(encoding="utf-8")
            lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            self.cluster_id = ClusterId(lines["cluster.id"])
        if self._credentials is not None:
            security = self._credentials.security
            if {Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512} & set(security.mechanisms):
                self.accounts.set_passwords(security.passwords)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start_many(specs: Sequence[ClusterSpec]) -> list[Cluster]:
    """Start several clusters at the same time, which takes little longer than one.

    Raises
    ------
    SandboxError
        One did not start; then none is left running.
    """
    started: list[Cluster] = []
    try:
        started.extend(_launch(spec) for spec in specs)  # has those launched before one fails
        for index, spec in enumerate(specs):
            _await(started, index, spec)
    except BaseException:
        for cluster in started:
            cluster.stop()
        raise
    return started


def _await(started: list[Cluster], index: int, spec: ClusterSpec) -> None:
    """Wait for one cluster; replace it when another process took one of its ports."""
    for attempt in range(START_ATTEMPTS):
        try:
            started[index].wait_ready()
        except SandboxError as error:
            lost_port = any(BIND_FAILURE in broker.log_tail() for broker in started[index].brokers)
            if not lost_port or attempt == START_ATTEMPTS - 1:
                raise
            started[index].stop()
            try:
                started[index] = _launch(spec)
            except SandboxError as later:
                raise later from error
        else:
            started[index].settle()
            return


@dataclass(frozen=True, slots=True)
class _Site:
    """Data that all brokers of one cluster share while their files are written."""

    spec: ClusterSpec
    version: KafkaVersion
    cluster_id: ClusterId
    ports: Mapping[BrokerId, Ports]
    zookeeper_port: int | None
    folder: Path
    credentials: Credentials | None

    def home(self, broker: BrokerId) -> Path:
        return self.folder / f"broker-{broker}"


def _launch(spec: ClusterSpec) -> Cluster:
    """Write a cluster's files and start its processes; does not wait for brokers."""
    version = kafka_version(spec.version)
    _check(spec, version)
    java = find_java()
    jars = ensure_jars(version.jars)
    zookeeper_port, ports = _ports(spec, version)
    folder = _new_folder(spec)
    for broker_id in ports:
        (folder / f"broker-{broker_id}").mkdir()
    credentials = None
    if spec.security is not None:  # in a broker's folder: that is deleted if the owner is killed
        addresses = bootstraps_of({each: own.advertised for each, own in ports.items()})
        place = folder / f"broker-{next(iter(ports))}" / "security"
        credentials = make_credentials(spec.security, place, addresses)
    site = _Site(spec, version, new_cluster_id(), ports, zookeeper_port, folder, credentials)
    brokers = [_prepare(site, broker_id, java, jars) for broker_id in ports]
    zookeeper = None
    if zookeeper_port is not None:
        zookeeper = start_zookeeper(java, jars, folder / "zookeeper", zookeeper_port)
    line, bootstrap_far = None, ""
    if spec.line is not None:
        line = start_line(spec.line, list(ports.values()), folder / "line")
        bootstrap_far = bootstraps_of({each: own.lines for each, own in ports.items()})[
            Listener.FAR
        ]
    cluster = Cluster(
        spec.name,
        site.cluster_id,
        folder,
        brokers,
        credentials=credentials,
        zookeeper=zookeeper,
        line=line,
        bootstrap_far=bootstrap_far,
    )
    try:
        for broker in brokers:
            broker.launch()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _check(spec: ClusterSpec, version: KafkaVersion) -> None:
    if spec.brokers not in BROKER_COUNTS:
        raise SandboxError(
            "a sandbox cluster has 1 or 3 brokers", name=spec.name, brokers=spec.brokers
        )
    wants_tokens = spec.security is not None and Mechanism.OAUTHBEARER in spec.security.mechanisms
    if wants_tokens and not version.has_signed_tokens:
        raise SandboxError(
            "this version of Kafka does not accept signed tokens",
            hint="leave OAUTHBEARER out of the mechanisms",
            version=version.name,
        )


def _ports(spec: ClusterSpec, version: KafkaVersion) -> tuple[int | None, dict[BrokerId, Ports]]:
    """Return free ports: for ZooKeeper if it is needed, and for each broker."""
    secured = SECURED if spec.security is not None else ()
    far = (Listener.FAR,) if spec.line is not None else ()
    lines = (*secured, *far) if spec.line is not None else ()
    each = 2 + len(secured) + len(far) + len(lines)
    numbers = iter(free_ports(each * spec.brokers + version.has_zookeeper))
    ports = {
        BrokerId(1 + index): Ports(
            next(numbers),
            next(numbers),
            *({listener: next(numbers) for listener in some} for some in (secured, far, lines)),
        )
        for index in range(spec.brokers)
    }
    return next(numbers) if version.has_zookeeper else None, ports


def _prepare(site: _Site, broker_id: BrokerId, java: Path, jars: Sequence[Path]) -> Broker:
    """Write one broker's files."""
    home, own = site.home(broker_id), site.ports[broker_id]
    overrides = {**site.spec.settings, **site.spec.own_settings.get(broker_id, {})}
    options = java_options(home, site.spec.heap_mb)
    if site.credentials is not None:
        authorizer = site.version.authorizer
        secured = security_properties(site.credentials, own.secured, authorizer=authorizer)
        overrides = {**secured, **overrides}
        options = (*options, *security_java_options(site.credentials))
    data = home / "data"
    properties = server_properties(
        broker_id, site.ports, data, overrides, zookeeper=site.zookeeper_port
    )
    write_settings(home, properties)
    if not site.version.has_zookeeper:
        checkpoint = bootstrap_checkpoint(java, jars, site.version.jars)
        format_folder(data, site.cluster_id, broker_id, checkpoint)
    command = (
        *(str(java), *options, *class_options(site.version.jars)),
        *("-cp", ":".join(map(str, (*jars, *site.spec.jars)))),
        *(MAIN_CLASS, str(home / "server.properties")),
    )
    endpoint = Endpoint(LOOPBACK, own.clients)
    return Broker(BrokerPlan(broker_id, endpoint, home, command, dies_with_owner=True))


def _new_folder(spec: ClusterSpec) -> Path:
    if spec.parent is not None:
        parent = spec.parent
    elif spec.storage is Storage.TMPFS:
        parent = TMPFS_FOLDER
    else:
        parent = Path(tempfile.gettempdir())
    if not parent.is_dir():
        raise SandboxError("the folder for a cluster's logs does not exist", folder=str(parent))
    return Path(tempfile.mkdtemp(prefix=f"heliostat-{spec.name}-", dir=parent))
