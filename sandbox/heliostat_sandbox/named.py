"""Named clusters that outlive the command that started them, and their state files.

Every cluster has a folder `<state>/<name>` with `cluster.json`: ids, ports, and the pid *and* start
time of every broker, so that `down` ends exactly the processes that `up` started.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heliostat.errors import Refused, SandboxError
from heliostat.names import BrokerId, ClusterId, Endpoint
from heliostat_sandbox.broker import Broker, BrokerPlan
from heliostat_sandbox.cluster import Cluster, ClusterSpec, Storage, start_many
from heliostat_sandbox.process import OwnProcess, ProcessId
from heliostat_sandbox.registry import SandboxRegistry
from heliostat_sandbox.security import Listener, Mechanism, SandboxSecurity
from heliostat_sandbox.versions import KAFKA_4_3, kafka_version

STATE_FILE = "cluster.json"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
"""Names that are valid for a folder and a link, and need no quotes in a shell."""


BLOCK_BYTES = 512
"""Unit of `st_blocks` on any file system (POSIX)."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker of a named cluster; `log_bytes` counts all files of its logs."""

    broker_id: int
    pid: int
    address: str
    alive: bool
    paused: bool
    log_folder: str
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Secured:
    """What a client needs to reach a secured cluster with a password over TLS."""

    bootstrap: str
    ca_file: str
    mechanism: str
    username: str
    password_file: str


@dataclass(frozen=True, slots=True)
class RegistryStatus:
    """The schema registry beside a named cluster."""

    url: str
    pid: int
    alive: bool


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A named cluster as `heliostat sandbox status` shows it."""

    name: str
    cluster_id: str
    bootstrap: str
    storage: str
    brokers: tuple[BrokerStatus, ...]
    secured: Secured | None = None
    registry: RegistryStatus | None = None

    @property
    def alive(self) -> bool:
        """Whether all its brokers run, and its registry."""
        beside = self.registry is None or self.registry.alive
        return beside and all(broker.alive for broker in self.brokers)


def state_folder() -> Path:
    """Return `heliostat/sandbox` in the user's state folder."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "heliostat" / "sandbox"


def up(
    names: Sequence[str],
    *,
    brokers: int = 1,
    settings: Mapping[str, str] | None = None,
    storage: Storage = Storage.DISK,
    heap_mb: int = 512,
    version: str = KAFKA_4_3,
    security: SandboxSecurity | None = None,
    has_registry: bool = False,
) -> list[Cluster]:
    """Start several clusters at once, which keep running; those already running are left alone.

    With `has_registry` a schema registry runs beside each, also beside those.

    Raises
    ------
    Refused
        A name is invalid, brokers of that cluster are dead, or the version needs a ZooKeeper.
    SandboxError
        One did not start; then none of the new ones is left running.
    """
    for name in names:
        if not NAME.fullmatch(name):
            raise Refused(
                "invalid cluster name", name=name, hint="use small letters, digits and dashes"
            )
    if kafka_version(version).has_zookeeper:
        raise Refused("a named cluster can't have a ZooKeeper", version=version)
    with _locked():
        found = {name: cluster for name in names if (cluster := open_cluster(name)) is not None}
        for name, cluster in found.items():
            if not all(broker.is_alive() for broker in cluster.brokers):
                raise Refused(
                    "brokers of this cluster are dead",
                    hint=f"heliostat sandbox start {name} brings them back with their data",
                    name=name,
                )
        specs = [
            ClusterSpec(
                name,
                brokers,
                dict(settings or {}),
                storage,
                heap_mb,
                _own_folder(name) if storage is Storage.DISK else None,
                version,
                security,
            )
            for name in dict.fromkeys(names)
            if name not in found
        ]
        for cluster in start_many(specs):
            _save(cluster, storage, None if security is None else _secured(cluster))
            for broker in cluster.brokers:
                broker.let_go()  # only after it was saved: no process may run unknown
            found[cluster.name] = cluster
        if has_registry:
            with ThreadPoolExecutor() as each:
                list(each.map(_ensure_registry, found))
    return [found[name] for name in names]


