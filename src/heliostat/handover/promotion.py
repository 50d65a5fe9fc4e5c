"""A mirror that is no mirror any more: given away to the target's own producers; pure.

    promoted/TOPIC   in `heliostat.<link>.wishes`, by whoever promotes it: the link's owner gives
                     its partitions up at once; written again with where it ended
    promoted/TOPIC   in `heliostat.<link>.state`, by the link's owner: the mirror's record is moved
                     here, so that no part of the link takes the topic for its own

I1  Nothing of a link appends to a promoted mirror: the link has given up its partitions, durably,
    before a promotion is told as carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from heliostat.handover.recreation import Recreation
from heliostat.handover.still_open import NONE_OPEN, StillOpen
from heliostat.names import ClusterId, Offset, PartitionId, TopicId, TopicName

PROMOTED_PREFIX = "promoted/"
NAME_CHARS_MAX, WHY_CHARS_MAX = 200, 1_000


class PromotedBy(StrEnum):
    """The verb that gave a mirror away."""

    SWITCH = "switch"
    """Planned: all of the source was copied."""
    FAILOVER = "failover"
    """Unplanned: the source may have more."""
    FINISH = "finish"
    """A merged topic of a rolling switch: its links copy it no more, either way."""


class FencedBy(StrEnum):
    """Why nothing of the link can land in a promoted mirror any more."""

    OWNER = "owner"
    """Its owner says so."""
    DENY_RULE = "deny_rule"
    """No owner answered; every broker shows rules that deny the link's principal to write there."""
    LEASE = "lease"
    """No owner answered; the link was claimed once all leases were over."""

    @property
    def words(self) -> str:
        """What has fenced the link, for people."""
        return {
            FencedBy.OWNER: "the link's owner",
            FencedBy.DENY_RULE: "rules that every broker of the target shows",
            FencedBy.LEASE: "leases that are over",
        }[self]


class LeaderEpoch(NamedTuple):
    """A leader epoch of a source partition, as noted while it was copied."""

    epoch: int
    until: Offset
    """The records below this offset had been copied when it was noted."""


class SourceSeen(NamedTuple):
    """Where a source partition's log ended when it was last seen."""

    end: Offset
    at_ms: int
    """Wall clock of who saw it; -1: not known."""


NO_EPOCH = LeaderEpoch(-1, Offset(-1))


@dataclass(frozen=True, slots=True)
class PartitionPromotion:
    """Where one partition of a mirror ended.

    Parameters
    ----------
    source_end
        The source offset that would have been copied next.
    target_end
        The mirror's log end.
    epoch
        The source's leader epoch noted last; None: none is known.
    seen
        Where the source ended, as far as is known; None: nothing is.
    """

    source_end: Offset
    target_end: Offset
    epoch: LeaderEpoch | None = None
    seen: SourceSeen | None = None

    @property
    def missing(self) -> int | None:
        """Source offsets that are known and were not copied; None: nothing is known."""
        return None if self.seen is None else max(0, self.seen.end - self.source_end)

    def to_json(self) -> list[int]:
        """Return its part of a row."""
        epoch = NO_EPOCH if self.epoch is None and self.seen is not None else self.epoch
        return [self.source_end, self.target_end, *(epoch or ()), *(self.seen or ())]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Build from a row's part; raises `TypeError` or `ValueError` if it is none."""
        source_end, target_end, *more = map(int, value)
        epoch = LeaderEpoch(more[0], Offset(more[1])) if more and more[0] >= 0 else None
        sighting = SourceSeen(Offset(more[2]), more[3]) if len(more) > 2 else None
        return cls(Offset(source_end), Offset(target_end), epoch, sighting)


