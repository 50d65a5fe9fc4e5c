"""A mirror that is deleted and recreated while a round of the old one still begins."""

from __future__ import annotations

from contextlib import closing

import pytest
from support.clusters import ClusterPair, create_topic, until
from support.records import Sample, encode, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_ID
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.errors import BrokerError
from heliostat.names import Offset, PartitionId, TopicId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import LogRange
from heliostat.records.transport.queries import WireQuestions

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


def id_of(bootstrap: str, topic: TopicName) -> TopicId | None:
    with ClusterAdmin(bootstrap.split(",")) as admin:
        return admin.describe_topics([topic])[topic].topic_id


def test_an_empty_recreated_mirror_is_not_taken_for_the_old_one(cluster_pair: ClusterPair) -> None:
    """Given a round that knows a mirror's leader / when the mirror is recreated / then refused.

    Markers carry no topic ids, so a round of the old mirror would append its first ones to the new
    one.
    """
    bootstrap = cluster_pair.target.bootstrap
    topic = create_topic(cluster_pair.target)
    place = TopicPartition(topic, PartitionId(0))
    old = id_of(bootstrap, topic)
    spec = PartitionSpec(place, place, None, old, Offset(0), 1 << 20, is_compacted=False)
    address = bootstrap.split(",")
    with (
        closing(WireCluster(address, DialSettings())) as source,
        closing(WireCluster(address, DialSettings())) as target,
    ):
        asked = WireQuestions([spec], source, target, 1)
        assert list(asked.leaders().target) == [0]
        assert asked.target_ranges([0]) == {0: LogRange(Offset(0), Offset(0))}
        with ClusterAdmin(address) as admin:
            assert set(admin.delete_topics([topic]).values()) == {None}
        until(lambda: not is_there(bootstrap, topic), "the topic is gone")
        create_topic(cluster_pair.target, topic)
        assert id_of(bootstrap, topic) not in {None, old}
        problem = asked.target_ranges([0])[0]
        assert isinstance(problem, BrokerError)
        assert problem.kafka_code == UNKNOWN_TOPIC_ID
        # With a record in it the ends show it, and its writer is looked up by topic id.
        write_batches(address, topic, [encode([Sample(b"k", b"v", 1_790_000_000_000)])])
        told = asked.target_ranges([0])
        assert told == {0: LogRange(Offset(0), Offset(1))}
        assert asked.target_last_batches({0: LogRange(Offset(0), Offset(1))}) == {}


def is_there(bootstrap: str, topic: TopicName) -> bool:
    with ClusterAdmin(bootstrap.split(",")) as admin:
        return admin.describe_topics([topic])[topic].error is None
