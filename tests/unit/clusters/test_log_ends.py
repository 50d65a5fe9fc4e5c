"""Packed ListOffsets against kafka-python's message classes, and against damage."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.clusters.wire.log_ends import VERSION_MAX, VERSION_MIN, LogEndsAnswer, LogEndsRequest
from heliostat.errors import BrokerError, ProtocolError
from heliostat.names import PartitionId, TopicName
from heliostat.names import TopicPartition as Partition

PARTITIONS = [
    Partition(TopicName(name), PartitionId(number))
    for name, count in (("one", 1), ("many-" + "x" * 120, 130))
    for number in range(count)
]
VERSIONS = (VERSION_MIN, VERSION_MAX)


def by_topic() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for item in PARTITIONS:
        found.setdefault(item.topic, []).append(item.partition)
    return found


def answer(version: int, error: int = 0) -> bytes:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    partition = topic.ListOffsetsPartitionResponse
    return ListOffsetsResponse(
        throttle_time_ms=7,
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(
                        partition_index=number,
                        error_code=error,
                        timestamp=-1,
                        offset=2**40 + number,
                        leader_epoch=3,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in by_topic().items()
        ],
    ).encode(version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_has_the_bytes_of_kafka_pythons(version: int):
    epochs = LeaderEpochs()
    epochs.take(PARTITIONS[3], "", 9)

    def epoch_of(name: str, number: int) -> int:
        return 9 if PARTITIONS[3] == Partition(TopicName(name), PartitionId(number)) else -1

    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition
    theirs = ListOffsetsRequest(
        replica_id=-2,
        isolation_level=0,
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(
                        partition_index=number,
                        current_leader_epoch=epoch_of(name, number),
                        timestamp=-1,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in by_topic().items()
        ],
    )
    ours = LogEndsRequest(PARTITIONS, -1, -2, epochs)
    assert ours.encode(version) == theirs.encode(version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_read_as_it_was_written(version: int):
    found = LogEndsAnswer.decode(memoryview(answer(version)), version)
    assert found == {item: 2**40 + item.partition for item in PARTITIONS}


def test_a_refusal_is_returned():
    found = LogEndsAnswer.decode(answer(VERSION_MAX, error=6), VERSION_MAX)
    assert isinstance(found[PARTITIONS[0]], BrokerError)
    assert len(found) == len(PARTITIONS)


def test_a_truncated_answer_is_malformed():
    whole = answer(VERSION_MAX)
    for size in (0, 5, 40, len(whole) - 2):
        with pytest.raises(ProtocolError):
            LogEndsAnswer.decode(whole[:size], VERSION_MAX)


def test_too_old_a_version_is_refused():
    with pytest.raises(ProtocolError):
        LogEndsRequest(PARTITIONS, -1, -2, LeaderEpochs()).encode(VERSION_MIN - 1)
