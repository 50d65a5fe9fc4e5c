"""What was observed about groups at both sides, and what a link has published for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from heliostat.clusters.admin import CommittedOffset, GroupListing, ListedGroup
from heliostat.errors import BrokerError
from heliostat.names import GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import OffsetMap

FetchedOffsets: TypeAlias = Mapping[TopicPartition, CommittedOffset | BrokerError]
"""Committed offsets by partition, of one group."""
Answers: TypeAlias = Mapping[TopicPartition, BrokerError | None] | BrokerError
"""Answers to the commits of one group; None for each success."""


class Reason(Enum):
    """Why a group's offset of one partition is, or is not, published."""

    SYNCED = "synced"
    """The target has the offset."""
    PUBLISH = "publish"
    """It is published now."""
    RESET = "reset"
    """The source went back to an earlier offset; so does the target now."""
    NOT_LANDED = "not landed"
    """The record is not at the target yet: published up to the mirror's end."""
    BELOW_START = "below the start"
    """The record is gone at the target, too; the offset points at the first that is left."""
    ACTIVE_AT_TARGET = "active at the target"
    """Held back: the group has members there. Published when they are gone."""
    MOVED_AT_TARGET = "moved at the target"
    """Left alone: a consumer at the target moved it itself."""
    REWOUND_AT_TARGET = "rewound at the target"
    """Left alone: somebody moved it back at the target."""
    TARGET_AGED = "target's records are gone"
    """Left alone: its record has since been deleted at the target. A consumer there starts where
    its own `auto.offset.reset` says."""
    TARGET_SHORTER = "target is shorter"
    """Left alone: the mirror ends before what was published."""
    NOT_MIRRORED = "not mirrored"
    """The topic has no mirror of this link, or another one than before."""
    NOT_TOLD = "not told"
    """A cluster did not report it; checked again."""
    METADATA_TOO_LARGE = "metadata too large"
    """The target refuses the text that the group commits with its offset; retried."""
    REFUSED = "refused"
    """The target refused the commit; retried."""


SETTLED = frozenset(
    {Reason.SYNCED, Reason.BELOW_START, Reason.NOT_MIRRORED, Reason.MOVED_AT_TARGET}
)
"""Reasons for which nothing remains to be done: also where consumers have moved, and go on at the
target."""


UNPUBLISHED = frozenset({Reason.METADATA_TOO_LARGE, Reason.REFUSED})
"""Reasons that stay until somebody changes something at the target."""


class Skip(Enum):
    """Why a whole group is not synced."""

    EXCLUDED = "excluded"
    NO_OFFSETS = "no offsets"
    """It has committed no offsets, or is of a kind that commits none."""
    INACTIVE = "inactive"
    """It has no members, and only groups with members are wanted (`states`)."""


class Sent(NamedTuple):
    """The offset published for a partition, and the one there before: ours, or another's.

    The row is written before the commit: after a crash either may be at the target.
    """

    offset: Offset
    before: Offset | None = None
    """Our previous offset."""
    over: Offset | None = None
    """Another writer's offset, which ours replaced."""
    read_to: Mapping[str, int] | None = None
    """Of a merged topic, what the group had read then: at each site, by its cluster id, all that
    the site's producers wrote before this offset."""

    def holds(self, offset: Offset) -> bool:
        """Whether an offset at the target is ours."""
        return offset in (self.offset, self.before)

    @property
    def lowest(self) -> Offset:
        """The earliest of them."""
        return min(each for each in self[:3] if each is not None)


@dataclass(frozen=True, slots=True)
class Published:
    """All that was published for one group, by target partition; one row of the state topic."""

    sent: Mapping[TopicPartition, Sent] = field(default_factory=dict)
    at_ms: int = 0
    refused: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Kafka's codes of the last commits, where the target keeps refusing them."""

    def to_json(self) -> dict[str, Any]:
        """As JSON, for the state topic."""
        topics: dict[str, dict[str, list[Any]]] = {}
        for partition, sent in self.sent.items():
            row: list[Any] = [sent.offset, sent.before, sent.over, sent.read_to]
            while row[-1] is None:
                row.pop()
            topics.setdefault(partition.topic, {})[str(partition.partition)] = row
        answer: dict[str, Any] = {"at_ms": self.at_ms, "topics": topics}
        if self.refused:
            rows = [(each.topic, each.partition, code) for each, code in self.refused.items()]
            answer["refused"] = rows
        return answer

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Published:
        """Parse what `to_json` returned."""
        sent = {
            TopicPartition(TopicName(topic), PartitionId(int(number))): Sent(*row)
            for topic, rows in value["topics"].items()
            for number, row in rows.items()
        }
        refused = {
            TopicPartition(TopicName(topic), PartitionId(number)): int(code)
            for topic, number, code in value.get("refused", ())
        }
        return cls(sent, int(value["at_ms"]), refused)


