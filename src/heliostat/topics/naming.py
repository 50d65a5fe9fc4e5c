"""Source name → target name and back, and names that collide."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from heliostat.config import RESERVED_BEGINNINGS, LinkConfig
from heliostat.names import Alias, TopicName, metric_name
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.replication_policy import ReplicationPolicy, policy_of

NAME_CHARACTERS_MAX = 249  # `Topic.MAX_NAME_LENGTH`: a log's folder name must be a valid file name
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
TOPIC = "${topic}"


@dataclass(frozen=True, slots=True)
class Naming:
    """A link's naming rule: a format with `${topic}`, everything else already filled in.

    Parameters
    ----------
    rule
        The format.
    heartbeats
        Source alias and policy if heartbeats topics are mirrored: these are named after their
        source whatever the rule, as MirrorMaker 2's clients expect.
    slot
        The link's share of its target topics.
    """

    rule: str
    heartbeats: tuple[Alias, ReplicationPolicy] | None = None
    slot: Slot = WHOLE_TOPIC

    def target_name(self, source: TopicName) -> TopicName:
        """Name of a source topic's mirror."""
        if self.heartbeats is not None:
            alias, policy = self.heartbeats
            if policy.is_heartbeats(source):
                return policy.mirror_name(alias, source)
        return TopicName(self.rule.replace(TOPIC, source))

    def slot_of(self, source: TopicName) -> Slot:
        """Which partitions of its target topic are this link's; heartbeats are never shared."""
        if self.heartbeats is not None and self.heartbeats[1].is_heartbeats(source):
            return WHOLE_TOPIC
        return self.slot

    def source_name(self, target: TopicName) -> TopicName | None:
        """The source topic of a target name; None if the rule can't produce that name."""
        if self.heartbeats is not None:
            alias, policy = self.heartbeats
            if policy.is_heartbeats(target) and policy.source_of(target) == alias:
                return policy.upstream_of(target)
        before, after = self.rule.split(TOPIC, 1)
        if TOPIC in after:  # the topic's name occurs more than once: try possible lengths
            times = self.rule.count(TOPIC)
            rest = len(target) - (len(self.rule) - times * len(TOPIC))
            name = target[len(before) : len(before) + rest // times] if rest > 0 else ""
        else:
            name = target[len(before) : len(target) - len(after)]
        topic = TopicName(name)
        return topic if name and self.target_name(topic) == target else None


def naming_of(link: LinkConfig) -> Naming:
    """The naming rule of a link."""
    rule = link.topics.name_format().replace("${source}", link.source)
    mirrored = link.heartbeats.are_mirrored
    return Naming(rule, (link.source, policy_of(link)) if mirrored else None, link.topics.slot)


def name_problem(name: str) -> str | None:
    """Say why no mirror can have this name; None if it can.

    Kafka refuses some names (`Topic.validate`); others look like brokers' topics or state topics,
    which other links would not mirror.
    """
    if name in {"", ".", ".."}:
        return f"{name!r} is not a valid topic name"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"it has {len(name)} characters, Kafka allows {NAME_CHARACTERS_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return "it has characters other than a-z A-Z 0-9 . _ -"
    if name.startswith(RESERVED_BEGINNINGS):
        return f"names that begin with {' or '.join(RESERVED_BEGINNINGS)} are never mirrored"
    return None


def collisions(naming: Naming, sources: Iterable[TopicName]) -> dict[TopicName, TopicName]:
    """Source topics whose target names Kafka cannot tell apart, each with one it collides with.

    Brokers refuse names that differ only in `.` and `_`: metrics would mix (`Topic.hasCollision`).
    Brokers of the source refuse them, too, so this only happens through the naming rule, or with
    topics that are older than this check.
    """
    groups: dict[str, list[TopicName]] = defaultdict(list)
    for source in sorted(set(sources)):
        groups[metric_name(naming.target_name(source))].append(source)
    return {
        source: names[0] if source != names[0] else names[1]
        for names in groups.values()
        if len(names) > 1
        for source in names
    }
