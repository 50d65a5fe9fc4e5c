"""Thousands of topics: requests to the target, and how often settings are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.config import LinkConfig
from heliostat.names import ClusterId, LinkName, PartitionId, TopicName, TopicPartition
from heliostat.topics import plan as plan_module
from heliostat.topics.apply import TOPICS_PER_REQUEST, apply_plan
from heliostat.topics.configs import wanted_configs
from heliostat.topics.observe import observe
from heliostat.topics.plan import plan_topics
from heliostat.topics.values import MirrorRecord

TOPICS = 3_000
LINK = LinkConfig.model_validate(
    {"name": "l", "source": "a", "target": "b", "topics": {"include": [".*"]}}
)


SETTINGS: list[dict[str, str]] = [
    {"retention.ms": "1", "max.message.bytes": "9999"},
    {"retention.ms": "2", "max.message.bytes": "9999"},
    {"retention.ms": "3", "max.message.bytes": "9999"},
]


def cluster(name: str, topics: list[TopicName]) -> SimulatedCluster:
    """Each third topic has equal settings; five records are in each."""
    made = SimulatedCluster(name)
    for number, topic in enumerate(topics):
        made.create(topic, configs=SETTINGS[number % len(SETTINGS)])
        made.append(topic, 5)
    return made


def pair() -> tuple[SimulatedCluster, SimulatedCluster, dict[TopicName, MirrorRecord]]:
    names = [TopicName(f"topic-{number}") for number in range(TOPICS)]
    source, target = cluster("source", names), cluster("target", names)
    mirrors = {
        name: MirrorRecord(
            source=name,
            target=name,
            source_id=source.topics[name].topic_id,
            target_id=target.topics[name].topic_id,
            source_cluster=ClusterId("source"),
            start="earliest",
            initial_partitions=1,
        )
        for name in names
    }
    return source, target, mirrors


def look(
    source: SimulatedCluster, target: SimulatedCluster, mirrors: Mapping[TopicName, MirrorRecord]
) -> tuple[Any, Any]:
    return observe(SimulatedAdmin(source), SimulatedAdmin(target), LINK, mirrors)


def test_log_ends_are_read_only_for_topics_that_may_not_be_ours() -> None:
    """Given 3,000 mirrors, one recreated by others and one unknown / then two log ends."""
    source, target, mirrors = pair()
    look(source, target, mirrors)
    assert target.asked("list_log_ends") in ([], [()])
    target.calls.clear()
    stranger, unknown = TopicName("topic-7"), TopicName("topic-8")
    own = target.topics[stranger].configs
    target.delete(stranger)
    target.create(stranger, configs=own)
    target.append(stranger, 5)
    del mirrors[unknown]
    seen = look(source, target, mirrors)
    [asked] = target.asked("list_log_ends")
    assert set(asked) == {TopicPartition(name, PartitionId(0)) for name in (stranger, unknown)}
    refused = plan_topics(LINK, *seen, mirrors).refuse
    assert {name: refusal.code for name, refusal in refused.items()} == {
        stranger: "target_recreated",
        unknown: "target_not_ours",
    }


def test_settings_are_computed_once_for_all_topics_that_share_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given 3,000 topics with three different settings / when planned / then three times."""
    source, target, mirrors = pair()
    calls: list[object] = []

    def counted(*given: Any) -> Any:
        calls.append(given)
        return wanted_configs(*given)

    monkeypatch.setattr(plan_module, "wanted_configs", counted)
    claimed: dict[TopicName, LinkName] = {}
    plan = plan_topics(LINK, *look(source, target, mirrors), mirrors, claimed)
    assert len(plan.mirrors) == TOPICS
    assert len(calls) <= len(SETTINGS)


@pytest.mark.parametrize("topics", [20, 3_348])
def test_the_first_reconciliation_costs_few_requests_one_after_the_other(topics: int) -> None:
    """Given topics that the target lacks / then their number costs only requests to create them."""
    names = [TopicName(f"topic-{number}") for number in range(topics)]
    source, target = cluster("source", names), cluster("target", [])
    plan = plan_topics(LINK, *look(source, target, {}), {})
    applied = apply_plan(plan, SimulatedAdmin(target))
    assert len(applied.mirrors) == len(applied.created) == topics
    creating = -(-topics // TOPICS_PER_REQUEST)
    assert len(target.asked("create_topics")) == creating
    assert len(target.calls) - creating <= 10
    assert len(source.calls) <= 3
