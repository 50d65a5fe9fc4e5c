"""One cluster as a copying task sees it: who leads what, where logs end, connections to brokers.

Rare requests are encoded by kafka-python's message classes and sent over our own connections, so
that a Spark task needs no second client with threads of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from heliostat.access import Reachable, access_of
from heliostat.clusters.wire import fetch, last_sequences, produce
from heliostat.clusters.wire.connection import Connection, DialSettings
from heliostat.clusters.wire.log_ends import VERSION_MAX as LIST_OFFSETS_VERSION_MAX
from heliostat.clusters.wire.log_ends import LogEndsAnswer, LogEndsRequest
from heliostat.clusters.wire.primitives import request_header, skip_tagged_fields
from heliostat.errors import (
    AccessRefused,
    BrokerError,
    ConnectionLost,
    HeliostatError,
    ProtocolError,
)
from heliostat.names import BrokerId, Endpoint, Offset, PartitionId, TopicId, TopicName
from heliostat.names import TopicPartition as Partition

LATEST = -1
EARLIEST = -2
CONSUMER = -1
"""Replica id of a consumer: ListOffsets answers the high watermark."""
DEBUG_REPLICA = -2
"""Replica id that makes ListOffsets answer the log end with the uncommitted tail in it.

`ReplicaManager.fetchOffset` treats it as neither a consumer nor a follower.
"""
METADATA_VERSION_MAX = 12
DELETE_RECORDS_VERSION_MAX = 2
SOFTWARE_NAME = "heliostat"


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition; `error` is Kafka's code, 0 where there is a leader."""

    broker: BrokerId
    epoch: int
    error: int


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """Metadata of one topic; `error` is Kafka's code for the whole topic."""

    topic_id: TopicId | None
    error: int
    partitions: Mapping[PartitionId, Leader]


@dataclass(slots=True)
class _Broker:
    endpoint: Endpoint
    control: Connection | None = None
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)


