"""All requests to one cluster outside the hot path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Self

from heliostat.access import Reachable
from heliostat.clusters.admin import (
    append_calls,
    config_calls,
    group_calls,
    offset_calls,
    topic_calls,
)
from heliostat.clusters.admin.caller import REQUEST_TIMEOUT_MS, Caller
from heliostat.clusters.admin.group_values import (
    CLASSIC_KIND,
    CommittedOffset,
    GroupListing,
    GroupMember,
)
from heliostat.clusters.admin.leaders import OffsetLeaders
from heliostat.clusters.admin.own_rights import OwnRights
from heliostat.clusters.admin.security_admin import SecurityAdmin
from heliostat.clusters.admin.transaction_calls import TransactionAdmin
from heliostat.clusters.admin.values import (
    BrokerInfo,
    ConfigEntry,
    EpochEnd,
    ListedOffset,
    NewTopic,
    TopicInfo,
)
from heliostat.clusters.kafka_codes import DEBUGGING_CONSUMER, LATEST
from heliostat.errors import BrokerError, ProtocolError
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

LATELY_S = 60.0
"""Brokers come and go rarely: where one more changes little, they aren't asked for again."""
CONNECT_TIMEOUT_S = 5.0
"""With a last attempt, an operator gets the error within 15 s; running links retry anyway."""