def down(names: Sequence[str] = ()) -> list[str]:
    """Stop the named clusters (all by default), delete their folders, and return their names.

    Raises
    ------
    Refused
        There is no cluster of that name.
    """
    stopped = []
    with _locked():
        for name in names or known_names():
            cluster = open_cluster(name)
            if cluster is None:
                raise Refused("no such sandbox cluster", name=name, known=known_names())
            cluster.stop()
            if (registry := open_registry(name)) is not None:
                registry.stop()
            shutil.rmtree(state_folder() / name)
            stopped.append(name)
    return stopped


def stop(name: str, brokers: Sequence[int] = (), *, kill: bool = False) -> None:
    """Stop brokers of a cluster (all by default), or kill them; their data stays.

    Raises
    ------
    Refused
        There is no such cluster, or no such broker of it.
    SandboxError
        One did not stop in time, and was killed.
    """
    with _brokers(name, brokers) as found, contextlib.ExitStack() as each:
        for broker in found:  # whatever becomes of the others
            each.callback(broker.kill if kill else broker.stop)


def start(name: str, brokers: Sequence[int] = ()) -> None:
    """Start brokers of a cluster (all by default) with their data; those that run are left alone.

    Raises
    ------
    Refused
        There is no such cluster, or no such broker of it.
    SandboxError
        One does not start; the text has the end of its log.
    """
    with _brokers(name, brokers) as found:
        for broker in found:
            broker.launch()
        for broker in found:  # of three, none serves before two run
            broker.wait_ready()


def pause(name: str, brokers: Sequence[int] = ()) -> None:
    """Freeze brokers of a cluster (all by default). Raises `Refused` as `stop`."""
    with _brokers(name, brokers) as found:
        for broker in found:
            if broker.is_alive():
                broker.pause()


def resume(name: str, brokers: Sequence[int] = ()) -> None:
    """Let frozen brokers of a cluster (all by default) go on. Raises `Refused` as `stop`."""
    with _brokers(name, brokers) as found:
        for broker in found:
            broker.resume()


@contextlib.contextmanager
def _brokers(name: str, wanted: Sequence[int]) -> Iterator[list[Broker]]:
    with _locked():
        cluster = open_cluster(name)
        if cluster is None:
            raise Refused("no such sandbox cluster", name=name, known=known_names())
        known = {int(broker.broker_id): broker for broker in cluster.brokers}
        if unknown := [number for number in wanted if number not in known]:
            raise Refused("no such broker", name=name, brokers=unknown, known=sorted(known))
        yield [known[number] for number in (wanted or sorted(known))]


def status(names: Sequence[str] = ()) -> list[ClusterStatus]:
    """Return the status of the named clusters (all by default).

    Raises
    ------
    Refused
        There is no cluster of that name.
    """
    found = []
    for name in names or known_names():
        cluster = open_cluster(name)
        if cluster is None:
            raise Refused("no such sandbox cluster", name=name, known=known_names())
        rows = tuple(
            BrokerStatus(
                broker.broker_id,
                broker.pid,
                str(broker.endpoint),
                broker.is_alive(),
                broker.is_paused(),
                str(broker.log_folder),
                folder_bytes(broker.log_folder),
            )
            for broker in cluster.brokers
        )
        state = _read(name)
        secured = Secured(**state["secured"]) if state.get("secured") else None
        found.append(
            ClusterStatus(
                name,
                cluster.cluster_id,
                cluster.bootstrap,
                state["storage"],
                rows,
                secured,
                _registry_status(name),
            )
        )
    return found


def known_names() -> list[str]:
    """Return the names of all clusters with a state file."""
    return sorted(path.parent.name for path in state_folder().glob(f"*/{STATE_FILE}"))


