"""All requests of `ClusterAdmin` go through here: over lent connections, each sent once.

Requests are built from kafka-python's protocol classes; its public methods raise for the first item
that failed, and the others' answers would be lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from types import SimpleNamespace
from typing import Any, TypeVar

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import MetadataRequest

from heliostat.access import Reachable
from heliostat.clusters.admin.large_answers import LargeAnswer, Metadata, Remembered
from heliostat.clusters.admin.values import TopicInfo
from heliostat.clusters.kafka_python import versions_of
from heliostat.clusters.refusals import enter
from heliostat.clusters.wire.control_connection import ControlConnection
from heliostat.clusters.wire.lent import lent_clusters
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.kafka_error_names import KAFKA_ERROR_NAMES
from heliostat.names import BrokerId, PartitionId, TopicPartition
from heliostat.ops.request_times import RequestTimes

Answer = TypeVar("Answer")
REQUEST_TIMEOUT_MS = 30_000  # as the Java client's; creating thousands of topics takes seconds
NOT_CONTROLLER = 41
UNSUPPORTED_VERSION = 35
AT_ONCE = 50
"""Requests in flight to one broker from one caller of `send_each`: it answers them one by one, so
nearby that is no faster than four, and over a long line a dozen times."""
MUTED_MS = 1000
"""A broker that throttles reads nothing more from that connection for the time that it tells: from
this on another one is opened, as questions would wait that no quota is about."""


class Caller:
    """Sends one request and returns its response, or raises an error of ours.

    Any thread may call; each has connections of its own while it does.

    Raises
    ------
    ConnectionLost
        From every method: no broker could be reached, or none answered in time.
    """

    def __init__(
        self,
        cluster: Reachable,
        client_id: str,
        *,
        connect_timeout_s: float,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self.timeout_ms = request_timeout_ms
        self.remembered = Remembered()
        self.times = RequestTimes()
        self._about: tuple[float, Any] | None = None
        self._clusters, self._are_ours = lent_clusters(
            cluster, client_id, request_timeout_ms / 1000
        )
        self.access = self._clusters.access
        if self._clusters.is_connected:
            return
        try:
            enter(self._clusters, connect_timeout_s, lambda _: self.about(0.0))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close connections, if they are the caller's own."""
        if self._are_ours:
            self._clusters.close()

    def send(self, request: Any, broker: BrokerId | int | None = None) -> Any:
        """Send to a broker, by default to one that can be reached.

        Raises
        ------
        BrokerError
            The broker does not support this request.
        """
        return self._sent([request], broker)[0]

    def send_each(
        self, requests: Sequence[Any], broker: BrokerId
    ) -> list[Any | BrokerError | ConnectionLost]:
        """Send requests to one broker, `AT_ONCE` in flight; return the answer or error of each."""
        answers: list[Any] = []
        for first in range(0, len(requests), AT_ONCE):
            some = requests[first : first + AT_ONCE]
            try:
                answers += self._sent(some, broker)
            except (BrokerError, ConnectionLost) as error:
                answers += [error] * len(some)
        return answers

    def version_of(self, request: Any) -> int:
        """Highest version of a request that both sides support.

        Raises
        ------
        BrokerError
            The cluster does not support it.
        """
        return self._with(None, lambda conn: _range_of(request, conn)[1])

    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Lowest and highest version of each request that a broker supports, by API key."""
        return self._with(None, lambda conn: conn.versions())

    def _sent(self, requests: Sequence[Any], broker: BrokerId | int | None) -> list[Any]:
        began_s = time.monotonic()
        try:
            return self._exchanged(requests, broker)
        finally:
            name = str(requests[0].name).removesuffix("Request")
            self.times.took(name, time.monotonic() - began_s)

    def _exchanged(self, requests: Sequence[Any], broker: BrokerId | int | None) -> list[Any]:
        def ask(conn: ControlConnection) -> list[Any]:
            low, high = _range_of(requests[0], conn)
            answers = conn.exchange_once(
                requests, _response_of(requests[0]), high, self.timeout_ms / 1000, low
            )
            if any(getattr(answer, "throttle_time_ms", 0) >= MUTED_MS for answer in answers):
                conn.close()
            return answers

        return self._with(broker, ask)

    def _with(
        self, broker: BrokerId | int | None, ask: Callable[[ControlConnection], Answer]
    ) -> Answer:
        with self._clusters.lent() as cluster:
            if broker is None:
                return ask(cluster.brokers.connected())
            if not cluster.brokers.knows(BrokerId(broker)):
                cluster.metadata([])
            return ask(cluster.brokers.known(BrokerId(broker)))

    def send_to_controller(self, request: Any) -> Any:
        """Send to the controller (with KRaft any broker forwards; ZooKeeper's must be found)."""
        controller = self.about(inf).controller_id
        response = self.send(request, None if controller == -1 else controller)
        rows = getattr(response, "topics", None) or getattr(response, "results", None) or ()
        if any(row.error_code == NOT_CONTROLLER for row in rows):
            response = self.send(request, self.about(0.0).controller_id)
        return response

    def about(self, lately_s: float) -> Any:
        """Metadata without topics, asked at most so long ago: the cluster's id, and its brokers."""
        now_s = time.monotonic()
        if self._about is None or now_s - self._about[0] >= lately_s:
            with self._clusters.lent() as cluster:
                answer = cluster.about()
            self._about = now_s, answer
        return self._about[1]

    def metadata(self, topics: Sequence[str] | None) -> Any:
        """Metadata of topics, of all (None) or of none (empty); missing ones aren't created."""
        kind = MetadataRequest.MetadataRequestTopic
        rows = None if topics is None else [kind(name=name) for name in topics]
        return self.send(MetadataRequest(topics=rows, allow_auto_topic_creation=False))

    def note_leaders(self, topics: Iterable[TopicInfo]) -> None:
        """Note who leads topics of one partition, as our own have, for those who read and write."""
        for topic in topics:
            place = TopicPartition(topic.name, PartitionId(0))
            leader = topic.partitions[0].leader if len(topic.partitions) == 1 else None
            if leader is None:
                self._clusters.leaders.pop(place, None)
            else:
                self._clusters.leaders[place] = leader

    def metadata_undecoded(
        self, topics: Sequence[str] | None, broker: BrokerId | None = None
    ) -> LargeAnswer:
        """As `metadata`, not decoded: answers that mostly stay the same."""
        kind = MetadataRequest.MetadataRequestTopic
        rows = None if topics is None else [kind(name=name) for name in topics]
        request = Metadata(topics=rows, allow_auto_topic_creation=False)
        answer: LargeAnswer = self.send(request, broker)
        return answer


def _response_of(request: Any) -> Any:
    """Return the class that decodes its answer."""
    undecoded = getattr(request, "RESPONSE", None)
    header = SimpleNamespace(request_api_key=request.API_KEY, request_api_version=None)
    return undecoded or ResponseClassRegistry.get_response_class(header)


def _range_of(request: Any, conn: ControlConnection) -> tuple[int, int]:
    """Return the lowest and the highest version that both sides support, of a request or its class.

    Raises
    ------
    BrokerError
        There is none.
    """
    low, high = versions_of(request)
    lowest, highest = conn.versions().get(request.API_KEY, (0, -1))
    low, high = max(low, lowest), min(high, highest)
    if low > high:
        raise BrokerError(
            f"the broker does not support {request.name} as it is needed",
            kafka_code=UNSUPPORTED_VERSION,
            broker_has=f"{lowest}-{highest}",
        )
    return low, high


def error_of(code: int, what: str, message: str | None = None) -> BrokerError | None:
    """Return the error of a row's code; None for success.

    Parameters
    ----------
    what
        What failed, such as `create topic ESS`.
    message
        The broker's message, if it sent one.
    """
    if code == 0:
        return None
    name = KAFKA_ERROR_NAMES.get(code, f"error {code}")
    return BrokerError(f"{what}: {message or name}", kafka_code=code)
