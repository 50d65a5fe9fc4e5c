"""A cluster in memory: topics with logs, groups, and what goes wrong when it is told to.

`SimulatedAdmin` answers from it as `ClusterAdmin` does from a real one; both are held to the calls
in `support.admin_contract`. What a cluster of brokers without an authorizer cannot show (hidden
topics, lost connections, leaders that are away) is told here and not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sim.log_batches import TRANSACTIONAL, Fields, Kept, encode
from sim.partition_log import PartitionLog

from heliostat.clusters.admin import BrokerInfo, CommittedOffset, GroupMember, TopicInfo
from heliostat.clusters.admin.values import PartitionInfo
from heliostat.errors import BrokerError, ConnectionLost, kafka_error
from heliostat.names import (
    BrokerId,
    ClusterId,
    GroupId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
)

NOW_MS = 1_750_000_000_000


def error(code: int, what: str) -> BrokerError:
    """As the admin client gives it."""
    return BrokerError(f"{what}: {kafka_error(code).name}", kafka_code=code)


@dataclass
class SimulatedTopic:
    """`topic_id` is None where brokers older than 2.8 are played."""

    name: TopicName
    topic_id: TopicId | None
    logs: list[PartitionLog]
    replicas: tuple[BrokerId, ...]
    configs: dict[str, str] = field(default_factory=dict)
    known_configs: Mapping[str, str] = field(default_factory=dict)
    """What brokers know that have not heard of the last change yet, see `settings_behind`."""
    is_internal: bool = False

    def change(self, values: Mapping[str, str | None]) -> None:
        """Set values, and unset those given as None."""
        self.known_configs = dict(self.configs)
        kept = {key: value for key, value in self.configs.items() if key not in values}
        self.configs = kept | {key: value for key, value in values.items() if value is not None}

    def info(self, failed: Mapping[Hashable, BrokerError]) -> TopicInfo:
        """As metadata has it; a partition that fails has no leader."""
        partitions: list[PartitionInfo] = []
        for number, log in enumerate(self.logs):
            refused = failed.get(TopicPartition(self.name, PartitionId(number)))
            partitions.append(
                PartitionInfo(
                    PartitionId(number),
                    self.replicas[0] if refused is None else None,
                    LeaderEpoch(log.leader_epoch),
                    self.replicas,
                    self.replicas,
                    refused,
                )
            )
        return TopicInfo(self.name, self.topic_id, tuple(partitions), self.is_internal)


@dataclass
class SimulatedGroup:
    """A consumer group; `kind` is `classic` or `consumer`."""

    kind: str = "classic"
    protocol: str = ""
    members: list[GroupMember] = field(default_factory=list)
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """Rebalances end at once here."""
        return "Stable" if self.members else "Empty"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the admin client: its name, what it asked about, and what of each (offsets)."""

    method: str
    items: tuple[Hashable, ...]
    values: tuple[Hashable, ...] = ()


@dataclass(slots=True)
class Fault:
    """An error code in place of answers; `left` counts calls, None: until healed."""

    method: str
    code: int
    items: tuple[Hashable, ...]
    left: int | None

    def found_in(self, call: Call) -> set[Hashable]:
        """Which items of a call it concerns; a topic's name stands for its partitions, too.

        Of a call without items it is the call itself.
        """
        if not self.items:
            return set(call.items) or {self.method}
        asked = set(call.items)
        of_topics = {each for each in asked if _topic_of(each) in self.items}
        of_partitions = {each for each in self.items if _topic_of(each) in asked}
        return (asked & set(self.items)) | of_topics | of_partitions


def _topic_of(item: Hashable) -> Hashable:
    return item.topic if isinstance(item, TopicPartition) else None


