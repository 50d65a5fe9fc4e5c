"""Source name → target name and back, and names that get into each other's way."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from heliostat.config import RESERVED_BEGINNINGS, LinkConfig
from heliostat.names import Alias, TopicName
from heliostat.slots import WHOLE_TOPIC, Slot
from heliostat.topics.replication_policy import ReplicationPolicy, policy_of

NAME_CHARACTERS_MAX = 249  # `Topic.MAX_NAME_LENGTH`: a log's folder must fit a file name
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
TOPIC = "${topic}"


@dataclass(frozen=True, slots=True)
class Naming:
    """A link's rule: a format with `${topic}`, everything else in it already filled in.

    Parameters
    ----------
    rule
        The format.
    heartbeats
        Where heartbeats topics are mirrored: they are called after their source whatever the rule,
        as MirrorMaker 2's clients look for them so.
    slot
        The link's share of its target topics.
    """

    rule: str
    heartbeats: tuple[Alias, ReplicationPolicy] | None = None
    slot: Slot = WHOLE_TOPIC

    def target_name(self, source: TopicName) -> TopicName:
        """What a source topic is called at the target."""
        if self.heartbeats is not None:
            alias, policy = self.heartbeats
            if policy.is_heartbeats(source):
                return policy.mirror_name(alias, source)
        return TopicName(self.rule.replace(TOPIC, source))

    def slot_of(self, source: TopicName) -> Slot:
        """Which partitions of its target topic are this link's; heartbeats share none."""
        if self.heartbeats is not None and self.heartbeats[1].is_heartbeats(source):
            return WHOLE_TOPIC
        return self.slot

    def source_name(self, target: TopicName) -> TopicName | None:
        """Which source topic a target name stands for; None when the rule never makes it."""
        if self.heartbeats is not None:
            alias, policy = self.heartbeats
            if policy.is_heartbeats(target) and policy.source_of(target) == alias:
                return policy.upstream_of(target)
        before, after = self.rule.split(TOPIC, 1)
        if TOPIC in after:  # the topic's name more than once: by the lengths it can have
            times = self.rule.count(TOPIC)
            rest = len(target) - (len(self.rule) - times * len(TOPIC))
            name = target[len(before) : len(before) + rest // times] if rest > 0 else ""
        else:
            name = target[len(before) : len(target) - len(after)]
        found = TopicName(name)
        return found if name and self.target_name(found) == target else None


def naming_of(link: LinkConfig) -> Naming:
    """The rule of a link."""
    rule = link.topics.name_format().replace("${source}", link.source)
    mirrored = link.heartbeats.are_mirrored
    return Naming(rule, (link.source, policy_of(link)) if mirrored else None, link.topics.slot)


def name_problem(name: str) -> str | None:
    """Why no mirror can have a name; None when it is fine.

    Kafka refuses some (`Topic.validate`); others look like brokers' topics or state topics, which
    no other link would mirror further.
    """
    if name in {"", ".", ".."}:
        return f"{name!r} is no name for a topic"
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
    Topics that carry the very same name pair at the source are there already, so this can only
    happen where they were made before brokers checked it, or by the naming rule.
    """
    groups: dict[str, list[TopicName]] = defaultdict(list)
    for source in sorted(set(sources)):
        groups[naming.target_name(source).replace(".", "_")].append(source)
    return {
        source: names[0] if source != names[0] else names[1]
        for names in groups.values()
        if len(names) > 1
        for source in names
    }
