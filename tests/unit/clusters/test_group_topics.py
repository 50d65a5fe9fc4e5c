"""Which topics a member reads, from what its broker shows of it: bytes of kafka-python's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from heliostat.clusters.admin.group_topics import topics_of_member
from heliostat.clusters.admin.group_values import CLASSIC_KIND, CONSUMER_KIND, STREAMS_KIND


def asked(*topics: str, version: int = 0) -> bytes:
    value: bytes = ConsumerProtocolSubscription(topics=list(topics)).encode(version=version)
    return value


def assigned(*topics: str) -> bytes:
    kind = ConsumerProtocolAssignment
    rows = [kind.TopicPartition(topic=each, partitions=[0, 1]) for each in topics]
    value: bytes = kind(assigned_partitions=rows).encode(version=0)
    return value


@pytest.mark.parametrize(
    ("metadata", "assignment", "topics"),
    [
        (asked("orders", "zahlungen-ä"), b"", {"orders", "zahlungen-ä"}),
        (asked("orders", version=1), assigned("payments", "orders"), {"orders", "payments"}),
        (b"", b"", set()),
        (None, assigned("orders"), {"orders"}),
        (b"\x00\x01http://worker:8083", asked("a")[:5], set()),
    ],
)
def test_a_member_of_a_classic_group_reads_what_it_asks_for_and_was_given(
    metadata: bytes | None, assignment: bytes, topics: set[str]
) -> None:
    member = SimpleNamespace(member_metadata=metadata, member_assignment=assignment)
    assert topics_of_member(member, CLASSIC_KIND) == topics
    assert topics_of_member(member, "") == topics  # of a broker that tells no kind


def test_members_of_the_newer_kinds() -> None:
    rows = [SimpleNamespace(topic_name="payments")]
    member = SimpleNamespace(
        subscribed_topic_names=["orders"], assignment=SimpleNamespace(topic_partitions=rows)
    )
    assert topics_of_member(member, CONSUMER_KIND) == {"orders", "payments"}
    assert topics_of_member(member, STREAMS_KIND) == frozenset()