class SimulatedCluster:
    """State that outlives the connections to it.

    Parameters
    ----------
    inherited
        Settings of topics that the brokers set for all.
    """

    def __init__(
        self,
        cluster_id: str = "simulated",
        *,
        brokers: int = 1,
        inherited: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster_id = ClusterId(cluster_id)
        self.brokers = tuple(
            BrokerInfo(BrokerId(number + 1), "127.0.0.1", 9092 + number, None)
            for number in range(brokers)
        )
        self.inherited = dict(inherited or {})
        self.broker_settings: dict[str, str] = {}
        self.transactional_ids: dict[int, str] = {}
        """Of producers that have one."""
        self.topics: dict[TopicName, SimulatedTopic] = {}
        self.groups: dict[GroupId, SimulatedGroup] = {}
        self.hidden: set[TopicName] = set()
        """Topics that our user has no right to see."""
        self.calls: list[Call] = []
        self.answered: Callable[[Call], None] = self.calls.append
        """Told of each call before it is served."""
        self.is_down = False
        """No broker answers."""
        self.settings_behind = 0
        """Looks at settings that still see what was before the last change."""
        self.producer_ids = 0
        self._faults: list[Fault] = []
        self._ids = 0

    # -- what is told --------------------------------------------------------------------------

    def fail(self, method: str, code: int, *items: Hashable, times: int | None = None) -> None:
        """Answer an error code for items (all, without any) of a method, so many calls long.

        Of `describe_topics` a topic's name fails as a whole, a partition is without a leader.
        """
        self._faults.append(Fault(method, code, items, times))

    def heal(self) -> None:
        """From now on nothing fails."""
        self._faults.clear()
        self.is_down = False

    def asked(self, method: str) -> list[tuple[Hashable, ...]]:
        """What each call of a method asked for."""
        return [call.items for call in self.calls if call.method == method]

    def take(
        self, method: str, items: Iterable[Hashable] = (), values: Iterable[Hashable] = ()
    ) -> dict[Hashable, BrokerError]:
        """Note a call and answer which of its items fail.

        Raises
        ------
        ConnectionLost
            No broker answers.
        """
        call = Call(method, tuple(items), tuple(values))
        self.answered(call)
        if self.is_down:
            raise ConnectionLost("no broker answers", at="simulated")
        failed: dict[Hashable, BrokerError] = {}
        for fault in self._faults:
            concerned = fault.found_in(call)
            if fault.method != method or fault.left == 0 or not concerned:
                continue
            fault.left = None if fault.left is None else fault.left - 1
            failed |= {item: error(fault.code, f"{method} of {item}") for item in concerned}
        return failed

    # -- what is in it -------------------------------------------------------------------------

    def create(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int = 1,
    ) -> SimulatedTopic:
        """A topic with an id of its own, also where one of that name was before."""
        self._ids += 1
        made = SimulatedTopic(
            TopicName(name),
            UUID(int=self._ids),
            [PartitionLog() for _ in range(partitions)],
            tuple(broker.broker_id for broker in self.brokers[:replication_factor]),
            dict(configs or {}),
        )
        made.known_configs = dict(made.configs)
        self.topics[made.name] = made
        return made

    def delete(self, name: TopicName) -> None:
        """A topic with its records, and what groups have committed for it."""
        del self.topics[name]
        for group in self.groups.values():
            group.offsets = {p: row for p, row in group.offsets.items() if p.topic != name}

    def log(self, partition: TopicPartition) -> PartitionLog | None:
        """None where there is no such partition."""
        topic = self.topics.get(partition.topic)
        known = topic is not None and partition.partition < len(topic.logs)
        return topic.logs[partition.partition] if topic is not None and known else None

    def append_open(
        self,
        name: str,
        producer_id: int,
        timestamp_ms: int = NOW_MS,
        *,
        partition: int = 0,
        sequence: int = 0,
    ) -> PartitionLog:
        """Append one record in a transaction of that producer, which stays open; its log."""
        log = self.topics[TopicName(name)].logs[partition]
        fields = Fields(TRANSACTIONAL, 0, timestamp_ms, timestamp_ms, producer_id, 0, sequence, 1)
        code, _ = log.append(encode(fields, [Kept(0, timestamp_ms, b"k", b"v")]))
        assert code == 0, code
        return log

    def append(
        self, name: str, timestamps: Sequence[int] | int, *, partition: int = 0
    ) -> PartitionLog:
        """Append one batch with a record for each timestamp, or so many records; its log."""
        times = [NOW_MS] * timestamps if isinstance(timestamps, int) else timestamps
        log = self.topics[TopicName(name)].logs[partition]
        if times:
            fields = Fields(0, len(times) - 1, times[0], max(times), -1, -1, -1, len(times))
            kept = [Kept(place, time, b"k", b"v") for place, time in enumerate(times)]
            code, _ = log.append(encode(fields, kept))
            assert code == 0, code
        return log

    def join(
        self, group: str, client_id: str = "client", *, kind: str = "classic"
    ) -> SimulatedGroup:
        """Somebody becomes a member."""
        found = self.groups.setdefault(GroupId(group), SimulatedGroup(kind))
        found.protocol = "consumer" if kind == "classic" else "uniform"
        found.members.append(GroupMember(client_id, "/127.0.0.1"))
        return found

    def leave(self, group: str) -> None:
        """All members leave; what they have committed stays."""
        self.groups[GroupId(group)].members.clear()

    def commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Commit as a member would, or as anybody where there is none."""
        found = self.groups.setdefault(GroupId(group), SimulatedGroup())
        found.offsets[partition] = CommittedOffset(Offset(offset))


def nothing(name: TopicName, code: int) -> TopicInfo:
    """Metadata of a topic that is not told."""
    return TopicInfo(name, None, (), is_internal=False, error=error(code, f"describe topic {name}"))
