"""A cluster in memory: topics with logs, groups, and planned failures.

`SimulatedAdmin` answers from it as `ClusterAdmin` does from a real one; `support.admin_contract`
runs the same calls on both. What brokers without an authorizer cannot show (hidden topics, lost
connections, missing leaders) is set here and not compared.
"""

from __future__ import annotations

import copy
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
SAME_REQUEST = {"confirm_topics": "describe_topics"}
"""Methods that fail as others do."""


def error(code: int, what: str) -> BrokerError:
    """Return an error as the admin client does."""
    return BrokerError(f"{what}: {kafka_error(code).name}", kafka_code=code)


@dataclass
class SimulatedTopic:
    """A topic; `topic_id` is None to simulate brokers older than 2.8."""

    name: TopicName
    topic_id: TopicId | None
    logs: list[PartitionLog]
    replicas: tuple[BrokerId, ...]
    configs: dict[str, str] = field(default_factory=dict)
    known_configs: Mapping[str, str] = field(default_factory=dict)
    """Settings on brokers that have not received the last change yet, see `settings_behind`."""
    is_internal: bool = False

    def change(self, values: Mapping[str, str | None]) -> None:
        """Set values, and unset those given as None."""
        self.known_configs = dict(self.configs)
        kept = {key: value for key, value in self.configs.items() if key not in values}
        self.configs = kept | {key: value for key, value in values.items() if value is not None}

    def info(self, failed: Mapping[Hashable, BrokerError]) -> TopicInfo:
        """Return the topic's metadata; a partition that fails has no leader."""
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
        """State of the group; rebalances end at once here."""
        return "Stable" if self.members else "Empty"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the admin client: its name, its items, and a value for each (offsets)."""

    method: str
    items: tuple[Hashable, ...]
    values: tuple[Hashable, ...] = ()


@dataclass(slots=True)
class Fault:
    """An error code instead of answers; `left` counts calls, None: until healed."""

    method: str
    code: int
    items: tuple[Hashable, ...]
    left: int | None

    def found_in(self, call: Call) -> set[Hashable]:
        """Return the items of a call that it affects; a topic's name includes its partitions.

        For a call without items it is the call itself.
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
        Topic settings that the brokers set for all topics.
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
        """Transactional ids by producer id."""
        self.topics: dict[TopicName, SimulatedTopic] = {}
        self.groups: dict[GroupId, SimulatedGroup] = {}
        self.hidden: set[TopicName] = set()
        """Topics that our user has no right to see."""
        self.calls: list[Call] = []
        self.answered: Callable[[Call], None] = self.calls.append
        """Called with each call before it is served."""
        self.is_down = False
        """No broker answers."""
        self.deposed: dict[TopicName, SimulatedTopic] | None = None
        """Topics as the broker knows them that answers first; None: as all do, see `depose`."""
        self.settings_behind = 0
        """Number of reads of settings that still return those before the last change."""
        self.producer_ids = 0
        self._faults: list[Fault] = []
        self._ids = 0

    # -- what is set ---------------------------------------------------------------------------

    def fail(self, method: str, code: int, *items: Hashable, times: int | None = None) -> None:
        """Answer an error code for items (all, if none are given) of a method, for `times` calls.

        In `describe_topics` a topic's name fails as a whole, a partition has no leader.
        """
        self._faults.append(Fault(method, code, items, times))

    def heal(self) -> None:
        """End all failures."""
        self._faults.clear()
        self.is_down, self.deposed = False, None

    def asked(self, method: str) -> list[tuple[Hashable, ...]]:
        """Return the items of each call of a method."""
        return [call.items for call in self.calls if call.method == method]

    def take(
        self, method: str, items: Iterable[Hashable] = (), values: Iterable[Hashable] = ()
    ) -> dict[Hashable, BrokerError]:
        """Note a call and return which of its items fail.

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
            is_meant = fault.method in {method, SAME_REQUEST.get(method)}
            if not is_meant or fault.left == 0 or not concerned:
                continue
            fault.left = None if fault.left is None else fault.left - 1
            failed |= {item: error(fault.code, f"{method} of {item}") for item in concerned}
        return failed

    def depose(self) -> None:
        """Let the broker that is asked go on answering by what there is now, until `heal`.

        Only who asks all brokers learns what has changed since.
        """
        self.deposed = copy.deepcopy(self.topics)

    # -- what is in it -------------------------------------------------------------------------

    def create(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int = 1,
    ) -> SimulatedTopic:
        """Create a topic with a new id, also if one of that name existed."""
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
        """Delete a topic with its records and committed offsets."""
        del self.topics[name]
        for group in self.groups.values():
            group.offsets = {p: row for p, row in group.offsets.items() if p.topic != name}

    def log(
        self,
        partition: TopicPartition,
        topics: Mapping[TopicName, SimulatedTopic] | None = None,
    ) -> PartitionLog | None:
        """Return the partition's log, in these topics; None if there is no such partition."""
        topic = (self.topics if topics is None else topics).get(partition.topic)
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
        """Append one record in a producer's transaction, which stays open; return the log."""
        log = self.topics[TopicName(name)].logs[partition]
        fields = Fields(TRANSACTIONAL, 0, timestamp_ms, timestamp_ms, producer_id, 0, sequence, 1)
        code, _ = log.append(encode(fields, [Kept(0, timestamp_ms, b"k", b"v")]))
        assert code == 0, code
        return log

    def append(
        self, name: str, timestamps: Sequence[int] | int, *, partition: int = 0
    ) -> PartitionLog:
        """Append one batch with a record per timestamp, or of that number; return the log."""
        times = [NOW_MS] * timestamps if isinstance(timestamps, int) else timestamps
        log = self.topics[TopicName(name)].logs[partition]
        if times:
            fields = Fields(0, len(times) - 1, times[0], max(times), -1, -1, -1, len(times))
            kept = [Kept(place, time, b"k", b"v") for place, time in enumerate(times)]
            code, _ = log.append(encode(fields, kept))
            assert code == 0, code
        return log

    def join(
        self,
        group: str,
        client_id: str = "client",
        *topics: TopicName,
        kind: str = "classic",
    ) -> SimulatedGroup:
        """Add a member that reads these topics."""
        found = self.groups.setdefault(GroupId(group), SimulatedGroup(kind))
        found.protocol = "consumer" if kind == "classic" else "uniform"
        found.members.append(GroupMember(client_id, "/127.0.0.1", frozenset(topics)))
        return found

    def leave(self, group: str) -> None:
        """Remove all members; committed offsets stay."""
        self.groups[GroupId(group)].members.clear()

    def commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Commit as a member would, or without one if there is none."""
        found = self.groups.setdefault(GroupId(group), SimulatedGroup())
        found.offsets[partition] = CommittedOffset(Offset(offset))


def nothing(name: TopicName, code: int) -> TopicInfo:
    """Return the metadata of a topic that is hidden or missing."""
    return TopicInfo(name, None, (), is_internal=False, error=error(code, f"describe topic {name}"))
