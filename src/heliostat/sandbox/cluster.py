"""Clusters of real KRaft brokers on loopback, started in seconds, gone without a trace."""

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
from heliostat.sandbox.broker import MAIN_CLASS, READY_TIMEOUT_S, Broker, BrokerPlan
from heliostat.sandbox.jars import KAFKA, ensure_jars
from heliostat.sandbox.java import find_java
from heliostat.sandbox.ports import LOOPBACK, free_ports
from heliostat.sandbox.settings import Ports, java_options, server_properties, write_settings
from heliostat.sandbox.storage import bootstrap_checkpoint, format_folder, new_cluster_id

HEAP_MB = 512
BROKER_COUNTS = (1, 3)
"""Two voters survive no loss, more than three only take memory."""
START_ATTEMPTS = 3
"""Somebody may take a free port before the broker does; with other ports it works."""
BIND_FAILURE = "Address already in use"


class Storage(Enum):
    """Where the logs of a cluster are kept."""

    DISK = "disk"
    TMPFS = "tmpfs"
    """In memory: no stalls by the disk, for measuring latency with thousands of partitions."""


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


class Cluster:
    """A running cluster. As a context manager it stops when the block ends.

    Parameters
    ----------
    name
        Its name, in folders and errors.
    cluster_id
        The id it was formatted with.
    folder
        Holds a folder for each broker.
    brokers
        Its brokers, by rising id.
    """

    def __init__(
        self, name: str, cluster_id: ClusterId, folder: Path, brokers: Sequence[Broker]
    ) -> None:
        self.name = name
        self.cluster_id = cluster_id
        self.folder = folder
        self.brokers = tuple(brokers)

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
    ) -> Cluster:
        """Start a cluster of 1 or 3 brokers and wait until all of them serve.

        Its processes die with this one, whatever ends it.

        Parameters
        ----------
        name
            For folders and errors; need not be unique.
        brokers
            1 or 3.
        settings
            Broker settings that win over the sandbox's own.
        storage
            Where logs are kept.
        heap_mb
            `-Xmx` of each broker.
        parent
            Folder to put the cluster's folder in; a temporary one by default.

        Raises
        ------
        SandboxError
            It did not start; the text holds the end of broker.log. Nothing is left running.
        """
        spec = ClusterSpec(name, brokers, dict(settings or {}), storage, heap_mb, parent)
        return start_many([spec])[0]

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, `host:port` with commas between."""
        return ",".join(str(broker.endpoint) for broker in self.brokers)

    def stop(self) -> None:
        """End all brokers at once and delete the cluster's folder.

        They are killed: nothing of them is kept, and a clean shutdown takes seconds. Use the
        brokers' own `stop` for a clean one.
        """
        try:
            with contextlib.ExitStack() as each:  # a failure of one does not spare the others
                for broker in self.brokers:
                    each.callback(broker.kill)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every broker serves.

        Raises
        ------
        SandboxError
            One ended, or did not get there in time.
        """
        for broker in self.brokers:
            broker.wait_ready(timeout_s)

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
    """Start several clusters at the same time, which takes hardly longer than one.

    Raises
    ------
    SandboxError
        One did not start; then none is left running.
    """
    started: list[Cluster] = []
    try:
        started.extend(_launch(spec) for spec in specs)  # keeps those made before one fails
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
            return


def _launch(spec: ClusterSpec) -> Cluster:
    """Write a cluster's files and start its processes; does not wait for them."""
    if spec.brokers not in BROKER_COUNTS:
        raise SandboxError(
            "a sandbox cluster has 1 or 3 brokers", name=spec.name, brokers=spec.brokers
        )
    java = find_java()
    jars = ensure_jars(KAFKA)
    checkpoint = bootstrap_checkpoint(java, jars)
    folder = _new_folder(spec)
    cluster_id = new_cluster_id()
    numbers = free_ports(2 * spec.brokers)
    ports = {
        BrokerId(1 + index): Ports(numbers[2 * index], numbers[2 * index + 1])
        for index in range(spec.brokers)
    }
    brokers = []
    for broker_id, own in ports.items():
        home = folder / f"broker-{broker_id}"
        home.mkdir()
        properties = server_properties(broker_id, ports, home / "data", spec.settings)
        write_settings(home, properties)
        format_folder(home / "data", cluster_id, broker_id, checkpoint)
        command = (
            str(java),
            *java_options(home, spec.heap_mb),
            *("-cp", ":".join(map(str, jars)), MAIN_CLASS, str(home / "server.properties")),
        )
        endpoint = Endpoint(LOOPBACK, own.clients)
        plan = BrokerPlan(broker_id, endpoint, home, command, dies_with_owner=True)
        brokers.append(Broker(plan))
    cluster = Cluster(spec.name, cluster_id, folder, brokers)
    try:
        for broker in brokers:
            broker.launch()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _new_folder(spec: ClusterSpec) -> Path:
    if spec.parent is not None:
        parent = spec.parent
    elif spec.storage is Storage.TMPFS:
        parent = TMPFS_FOLDER
    else:
        parent = Path(tempfile.gettempdir())
    if not parent.is_dir():
        raise SandboxError("the folder for a cluster's logs is not there", folder=str(parent))
    return Path(tempfile.mkdtemp(prefix=f"heliostat-{spec.name}-", dir=parent))
