"""Two one-broker clusters, A to copy from and B to copy to, and their topics."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient
from measure import Brokers
from wire import Connection

from heliostat.sandbox import Cluster

HEAP_MB = 1024
SETTINGS = {
    # Files of deleted topics are gone within seconds, so that no part pays for the one before.
    "log.segment.delete.delay.ms": "1000",
}
TIMEOUT_S = 60.0
"""For topics to come or go, files included."""
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Pair:
    """The two running clusters."""

    a: Cluster
    b: Cluster

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
                doomed = set(client.list_topics()) - kept - {"__consumer_offsets"}
                if doomed:
                    client.delete_topics(sorted(doomed))
                until(
                    lambda client=client, doomed=doomed: not doomed & set(client.list_topics()),
                    f"topics {sorted(doomed)} to be deleted",
                )
            folder = cluster.brokers[0].log_folder
            until(lambda folder=folder: not list(folder.glob("*-delete")), f"files in {folder}")
        os.sync()


@contextlib.contextmanager
def pair_of_clusters() -> Iterator[Pair]:
    """Start both, stop both."""
    with (
        Cluster.start("bench-a", brokers=1, settings=SETTINGS, heap_mb=HEAP_MB) as a,
        Cluster.start("bench-b", brokers=1, settings=SETTINGS, heap_mb=HEAP_MB) as b,
    ):
        yield Pair(a, b)


@contextlib.contextmanager
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """A client for topics."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield client
    finally:
        client.close()


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic with the broker's settings and wait until it takes records."""
    with admin(bootstrap) as client, Connection(bootstrap) as broker:
        client.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
        until(
            lambda: len(broker.ends({topic: partitions}).get(topic, {})) == partitions,
            f"topic {topic} to have {partitions} partitions",
        )


def log_ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """End offset of each partition."""
    with Connection(bootstrap) as broker:
        return broker.ends({topic: partitions}).get(topic, {})


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a condition, with a deadline."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {TIMEOUT_S:.0f} s for {what}")
        time.sleep(LOOK_S)
