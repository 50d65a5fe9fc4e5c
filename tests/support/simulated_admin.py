"""The one stand-in of `ClusterAdmin`: the same calls, answered from memory as brokers do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Self, TypeVar

from sim.log_answers import delete_records, epoch_end, list_offset
from sim.partition_log import PartitionLog
from support import simulated_groups, simulated_topics
from support.simulated_cluster import SimulatedCluster, SimulatedTopic, error, nothing
from support.simulated_settings import (
    BROKER_SETTINGS,
    default_entry,
    in_effect,
    inherited,
    set_entry,
)
from support.simulated_topics import known_topic, missing
from typing_extensions import override

from heliostat.clusters.admin import ClusterAdmin, group_calls, transaction_calls
from heliostat.clusters.admin.group_values import (
    CLASSIC_KIND,
    CommittedOffset,
    GroupListing,
    GroupMember,
)
from heliostat.clusters.admin.values import (
    ActiveProducer,
    BrokerInfo,
    ConfigEntry,
    EpochEnd,
    ListedOffset,
    NewTopic,
    OpenTransaction,
    TopicInfo,
)
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import (
    BrokerId,
    ClusterId,
    GroupId,
    Offset,
    ProducerId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.ops.request_times import RequestTimes

NO_LEADER, NO_RIGHT, POLICY = 5, 29, 44
READS = frozenset({"list_offsets", "list_log_ends", "epoch_ends"})
"""What a deposed leader still answers."""
_Value = TypeVar("_Value")


class SimulatedAdmin(ClusterAdmin):
    """A client of a simulated cluster, of which several may be open; it caches no leaders."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.is_closed = False
        self._settings: dict[tuple[object, ...], Mapping[str, ConfigEntry]] = {}
        self._confirmed: set[TopicName] = set()
        """Topics whose newest leaders are known: no deposed one is asked."""

    @override
    def __enter__(self) -> Self:
        return self

    @override
    def close(self) -> None:
        self.is_closed = True

    @property
    @override
    def times(self) -> RequestTimes:
        return RequestTimes()

    @override
    def cluster_id(self) -> ClusterId:
        self.cluster.take("cluster_id")
        return self.cluster.cluster_id

    @override
    def brokers(self, lately_s: float = 0.0) -> tuple[BrokerInfo, ...]:
        self.cluster.take("brokers")
        return self.cluster.brokers

    @override
    def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Mapping[TopicName, TopicInfo]:
        topics = self._view()
        asked = topics.keys() - self.cluster.hidden if names is None else set(names)
        return self._described(topics, asked, self.cluster.take("describe_topics", sorted(asked)))

    @override
    def confirm_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, TopicInfo]:
        asked = set(names)
        self._confirmed |= asked
        failed = self.cluster.take("confirm_topics", sorted(asked))
        return self._described(self.cluster.topics, asked, failed)

    def _view(self) -> Mapping[TopicName, SimulatedTopic]:
        """Return topics as the broker knows them that answers first."""
        deposed = self.cluster.deposed
        return self.cluster.topics if deposed is None else deposed

    def _described(
        self,
        topics: Mapping[TopicName, SimulatedTopic],
        asked: Iterable[TopicName],
        failed: Mapping[Hashable, BrokerError],
    ) -> Mapping[TopicName, TopicInfo]:
        unseen = self.cluster.hidden
        answers: dict[TopicName, TopicInfo] = {}
        for name in sorted(asked):
            refused = failed.get(name)
            if refused is not None:
                answers[name] = nothing(name, refused.kafka_code)
            elif name in unseen:
                answers[name] = nothing(name, NO_RIGHT)
            elif name not in topics:
                answers[name] = nothing(name, missing(name))
            else:
                answers[name] = topics[name].info(failed)
        return answers

    @override
    def describe_configs(
        self, topics: Iterable[TopicName], keys: Sequence[str] | None = None
    ) -> Mapping[TopicName, Mapping[str, ConfigEntry] | BrokerError]:
        asked = sorted(set(topics))
        failed = self.cluster.take("describe_configs", asked)
        is_behind = self.cluster.settings_behind > 0
        self.cluster.settings_behind -= is_behind
        answers: dict[TopicName, Mapping[str, ConfigEntry] | BrokerError] = {}
        for name in asked:
            topic = known_topic(self.cluster, name, "describe settings of topic", failed)
            if isinstance(topic, BrokerError):
                answers[name] = topic
            else:
                own = topic.known_configs if is_behind else topic.configs
                answers[name] = self._in_effect(own, keys)
        return answers

    def _in_effect(
        self, own: Mapping[str, str], keys: Sequence[str] | None
    ) -> Mapping[str, ConfigEntry]:
        """Return effective settings; equal ones are the same object, as of a real cluster."""
        of_brokers = self.cluster.inherited
        question = (*sorted(own.items()), None, *sorted(of_brokers.items()), None, *(keys or ()))
        known = self._settings.get(question)
        if known is None:
            entries = in_effect(own, of_brokers)
            known = {key: entry for key, entry in entries.items() if not keys or key in keys}
            self._settings[question] = known
        return known

    @override
    def describe_broker_configs(self, broker: BrokerId | None = None) -> Mapping[str, ConfigEntry]:
        failed = self.cluster.take("describe_broker_configs")
        for refused in failed.values():
            raise refused
        if broker is not None and broker not in {each.broker_id for each in self.cluster.brokers}:
            raise ConnectionLost("cannot talk to the cluster: unknown broker", broker=broker)
        found = {key: default_entry(value) for key, value in BROKER_SETTINGS.items()}
        return found | {k: set_entry(value) for k, value in self.cluster.broker_settings.items()}

    @override
    def inherited_configs(self) -> Mapping[str, str | None] | BrokerError:
        failed = self.cluster.take("inherited_configs")
        return next(iter(failed.values()), None) or {**inherited(self.cluster.inherited)}

    @override
    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Mapping[TopicName, TopicId | BrokerError | None]:
        return simulated_topics.create(self.cluster, topics, validate_only=validate_only)

    @override
    def grow_partitions(
        self, partitions: Mapping[TopicName, int]
    ) -> Mapping[TopicName, BrokerError | None]:
        return simulated_topics.grow(self.cluster, partitions)

    @override
    def delete_topics(self, topics: Iterable[TopicName]) -> Mapping[TopicName, BrokerError | None]:
        return simulated_topics.delete(self.cluster, topics)

    @override
    def alter_configs(
        self,
        changes: Mapping[TopicName, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
    ) -> Mapping[TopicName, BrokerError | None]:
        return simulated_topics.alter(self.cluster, changes, validate_only=validate_only)

    @override
    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, ListedOffset | BrokerError]:
        self._confirm(specs if confirmed else ())

        def listed(log: PartitionLog, partition: TopicPartition) -> ListedOffset | BrokerError:
            found = list_offset(log, specs[partition])
            return error(found, f"list {partition}") if isinstance(found, int) else found

        return self._of_logs("list_offsets", specs, listed)

    @override
    def list_log_ends(
        self, partitions: Iterable[TopicPartition], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        partitions = list(partitions)
        self._confirm(partitions if confirmed else ())
        return self._of_logs("list_log_ends", partitions, lambda log, _: Offset(log.end))

    @override
    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, EpochEnd | BrokerError]:
        self._confirm(epochs if confirmed else ())
        return self._of_logs(
            "epoch_ends", epochs, lambda log, partition: epoch_end(log, epochs[partition])
        )

    @override
    def delete_records(
        self, before: Mapping[TopicPartition, Offset]
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        def deleted(log: PartitionLog, partition: TopicPartition) -> Offset | BrokerError:
            own = self.cluster.topics[partition.topic].configs
            settings = inherited(self.cluster.inherited) | own
            what = f"delete records of {partition}"
            if "delete" not in settings["cleanup.policy"]:
                return error(POLICY, what)
            code, start = delete_records(log, before[partition])
            return error(code, what) if code else start

        return self._of_logs("delete_records", before, deleted)

    @override
    def append(
        self, batches: Mapping[TopicPartition, bytes]
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        def appended(log: PartitionLog, partition: TopicPartition) -> Offset | BrokerError:
            code, base = log.append(batches[partition])
            return error(code, f"append to {partition}") if code else Offset(base)

        return self._of_logs("append", batches, appended)

    def _confirm(self, partitions: Iterable[TopicPartition]) -> None:
        self._confirmed.update(partition.topic for partition in partitions)

    def _of_logs(
        self,
        method: str,
        partitions: Iterable[TopicPartition] | Mapping[TopicPartition, Hashable],
        ask: Callable[[PartitionLog, TopicPartition], _Value | BrokerError],
    ) -> dict[TopicPartition, _Value | BrokerError]:
        asked = sorted(set(partitions))
        values = partitions if isinstance(partitions, Mapping) else {}
        failed = self.cluster.take(method, asked, [values[p] for p in asked if values])
        answers: dict[TopicPartition, _Value | BrokerError] = {}
        for partition in asked:
            topic = known_topic(self.cluster, partition.topic, method, failed)
            is_asked = method in READS and partition.topic not in self._confirmed
            log = self.cluster.log(partition, self._view() if is_asked else None)
            if partition in failed:
                answers[partition] = failed[partition]
            elif isinstance(topic, BrokerError):
                answers[partition] = topic
            elif log is None:
                answers[partition] = error(NO_LEADER, f"{partition} has no leader")
            else:
                answers[partition] = ask(log, partition)
        return answers

    @override
    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, transaction_calls.Open | BrokerError]:
        def opened(
            log: PartitionLog, partition: TopicPartition
        ) -> transaction_calls.Open | BrokerError:
            del partition
            rows = sorted((first, pid) for pid, first in log.open.items())
            return tuple(
                OpenTransaction(
                    ProducerId(pid), Offset(first), log.producers[pid].last_timestamp_ms
                )
                for first, pid in rows
            )

        return self._of_logs("open_transactions", partitions, opened)

    @override
    def active_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, transaction_calls.Active | BrokerError]:
        def active(
            log: PartitionLog, partition: TopicPartition
        ) -> transaction_calls.Active | BrokerError:
            del partition
            return tuple(
                ActiveProducer(
                    ProducerId(pid), each.epoch, each.batches[-1][1], each.last_timestamp_ms
                )
                for pid, each in sorted(log.producers.items())
                if each.batches
            )

        return self._of_logs("active_producers", partitions, active)

    @override
    def transactional_ids(self, producers: Iterable[ProducerId]) -> Mapping[ProducerId, str]:
        self.cluster.take("transactional_ids")
        names = self.cluster.transactional_ids
        return {each: names[each] for each in set(producers) if each in names}

    @override
    def check_markers(self) -> BrokerError | None:
        return next(iter(self.cluster.take("check_markers").values()), None)

    @override
    def init_producer_id(self) -> ProducerId:
        for refused in self.cluster.take("init_producer_id").values():
            raise refused
        self.cluster.producer_ids += 1
        return ProducerId(self.cluster.producer_ids)

    @override
    def list_groups(self, *, states: Sequence[str] = (), kinds: Sequence[str] = ()) -> GroupListing:
        return simulated_groups.list_groups(self.cluster, states, kinds)

    @override
    def describe_members(
        self, groups: Iterable[GroupId], kind: str = CLASSIC_KIND
    ) -> Mapping[GroupId, tuple[GroupMember, ...] | BrokerError]:
        return simulated_groups.members(self.cluster, kind, groups)

    @override
    def committed_offsets(
        self, groups: Iterable[GroupId]
    ) -> Mapping[GroupId, group_calls.FetchedOffsets | BrokerError]:
        return simulated_groups.committed(self.cluster, groups)

    @override
    def group_operations(
        self, groups: Iterable[GroupId]
    ) -> Mapping[GroupId, frozenset[int] | BrokerError]:
        return simulated_groups.operations(self.cluster, groups)

    @override
    def delete_groups(self, groups: Iterable[GroupId]) -> Mapping[GroupId, BrokerError | None]:
        return simulated_groups.delete(self.cluster, groups)

    @override
    def commit_offsets(
        self, commits: Mapping[GroupId, Mapping[TopicPartition, CommittedOffset]]
    ) -> Mapping[GroupId, group_calls.CommitAnswers | BrokerError]:
        return simulated_groups.commit(self.cluster, commits)
