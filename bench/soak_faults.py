"""The faults of a soak, drawn by a seed; each is over when its function returns.

Faults that end in a stop that a person decides on are not among them, such as foreign records in a
mirror, unclean elections or deleted state topics: those have their own tests, and here they would
end the run.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil
from clusters import admin
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError
from soak_link import Driver
from soak_load import LOADS, PARTITIONS, REPLICAS

from heliostat.clusters.admin import ClusterAdmin
from heliostat.errors import HeliostatError
from heliostat_sandbox import Broker, Cluster

MOVED_WITHIN_S = 60.0


@dataclass(slots=True)
class Site:
    """All that a fault can break."""

    source: Cluster
    target: Cluster
    driver: Driver
    chance: random.Random
    topics: Sequence[str] = tuple(load.topic for load in LOADS)

    def cluster(self) -> Cluster:
        """Return one of both clusters."""
        return self.chance.choice([self.source, self.target])

    def broker(self) -> Broker:
        """Return any broker of any side."""
        return self.chance.choice(self.cluster().brokers)

    def some_s(self, least_s: float, most_s: float) -> None:
        """Sleep for a random time in this range."""
        time.sleep(self.chance.uniform(least_s, most_s))


def kill_broker(site: Site) -> None:
    """Kill a broker with SIGKILL, and restart it after a while."""
    broker = site.broker()
    broker.kill()
    site.some_s(1, 20)
    broker.start()


def pause_broker(site: Site) -> None:
    """Pause a broker: it accepts connections, and answers nothing."""
    broker = site.broker()
    broker.pause()
    site.some_s(3, 40)
    broker.resume()


def depose_broker(site: Site) -> None:
    """Pause a broker until others lead in its place and have taken records; then it goes on.

    For a moment it answers as the leader that it was, with a log that ends before theirs.
    """
    cluster = site.cluster()
    broker = site.chance.choice(cluster.brokers)
    others = [other for other in cluster.brokers if other is not broker]
    with ClusterAdmin([str(other.endpoint) for other in others]) as client:
        broker.pause()
        try:
            until_s = time.monotonic() + MOVED_WITHIN_S
            while _leads(client, broker) and time.monotonic() < until_s:
                time.sleep(0.2)
            site.some_s(1, 5)
        finally:
            broker.resume()


def _leads(client: ClusterAdmin, broker: Broker) -> bool:
    """Whether the other brokers still take it for a leader."""
    try:
        topics = client.describe_topics().values()
    except HeliostatError:
        return True
    return any(info.leader == broker.broker_id for topic in topics for info in topic.partitions)


def restart_broker(site: Site) -> None:
    """Restart a broker cleanly, as in a rolling restart."""
    site.broker().restart()


def lose_majority(site: Site) -> None:
    """Kill two of three brokers of a side at once."""
    lost = site.chance.sample(site.cluster().brokers, 2)
    for broker in lost:
        broker.kill()
    site.some_s(3, 15)
    for broker in lost:
        broker.launch()
    for broker in lost:
        broker.wait_ready()


def move_leaders(site: Site) -> None:
    """Reassign preferred replicas, then elect them."""
    orders = {}
    for topic in site.topics:
        for partition in range(PARTITIONS):
            replicas = list(range(1, REPLICAS + 1))
            site.chance.shuffle(replicas)
            orders[KafkaPartition(topic, partition)] = replicas
    with admin(site.cluster().bootstrap) as client:
        client.alter_partition_reassignments(orders)
        until_s = time.monotonic() + MOVED_WITHIN_S
        while client.list_partition_reassignments() and time.monotonic() < until_s:
            time.sleep(0.5)
        with contextlib.suppress(KafkaError):  # a replica is not in sync: the leader stays
            client.elect_leaders(0, {topic: list(range(PARTITIONS)) for topic in site.topics})


def kill_driver(site: Site) -> None:
    """Kill the driver alone with SIGKILL; the next one starts at once."""
    site.driver.kill()
    site.driver.start()


def kill_workers(site: Site) -> None:
    """Kill the workers that copy with SIGKILL."""
    for worker in site.driver.workers():
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.kill()


def freeze_workers(site: Site) -> None:
    """Pause the workers that copy with SIGSTOP, sometimes for longer than a round."""
    with site.driver.frozen(site.driver.workers()):
        site.some_s(1, 25)


def restart_driver(site: Site) -> None:
    """Stop the driver with SIGTERM, let a backlog grow, start a new driver."""
    site.driver.stop()
    site.some_s(0, 30)
    site.driver.start()


def hand_over(site: Site) -> None:
    """Start a standby that takes over when the first is killed with all its processes."""
    second = site.driver.another()
    second.start()
    site.some_s(5, 15)
    site.driver.kill_all()
    site.driver.replace_by(second)


def freeze_owner(site: Site) -> None:
    """Pause all processes of the owner until a standby has taken over; then resume them."""
    second = site.driver.another()
    with site.driver.frozen(site.driver.tree()):
        second.start()
        second.wait_owner()
    site.some_s(
        5, 15
    )  # one of several links may be waiting as a standby again: it must not send meanwhile
    site.driver.kill_all()
    site.driver.replace_by(second)


FAULTS: tuple[tuple[int, Callable[[Site], None]], ...] = (
    (5, kill_broker),
    (4, pause_broker),
    (3, depose_broker),
    (2, restart_broker),
    (2, lose_majority),
    (3, move_leaders),
    (2, kill_driver),
    (3, kill_workers),
    (2, freeze_workers),
    (2, restart_driver),
    (2, hand_over),
    (2, freeze_owner),
)
"""Weight and function of each fault."""


def draw(chance: random.Random) -> Callable[[Site], None]:
    """Draw the next fault."""
    return chance.choices([fault for _, fault in FAULTS], [weight for weight, _ in FAULTS])[0]