class ClusterAdmin(TransactionAdmin, OwnRights):
    """Queries and changes a cluster; safe to share between threads; close it when done.

    Every method raises `ConnectionLost` if no broker answers. Methods for many items return for
    each of them a value, or the `BrokerError` in its place.

    Parameters
    ----------
    cluster
        Access to the cluster, or its addresses.
    client_id
        Seen in the brokers' logs and quotas.
    connect_timeout_s
        How long to look for a broker that answers.

    Raises
    ------
    ConnectionLost
        None of the brokers could be reached in time.
    """

    def __init__(
        self,
        cluster: Reachable,
        client_id: str = "heliostat-admin",
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self._caller = Caller(
            cluster,
            client_id,
            connect_timeout_s=connect_timeout_s,
            request_timeout_ms=request_timeout_ms,
        )
        self._leaders = OffsetLeaders(self._caller)
        self._coordinators = group_calls.Coordinators(self._caller)
        self.security = SecurityAdmin(self._caller)
        """ACLs, client quotas and SCRAM users."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and the client's thread."""
        self._caller.close()

    @property
    def times(self) -> RequestTimes:
        """How long its requests took."""
        return self._caller.times

    def cluster_id(self) -> ClusterId:
        """The cluster's id, generated when it was formatted."""
        cluster_id = self._caller.about(inf).cluster_id
        if not cluster_id:
            raise ProtocolError("the cluster has no id", at=self._caller.access.described)
        return ClusterId(cluster_id)

    def brokers(self, lately_s: float = 0.0) -> tuple[BrokerInfo, ...]:
        """The brokers that are alive, or were `lately_s` ago, by id."""
        rows = self._caller.about(lately_s).brokers
        infos = [BrokerInfo(BrokerId(r.node_id), r.host, r.port, r.rack) for r in rows]
        return tuple(sorted(infos, key=lambda broker: broker.broker_id))

    def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Mapping[TopicName, TopicInfo]:
        """Topics by name; without `names` all that we may see; by the word of one broker.

        A named topic that is missing or forbidden is included, with its `error`.
        """
        topics = topic_calls.describe(self._caller, names)
        self._leaders.learn(topics.values())
        if names is not None:
            self._caller.note_leaders(topics.values())
        return topics

    def confirm_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, TopicInfo]:
        """As `describe_topics`, by the word of all brokers that answer.

        A topic is missing only if all of them say so, and its id is the one that most of them name.
        """
        return self._leaders.look_everywhere(names)

    def describe_configs(
        self, topics: Iterable[TopicName], keys: Sequence[str] | None = None
    ) -> Mapping[TopicName, Mapping[str, ConfigEntry] | BrokerError]:
        """Settings in effect of topics, each with its source; only `keys` if given."""
        return config_calls.describe_topics(self._caller, topics, keys)

    def describe_broker_configs(self, broker: BrokerId | None = None) -> Mapping[str, ConfigEntry]:
        """Settings in effect of a broker, the one with the lowest id by default.

        Raises
        ------
        BrokerError
            We may not see them.
        """
        chosen = self.brokers(LATELY_S)[0].broker_id if broker is None else broker
        return config_calls.describe_broker(self._caller, chosen)

    def inherited_configs(self) -> Mapping[str, str | None] | BrokerError:
        """Settings that a new topic would have without any of its own (KIP-525)."""
        return topic_calls.inherited_configs(self._caller)

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Mapping[TopicName, TopicId | BrokerError | None]:
        """Create topics; each with its id (None before Kafka 2.8), or its error.

        The controller has them when this returns; other brokers learn of them a little later.
        """
        return topic_calls.create(self._caller, topics, validate_only=validate_only)

    def grow_partitions(
        self, partitions: Mapping[TopicName, int]
    ) -> Mapping[TopicName, BrokerError | None]:
        """Increase topics to that many partitions; None for each success."""
        return topic_calls.grow(self._caller, partitions)

    def delete_topics(self, topics: Iterable[TopicName]) -> Mapping[TopicName, BrokerError | None]:
        """Delete topics with all their records; None for each success."""
        return topic_calls.delete(self._caller, topics)

    def alter_configs(
        self,
        changes: Mapping[TopicName, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
    ) -> Mapping[TopicName, BrokerError | None]:
        """Set settings of topics, unset those given as None; all others stay (KIP-339)."""
        return config_calls.alter_topics(self._caller, changes, validate_only=validate_only)

    def list_offsets(
        self, specs: Mapping[TopicPartition, int], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, ListedOffset | BrokerError]:
        """Offsets by `EARLIEST`, `LATEST` (the high watermark) or a time in ms since the epoch.

        For a time it is that of the first record at or after it; `NO_OFFSET` if there is none.

        Parameters
        ----------
        confirmed
            Whether every broker is asked first who leads: before something is concluded that would
            stop a partition or a link, as a deposed leader may still answer.
        """
        return offset_calls.list_offsets(self._caller, self._leaders, specs, confirmed=confirmed)

    def list_log_ends(
        self, partitions: Iterable[TopicPartition], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        """Log end offsets, including records not replicated yet: the next append goes there (I4).

        Beyond the high watermark leaders return it only to replica id -2 (`ReplicaManager`).
        """
        answers = offset_calls.list_offsets(
            self._caller,
            self._leaders,
            dict.fromkeys(partitions, LATEST),
            replica_id=DEBUGGING_CONSUMER,
            confirmed=confirmed,
        )
        return {p: a if isinstance(a, BrokerError) else a.offset for p, a in answers.items()}

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, EpochEnd | BrokerError]:
        """End offsets of leader epochs; if more was read of an epoch, the log was truncated."""
        return offset_calls.epoch_ends(self._caller, self._leaders, epochs, confirmed=confirmed)

    def delete_records(
        self, before: Mapping[TopicPartition, Offset]
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        """Delete records before an offset (-1: high watermark); return the new log starts.

        `POLICY_VIOLATION` is the error for a topic whose `cleanup.policy` has no `delete`.
        """
        return offset_calls.delete_records(self._caller, self._leaders, before)

    def append(
        self, batches: Mapping[TopicPartition, bytes]
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        """Append a batch of format v2, without a producer, to each partition; its base offset.

        Durable on all replicas in sync. After a failure a batch may be there or not.
        """
        return append_calls.append(self._caller, self._leaders, batches)

    def check_markers(self) -> BrokerError | None:
        """None if we may write transaction markers, else why not."""
        return offset_calls.check_markers(self._caller)

    def init_producer_id(self) -> ProducerId:
        """A new producer id, at epoch 0 (InitProducerId without a transactional id).

        Raises
        ------
        BrokerError
            The broker returned none.
        """
        return offset_calls.init_producer_id(self._caller)

    def list_groups(self, *, states: Sequence[str] = (), kinds: Sequence[str] = ()) -> GroupListing:
        """Groups that we may see; only of some states (from 2.6) or kinds (from 3.8), if given."""
        listing = group_calls.list_groups(self._caller, states=states, kinds=kinds)
        self._coordinators.learn(listing.groups.values())
        return listing

    def describe_members(
        self, groups: Iterable[GroupId], kind: str = CLASSIC_KIND
    ) -> Mapping[GroupId, tuple[GroupMember, ...] | BrokerError]:
        """Members of groups of one kind; for those of another `GROUP_ID_NOT_FOUND`."""
        return group_calls.describe_members(self._caller, self._coordinators, groups, kind)

    def committed_offsets(
        self, groups: Iterable[GroupId]
    ) -> Mapping[GroupId, group_calls.FetchedOffsets | BrokerError]:
        """All committed offsets of groups, for topics that we may see; none for an unknown group.

        One request contains hundreds of groups, since Kafka 3.0.
        """
        return group_calls.fetch_offsets(self._caller, self._coordinators, groups)

    def commit_offsets(
        self, commits: Mapping[GroupId, Mapping[TopicPartition, CommittedOffset]]
    ) -> Mapping[GroupId, group_calls.CommitAnswers | BrokerError]:
        """Commit offsets of groups without members; None for each success.

        Brokers refuse a group that has members: `UNKNOWN_MEMBER_ID`.
        """
        return group_calls.commit_offsets(self._caller, self._coordinators, commits)

    def group_operations(
        self, groups: Iterable[GroupId]
    ) -> Mapping[GroupId, frozenset[int] | BrokerError]:
        """What we may do with groups, whether they are there or not: codes of `AclOperation`."""
        return group_calls.operations(self._caller, self._coordinators, groups)

    def delete_groups(self, groups: Iterable[GroupId]) -> Mapping[GroupId, BrokerError | None]:
        """Delete groups that have no members; None for each success."""
        return group_calls.delete(self._caller, self._coordinators, groups)