class WireCluster:
    """Connections and metadata of one cluster. Not thread-safe: one task owns it.

    Parameters
    ----------
    cluster
        How it is reached.
    settings
        How connections are opened; their security is the cluster's.
    """

    def __init__(self, cluster: Reachable, settings: DialSettings) -> None:
        access = self._access = access_of(cluster)
        self.settings = replace(settings, security=access.security)
        self._bootstrap = access.endpoints
        self._brokers: dict[BrokerId, _Broker] = {}
        self._seed: _Broker | None = None

    def close(self) -> None:
        """Close the control connections (data connections belong to whoever opened them)."""
        for broker in [*self._brokers.values(), *([self._seed] if self._seed else [])]:
            if broker.control is not None:
                broker.control.close()
                broker.control = None

    def metadata(self, topics: Sequence[TopicName]) -> dict[TopicName, TopicLeaders]:
        """Leaders of all partitions of `topics`, asked from any broker that answers.

        Raises
        ------
        ConnectionLost
            No broker answered.
        """
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        answer = self._ask_any(request, MetadataResponse, METADATA_VERSION_MAX)
        for item in answer.brokers:
            self._learn(BrokerId(item.node_id), Endpoint(item.host, item.port))
        return {
            TopicName(topic.name): TopicLeaders(
                _topic_id(topic.topic_id),
                topic.error_code,
                {
                    PartitionId(item.partition_index): Leader(
                        BrokerId(item.leader_id), item.leader_epoch, item.error_code
                    )
                    for item in topic.partitions
                },
            )
            for topic in answer.topics
        }

    def list_offsets(
        self,
        broker: BrokerId,
        partitions: Iterable[Partition],
        *,
        timestamp: int,
        replica_id: int = CONSUMER,
    ) -> dict[Partition, Offset | BrokerError]:
        """Offsets by `timestamp` (`LATEST`, `EARLIEST`, ms) of partitions that `broker` leads.

        With `replica_id=DEBUG_REPLICA` and `LATEST` the answer is the log's real end.

        Raises
        ------
        ConnectionLost
            The broker did not answer.
        """
        request = LogEndsRequest(list(partitions), timestamp, replica_id)
        found: dict[Partition, Offset | BrokerError] = self._ask(
            broker, request, LogEndsAnswer, LIST_OFFSETS_VERSION_MAX
        )
        return found

    def list_ranges(
        self, broker: BrokerId, partitions: Sequence[Partition], *, replica_id: int = CONSUMER
    ) -> tuple[dict[Partition, Offset | BrokerError], dict[Partition, Offset | BrokerError]]:
        """Log starts, and ends as `list_offsets` answers them; both are asked for at once.

        Raises
        ------
        ConnectionLost
            The broker did not answer.
        """
        requests = [LogEndsRequest(partitions, at, replica_id) for at in (EARLIEST, LATEST)]
        starts, ends = self._exchange(
            self._known(broker), requests, LogEndsAnswer, LIST_OFFSETS_VERSION_MAX
        )
        return starts, ends

    def last_sequences(
        self, broker: BrokerId, partitions: Sequence[Partition]
    ) -> dict[Partition, dict[int, int]]:
        """By producer id the last sequence that `broker` remembers of partitions that it leads.

        Nothing is known where a broker has no such request: those before KIP-664.

        Raises
        ------
        ConnectionLost
            The broker did not answer.
        """
        if last_sequences.API_KEY not in self._versions(self._known(broker)):
            return {}
        found: dict[Partition, dict[int, int]] = self._ask(
            broker,
            last_sequences.LastSequencesRequest(partitions),
            last_sequences.LastSequencesAnswer,
            last_sequences.VERSION_MAX,
        )
        return found

    def delete_records(self, broker: BrokerId, partition: Partition, before: Offset) -> None:
        """Lift the log start of a partition that `broker` leads to `before` (KIP-107).

        Raises
        ------
        BrokerError, ConnectionLost
            It was refused, or the broker did not answer.
        """
        kind = DeleteRecordsRequest.DeleteRecordsTopic
        request = DeleteRecordsRequest(
            topics=[
                kind(
                    name=partition.topic,
                    partitions=[
                        kind.DeleteRecordsPartition(
                            partition_index=partition.partition, offset=before
                        )
                    ],
                )
            ],
            timeout_ms=int(self.settings.request_timeout_s * 1000),
        )
        answer = self._ask(broker, request, DeleteRecordsResponse, DELETE_RECORDS_VERSION_MAX)
        code = answer.topics[0].partitions[0].error_code
        if code:
            raise BrokerError(
                "records can't be deleted", kafka_code=code, partition=str(partition), before=before
            )

    def open_data(self, broker: BrokerId) -> Connection:
        """Open a connection of its own for fetches or produces; the caller closes it.

        Raises
        ------
        ConnectionLost
            The broker is unknown or can't be reached.
        """
        with self._named():
            return Connection(self._known(broker).endpoint, self.settings)

    def fetch_version(self, broker: BrokerId) -> int:
        """Highest fetch version that both sides speak."""
        return self._pick(broker, fetch.API_KEY, fetch.VERSIONS)

    def produce_version(self, broker: BrokerId) -> int:
        """Highest produce version that both sides speak."""
        return self._pick(broker, produce.API_KEY, produce.VERSIONS)

    def _pick(self, broker: BrokerId, api_key: int, ours: Sequence[int]) -> int:
        low, high = self._versions(self._known(broker)).get(api_key, (0, -1))
        fitting = [version for version in ours if low <= version <= high]
        if not fitting:
            raise ProtocolError(
                "broker and Heliostat share no version of a request",
                hint="brokers from 2.8 on are supported",
                api_key=api_key,
                broker_has=f"{low}-{high}",
                ours=list(ours),
            )
        return max(fitting)

    def _known(self, broker: BrokerId) -> _Broker:
        try:
            return self._brokers[broker]
        except KeyError:
            raise ConnectionLost("no such broker in the metadata", broker=broker) from None

    def _learn(self, broker: BrokerId, endpoint: Endpoint) -> None:
        known = self._brokers.get(broker)
        if known is None or known.endpoint != endpoint:
            if known is not None and known.control is not None:
                known.control.close()
            self._brokers[broker] = _Broker(endpoint)

    def _ask_any(self, request: Any, response: Any, version_max: int) -> Any:
        reasons: list[ConnectionLost] = []
        for broker in [*self._brokers.values(), *([self._seed] if self._seed else [])]:
            try:
                return self._exchange(broker, [request], response, version_max)[0]
            except ConnectionLost as error:
                reasons.append(error)
        for endpoint in self._bootstrap:
            seed = _Broker(endpoint)
            try:
                answer = self._exchange(seed, [request], response, version_max)[0]
            except ConnectionLost as error:
                reasons.append(error)
            else:
                self._seed = seed
                return answer
        for reason in reversed(reasons):
            if isinstance(reason, AccessRefused):
                raise reason  # that a broker does not let us in says more than that others are gone
        raise ConnectionLost(
            f"no broker of {self._access.told} answers",
            hint=next((each.hint for each in reasons if each.hint != ConnectionLost.hint), None)
            or "check the addresses in `bootstrap` and that the brokers run",
            tried="; ".join(map(_tried, reasons[-3:])),
        )

    def _ask(self, broker: BrokerId, request: Any, response: Any, version_max: int) -> Any:
        return self._exchange(self._known(broker), [request], response, version_max)[0]

    def _exchange(
        self, broker: _Broker, requests: Sequence[Any], response: Any, version_max: int
    ) -> list[Any]:
        """Requests of one kind and their answers over the broker's control connection."""
        request = requests[0]
        low, high = self._versions(broker).get(request.API_KEY, (0, -1))
        version = min(high, version_max)
        if version < low:
            raise ProtocolError(
                "broker and Heliostat share no version of a request", api_key=request.API_KEY
            )
        try:
            return self._round_trip(broker, requests, response, version)
        except AccessRefused:
            raise
        except ConnectionLost:
            # A connection that idled may have been closed by the broker: once more, afresh.
            # Safe: every request sent here may be repeated.
            return self._round_trip(broker, requests, response, version)

    def _versions(self, broker: _Broker) -> dict[int, tuple[int, int]]:
        if not broker.versions:
            request = ApiVersionsRequest(
                client_software_name=SOFTWARE_NAME, client_software_version="0"
            )
            (answer,) = self._round_trip(broker, [request], ApiVersionsResponse, 3)
            broker.versions = {
                item.api_key: (item.min_version, item.max_version) for item in answer.api_keys
            }
        return broker.versions

    def _round_trip(
        self, broker: _Broker, requests: Sequence[Any], response: Any, version: int
    ) -> list[Any]:
        """Send all, then take all answers: they come in the order of the requests."""
        if broker.control is None:
            with self._named():
                broker.control = Connection(broker.endpoint, self.settings)
        connection = broker.control
        try:
            with self._named():
                sent = [self._send(connection, request, version) for request in requests]
                frames = [connection.receive(self.settings.request_timeout_s) for _ in requests]
        except ConnectionLost:
            connection.close()
            broker.control = None
            raise
        request = requests[0]
        if [frame.correlation_id for frame in frames] != sent:
            connection.close()
            broker.control = None
            raise ProtocolError("an answer belongs to another request", api_key=request.API_KEY)
        # ApiVersions answers carry header v0 so that any client can read them (KIP-511).
        has_tags = type(request).flexible_version_q(version)
        has_tags = has_tags and request.API_KEY != ApiVersionsRequest.API_KEY
        starts = [skip_tagged_fields(frame.buffer, 4) if has_tags else 4 for frame in frames]
        return [
            response.decode(memoryview(frame.buffer)[at:], version=version)
            for frame, at in zip(frames, starts, strict=True)
        ]

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Let errors say which cluster it is: addresses alone tell an operator little."""
        try:
            yield
        except HeliostatError as error:
            if self._access.alias:
                error.context.setdefault("cluster", self._access.alias)
            raise

    def _send(self, connection: Connection, request: Any, version: int) -> int:
        """Send one request; its correlation id."""
        correlation_id = connection.next_correlation_id()
        header = request_header(
            request.API_KEY,
            version,
            correlation_id,
            self.settings.client_id,
            flexible=bool(type(request).flexible_version_q(version)),
        )
        connection.send([header, request.encode(version=version)])
        return correlation_id


def _tried(lost: ConnectionLost) -> str:
    """One try in some words."""
    why = lost.context.get("why")
    return f"{lost.context.get('broker')}: {lost.text}" + (f" ({why})" if why else "")


def _topic_id(value: Any) -> TopicId | None:
    """Metadata's topic id; brokers before 2.8 and unknown topics send zeros or nothing."""
    if value is None:
        return None
    topic_id = value if isinstance(value, TopicId) else TopicId(bytes=bytes(value))
    return topic_id if topic_id.int else None
