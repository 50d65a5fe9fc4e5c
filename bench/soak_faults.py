"""The faults of a soak, each over when its function returns; drawn by a seed.

Not among them is what ends in a stop that a person decides on, as strangers in a mirror, unclean
elections or state topics that are deleted: those have tests of their own, and here they would end
the run.
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

from heliostat_sandbox import Broker, Cluster

MOVED_WITHIN_S = 60.0


@dataclass(slots=True)
class Site:
    """All that can be broken."""

    source: Cluster
    target: Cluster
    driver: Driver
    chance: random.Random
    topics: Sequence[str] = tuple(load.topic for load in LOADS)

    def cluster(self) -> Cluster:
        """One of both."""
        return self.chance.choice([self.source, self.target])

    def broker(self) -> Broker:
        """Any broker of any side."""
        return self.chance.choice(self.cluster().brokers)

    def some_s(self, least_s: float, most_s: float) -> None:
        """Let a while pass."""
        time.sleep(self.chance.uniform(least_s, most_s))


def kill_broker(site: Site) -> None:
    """SIGKILL, and back after a while."""
    broker = site.broker()
    broker.kill()
    site.some_s(1, 20)
    broker.start()


def pause_broker(site: Site) -> None:
    """It takes connections, and answers nothing."""
    broker = site.broker()
    broker.pause()
    site.some_s(3, 40)
    broker.resume()


def restart_broker(site: Site) -> None:
    """A clean restart, as in a roll."""
    site.broker().restart()


def lose_majority(site: Site) -> None:
    """Two of three brokers of a side at once."""
    lost = site.chance.sample(site.cluster().brokers, 2)
    for broker in lost:
        broker.kill()
    site.some_s(3, 15)
    for broker in lost:
        broker.launch()
    for broker in lost:
        broker.wait_ready()


def move_leaders(site: Site) -> None:
    """Other preferred replicas, then their election."""
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
        with contextlib.suppress(KafkaError):  # a replica is not in sync: its leader stays
            client.elect_leaders(0, {topic: list(range(PARTITIONS)) for topic in site.topics})


def kill_driver(site: Site) -> None:
    """SIGKILL of the driver alone; the next one begins at once."""
    site.driver.kill()
    site.driver.start()


def kill_workers(site: Site) -> None:
    """SIGKILL of those that copy."""
    for worker in site.driver.workers():
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.kill()


def freeze_workers(site: Site) -> None:
    """SIGSTOP of those that copy, for longer than a round at times."""
    with site.driver.frozen(site.driver.workers()):
        site.some_s(1, 25)


def restart_driver(site: Site) -> None:
    """SIGTERM, a backlog, a new driver."""
    site.driver.stop()
    site.some_s(0, 30)
    site.driver.start()


def hand_over(site: Site) -> None:
    """A second instance waits, and takes over when the first is killed with all its processes."""
    second = site.driver.another()
    second.start()
    site.some_s(5, 15)
    site.driver.kill_all()
    site.driver.replace_by(second)


def freeze_owner(site: Site) -> None:
    """The whole of the first stands still until a second has taken over; then it wakes."""
    second = site.driver.another()
    with site.driver.frozen(site.driver.tree()):
        second.start()
        second.wait_owner()
    site.some_s(5, 15)  # one of several links waits for its turn again: it must not send meanwhile
    site.driver.kill_all()
    site.driver.replace_by(second)


FAULTS: tuple[tuple[int, Callable[[Site], None]], ...] = (
    (5, kill_broker),
    (4, pause_broker),
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
"""With how often each is drawn."""


def draw(chance: random.Random) -> Callable[[Site], None]:
    """The next one."""
    return chance.choices([fault for _, fault in FAULTS], [weight for weight, _ in FAULTS])[0]
