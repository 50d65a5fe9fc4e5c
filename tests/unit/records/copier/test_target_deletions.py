"""Records below a mirror's start are deleted in the very topic that the lane was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_ID
from heliostat.clusters.wire.leaders import Leader, TopicLeaders
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.transport.queries import WireQuestions

P = TopicPartition(TopicName("t"), PartitionId(0))
OURS, OTHERS = UUID(int=1), UUID(int=2)


def asked(*ids: UUID | None) -> tuple[WireQuestions, Mock]:
    """Return a lane whose target returns these ids in turn; the first is looked up already."""
    spec = PartitionSpec(P, P, None, OURS, Offset(5), 1 << 20, is_compacted=False)
    answers = iter(ids)

    def metadata(topics: Sequence[TopicName]) -> dict[TopicName, Any]:
        leader = Leader(BrokerId(1), 0, 0)
        return dict.fromkeys(topics, TopicLeaders(next(answers), 0, {P.partition: leader}))

    source, target = Mock(), Mock()
    source.metadata = dict.fromkeys
    target.metadata = metadata
    questions = WireQuestions([spec], source, target, 7)
    questions.leaders()
    return questions, target.delete_records


def test_records_of_the_lanes_topic_are_deleted() -> None:
    for ids in ((OURS, OURS, OURS), (None, None, None)):  # None: brokers before 2.8 have no ids
        questions, delete = asked(*ids)
        assert questions.delete_target_records(0, Offset(5)) is None
        delete.assert_called_once_with(BrokerId(1), P, Offset(5))


@pytest.mark.parametrize(
    ("ids", "is_asked"), [((OURS, OTHERS), False), ((OURS, OURS, OTHERS), True)]
)
def test_a_recreated_topic_is_unchanged_or_reported(
    ids: Sequence[UUID | None], *, is_asked: bool
) -> None:
    """Given another topic before, or after, the deletion / then a problem: nothing is copied."""
    questions, delete = asked(*ids)
    problem = questions.delete_target_records(0, Offset(5))
    assert isinstance(problem, BrokerError)
    assert problem.kafka_code == UNKNOWN_TOPIC_ID
    assert delete.called is is_asked


def test_without_a_leader_no_request_is_sent() -> None:
    questions, delete = asked(OTHERS)
    assert isinstance(questions.delete_target_records(0, Offset(5)), ConnectionLost)
    assert not delete.called
