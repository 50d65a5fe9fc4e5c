"""The only place that uses kafka-python's admin client.

Requests are built from its protocol classes and sent through its connection manager: its public
methods raise for the first item that failed, and the others' answers would be lost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError, UnknownBrokerIdError
from kafka.protocol.metadata import MetadataRequest

from heliostat.access import Reachable, access_of
from heliostat.clusters.admin.large_answers import LargeAnswer, Metadata, Remembered
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.opened import opened_with_manager
from heliostat.clusters.refusals import enter, translated
from heliostat.clusters.seeds import with_seeds_that_answer
from heliostat.errors import KAFKA_ERRORS, BrokerError, ConnectionLost
from heliostat.names import BrokerId

REQUEST_TIMEOUT_MS = 30_000  # as the Java client's; creating thousands of topics takes seconds
NOT_CONTROLLER = 41
AT_ONCE = 4
"""Requests in flight to one broker; kafka-python refuses more than five."""
ANY_BROKER_TRIES = 5
"""With one of three brokers down, one of the first tries reaches another."""
ANY_BROKER_PAUSE_S = 0.1
REFUSED = "ECONNREFUSED"


class Caller:
    """Sends one request and returns its response, or raises an error of ours.

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
        self.access = access_of(cluster)
        self.timeout_ms = request_timeout_ms
        self.remembered = Remembered()
        self._controller: int | None = None
        enter(cluster, connect_timeout_s)
        try:
            self._client, self._manager = opened_with_manager(
                KafkaAdminClient,
                **client_settings(with_seeds_that_answer(self.access)),
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                bootstrap_timeout_ms=round(connect_timeout_s * 1000),
            )
        except (KafkaError, OSError, ValueError) as error:
            raise self._lost(error) from error

    def close(self) -> None:
        """Close connections and the client's thread."""
        self._client.close()

    def send(self, request: Any, broker: BrokerId | int | None = None) -> Any:
        """Send to a broker, by default to the least loaded one.

        Raises
        ------
        BrokerError
            The broker does not support this request.
        """
        tries = ANY_BROKER_TRIES if broker is None else 1
        looked_up = False
        while True:  # ends: `tries` falls, and brokers are looked up once
            tries -= 1
            try:
                return self._manager.run(self._manager.send, request, broker)
            except UnknownBrokerIdError as error:
                # The broker joined or came back since the client's last metadata, which it renews
                # by itself only every five minutes.
                if looked_up:
                    raise self._lost(error) from error
                looked_up = True
                self._look_up_brokers()
            except (KafkaError, OSError, RuntimeError) as error:
                if tries <= 0 or not _was_never_sent(error):
                    raise self._lost(error) from error
                time.sleep(ANY_BROKER_PAUSE_S)

    def send_each(
        self, requests: Sequence[Any], broker: BrokerId
    ) -> list[Any | BrokerError | ConnectionLost]:
        """Send requests to one broker, `AT_ONCE` in flight; return the answer or error of each."""

        async def answered(future: Any) -> Any:
            try:
                return await future
            except (KafkaError, OSError, RuntimeError) as error:
                return self._lost(error)

        async def all_of_them() -> list[Any]:
            answers: list[Any] = []
            for some in range(0, len(requests), AT_ONCE):
                sent = [
                    self._manager.send(each, broker) for each in requests[some : some + AT_ONCE]
                ]
                answers += [await answered(future) for future in sent]
            return answers

        try:
            answers: list[Any] = self._manager.run(all_of_them)
        except (KafkaError, OSError, RuntimeError) as error:
            lost = self._lost(error)
            return [lost] * len(requests)
        return answers

    def version_of(self, request: Any) -> int:
        """Highest version of a request that both sides support.

        Raises
        ------
        BrokerError
            The cluster does not support it.
        """
        try:
            return int(self._manager.broker_version_data.api_version(request))
        except KafkaError as error:
            raise self._lost(error) from error

    def _look_up_brokers(self) -> None:
        try:
            self._manager.run(self._manager.cluster.refresh_metadata)
        except (KafkaError, OSError, RuntimeError) as error:
            raise self._lost(error) from error

    def send_to_controller(self, request: Any) -> Any:
        """Send to the controller (with KRaft any broker forwards; ZooKeeper's must be found)."""
        if self._controller is None:
            self._controller = self.metadata([]).controller_id
        response = self.send(request, None if self._controller == -1 else self._controller)
        rows = getattr(response, "topics", None) or getattr(response, "results", None) or ()
        if any(row.error_code == NOT_CONTROLLER for row in rows):
            self._controller = self.metadata([]).controller_id
            response = self.send(request, self._controller)
        return response

    def metadata(self, topics: Sequence[str] | None) -> Any:
        """Metadata of topics, of all (None) or of none (empty); missing ones aren't created."""
        kind = MetadataRequest.MetadataRequestTopic
        rows = None if topics is None else [kind(name=name) for name in topics]
        return self.send(MetadataRequest(topics=rows, allow_auto_topic_creation=False))

    def metadata_undecoded(
        self, topics: Sequence[str] | None, broker: BrokerId | None = None
    ) -> LargeAnswer:
        """As `metadata`, not decoded: answers that mostly stay the same."""
        kind = MetadataRequest.MetadataRequestTopic
        rows = None if topics is None else [kind(name=name) for name in topics]
        request = Metadata(topics=rows, allow_auto_topic_creation=False)
        answer: LargeAnswer = self.send(request, broker)
        return answer

    def _lost(self, error: Exception) -> BrokerError | ConnectionLost:
        hint = "check the bootstrap addresses and that the brokers run"
        return translated(error, self.access, "cannot talk to the cluster", hint=hint)


def _was_never_sent(error: Exception) -> bool:
    """Whether the chosen broker is down; the next attempt chooses another."""
    refused = isinstance(error, KafkaConnectionError) and REFUSED in str(error)
    return refused or isinstance(error, NodeNotReadyError)


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
    known = KAFKA_ERRORS.get(code)
    name = known.name if known is not None else f"error {code}"
    return BrokerError(f"{what}: {message or name}", kafka_code=code)
