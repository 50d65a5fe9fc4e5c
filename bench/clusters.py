"""Two one-broker clusters, A to copy from and B to copy to, and their topics."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kafka.admin import KafkaAdminClient
from measure import Brokers
from reach import NEAR, Far, Way, offered, way
from wire import Connection

from heliostat_sandbox import KAFKA, Cluster, ClusterSpec, Storage, start_many
from heliostat_sandbox.settings import SMALL_HEAP_MB

NAMES = ("bench-a", "bench-b")
SIDES = ("source", "target")
HEAP_MB = 1024
KAFKA_VERSION = KAFKA.rpartition("-")[2]
SETTINGS = {
    # Files of deleted topics are removed within seconds, so that no part slows the next one.
    "log.segment.delete.delay.ms": "1000",
}
TIMEOUT_S = 60.0
"""Time limit for creating or deleting topics, files included."""
LOOK_S = 0.1
CREATED_AT_ONCE = 200
"""Topics in one request: well below a controller's limit (10,000 records)."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two running clusters."""

    a: Cluster
    b: Cluster
    secure: bool = False

    def ways(self) -> tuple[Way, Way]:
        """How a replicator connects to A and B."""
        return way(self.a, secure=self.secure), way(self.b, secure=self.secure)

    @property
    def source(self) -> str:
        """Bootstrap address of A."""
        return self.a.bootstrap

    @property
    def target(self) -> str:
        """Bootstrap address of B."""
        return self.b.bootstrap

    @property
    def logs(self) -> Path:
        """Folder of B's logs."""
        return self.b.brokers[0].log_folder

    def brokers(self) -> Brokers:
        """Addresses and process ids."""
        return Brokers(self.source, self.target, self.a.brokers[0].pid, self.b.brokers[0].pid)

    def clear(self, keep: str) -> None:
        """Delete every topic but the source's `keep`, wait for it, and write dirty pages out.

        MirrorMaker's own topics too: with its stored offsets the next one would have nothing to do.
        """
        for cluster, kept in ((self.a, {keep}), (self.b, set[str]())):
            with admin(cluster.bootstrap) as client:
                _delete(client, kept)
            _until_files_are_gone(cluster.brokers[0].log_folder)
        os.sync()


@contextlib.contextmanager
def pair_of_clusters(
    *,
    storage: Storage = Storage.DISK,
    heap_mb: int = HEAP_MB,
    secure: bool = False,
    small: bool = False,
    settings: Mapping[str, str] = MappingProxyType({}),
    far: Far = NEAR,
) -> Iterator[Pair]:
    """Start both, stop both at the end; `secure` adds listeners for the replicators.

    `settings` are the brokers', on top of those of all scenarios. The side that is `far` is so for
    the replicators; the benchmark itself fills, clears and polls it nearby.
    Brokers of a `small` run start quickly and are slow, see `heliostat_sandbox.settings`.
    """
    heap_mb = SMALL_HEAP_MB - 1 if small else heap_mb
    also = {"security": offered()} if secure else {}
    both = start_many(
        [
            ClusterSpec(
                name,
                settings={**SETTINGS, **settings},
                heap_mb=heap_mb,
                storage=storage,
                line=far.line(side),
                **also,
            )
            for name, side in zip(NAMES, SIDES, strict=True)
        ]
    )
    with both[0] as a, both[1] as b:
        yield Pair(a, b, secure)


@contextlib.contextmanager
def one_cluster(*, storage: Storage, heap_mb: int, small: bool = False) -> Iterator[Pair]:
    """Start A alone, as in `pair_of_clusters`: it is source and target of the pair."""
    heap_mb = SMALL_HEAP_MB - 1 if small else heap_mb
    spec = ClusterSpec(NAMES[0], settings=SETTINGS, heap_mb=heap_mb, storage=storage)
    with start_many([spec])[0] as a:
        yield Pair(a, a)


@contextlib.contextmanager
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """Return an admin client for topics."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield client
    finally:
        client.close()


def _delete(client: KafkaAdminClient, kept: set[str]) -> None:
    doomed = {name for name in client.list_topics() if not name.startswith("__")} - kept
    if doomed:
        client.delete_topics(sorted(doomed))
        until(lambda: not doomed & set(client.list_topics()), f"deletion of {sorted(doomed)}")


def _until_files_are_gone(folder: Path) -> None:
    until(lambda: not list(folder.glob("*-delete")), f"deletion of files in {folder}")


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic with the broker's settings and wait until it accepts records."""
    with admin(bootstrap) as client, Connection(bootstrap) as broker:
        client.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        until(
            lambda: len(broker.ends({topic: partitions}).get(topic, {})) == partitions,
            f"topic {topic} to have {partitions} partitions",
        )


def create_topics(bootstrap: str, topics: Mapping[str, int]) -> None:
    """Create topics by partition count and wait until all of them accept records."""
    names = list(topics)
    with admin(bootstrap) as client, Connection(bootstrap) as broker:
        for at in range(0, len(names), CREATED_AT_ONCE):
            some = {
                name: {"num_partitions": topics[name], "replication_factor": 1}
                for name in names[at : at + CREATED_AT_ONCE]
            }
            client.create_topics(some)
        due = sum(topics.values())
        until(
            lambda: sum(map(len, broker.ends(topics).values())) == due,
            f"{len(names)} topics to have {due} partitions",
        )


def log_ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Return the log end offset of each partition."""
    with Connection(bootstrap) as broker:
        return broker.ends({topic: partitions}).get(topic, {})


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a condition, with a deadline."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {TIMEOUT_S:.0f} s for {what}")
        time.sleep(LOOK_S)
