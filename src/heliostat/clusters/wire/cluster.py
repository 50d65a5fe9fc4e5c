"""One cluster as a copying task sees it: who leads what, where logs end, connections to brokers.

Rare requests are encoded by kafka-python's message classes and sent over our own connections, so
that a Spark task needs no second client with threads of its own. None is sent to a broker that is
known not to answer (I7), see `control_connection`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import DeleteRecordsResponse
from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from heliostat.access import Reachable, access_of
from heliostat.clusters.kafka_codes import CONSUMER, EARLIEST, LATEST
from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.clusters.record_deletion import deletion_request
from heliostat.clusters.wire import fetch, last_sequences, produce
from heliostat.clusters.wire.brokers import BrokerFacts, Brokers
from heliostat.clusters.wire.connection import Connection, DialSettings
from heliostat.clusters.wire.control_connection import ask_side_by_side
from heliostat.clusters.wire.leaders import Leader, TopicLeaders, agreed_leaders, current_leaders
from heliostat.clusters.wire.log_ends import VERSION_MAX as LIST_OFFSETS_VERSION_MAX
from heliostat.clusters.wire.log_ends import LogEndsAnswer, LogEndsRequest
from heliostat.clusters.wire.questions import newest_shared
from heliostat.errors import (
    BrokerError,
    ConnectionLost,
    HeliostatError,
)
from heliostat.names import BrokerId, Endpoint, Offset, PartitionId, TopicId, TopicName
from heliostat.names import TopicPartition as Partition

METADATA_VERSION_MAX = 12
FIND_COORDINATOR_VERSION_MAX = 3
TRANSACTION = 1
"""FindCoordinator's key type."""
DELETE_RECORDS_VERSION_MAX = 2
Ranges = tuple[dict[Partition, Offset | BrokerError], dict[Partition, Offset | BrokerError]]
"""Log starts and log ends."""


