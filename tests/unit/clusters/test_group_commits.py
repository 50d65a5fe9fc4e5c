"""Commits of groups with many partitions, and answers of brokers that are lost."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from heliostat.clusters.admin import CommittedOffset
from heliostat.clusters.admin.group_calls import COMMIT_BYTES, commit_offsets, commit_parts
from heliostat.clusters.kafka_codes import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, GroupId, Offset, PartitionId, TopicName, TopicPartition

G = GroupId("g")


def rows(count: int, metadata: str) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(TopicName("t"), PartitionId(n)): CommittedOffset(Offset(n), metadata)
        for n in range(count)
    }


class Coordinators:
    """One broker coordinates all groups; who has moved is asked once more."""

    def ask_each(self, groups: Any, ask: Any) -> Any:
        return ask(BrokerId(1), list(groups))


class Broker:
    """Answers a commit by `answer`, by the number of the request."""

    def __init__(self, *lost: Any) -> None:
        self.lost = lost
        self.requests: list[Any] = []

    def send_each(self, requests: Sequence[Any], _: BrokerId) -> list[Any]:
        self.requests += requests
        return [
            answer or done(request)
            for request, answer in zip(
                requests, [*self.lost, *[None] * len(requests)][: len(requests)], strict=True
            )
        ]


def done(request: Any) -> Any:
    return SimpleNamespace(
        topics=[
            SimpleNamespace(
                name=topic.name,
                partitions=[
                    SimpleNamespace(partition_index=each.partition_index, error_code=0)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def committed(broker: Broker, commits: dict[TopicPartition, CommittedOffset]) -> Any:
    asked: Any = broker, Coordinators()
    return commit_offsets(*asked, {G: commits})[G]


def test_what_is_too_large_for_one_batch_is_cut() -> None:
    large = rows(300, "m" * 4096)
    parts = list(commit_parts(large))
    assert {key: row for part in parts for key, row in part.items()} == large
    assert [len(part) for part in parts] == [88, 88, 88, 36]
    assert all(len(part) * 4096 < COMMIT_BYTES for part in parts)
    assert list(commit_parts(rows(2, "m" * COMMIT_BYTES))) == [
        {key: row} for key, row in rows(2, "m" * COMMIT_BYTES).items()
    ]
    broker = Broker()
    assert committed(broker, large) == dict.fromkeys(large)
    assert len(broker.requests) == 4


def test_a_part_that_is_lost_loses_no_other() -> None:
    large = rows(300, "m" * 4096)
    broker = Broker(None, ConnectionLost("broker 1 is gone"))
    answer = committed(broker, large)
    lost = [key for key, error in answer.items() if error is not None]
    assert (len(answer), len(lost)) == (300, 88)
    assert {answer[key].kafka_code for key in lost} == {COORDINATOR_NOT_AVAILABLE}


def test_a_coordinator_that_has_moved_is_told_for_the_group() -> None:
    moved = BrokerError("moved", kafka_code=NOT_COORDINATOR)
    assert committed(Broker(moved), rows(300, "m" * 4096)) is moved
