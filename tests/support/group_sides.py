"""A topic at both sides as a link leaves it, and a link's groups without the link."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kafka.errors import CommitFailedError, RebalanceInProgressError
from kafka.structs import OffsetAndMetadata
from support.clusters import ClusterPair, create_topic, fresh_name, until

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.config import GroupsConfig
from heliostat.errors import BrokerError
from heliostat.groups.apply import Committers
from heliostat.groups.naming import SAME_NAMES, GroupNaming
from heliostat.groups.plan import GroupDecision
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.sync import GroupSync
from heliostat.groups.values import CommitDecision
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.landed import Landed
from heliostat.offsets.offset_map import Break, MapReader, OffsetMap
from heliostat.ops.events import Events
from heliostat.topics.values import MirrorRecord

REJOINS_WITHIN_S = 15.0
"""A consumer that lost its membership on a slow day was seen to commit no more (kafka-python
3.0.12): then another one takes its place."""
MANY = 500
"""Records of a poll, where the number per poll doesn't matter."""


def write_values(bootstrap: str, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
    """Write one record per value, in order."""
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
    try:
        for value in values:
            producer.send(topic, key=value, value=value, partition=partition)
        producer.flush()
    finally:
        producer.close()


class Reader:
    """A consumer of a topic of one partition, member of a group; leaves at the end of the block."""

    def __init__(self, bootstrap: str, topic: str, group: str, **settings: Any) -> None:
        self._topic = topic
        self._records: dict[int, bytes] = {}
        self._settings = {
            "bootstrap_servers": bootstrap.split(","),
            "group_id": group,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            **settings,
        }
        self.consumer = self._subscribed()

    def _subscribed(self) -> KafkaConsumer:
        consumer = KafkaConsumer(**self._settings)
        # A consumer that joins before it knows the topic is assigned nothing, and may not rejoin.
        until(lambda: consumer.partitions_for_topic(self._topic), f"topic {self._topic}")
        consumer.subscribe([self._topic])
        return consumer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    @property
    def seen(self) -> list[bytes]:
        """Values in offset order; a rebalance may make it read some again."""
        return [self._records[offset] for offset in sorted(self._records)]

    def commit(self, count: int) -> None:
        """Commit the position after the first `count` records that it has read."""
        row = OffsetAndMetadata(sorted(self._records)[count - 1] + 1, "", -1)
        since_s = time.monotonic()

        def is_done() -> bool:
            nonlocal since_s
            try:
                self.consumer.commit({KafkaPartition(self._topic, 0): row})
            except (CommitFailedError, RebalanceInProgressError):
                if time.monotonic() - since_s > REJOINS_WITHIN_S:
                    self.consumer.close()
                    self.consumer, since_s = self._subscribed(), time.monotonic()
                self._polled()
                return False
            return True

        until(is_done, "the commit")

    def join(self) -> None:
        """Wait until it is a member with partitions, and has read a record if there is one."""
        until(lambda: self._polled() and self.consumer.assignment(), "a member of the group")

    def read(self, count: int) -> list[bytes]:
        """Read until it has `count` values; return all of them."""
        until(
            lambda: self._polled(max(1, count - len(self._records))) and len(self.seen) >= count,
            lambda: f"{count} records, there are {len(self.seen)}",
        )
        return self.seen

    def read_to_end(self) -> list[bytes]:
        """Read to the current end; return all values so far."""
        self.join()
        [partition] = self.consumer.assignment()
        end = self.consumer.end_offsets([partition])[partition]
        until(
            lambda: self._polled(MANY) and self.consumer.position(partition) >= end,
            f"offset {end}",
        )
        return self.seen

    def _polled(self, at_most: int = 1) -> Literal[True]:
        for records in self.consumer.poll(timeout_ms=200, max_records=at_most).values():
            self._records |= {record.offset: record.value for record in records}
        return True


@dataclass
class Sides:
    """One topic of one partition at both sides, its map, and a link's groups."""

    pair: ClusterPair
    configs: Mapping[str, str] = field(default_factory=dict)
    breaks: list[Break] = field(default_factory=list)
    copied_to: dict[TopicPartition, int] = field(default_factory=dict)
    naming: GroupNaming = SAME_NAMES

    def __post_init__(self) -> None:
        self._open = ExitStack()
        self.topic = create_topic(self.pair.source, configs=self.configs)
        self.mirror = create_topic(self.pair.target, f"east.{self.topic}", configs=self.configs)
        self.link = LinkName(fresh_name("link"))
        self.source = self._open.enter_context(ClusterAdmin(self.source_bootstrap))
        self.target = self._open.enter_context(ClusterAdmin(self.target_bootstrap))
        self._committers = self._open.enter_context(
            closing(Committers(self.target, lambda: ClusterAdmin(self.target_bootstrap)))
        )
        wait_for_coordinators(self.source_bootstrap, self.target_bootstrap)
        self.decided: dict[GroupId, GroupDecision] = {}
        self.record = MirrorRecord(
            source=self.topic,
            target=self.mirror,
            source_id=self.source.describe_topics([self.topic])[self.topic].topic_id,
            target_id=self.target.describe_topics([self.mirror])[self.mirror].topic_id,
            source_cluster=self.source.cluster_id(),
            start="earliest",
            initial_partitions=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def source_bootstrap(self) -> str:
        """Bootstrap address of the source."""
        return self.pair.source.bootstrap

    @property
    def target_bootstrap(self) -> str:
        """Bootstrap address of the target."""
        return self.pair.target.bootstrap

    def sync(self, guard: Callable[[], None] = lambda: None, **groups: Any) -> GroupSync:
        """Run a turn of groups as a new driver does, which knows only what is on the target."""
        memory = self._open.enter_context(closing(PublishedOffsets(self._access(), self.link)))
        return GroupSync(
            GroupsConfig(sync=True, **groups),
            self.source,
            self._committers,
            memory,
            mirrors=lambda: {self.topic: self.record},
            maps=self._maps,
            positions=lambda: {each: Landed(at) for each, at in self.copied_to.items()},
            replication_factor=1,
            clock=SystemClock(),
            events=Events(SystemClock().wall_ms),
            guard=guard,
            on_decided=self.decided.update,
            naming=self.naming,
        )

    def commit(
        self, group: str, offset: int, metadata: str = "", *, at_target: bool = False
    ) -> None:
        """Commit as an administrator would."""
        admin, topic = (self.target, self.mirror) if at_target else (self.source, self.topic)
        row = {partition_of(topic): CommittedOffset(Offset(offset), metadata)}
        answer = admin.commit_offsets({GroupId(group): row})[GroupId(group)]
        assert answer == dict.fromkeys(row), answer

    def at_target(self, group: str) -> CommittedOffset | None:
        """Return the group's committed offset of the mirror."""
        found = self.target.committed_offsets([GroupId(group)])[GroupId(group)]
        assert not isinstance(found, BrokerError), found
        answer = found.get(partition_of(self.mirror))
        assert not isinstance(answer, BrokerError), answer
        return answer

    def row(self, group: str) -> CommitDecision:
        """Return the last decision on the group's one partition of the topic."""
        rows = self.decided[GroupId(group)].partitions
        return next(row for row in rows if row.source.topic == self.topic)

    def _access(self) -> Sequence[str]:
        return self.target_bootstrap.split(",")

    def _maps(self) -> MapReader:
        name = (partition_of(self.mirror), str(self.record.target_id))
        return MapReader(maps={name: OffsetMap.of(self.breaks)})


def wait_for_coordinators(*bootstraps: str) -> None:
    """Wait until the clusters accept commits: the first request creates the offsets topic."""
    for bootstrap in bootstraps:
        with ClusterAdmin(bootstrap.split(",")) as admin:
            until(partial(_has_coordinators, admin), "the topic of offsets to be made")


def _has_coordinators(admin: ClusterAdmin) -> bool:
    group = GroupId(fresh_name("nobody"))
    return not isinstance(admin.committed_offsets([group])[group], BrokerError)


def partition_of(topic: str) -> TopicPartition:
    """Return its first partition."""
    return TopicPartition(TopicName(topic), PartitionId(0))
