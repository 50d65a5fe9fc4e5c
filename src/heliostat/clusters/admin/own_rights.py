"""What brokers let us do ourselves (KIP-430)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from heliostat.clusters.admin import quorum_calls, right_calls
from heliostat.clusters.admin.caller import Caller, error_of
from heliostat.clusters.admin.each_broker import each_broker
from heliostat.clusters.kafka_codes import TOPIC_AUTHORIZATION_FAILED
from heliostat.errors import BrokerError, HeliostatError
from heliostat.names import BrokerId, TopicName

_WRITE, _ALTER = 4, 7  # `AclOperation`
_Answer = TypeVar("_Answer")
MayWrite = Mapping[TopicName, bool | BrokerError]


class OwnRights:
    """Queries about what we may do, to each broker; `ClusterAdmin` is one."""

    _caller: Caller

    def each_broker(
        self, ask: Callable[[BrokerId], _Answer]
    ) -> Mapping[BrokerId, _Answer | HeliostatError]:
        """Ask every broker that any of them names; those that fail have their error."""
        return each_broker(self._caller, ask)

    def may_write(
        self, topics: Iterable[TopicName]
    ) -> Mapping[BrokerId, MayWrite | HeliostatError]:
        """Whether each broker, asked itself, lets us write into topics."""
        return each_broker(self._caller, partial(may_write, self._caller, tuple(topics)))

    def may(self, rights: Iterable[right_calls.Right]) -> right_calls.May:
        """Whether one broker says that we have each right; None: it does not show it."""
        return right_calls.may(self._caller, rights)

    def clock_ahead_s(self) -> float:
        """How far the controller's clock is ahead of ours; raises `BrokerError` if it is hidden."""
        return quorum_calls.clock_ahead_s(self._caller)

    def oldest_release(self) -> str:
        """A release of Kafka that brokers are not older than, by what they support."""
        return quorum_calls.oldest_release(self._caller)

    def may_alter_cluster(self) -> bool | BrokerError:
        """Whether we may change ACLs, by the word of one broker (KIP-700)."""
        answer = self._caller.send(
            DescribeClusterRequest(include_cluster_authorized_operations=True, max_version=1)
        )
        error = error_of(answer.error_code, "ask what we may do with the cluster")
        return error or _ALTER in (answer.authorized_operations or ())


def may_write(caller: Caller, topics: Sequence[TopicName], broker: BrokerId) -> MayWrite:
    """Return whether this broker lets us write into topics, in one request."""
    kind = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=[kind(name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        min_version=8,
    )
    return {TopicName(row.name): _may_write(row) for row in caller.send(request, broker).topics}


def _may_write(row: Any) -> bool | BrokerError:
    if row.error_code == TOPIC_AUTHORIZATION_FAILED:
        return False
    error = error_of(row.error_code, f"ask what we may do with {row.name}")
    return error or _WRITE in (row.authorized_operations or ())
