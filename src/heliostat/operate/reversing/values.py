"""What becomes of each topic on the way back; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from heliostat.handover.promotion import PartitionPromotion
from heliostat.handover.recreation import Recreation
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.topics.values import MirrorRecord


class Tail(StrEnum):
    """What becomes of a topic whose old source has records that never crossed."""

    REFUSE = "refuse"
    KEEP = "keep"
    """They stay; copying goes on behind them, and offsets differ from there on."""
    RECREATE = "recreate"
    """The topic is deleted at the old source, made again as it was, and copied whole."""
    LEAVE = "leave"
    """The topic is not copied back."""


class ReturnState(StrEnum):
    """What becomes of a topic."""

    READY = "ready"
    """It can be copied back, or is from now on."""
    LEFT = "left"
    REFUSED = "refused"
    DONE = "done"
    """The link that leads back has it already."""


class Evidence(StrEnum):
    """What shows that both logs of a partition are equal up to the promotion."""

    RECORDS = "records"
    """An equal record that proves all before it, or all records."""
    LEADER_EPOCHS = "leader_epochs"
    """The new primary has deleted what could be compared; the old source has lost nothing."""
    NOTHING_THERE = "nothing_there"
    """The old source has no record below the promotion."""


@dataclass(frozen=True, slots=True)
class PartitionReturn:
    """One partition: where both logs are equal, and where copying goes on."""

    partition: PartitionId
    promotion: PartitionPromotion
    old_end: Offset
    """Log end at the old source."""
    tail: int
    """Records there that never crossed, at most; 0: none."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class TopicReturn:
    """One topic, by its name at the old source."""

    topic: TopicName
    mirror: TopicName
    """Its name at the new primary."""
    state: ReturnState
    why: str
    partitions: tuple[PartitionReturn, ...] = ()
    record: MirrorRecord | None = None
    recreation: Recreation | None = None
    """How it is made again at the old source; None: what is there stays."""

    @property
    def tail(self) -> int:
        """Records at the old source that never crossed, at most."""
        return sum(partition.tail for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class GroupSetBack:
    """A group's offset at the old source, beyond where the mirror was given away.

    Parameters
    ----------
    offset, until
        Where it is, and the promotion's, to which it is set.
    has_members
        Whether the group runs there: then it stays where it is, and goes on behind the tail.
    """

    group: GroupId
    partition: TopicPartition
    offset: Offset
    until: Offset
    metadata: str
    has_members: bool

    def text(self) -> str:
        """Return a line about it."""
        place = f"group {self.group} at {self.partition}: offset {self.offset:,}"
        if self.has_members:
            return f"{place} stays, as the group runs there; the promotion was at {self.until:,}"
        return f"{place} is set back to the promotion, {self.until:,}"

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "group": self.group,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "offset": self.offset,
            "until": self.until,
            "has_members": self.has_members,
        }


@dataclass(frozen=True, slots=True)
class Reversal:
    """What becomes, or became, of all topics."""

    link: LinkName
    back: LinkName
    topics: tuple[TopicReturn, ...]
    groups: tuple[GroupSetBack, ...] = ()
    """Groups at the old source whose offsets lie beyond the promotion."""
    open_subjects: tuple[str, ...] = ()
    """Lines about subjects of the old source's registry that stay open, and why; and about schemas
    that no link takes back."""
    is_written: bool = False

    @property
    def ready(self) -> list[TopicReturn]:
        """Topics that can be copied back."""
        return [topic for topic in self.topics if topic.state is ReturnState.READY]

    @property
    def refused(self) -> list[TopicReturn]:
        """Topics that can't."""
        return [topic for topic in self.topics if topic.state is ReturnState.REFUSED]

    def describe(self) -> Iterator[str]:
        """Yield a line for each topic, and for each group whose offset is set back."""
        yield from (f"{topic.topic}: {topic.state.value}: {topic.why}" for topic in self.topics)
        yield from (setback.text() for setback in self.groups)
        yield from self.open_subjects

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "link": self.link,
            "back": self.back,
            "is_written": self.is_written,
            "topics": [
                {
                    "topic": topic.topic,
                    "mirror": topic.mirror,
                    "state": topic.state.value,
                    "why": topic.why,
                    "tail": topic.tail,
                    "is_recreated": topic.recreation is not None,
                    "partitions": [
                        {
                            "partition": part.partition,
                            "source_end": part.promotion.source_end,
                            "target_end": part.promotion.target_end,
                            "old_end": part.old_end,
                            "tail": part.tail,
                            "evidence": part.evidence.value,
                        }
                        for part in topic.partitions
                    ],
                }
                for topic in self.topics
            ],
            "groups": [setback.to_json() for setback in self.groups],
            "open_subjects": list(self.open_subjects),
        }
