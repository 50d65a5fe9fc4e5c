"""Read the topics of both clusters; changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from heliostat.clusters.admin import LATELY_S, ClusterAdmin, TopicInfo
from heliostat.clusters.kafka_codes import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError
from heliostat.names import (
    Offset,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
    is_another,
    is_still,
    metric_name,
)
from heliostat.ops.asked import PendingAnswer, asked_at_once
from heliostat.state_topics import link_of_state_topic
from heliostat.topics.given_starts import given_starts
from heliostat.topics.naming import naming_of
from heliostat.topics.preflight import record_in_force
from heliostat.topics.select import selection_of
from heliostat.topics.values import (
    MirrorRecord,
    SourceTopic,
    SourceTopics,
    TargetTopic,
    TargetTopics,
)


def observe(
    source: ClusterAdmin,
    target: ClusterAdmin,
    link: LinkConfig,
    mirrors: Mapping[TopicName, MirrorRecord],
) -> tuple[SourceTopics, TargetTopics]:
    """Read the state of a link's topics and recorded mirrors at both clusters.

    Raises
    ------
    ConnectionLost
        One of them does not answer.
    """
    source_topics = _doubted(source, link, observe_source(source, link), mirrors)
    naming = naming_of(link)
    names = {naming.target_name(name) for name in source_topics.topics}
    names.update(record.target for record in mirrors.values())
    ours = {record.target: record.target_id for record in mirrors.values()}
    there = observe_target(target, link, names, ours)
    new = {
        name: topic.partitions
        for name, topic in source_topics.topics.items()
        if record_in_force(mirrors.get(name), there, naming.target_name(name), naming.slot_of(name))
        is None
    }
    return replace(source_topics, given=given_starts(source, link, new, mirrors)), there


def observe_source(admin: ClusterAdmin, link: LinkConfig) -> SourceTopics:
    """Read the source's selected topics with partitions and settings.

    Raises
    ------
    ConnectionLost
        The source does not answer.
    """
    infos = admin.describe_topics()
    chosen = selection_of(link).choose(infos)
    configs = admin.describe_configs([name for name in chosen if infos[name].error is None])
    topics: dict[TopicName, SourceTopic] = {}
    unreadable: dict[TopicName, BrokerError] = {}
    for name in chosen:
        info, settings = infos[name], configs.get(name)
        if info.error is not None or isinstance(settings, BrokerError) or settings is None:
            error = info.error or settings
            if isinstance(error, BrokerError) and error.kafka_code != UNKNOWN_TOPIC_OR_PARTITION:
                unreadable[name] = error
            continue  # deleted between two requests
        topics[name] = SourceTopic(
            name=name,
            topic_id=info.topic_id,
            partitions=len(info.partitions),
            replication_factor=info.replication_factor,
            configs=settings,
            is_internal=info.is_internal,
        )
    return SourceTopics(
        admin.cluster_id(),
        tuple(sorted(infos)),
        topics,
        unreadable,
        leaderless=leaderless_states(infos),
    )


def leaderless_states(topics: Mapping[TopicName, TopicInfo]) -> frozenset[TopicName]:
    """Return links' state topics that no broker leads: whoever reads one waits for a leader."""
    return frozenset(
        name
        for name, info in topics.items()
        if link_of_state_topic(name) is not None
        and any(partition.leader is None for partition in info.partitions)
    )