class WireCluster:
    """Connections and metadata of one cluster. Not thread-safe: one task owns it.

    Parameters
    ----------
    cluster
        Access to the cluster, or its addresses.
    settings
        How to open connections; the cluster's security replaces theirs.
    facts
        What others have learnt of its brokers.
    """

    def __init__(
        self, cluster: Reachable, settings: DialSettings, facts: BrokerFacts | None = None
    ) -> None:
        access = self._access = access_of(cluster)
        self.settings = replace(settings, security=access.security)
        self.brokers = Brokers(access, self.settings, facts)
        self.epochs = LeaderEpochs()
        """The newest that metadata have named; requests carry them."""

    def close(self) -> None:
        """Close the control connections (callers of `open_data` close data connections)."""
        self.brokers.close()

    # -- who answers, see `Brokers` ------------------------------------------------------------

    def reach(self, brokers: Iterable[BrokerId]) -> None:
        """Connect to these in parallel, and doubt those that are much slower than the others."""
        self.brokers.reach(brokers)

    def doubt(self, broker: BrokerId) -> None:
        """Send a broker nothing until it answers a probe: it is silent on another connection."""
        self.brokers.doubt(broker)

    def silence_of(self, broker: BrokerId, from_s: float) -> ConnectionLost | None:
        """Error to raise if a broker has not answered a probe for `from_s` seconds, or None."""
        return self.brokers.silence_of(broker, from_s)

    def silent(self, within_s: float) -> list[Endpoint]:
        """Brokers that do not answer within that time."""
        return self.brokers.silent(within_s)

    def seeds_that_answer(self, within_s: float) -> list[Endpoint]:
        """Bootstrap addresses at which a broker answers within that time."""
        return self.brokers.seeds_that_answer(within_s)

    # -- requests ------------------------------------------------------------------------------

    def metadata(
        self, topics: Sequence[TopicName], *, confirmed: bool = False
    ) -> dict[TopicName, TopicLeaders]:
        """Leaders of all partitions of `topics`, from any broker that answers.

        A leader is never of an older epoch than one named before: then all brokers are asked, and
        if none knows better, there is no leader.

        Parameters
        ----------
        confirmed
            Whether all brokers that answer are asked: before something is concluded that would stop
            a partition, as a deposed leader may still answer.

        Raises
        ------
        ConnectionLost
            No broker answered.
        """
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        asked = request, MetadataResponse, METADATA_VERSION_MAX
        answers = self.brokers.ask_all(*asked) if confirmed else [self.brokers.ask_any(*asked)]
        self._learn_brokers(answers)
        leaders = agreed_leaders([_leaders_in(answer) for answer in answers])
        current = {
            name: current_leaders(name, topic, self.epochs) for name, topic in leaders.items()
        }
        if current != leaders and not confirmed:
            return self.metadata(topics, confirmed=True)
        return current

    def about(self) -> Any:
        """Metadata without topics, as they came: the cluster's id, its brokers, the controller.

        Raises
        ------
        ConnectionLost
            No broker answered.
        """
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer = self.brokers.ask_any(request, MetadataResponse, METADATA_VERSION_MAX)
        self._learn_brokers([answer])
        return answer

    def _learn_brokers(self, answers: Iterable[Any]) -> None:
        for item in (broker for answer in answers for broker in answer.brokers):
            self.brokers.learn(BrokerId(item.node_id), Endpoint(item.host, item.port))

    def transaction_coordinator(self, transactional_id: str) -> tuple[int, BrokerId]:
        """Kafka's code (0: found), and the coordinator, from any broker that answers.

        Raises
        ------
        ConnectionLost
            No broker answered.
        """
        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
        answer = self.brokers.ask_any(
            request, FindCoordinatorResponse, FIND_COORDINATOR_VERSION_MAX
        )
        broker = BrokerId(answer.node_id)
        if not answer.error_code:
            self.brokers.learn(broker, Endpoint(answer.host, answer.port))
        return answer.error_code, broker

    def list_offsets(
        self,
        broker: BrokerId,
        partitions: Iterable[Partition],
        *,
        timestamp: int,
        replica_id: int = CONSUMER,
    ) -> dict[Partition, Offset | BrokerError]:
        """Offsets by `timestamp` (`LATEST`, `EARLIEST`, ms) of partitions that `broker` leads.

        With `replica_id=DEBUGGING_CONSUMER` and `LATEST` the answer is the log end offset.

        Raises
        ------
        ConnectionLost
            The broker did not answer.
        """
        request = LogEndsRequest(list(partitions), timestamp, replica_id, self.epochs)
        offsets: dict[Partition, Offset | BrokerError] = self._ask(
            broker, request, LogEndsAnswer, LIST_OFFSETS_VERSION_MAX
        )
        return offsets

    def list_ranges(
        self, broker: BrokerId, partitions: Sequence[Partition], *, replica_id: int = CONSUMER
    ) -> Ranges:
        """Log starts and ends as `list_offsets` returns them, both requested at once.

        Raises
        ------
        ConnectionLost
            The broker did not answer.
        """
        answer = self.ranges_of({broker: partitions}, replica_id=replica_id)[broker]
        if isinstance(answer, ConnectionLost):
            raise answer
        return answer

    def ranges_of(
        self, partitions: Mapping[BrokerId, Sequence[Partition]], *, replica_id: int = CONSUMER
    ) -> dict[BrokerId, Ranges | ConnectionLost]:
        """As `list_ranges`, of all leaders in parallel."""
        spans: dict[BrokerId, Ranges | ConnectionLost] = {}
        questions = {}
        for broker, asked in partitions.items():
            ends = [
                LogEndsRequest(asked, timestamp, replica_id, self.epochs)
                for timestamp in (EARLIEST, LATEST)
            ]
            try:
                questions[broker] = (self.brokers.known(broker), ends)
            except ConnectionLost as error:
                spans[broker] = error
        answers = ask_side_by_side(questions, LogEndsAnswer, LIST_OFFSETS_VERSION_MAX)
        for broker, answer in answers.items():
            spans[broker] = answer if isinstance(answer, ConnectionLost) else (answer[0], answer[1])
        return spans

    def last_sequences(
        self, broker: BrokerId, partitions: Sequence[Partition]
    ) -> dict[Partition, dict[int, int]]:
        """Last sequence by producer id, as `broker` remembers it for partitions that it leads.

        Empty if the broker has no such request (before KIP-664).

        Raises
        ------
        ConnectionLost
            The broker did not answer.
        """
        if last_sequences.API_KEY not in self.brokers.known(broker).versions():
            return {}
        sequences: dict[Partition, dict[int, int]] = self._ask(
            broker,
            last_sequences.LastSequencesRequest(partitions),
            last_sequences.LastSequencesAnswer,
            last_sequences.VERSION_MAX,
        )
        return sequences

    def delete_records(self, broker: BrokerId, partition: Partition, before: Offset) -> None:
        """Advance a partition's log start to `before` (KIP-107); `broker` leads it.

        Raises
        ------
        BrokerError, ConnectionLost
            The broker refused or did not answer.
        """
        timeout_ms = int(self.settings.request_timeout_s * 1000)
        request = deletion_request({partition: before}, timeout_ms)
        answer = self._ask(broker, request, DeleteRecordsResponse, DELETE_RECORDS_VERSION_MAX)
        code = answer.topics[0].partitions[0].error_code
        if code:
            raise BrokerError(
                "records can't be deleted", kafka_code=code, partition=str(partition), before=before
            )

    def open_data(self, broker: BrokerId) -> Connection:
        """Open a separate connection for fetches or produces; the caller closes it.

        Raises
        ------
        ConnectionLost
            The broker is unknown or can't be reached.
        """
        conn = self.brokers.known(broker)
        conn.look()
        with self._named():
            return Connection(conn.endpoint, self.settings)

    def fetch_version(self, broker: BrokerId) -> int:
        """Highest fetch version that both sides support."""
        versions = self.brokers.known(broker).versions()
        return newest_shared(versions, fetch.API_KEY, fetch.VERSIONS)

    def produce_version(self, broker: BrokerId) -> int:
        """Highest produce version that both sides support."""
        versions = self.brokers.known(broker).versions()
        return newest_shared(versions, produce.API_KEY, produce.VERSIONS)

    def _ask(self, broker: BrokerId, request: Any, response: Any, version_max: int) -> Any:
        return self.brokers.known(broker).exchange([request], response, version_max)[0]

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Add the cluster's alias to errors: addresses alone tell an operator little."""
        try:
            yield
        except HeliostatError as error:
            if self._access.alias:
                error.context.setdefault("cluster", self._access.alias)
            raise


def _leaders_in(answer: Any) -> dict[TopicName, TopicLeaders]:
    return {
        TopicName(topic.name): TopicLeaders(
            _topic_id(topic.topic_id),
            topic.error_code,
            {
                PartitionId(item.partition_index): Leader(
                    BrokerId(item.leader_id),
                    item.leader_epoch,
                    item.error_code,
                    item.replica_nodes,
                    item.offline_replicas or (),  # brokers before 1.0 do not tell
                )
                for item in topic.partitions
            },
        )
        for topic in answer.topics
    }


def _topic_id(value: Any) -> TopicId | None:
    """Metadata's topic id; brokers before 2.8 and unknown topics send zeros or nothing."""
    if value is None:
        return None
    topic_id = value if isinstance(value, TopicId) else TopicId(bytes=bytes(value))
    return topic_id if topic_id.int else None
