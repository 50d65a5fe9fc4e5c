"""Thousands of topics: what is asked of the target, and how often settings are worked out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast
from uuid import UUID

import pytest

from heliostat.clusters.admin import (
    BrokerInfo,
    ClusterAdmin,
    ConfigEntry,
    ConfigSource,
    PartitionInfo,
    TopicInfo,
)
from heliostat.config import LinkConfig
from heliostat.names import (
    BrokerId,
    ClusterId,
    LeaderEpoch,
    LinkName,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from heliostat.topics import plan as plan_module
from heliostat.topics.configs import wanted_configs
from heliostat.topics.observe import observe
from heliostat.topics.plan import plan_topics
from heliostat.topics.values import MirrorRecord

TOPICS = 3_000
LINK = LinkConfig.model_validate(
    {"name": "l", "source": "a", "target": "b", "topics": {"include": [".*"]}}
)


def settings(retention_ms: str) -> dict[str, ConfigEntry]:
    values = {"cleanup.policy": "delete", "retention.ms": retention_ms, "max.message.bytes": "9999"}
    return {
        key: ConfigEntry(
            value, ConfigSource.TOPIC, is_default=False, is_read_only=False, is_sensitive=False
        )
        for key, value in values.items()
    }


SHARED = [settings("1"), settings("2"), settings("3")]
"""What brokers answer: topics with equal settings share one mapping."""


class FakeAdmin:
    """A cluster that answers from memory and notes whose log ends were asked for."""

    def __init__(self, cluster: str, names: Iterable[TopicName]) -> None:
        self.cluster = cluster
        self.infos = {name: _info(name, UUID(int=n + 1)) for n, name in enumerate(names)}
        self.asked_ends: list[TopicPartition] = []

    def cluster_id(self) -> ClusterId:
        return ClusterId(self.cluster)

    def brokers(self) -> tuple[BrokerInfo, ...]:
        return (BrokerInfo(BrokerId(1), "localhost", 1, None),)

    def describe_topics(self, names: Iterable[TopicName] | None = None) -> Mapping[Any, TopicInfo]:
        chosen = self.infos.keys() if names is None else names
        return {name: self.infos[name] for name in chosen if name in self.infos}

    def describe_configs(self, names: Iterable[TopicName]) -> dict[TopicName, Any]:
        return {name: SHARED[len(name) % len(SHARED)] for name in names}

    def inherited_configs(self) -> dict[str, str | None]:
        return {key: entry.value for key, entry in SHARED[0].items()}

    def list_log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        self.asked_ends = list(partitions)
        return dict.fromkeys(self.asked_ends, Offset(5))


def _info(name: TopicName, topic_id: UUID) -> TopicInfo:
    one = PartitionInfo(PartitionId(0), BrokerId(1), LeaderEpoch(0), (BrokerId(1),), (BrokerId(1),))
    return TopicInfo(name, topic_id, (one,), is_internal=False)


def pair() -> tuple[FakeAdmin, FakeAdmin, dict[TopicName, MirrorRecord]]:
    names = [TopicName(f"topic-{number}") for number in range(TOPICS)]
    source, target = FakeAdmin("source", names), FakeAdmin("target", names)
    mirrors = {
        name: MirrorRecord(
            source=name,
            target=name,
            source_id=source.infos[name].topic_id,
            target_id=target.infos[name].topic_id,
            source_cluster=ClusterId("source"),
            start="earliest",
            initial_partitions=1,
        )
        for name in names
    }
    return source, target, mirrors


def look(
    source: FakeAdmin, target: FakeAdmin, mirrors: Mapping[TopicName, MirrorRecord]
) -> tuple[Any, Any]:
    return observe(cast("ClusterAdmin", source), cast("ClusterAdmin", target), LINK, mirrors)


def test_log_ends_are_asked_for_only_where_a_topic_may_not_be_ours() -> None:
    """Given 3,000 mirrors, one made anew by somebody and one unknown / then two log ends."""
    source, target, mirrors = pair()
    look(source, target, mirrors)
    assert target.asked_ends == []
    stranger, unknown = TopicName("topic-7"), TopicName("topic-8")
    target.infos[stranger] = _info(stranger, UUID(int=99_999))
    del mirrors[unknown]
    seen = look(source, target, mirrors)
    assert {partition.topic for partition in target.asked_ends} == {stranger, unknown}
    refused = plan_topics(LINK, *seen, mirrors).refuse
    assert {name: refusal.code for name, refusal in refused.items()} == {
        stranger: "target_recreated",
        unknown: "target_not_ours",
    }


def test_settings_are_worked_out_once_for_all_topics_that_share_them(
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
    assert len(calls) <= len(SHARED)
