"""Fetch one side of a link like a consumer, with code that the copier does not share.

Requests go through kafka-python; only Metadata, ListOffsets and Fetch v4-v12 are used.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import kafka.errors
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest

from heliostat.access import ClusterAccess
from heliostat.clusters.credentials import client_settings
from heliostat.clusters.kafka_codes import EARLIEST, LATEST
from heliostat.clusters.kafka_python import LargeReadsManager
from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.clusters.refusals import enter, translated
from heliostat.clusters.seeds import with_seeds_that_answer
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import TopicPartition
from heliostat.ops.asked import PendingAnswer
from heliostat.verify.fetch_fit import PARTITION_BYTES, FetchFit
from heliostat.verify.read_requests import Isolation, ReadRequests

RESPONSE_BYTES_MAX = 256 * 1024 * 1024  # a first batch may exceed any limit of a fetch (KIP-74)
REQUEST_TIMEOUT_MS = 30_000
BOOTSTRAP_TIMEOUT_MS = 15_000
ENTER_WITHIN_S = 10.0
LOOK_MS = 50.0
TRIES_MAX = 40  # 10 s in all: an election takes a second or two
RETRY_WAIT_S = 0.25

logging.getLogger("kafka").addHandler(logging.NullHandler())  # we get its errors as exceptions


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as its cluster describes it: id (zero UUID before Kafka 2.8) and leaders."""

    topic_id: str
    leaders: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Bounds:
    """First offset and end (last readable offset plus one) of a partition."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FetchedPart:
    """Result of one fetch from `position`; `aborted` has (producer id, first offset)."""

    position: int
    data: bytes
    aborted: tuple[tuple[int, int], ...]
    high_watermark: int


class LogReader:
    """Connections to one cluster. Use as a context manager, from one thread.

    Raises
    ------
    ConnectionLost
        No broker of `access.bootstrap` answers.
    """

    def __init__(self, access: ClusterAccess, isolation: Isolation) -> None:
        self.access = access
        self.isolation = isolation
        self.cluster_id = ""
        self._leaders: dict[TopicPartition, int] = {}
        self._epochs = LeaderEpochs()
        """The newest seen: a deposed leader is not believed, and refuses."""
        self._requests = ReadRequests(isolation, self._epochs)
        self.fit = FetchFit()
        """How much to ask for at once."""
        self._net = NetworkSelector()
        settings = {
            "client_id": "heliostat-verify",
            "receive_message_max_bytes": RESPONSE_BYTES_MAX,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            **client_settings(with_seeds_that_answer(access)),
        }
        self._manager = LargeReadsManager(self._net, **settings)
        try:
            self._enter()
        except kafka.errors.KafkaError as error:
            self.close()
            raise translated(error, access, "no broker answers") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _enter(self) -> None:
        """Connect; beside that ask why we are not let in: kafka-python tries again in silence."""
        entering = PendingAnswer(partial(enter, self.access, ENTER_WITHIN_S), "enter")
        connected = self._manager.bootstrap_async(timeout_ms=BOOTSTRAP_TIMEOUT_MS)
        while not connected.is_done:
            self._net.poll(timeout_ms=LOOK_MS, future=connected)
            if entering.is_over:
                entering.answer()
        if connected.exception is not None:
            entering.answer()  # it says more
            raise connected.exception

    def close(self) -> None:
        """Close all connections; harmless when called twice."""
        if not self._manager.closed:
            self._manager.close()
            self._net.close()

    def topics(self, names: Iterable[str]) -> dict[str, TopicView]:
        """Describe topics; those that do not exist (or are hidden by ACLs) are left out."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        answer = self._send(request, None)
        self._manager.cluster.update_metadata(answer)
        self.cluster_id = answer.cluster_id or ""
        found: dict[str, TopicView] = {}
        for topic in answer.topics:
            if topic.error_code == 0:
                leaders = {p.partition_index: p.leader_id for p in topic.partitions}
                found[topic.name] = TopicView(str(topic.topic_id), leaders)
                for row in topic.partitions:
                    one, epoch = _tp(topic.name, row.partition_index), row.leader_epoch
                    if self._epochs.take(one, str(topic.topic_id), epoch):
                        self._leaders[one] = row.leader_id
        return found

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return log start and end (high watermark or last stable offset, by isolation level).

        Starts are read after ends: a start that is too late hides nothing, one too early would.
        """
        wanted = list(partitions)
        ends = self._list_offsets(wanted, LATEST)
        starts = self._list_offsets(wanted, EARLIEST)
        return {one: Bounds(starts[one], max(starts[one], ends[one])) for one in wanted}

    def _list_offsets(self, wanted: list[TopicPartition], timestamp: int) -> dict[Any, int]:
        found: dict[TopicPartition, int] = {}
        for left in self._attempts(wanted, found):
            requests = {
                node: self._requests.offsets(group, timestamp)
                for node, group in self._by_leader(left).items()
            }
            for answer in self._send_each(requests):
                for topic in answer.topics:
                    for part in topic.partitions:
                        one = _tp(topic.name, part.partition_index)
                        if self._usable(one, part.error_code):
                            found[one] = part.offset
        return found

    def fetch_alone(self, partition: TopicPartition, position: int) -> FetchedPart:
        """As `fetch` of one partition, as much as fits the line."""
        began_s = time.monotonic()
        found = self.fetch({partition: position}, self.fit.partition_bytes)[partition]
        self.fit.fetched(len(found.data), time.monotonic() - began_s)
        return found

    def fetch(
        self, positions: Mapping[TopicPartition, int], partition_bytes: int = PARTITION_BYTES
    ) -> dict[TopicPartition, FetchedPart]:
        """Fetch raw batches from each position, without a session; `data` may be empty.

        Raises
        ------
        BrokerError
            A position is out of range, or the topic is gone or forbidden.
        """
        found: dict[TopicPartition, FetchedPart] = {}
        for left in self._attempts(list(positions), found):
            requests = {
                node: self._requests.fetch(group, positions, partition_bytes)
                for node, group in self._by_leader(left).items()
            }
            for answer in self._send_each(requests):
                for topic in answer.responses:
                    for part in topic.partitions:
                        one = _tp(topic.topic, part.partition_index)
                        if self._usable(one, part.error_code, position=positions[one]):
                            aborted = tuple(
                                (a.producer_id, a.first_offset)
                                for a in part.aborted_transactions or ()
                            )
                            found[one] = FetchedPart(
                                position=positions[one],
                                data=bytes(part.records or b""),
                                aborted=aborted,
                                high_watermark=part.high_watermark,
                            )
        return found

    def _attempts(
        self, wanted: list[TopicPartition], found: Mapping[TopicPartition, Any]
    ) -> Iterator[list[TopicPartition]]:
        """Yield the partitions still missing in `found`; look leaders up again in between."""
        left = wanted
        for attempt in range(TRIES_MAX):
            if attempt or any(one not in self._leaders for one in left):
                self.topics({one.topic for one in left})
            yield left
            left = [one for one in left if one not in found]
            if not left:
                return
            time.sleep(RETRY_WAIT_S)
        raise ConnectionLost(
            "partitions have no leader that answers", at=self.access.described, first=str(left[0])
        )

    def _by_leader(self, wanted: list[TopicPartition]) -> dict[int, list[TopicPartition]]:
        groups: dict[int, list[TopicPartition]] = defaultdict(list)
        for one in wanted:
            leader = self._leaders.get(one, -1)
            if leader >= 0:
                groups[leader].append(one)
        return groups

    def _usable(self, one: TopicPartition, code: int, position: int | None = None) -> bool:
        """Return True without error, False after a leader change; raise any other error."""
        if code == 0:
            return True
        error = BrokerError(
            "reading failed", kafka_code=code, partition=str(one), position=position
        )
        if error.kafka.stale_metadata:
            return False
        raise error

    def _send_each(self, requests: Mapping[int, Any]) -> list[Any]:
        """Send one request to each of several brokers, all in flight at once; then try again."""
        answers: dict[int, Any] = {}

        async def all_of_them() -> None:
            sent = {node: self._manager.send(each, node_id=node) for node, each in requests.items()}
            for node, answer in sent.items():
                with suppress(kafka.errors.KafkaError):
                    answers[node] = await answer

        if len(requests) > 1:
            with suppress(kafka.errors.KafkaError):
                self._net.run(all_of_them)
        return [
            answers[node] if node in answers else self._send(request, node)
            for node, request in requests.items()
        ]

    def _send(self, request: Any, node: int | None) -> Any:
        last: Exception | None = None
        for _ in range(TRIES_MAX):
            began_s = time.monotonic()
            try:
                answer = self._net.run(lambda: self._manager.send(request, node_id=node))
            except kafka.errors.KafkaError as error:
                if not getattr(error, "retriable", False):
                    raise BrokerError(str(error), kafka_code=error.errno, at=node) from error
                last = error
                time.sleep(RETRY_WAIT_S)
            else:
                self.fit.answered(time.monotonic() - began_s)
                return answer
        raise ConnectionLost(f"no answer: {last}", at=self.access.described, node=node)


def _tp(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, partition)  # type: ignore[arg-type]  # names come off the wire