def _doubted(
    admin: ClusterAdmin,
    link: LinkConfig,
    source_topics: SourceTopics,
    mirrors: Mapping[TopicName, MirrorRecord],
) -> SourceTopics:
    """Return mirrored topics as unreadable that are not shown to be gone or recreated.

    A cluster lists no topic that we may no longer see; a request by name reports that we lack the
    right. And a broker that has lost touch lists what was: all brokers are asked.
    """
    suspects = set(selection_of(link).choose(mirrors.keys() - set(source_topics.names)))
    suspects |= {
        name
        for name, record in mirrors.items()
        if name in source_topics.topics
        and is_another(record.source_id, source_topics.topics[name].topic_id)
    }
    if not suspects:
        return source_topics
    unreadable = dict(source_topics.unreadable)
    for name, info in admin.confirm_topics(suspects).items():
        if info.error is not None and info.error.kafka_code == TOPIC_AUTHORIZATION_FAILED:
            unreadable[name] = info.error
        elif info.error is None and not is_another(mirrors[name].source_id, info.topic_id):
            text = f"topic {name} is not the same at all brokers"
            unreadable[name] = BrokerError(text, kafka_code=UNKNOWN_TOPIC_OR_PARTITION)
    topics = {name: topic for name, topic in source_topics.topics.items() if name not in unreadable}
    return replace(source_topics, topics=topics, unreadable=unreadable)


def observe_target(
    admin: ClusterAdmin,
    link: LinkConfig,
    names: Iterable[TopicName],
    ours: Mapping[TopicName, TopicId | None] | None = None,
) -> TargetTopics:
    """Read those of the named topics that exist at the target, with all that preflight needs.

    Parameters
    ----------
    ours
        Ids of topics known to be mirrors of this link: while one exists, it does not matter
        whether it was written to, and its log ends are not read.

    Raises
    ------
    ConnectionLost
        The target does not answer.
    """
    del link  # requests to the target do not depend on the link yet
    asked = PendingAnswer(admin.inherited_configs, "asking for a new topic's settings")
    wanted = sorted(set(names))
    mine = {name: topic_id for name, topic_id in (ours or {}).items() if topic_id is not None}
    infos = dict(admin.describe_topics(wanted)) if wanted else {}
    suspects = [n for n in mine if n in infos and not is_still(mine[n], infos[n].topic_id)]
    if suspects:
        infos |= admin.confirm_topics(suspects)
    present = {name: info for name, info in infos.items() if info.error is None}
    unreadable = {
        name: info.error
        for name, info in infos.items()
        if info.error is not None and not info.is_missing
    }
    others = [info for info in present.values() if mine.get(info.name) != info.topic_id]
    missing = [name for name, info in infos.items() if info.is_missing]
    asks: dict[str, Callable[[], Any]] = {
        "configs": partial(admin.describe_configs, present),
        "ends": partial(_ends, admin, others),
        "colliding": partial(_colliding, admin, missing),
    }
    configs, ends, colliding = asked_at_once(asks).values()
    topics: dict[TopicName, TargetTopic] = {}
    for name, info in sorted(present.items()):
        settings = configs[name]
        if isinstance(settings, BrokerError):
            unreadable[name] = settings
            continue
        topics[name] = TargetTopic(
            name=name,
            topic_id=info.topic_id,
            partitions=len(info.partitions),
            replication_factor=info.replication_factor,
            configs=settings,
            ends=ends.get(name, {}),
        )
    inherited = asked.answer()
    return TargetTopics(
        cluster_id=admin.cluster_id(),
        broker_count=len(admin.brokers(LATELY_S)),
        topics=topics,
        inherited={} if isinstance(inherited, BrokerError) else inherited,
        unreadable=unreadable,
        colliding=colliding,
    )


def _colliding(admin: ClusterAdmin, missing: Iterable[TopicName]) -> dict[TopicName, TopicName]:
    """Return missing topics with the existing one that would not let brokers create them."""
    names = {name: metric_name(name) for name in missing}
    there = {metric_name(name): name for name in admin.describe_topics()} if names else {}
    return {
        name: there[metric] for name, metric in names.items() if there.get(metric, name) != name
    }


def _ends(
    admin: ClusterAdmin, infos: Iterable[TopicInfo]
) -> dict[TopicName, dict[PartitionId, Offset]]:
    partitions = [
        TopicPartition(info.name, partition.partition)
        for info in infos
        for partition in info.partitions
    ]
    ends: dict[TopicName, dict[PartitionId, Offset]] = defaultdict(dict)
    if partitions:
        for partition, end in admin.list_log_ends(partitions).items():
            if not isinstance(end, BrokerError):
                ends[partition.topic][partition.partition] = end
    return ends
