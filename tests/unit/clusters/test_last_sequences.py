"""Packed DescribeProducers against kafka-python's message classes, and against damage."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

from heliostat.clusters.wire.last_sequences import LastSequencesAnswer, LastSequencesRequest
from heliostat.errors import ProtocolError
from heliostat.names import PartitionId, TopicName
from heliostat.names import TopicPartition as Partition

PARTITIONS = [
    Partition(TopicName(name), PartitionId(number))
    for name, count in (("one", 1), ("many-" + "x" * 120, 130))
    for number in range(count)
]
PRODUCERS = {4242: 2**31 - 1, 7: -1, 2**62 + 5: 0}


def answer(refused: int = -1) -> bytes:
    """Three producers in each partition; `refused` has an error beside them."""
    topic = DescribeProducersResponse.TopicResponse
    partition = topic.PartitionResponse
    rows = [
        partition(
            partition_index=item.partition,
            error_code=6 if place == refused else 0,
            error_message="moved" if place == refused else None,
            active_producers=[
                partition.ProducerState(
                    producer_id=number,
                    producer_epoch=3,
                    last_sequence=last,
                    last_timestamp=1_790_000_000_000,
                    coordinator_epoch=-1,
                    current_txn_start_offset=-1,
                )
                for number, last in PRODUCERS.items()
            ],
        )
        for place, item in enumerate(PARTITIONS)
    ]
    topics = [
        topic(name=PARTITIONS[0].topic, partitions=rows[:1]),
        topic(name=PARTITIONS[1].topic, partitions=rows[1:]),
    ]
    return bytes(DescribeProducersResponse(throttle_time_ms=7, topics=topics).encode(version=0))


def test_a_request_has_the_bytes_of_kafka_pythons() -> None:
    topic = DescribeProducersRequest.TopicRequest
    theirs = DescribeProducersRequest(
        topics=[
            topic(name=PARTITIONS[0].topic, partition_indexes=[0]),
            topic(name=PARTITIONS[1].topic, partition_indexes=list(range(130))),
        ]
    ).encode(version=0)
    assert LastSequencesRequest(PARTITIONS).encode(0) == bytes(theirs)


def test_an_answer_is_unpacked_as_it_was_packed() -> None:
    assert LastSequencesAnswer.decode(answer(), 0) == dict.fromkeys(PARTITIONS, PRODUCERS)


def test_refused_partitions_are_left_out() -> None:
    found = LastSequencesAnswer.decode(answer(refused=5), 0)
    assert found.keys() == set(PARTITIONS) - {PARTITIONS[5]}


@pytest.mark.parametrize("kept", [0, 5, 40, 200])
def test_a_truncated_answer_is_malformed(kept: int) -> None:
    with pytest.raises(ProtocolError, match="malformed"):
        LastSequencesAnswer.decode(answer()[:kept], 0)