@dataclass(frozen=True, slots=True)
class MirrorEnds:
    """Which mirror it was, and where its partitions ended; by source partition."""

    target: TopicName
    source_cluster: ClusterId
    target_cluster: ClusterId
    source_id: TopicId | None
    target_id: TopicId | None
    partitions: Mapping[PartitionId, PartitionPromotion]

    def to_json(self) -> dict[str, Any]:
        """Return its part of a row."""
        return {
            "target": self.target,
            "source_cluster": self.source_cluster,
            "target_cluster": self.target_cluster,
            "source_id": None if self.source_id is None else str(self.source_id),
            "target_id": None if self.target_id is None else str(self.target_id),
            "partitions": {str(n): partition.to_json() for n, partition in self.partitions.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row's part; raises as `Promotion.from_json`."""
        return cls(
            TopicName(str(value["target"])),
            ClusterId(str(value["source_cluster"])),
            ClusterId(str(value["target_cluster"])),
            None if value["source_id"] is None else TopicId(value["source_id"]),
            None if value["target_id"] is None else TopicId(value["target_id"]),
            {
                PartitionId(int(number)): PartitionPromotion.from_json(part)
                for number, part in value["partitions"].items()
            },
        )


@dataclass(frozen=True, slots=True)
class Promotion:
    """That a topic's mirror is given away: how, by whom, and once it was, where it ended."""

    topic: TopicName
    """Its name at the source."""
    how: PromotedBy
    by: str
    at_ms: int
    """Wall clock of who wrote it, for people."""
    why: str = ""
    ends: MirrorEnds | None = field(default=None)
    """None: it was not read yet, or by a run that was cut short."""
    is_source_fenced: bool = False
    """Whether nothing is written at the source any more, as whoever fenced it noted."""
    is_target_open: bool = False
    """Whether rights that were held back are granted, and the target's registry is open, as whoever
    failed it over noted."""
    still_open: StillOpen = NONE_OPEN
    """Transactions that were open at the source when it was given up; a failover's."""
    recreation: Recreation | None = None
    """How the old source's topic is made again, once that has begun; None: it has not, or ended."""

    @property
    def key(self) -> str:
        """Its key in both topics."""
        return f"{PROMOTED_PREFIX}{self.topic}"

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {
            "how": self.how.value,
            "by": self.by[:NAME_CHARS_MAX],
            "at_ms": self.at_ms,
            "why": self.why[:WHY_CHARS_MAX],
            **({} if self.ends is None else {"ends": self.ends.to_json()}),
            **({"is_source_fenced": True} if self.is_source_fenced else {}),
            **({"is_target_open": True} if self.is_target_open else {}),
            **({"still_open": self.still_open.to_json()} if self.still_open else {}),
            **({} if self.recreation is None else {"recreation": self.recreation.to_json()}),
        }

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        topic = key.removeprefix(PROMOTED_PREFIX)
        if not topic or "/" in topic:
            raise ValueError(f"{key!r} names no topic")
        by, why, ends = value["by"], value.get("why", ""), value.get("ends")
        recreation, still_open = value.get("recreation"), value.get("still_open")
        if not isinstance(by, str) or not isinstance(why, str):
            raise TypeError("`by` and `why` are text")
        return cls(
            TopicName(topic),
            PromotedBy(value["how"]),
            by[:NAME_CHARS_MAX],
            int(value["at_ms"]),
            why[:WHY_CHARS_MAX],
            None if ends is None else MirrorEnds.from_json(ends),
            value.get("is_source_fenced") is True,
            value.get("is_target_open") is True,
            NONE_OPEN if still_open is None else StillOpen.from_json(still_open),
            None if recreation is None else Recreation.from_json(recreation),
        )

    def words(self) -> str:
        """Return why the link leaves the topic out."""
        if self.how is PromotedBy.FINISH:
            return f"its rolling switch was finished by {self.by}: no link copies it any more"
        verb = "was failed over" if self.how is PromotedBy.FAILOVER else "was switched"
        return f"{verb} to the target by {self.by}: its mirror is no mirror any more"


def is_promotion_key(key: str) -> bool:
    """Return whether a row is about a promotion."""
    return key.startswith(PROMOTED_PREFIX)