def open_cluster(name: str) -> Cluster | None:
    """Return a named cluster, whose brokers can be stopped or restarted; None if there is none."""
    if not (state_folder() / name / STATE_FILE).is_file():
        return None
    state = _read(name)
    brokers: list[Broker] = []
    folder = Path(state["folder"])
    cluster_id = ClusterId(state["cluster_id"])

    def write_down() -> None:
        secured = Secured(**state["secured"]) if state.get("secured") else None
        cluster = Cluster(name, cluster_id, folder, brokers)
        _save(cluster, Storage(state["storage"]), secured, _read(name).get("registry"))

    for row in state["brokers"]:
        plan = BrokerPlan(
            BrokerId(row["broker_id"]),
            Endpoint(row["host"], row["port"]),
            Path(row["folder"]),
            tuple(row["command"]),
            dies_with_owner=False,
            on_start=write_down,
        )
        process = OwnProcess(ProcessId(row["pid"], row["started_at_s"]))
        brokers.append(Broker(plan, process))
    return Cluster(name, cluster_id, folder, brokers)


def open_registry(name: str) -> SandboxRegistry | None:
    """Return the registry beside a named cluster; None if it has none."""
    row = _read(name).get("registry")
    if row is None:
        return None
    process = OwnProcess(ProcessId(row["pid"], row["started_at_s"]))
    return SandboxRegistry(tuple(row["command"]), Path(row["folder"]), row["port"], process)


def _registry_status(name: str) -> RegistryStatus | None:
    registry = open_registry(name)
    if registry is None:
        return None
    return RegistryStatus(registry.url, registry.identity.pid, registry.is_alive)


def _ensure_registry(name: str) -> None:
    """Start the registry beside a cluster, unless it runs; one that has died begins empty."""
    registry = open_registry(name)
    if registry is None:
        registry = SandboxRegistry.start()
    else:
        registry.resume()
    row = {**asdict(registry.identity), "folder": str(registry.folder), "port": registry.port}
    _write(name, {**_read(name), "registry": {**row, "command": list(registry.command)}})
    registry.let_go()


def folder_bytes(folder: Path) -> int:
    """Return the bytes that files below `folder` take on disk (index files are mostly holes)."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a segment may be deleted meanwhile
                total += (Path(place) / name).lstat().st_blocks * BLOCK_BYTES
    return total


def _own_folder(name: str) -> Path:
    folder = state_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _read(name: str) -> dict[str, Any]:
    path = state_folder() / name / STATE_FILE
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SandboxError("the state of a cluster can't be read", file=str(path)) from error
    return state


def _secured(cluster: Cluster) -> Secured:
    """Return what the first user of a cluster with `SandboxSecurity` needs."""
    credentials = cluster.credentials
    user = next(iter(credentials.security.users))
    mechanism = Mechanism.SCRAM_SHA_512
    return Secured(
        credentials.bootstraps[Listener.SASL_SSL],
        str(credentials.ca_file),
        mechanism.value,
        user,
        str(credentials.folder / f"{user}.password"),
    )


def _save(
    cluster: Cluster,
    storage: Storage,
    secured: Secured | None = None,
    registry: Mapping[str, Any] | None = None,
) -> None:
    rows = []
    for broker in cluster.brokers:
        if broker.process is None:
            raise SandboxError("the broker was never started", broker=broker.broker_id)
        rows.append(
            {
                "broker_id": broker.broker_id,
                "host": broker.endpoint.host,
                "port": broker.endpoint.port,
                "pid": broker.process.identity.pid,
                "started_at_s": broker.process.identity.started_at_s,
                "folder": str(broker.folder),
                "command": list(broker.command),
            }
        )
    state = {
        "name": cluster.name,
        "cluster_id": cluster.cluster_id,
        "folder": str(cluster.folder),
        "storage": storage.value,
        "brokers": rows,
        "secured": None if secured is None else asdict(secured),
        "registry": registry,
    }
    _write(cluster.name, state)


def _write(name: str, state: Mapping[str, Any]) -> None:
    path = _own_folder(name) / STATE_FILE
    part = path.with_suffix(".part")
    part.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
    part.replace(path)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Allow one `up` or `down` at a time."""
    state_folder().mkdir(parents=True, exist_ok=True)
    with (state_folder() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
