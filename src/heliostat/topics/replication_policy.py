"""How MirrorMaker 2 names topics: its replication policies, as far as others rely on names.

`DefaultReplicationPolicy` and `IdentityReplicationPolicy` of Kafka 4.3.0. A remote topic is called
`<source><separator><topic>`; with the identity policy it keeps its name, but names that end in
`heartbeats` are treated as with the default policy. Every name that contains the separator looks
remote to them, even if it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.config import LinkConfig
from heliostat.names import Alias, TopicName

HEARTBEATS = TopicName("heartbeats")
SEPARATOR = "."
_TOPIC = "${topic}"


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """Names as MirrorMaker 2 forms and reads them.

    Parameters
    ----------
    separator
        `replication.policy.separator`; also within the names of its own topics (KIP-690).
    """

    separator: str = SEPARATOR

    def mirror_name(self, source: Alias, topic: TopicName) -> TopicName:
        """Name of a source topic's mirror, by the default policy."""
        return TopicName(f"{source}{self.separator}{topic}")

    def source_of(self, topic: TopicName) -> Alias | None:
        """Alias that the name begins with; None if it looks like a local topic."""
        # `String.split` drops empty parts at the end, so `x.` is only one part.
        kept = topic
        while kept.endswith(self.separator):
            kept = TopicName(kept.removesuffix(self.separator))
        first, separator, _ = kept.partition(self.separator)
        return Alias(first) if separator else None

    def upstream_of(self, topic: TopicName) -> TopicName | None:
        """The topic's name one cluster further upstream; None for a local one."""
        source = self.source_of(topic)
        return None if source is None else TopicName(topic[len(source + self.separator) :])

    def sources_of(self, topic: TopicName) -> tuple[Alias, ...]:
        """All aliases of the name, the nearest cluster first."""
        aliases: list[Alias] = []
        while (source := self.source_of(topic)) is not None:
            aliases.append(source)
            topic = TopicName(topic[len(source + self.separator) :])
        return tuple(aliases)

    def original_of(self, topic: TopicName) -> TopicName:
        """Its name in the cluster where it was first written."""
        while (upstream := self.upstream_of(topic)) is not None:
            topic = upstream
        return topic

    def is_heartbeats(self, topic: TopicName) -> bool:
        """Whether it holds heartbeats, of this cluster or of one further upstream."""
        return topic.endswith(HEARTBEATS) and self.original_of(topic) == HEARTBEATS

    def checkpoints_topic(self, source: Alias) -> TopicName:
        """Topic at the target for groups' offsets of a link from `source`."""
        return TopicName(self.separator.join((source, "checkpoints", "internal")))

    def offset_syncs_topic(self, other: Alias) -> TopicName:
        """Topic for a link's pairs of offsets; named after the cluster at its other end."""
        return TopicName(self.separator.join(("mm2-offset-syncs", other, "internal")))


def policy_of(link: LinkConfig) -> ReplicationPolicy:
    """The policy with which MirrorMaker 2's clients understand a link's names.

    `<alias><separator>${topic}` is the default policy with that separator. Under any other rule the
    separator is a dot: for equal names clients must use the identity policy.
    """
    rule = link.topics.name_format().replace("${source}", link.source)
    before, _, after = rule.partition(_TOPIC)
    separator = before.removeprefix(link.source)
    is_default = before.startswith(link.source) and not after and separator
    return ReplicationPolicy(separator if is_default else SEPARATOR)
