"""What is seen of groups at both sides, and what a link remembers having published."""

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


class Reason(Enum):
    """Why a group's offset of one partition is, or is not, published."""

    SYNCED = "synced"
    """The target has the offset."""
    PUBLISH = "publish"
    """It is published now."""
    RESET = "reset"
    """The source went back to an earlier offset; so does the target now."""
    NOT_LANDED = "not landed"
    """The record is not at the target yet: published as far as the mirror has got."""
    BELOW_START = "below the start"
    """The record is gone at the target, too; the offset stands at what is left."""
    ACTIVE_AT_TARGET = "active at the target"
    """Held back: the group has members there. Published when they are gone."""
    MOVED_AT_TARGET = "moved at the target"
    """Left alone: a consumer at the target moved it itself."""
    REWOUND_AT_TARGET = "rewound at the target"
    """Left alone: somebody put it back at the target."""
    TARGET_AGED = "target's records are gone"
    """Left as it is: what it points at was deleted at the target since. A consumer there begins as
    its own setting says."""
    TARGET_SHORTER = "target is shorter"
    """Left alone: the mirror ends before what was published."""
    NOT_MIRRORED = "not mirrored"
    """The topic has no mirror of this link, or another one than before."""
    NOT_TOLD = "not told"
    """A cluster did not tell; looked at again."""
    REFUSED = "refused"
    """The target refused the commit; tried again."""


class Skip(Enum):
    """Why a whole group is not looked at."""

    EXCLUDED = "excluded"
    NO_OFFSETS = "no offsets"
    """It has committed nothing, or is of a kind that commits none."""
    INACTIVE = "inactive"
    """Nobody is in it, and only groups that somebody is in are wanted (`states`)."""


class Sent(NamedTuple):
    """What was published for a partition, and what stood there before: ours, or another's.

    It is remembered before it is published: after a crash either may be at the target.
    """

    offset: Offset
    before: Offset | None = None
    """Ours."""
    over: Offset | None = None
    """Another's, that ours goes on from."""

    def holds(self, offset: Offset) -> bool:
        """Whether an offset at the target is ours."""
        return offset in (self.offset, self.before)

    @property
    def lowest(self) -> Offset:
        """The earliest of them."""
        return min(each for each in self if each is not None)


@dataclass(frozen=True, slots=True)
class Published:
    """All that was published for one group, by target partition; one row of the state topic."""

    sent: Mapping[TopicPartition, Sent] = field(default_factory=dict)
    at_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        """As JSON, for the state topic."""
        topics: dict[str, dict[str, list[Offset | None]]] = {}
        for partition, sent in self.sent.items():
            row = [sent.offset, sent.before, sent.over]
            while row[-1] is None:
                row.pop()
            topics.setdefault(partition.topic, {})[str(partition.partition)] = row
        return {"at_ms": self.at_ms, "topics": topics}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Published:
        """Back from JSON."""
        sent = {
            TopicPartition(TopicName(topic), PartitionId(int(number))): Sent(*row)
            for topic, rows in value["topics"].items()
            for number, row in rows.items()
        }
        return cls(sent, int(value["at_ms"]))


@dataclass(frozen=True, slots=True)
class MirrorPartition:
    """A mirror's partition at the target, as a published offset must fit it.

    Parameters
    ----------
    target
        Its name there.
    start, end
        First offset, and the one after the last that readers see (the high watermark).
    offsets
        Which source offset stands where; read after `end`, so that it is right up to there (I3).
    copied_to
        Source offset below which all has landed or is a hole, as last reported; -1: not known.
        Behind its last record a map can't tell a hole from what is still to come.
    """

    target: TopicPartition
    start: Offset
    end: Offset
    offsets: OffsetMap
    copied_to: int = -1

    def place_of(self, source: Offset) -> Offset:
        """Where a reader that is at a source offset goes on exactly; past `end`: not landed."""
        found = self.offsets.target_of(source)
        return self.end if found > self.end and source <= self.copied_to else found


@dataclass(frozen=True, slots=True)
class SourceGroups:
    """The source: groups there, and what those asked for have committed."""

    listing: GroupListing
    offsets: Mapping[GroupId, FetchedOffsets | BrokerError]


@dataclass(frozen=True, slots=True)
class TargetGroups:
    """The target: groups there, what they have committed, and the partitions it is for.

    `partitions` are by source partition; a text in place of one says why there is none, an error
    that the target did not tell.
    """

    listing: GroupListing
    offsets: Mapping[GroupId, FetchedOffsets | BrokerError]
    partitions: Mapping[TopicPartition, MirrorPartition | str | BrokerError]

    def group(self, group: GroupId) -> ListedGroup | None:
        """The group as the target lists it; None if there is none."""
        return self.listing.groups.get(group)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one group's offset of one partition, and why.

    Parameters
    ----------
    source, target
        The partition at both sides; no target where it is not mirrored.
    source_offset, target_offset
        What is committed; None where nothing is, or it was not told.
    wanted
        What the target should have: where the reader goes on exactly, as far as it has landed.
    reread_records
        Offsets that a consumer which starts at the target now reads again; 0 when exact. Where the
        record has not landed yet, at most so many.
    reason, why
        As a code and as words.
    publish
        What is committed at the target now; None: nothing.
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
    """The group's own words, committed with the offset at the source."""

    def to_json(self) -> dict[str, Any]:
        """As the command line answers it."""
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