@dataclass(frozen=True, slots=True)
class MirrorPartition:
    """A mirror's partition at the target, for which offsets are published.

    Parameters
    ----------
    target
        Topic and number of the partition there.
    start, end
        First offset, and the one after the last that readers see (the high watermark).
    offsets
        The offset map; read after `end`, so it is right up to there (I3).
    copied_to
        Source offset below which all has landed or is a hole, as last reported; -1 if not known.
        After the last record that it covers, a map can't distinguish a hole from records still to
        come.
    """

    target: TopicPartition
    start: Offset
    end: Offset
    offsets: OffsetMap
    copied_to: int = -1

    def place_of(self, source: Offset) -> Offset:
        """Where a consumer at a source offset continues exactly; past `end`: not landed."""
        found = self.offsets.target_of(source)
        return self.end if found > self.end and source <= self.copied_to else found


class MergedPlace(NamedTuple):
    """Where a group goes on in a partition of a merged topic at the target."""

    offset: Offset
    """At the first record there that it has not read."""
    again: int
    """How many records behind that place it has read already."""
    again_now: int
    """As many behind the place at which it would begin there now."""
    read_to: Mapping[str, int]
    """See `Sent.read_to`."""
    start: Offset
    """The log's range there."""
    end: Offset


@dataclass(frozen=True, slots=True)
class SourceGroups:
    """The source: its groups, and the committed offsets of those that were requested."""

    listing: GroupListing
    offsets: Mapping[GroupId, FetchedOffsets | BrokerError]


@dataclass(frozen=True, slots=True)
class TargetGroups:
    """The target: its groups, their committed offsets, and the mirrors' partitions.

    `offsets` are by the groups' names there, `partitions` by source partition: a text in place of
    one says why there is none, an error why the target did not report it.
    """

    listing: GroupListing
    offsets: Mapping[GroupId, FetchedOffsets | BrokerError]
    partitions: Mapping[TopicPartition, MirrorPartition | str | BrokerError]
    merged: Mapping[tuple[GroupId, TopicPartition], MergedPlace | str] = field(default_factory=dict)
    """Of groups' partitions of merged topics, by source partition: where each goes on, or why that
    is not known."""

    def group(self, group: GroupId) -> ListedGroup | None:
        """The group as the target lists it; None if there is none."""
        return self.listing.groups.get(group)


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """What happens to one group's offset of one partition, and why.

    Parameters
    ----------
    source, target
        The partition at both sides; no target if it is not mirrored.
    source_offset, target_offset
        Committed offsets; None if there is none, or it was not reported.
    wanted
        What the target should have: where the consumer continues exactly, as far as it has landed.
    reread_records
        How many offsets a consumer that starts at the target now reads again; 0 if exact. An upper
        bound if the record has not landed yet.
    reason, why
        The reason as a code, and in words.
    publish
        What to commit at the target now; None for nothing.
    """

    source: TopicPartition
    target: TopicPartition | None
    source_offset: Offset | None
    target_offset: Offset | None
    wanted: Offset | None
    reread_records: int | None
    reason: Reason
    why: str
    publish: CommittedOffset | None = None
    metadata: str = ""
    """The group's own metadata, committed with the offset at the source."""
    reread_now: int | None = None
    """How many records of those that it has read a consumer would read again that began at the
    target as it is: nothing more is published, and nothing more lands. None: not known, or there is
    no mirror."""
    again: int = 0
    """How many records behind `wanted` it has read already: in a merged topic, some may be."""
    read_to: Mapping[str, int] | None = None
    """See `Sent.read_to`."""
    begins_anew: bool = False
    """Whether the target has no offset at which it could begin: it begins where its own
    `auto.offset.reset` says, and `reread_now` counts from the mirror's first record."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that the command line prints."""
        return {
            "source_topic": self.source.topic,
            "partition": self.source.partition,
            "target_topic": None if self.target is None else self.target.topic,
            "source_offset": self.source_offset,
            "target_offset": self.target_offset,
            "wanted_offset": self.wanted,
            "reread_records": self.reread_records,
            "reason": self.reason.name,
            "why": self.why,
        }
