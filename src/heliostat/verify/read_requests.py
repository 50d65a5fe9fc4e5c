"""Requests of a reader: ListOffsets and Fetch, as consumers send them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from heliostat.clusters.kafka_codes import CONSUMER
from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.names import TopicPartition
from heliostat.verify.fetch_fit import PARTITION_BYTES_MAX

FETCH_BYTES_MAX = PARTITION_BYTES_MAX
FETCH_WAIT_MS = 500  # rarely waited for: below the end there are records


class Isolation(IntEnum):
    """Isolation level of a fetch (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ReadRequests:
    """Makes requests for partitions of one leader.

    Parameters
    ----------
    isolation
        Which records are seen.
    epochs
        The newest leader epochs seen: a deposed leader refuses.
    """

    def __init__(self, isolation: Isolation, epochs: LeaderEpochs) -> None:
        self._isolation = isolation
        self._epochs = epochs

    def offsets(self, group: Iterable[TopicPartition], timestamp: int) -> Any:
        """Return a request for log ends or starts."""
        topic_type = ListOffsetsRequest.ListOffsetsTopic
        topics = [
            topic_type(
                name=topic,
                partitions=[
                    topic_type.ListOffsetsPartition(
                        partition_index=one.partition,
                        current_leader_epoch=self._epochs.of(one),
                        timestamp=timestamp,
                    )
                    for one in members
                ],
            )
            for topic, members in _by_topic(group).items()
        ]
        return ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=int(self._isolation),
            topics=topics,
            min_version=2,
        )

    def fetch(
        self,
        group: Iterable[TopicPartition],
        positions: Mapping[TopicPartition, int],
        partition_bytes: int,
    ) -> Any:
        """Return a request for batches from each position, without a session."""
        topic_type = FetchRequest.FetchTopic
        topics = [
            topic_type(
                topic=topic,
                partitions=[
                    topic_type.FetchPartition(
                        partition=one.partition,
                        current_leader_epoch=self._epochs.of(one),
                        fetch_offset=positions[one],
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=partition_bytes,
                    )
                    for one in members
                ],
            )
            for topic, members in _by_topic(group).items()
        ]
        return FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=int(self._isolation),
            session_id=0,
            session_epoch=-1,
            topics=topics,
            forgotten_topics_data=[],
            rack_id="",
            min_version=4,
            max_version=12,
        )


def _by_topic(group: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for one in group:
        topics[one.topic].append(one)
    return topics
