"""Both sides of a link as a plan sees them: one topic `t`, a link `l` from cluster A to B."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from heliostat.clusters.admin import ConfigEntry, ConfigSource
from heliostat.config import FORCED_CONFIGS, FOREVER_MS, LinkConfig
from heliostat.names import ClusterId, Offset, PartitionId, TopicName
from heliostat.topics.values import (
    MirrorRecord,
    SourceTopic,
    SourceTopics,
    TargetTopic,
    TargetTopics,
)

INHERITED = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "flush.ms": FOREVER_MS,
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": FOREVER_MS,
    "message.timestamp.type": "CreateTime",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
}


def entries(source: ConfigSource = ConfigSource.TOPIC, /, **own: str) -> dict[str, ConfigEntry]:
    found = {
        key: ConfigEntry(value, ConfigSource.DEFAULT, True, False, False)
        for key, value in INHERITED.items()
    }
    for key, value in own.items():
        name = key.replace("__", ".")
        found[name] = ConfigEntry(value, source, False, False, False)
    return found


def link(**topics: object) -> LinkConfig:
    return LinkConfig.model_validate(
        {
            "name": "l",
            "source": "a",
            "target": "b",
            "topics": {"include": [".*"], **topics},
        }
    )


def source(*topics: SourceTopic) -> SourceTopics:
    names = tuple(sorted(topic.name for topic in topics))
    return SourceTopics(ClusterId("A"), names, {topic.name: topic for topic in topics})


def target(*topics: TargetTopic, brokers: int = 3, **more: Any) -> TargetTopics:
    there = {topic.name: topic for topic in topics}
    return replace(TargetTopics(ClusterId("B"), brokers, there, INHERITED), **more)


def topic(name: str = "t", partitions: int = 2, number: int = 1, **own: str) -> SourceTopic:
    configs = entries(**own)
    return SourceTopic(TopicName(name), UUID(int=number), partitions, 3, configs)


def forced() -> dict[str, str]:
    return {key.replace(".", "__"): value for key, value in FORCED_CONFIGS.items()}


def mirror(
    name: str = "t", partitions: int = 2, end: int = 0, number: int = 7, **own: str
) -> TargetTopic:
    ends = {PartitionId(p): Offset(end) for p in range(partitions)}
    configs = entries(**{**forced(), **own})
    return TargetTopic(TopicName(name), UUID(int=number), partitions, 3, configs, ends)


def record(name: str = "t", *synced: str, **more: Any) -> dict[TopicName, MirrorRecord]:
    found = MirrorRecord(
        TopicName(name), TopicName(name), UUID(int=1), UUID(int=7), ClusterId("A"), "earliest", 2
    )
    return {TopicName(name): replace(found, synced_configs=tuple(synced), **more)}
