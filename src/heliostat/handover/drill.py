"""A drill: a switch rehearsed with topics and groups that are made up; pure.

Each name of a drill has letters drawn for it, so that nobody else's thing has one; names that are
there all the same are refused before anything is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Self

from heliostat.handover.drill_report import Check, Measured, Size
from heliostat.names import GroupId, LinkName, TopicName

PREFIX = "drill-"
PARTITIONS_OF_TOPIC = 10
GROUPS = 2
LINK_CHARS = 70
"""How much of a link's name its drill's names have: a link's name has a hundred letters at most."""


class Way(StrEnum):
    """Which of a drill's two links."""

    THERE = "there"
    BACK = "back"


class Part(StrEnum):
    """What is left out where a right is missing."""

    ALL = "all"
    GROUPS = "groups"
    RULES = "rules"
    """Producers are stopped as an operator would."""
    WAY_BACK = "way_back"
    NOTHING = "nothing"
    """It is named: the link has need of it, a drill has none."""


@dataclass(frozen=True, slots=True)
class MissingRight:
    """A right that the link's principal has not."""

    cluster: str
    text: str
    part: Part
    """What can't be rehearsed without it."""

    def to_json(self) -> dict[str, str]:
        """Return it for reports."""
        return {"cluster": self.cluster, "right": self.text, "left_out": self.part.value}


@dataclass(frozen=True, slots=True)
class DrillWish:
    """What is asked of a drill.

    Parameters
    ----------
    partitions
        How many, of all topics together.
    records_a_second
        The load.
    failover
        Whether a failover is rehearsed, too.
    still_s
        How long the source's ends must stand still, as in a switch.
    load_s
        How long is written and read before each step.
    """

    partitions: int = 50
    records_a_second: int = 100
    failover: bool = False
    still_s: float = 10.0
    load_s: float = 5.0
    by: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it for reports."""
        return {
            "partitions": self.partitions,
            "records_a_second": self.records_a_second,
            "failover": self.failover,
            "still_s": self.still_s,
            "load_s": self.load_s,
        }


@dataclass(frozen=True, slots=True)
class DrillNote:
    """What a drill makes: its row at the link's target, written before any of it is made."""

    id: str
    link: LinkName
    by: str
    began_ms: int
    topics: Mapping[TopicName, int]
    """With how many partitions; mirrors have the same names."""
    groups: tuple[GroupId, ...]
    links: Mapping[Way, LinkName]

    @property
    def partitions(self) -> int:
        """How many there are of all topics together."""
        return sum(self.topics.values())

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {
            "id": self.id,
            "link": self.link,
            "by": self.by,
            "began_ms": self.began_ms,
            "topics": dict(self.topics),
            "groups": list(self.groups),
            "links": {way.value: name for way, name in self.links.items()},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        note = cls(
            str(value["id"]),
            LinkName(str(value["link"])),
            str(value["by"]),
            int(value["began_ms"]),
            {TopicName(str(name)): int(count) for name, count in value["topics"].items()},
            tuple(GroupId(str(group)) for group in value["groups"]),
            {Way(way): LinkName(str(name)) for way, name in value["links"].items()},
        )
        if strange := [name for name in note.names() if not note.is_own(name)]:
            raise ValueError(f"a drill has no such name: {strange[0]!r}")
        return note

    def names(self) -> list[str]:
        """Return all names that it has made up."""
        return [*self.topics, *self.groups, *self.links.values()]

    def is_own(self, name: str) -> bool:
        """Return whether only this drill can have made what has that name."""
        return name.startswith(PREFIX) and f"-{self.id}" in name


def new_note(link: LinkName, wish: DrillWish, drawn: str, at_ms: int) -> DrillNote:
    """Return what a drill makes.

    Parameters
    ----------
    drawn
        Eight hexadecimal letters, drawn for it.
    """
    stem = f"{PREFIX}{link[:LINK_CHARS].rstrip('-')}-{drawn}"
    left, topics = wish.partitions, dict[TopicName, int]()
    while left > 0:
        topics[TopicName(f"{stem}-{len(topics) + 1}")] = min(left, PARTITIONS_OF_TOPIC)
        left -= PARTITIONS_OF_TOPIC
    groups = tuple(GroupId(f"{stem}-readers-{number + 1}") for number in range(GROUPS))
    links = {Way.THERE: LinkName(stem), Way.BACK: LinkName(f"{stem}-back")}
    return DrillNote(drawn, link, wish.by, at_ms, topics, groups, links)


@dataclass(frozen=True, slots=True)
class Came:
    """What a step came to."""

    text: str
    checks: tuple[Check, ...] = ()
    measured: Measured | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DrillLook:
    """What is known before anything is made."""

    size: Size
    """Of the real link."""
    missing: tuple[MissingRight, ...]
    notes: tuple[str, ...] = ()
    """What is not rehearsed, whatever rights there are."""

    def lacks(self, part: Part) -> bool:
        """Return whether a part can't be rehearsed for want of a right."""
        return bool(self._for(part))

    def why_not(self, part: Part) -> str:
        """Return which rights are missing for a part."""
        return "; ".join(f"missing at {right.cluster}: {right.text}" for right in self._for(part))

    def _for(self, part: Part) -> list[MissingRight]:
        return [right for right in self.missing if right.part in (part, Part.ALL)]


class DrillDesk(Protocol):
    """What a drill asks of both clusters, and does there.

    Every method may raise a `HeliostatError`; what is made by then the note has.
    """

    def wall_ms(self) -> int:
        """Return the wall clock."""

    def monotonic_s(self) -> float:
        """Return a clock that never jumps."""

    def look(self) -> DrillLook:
        """Look at the real link, and at what its principals may do."""

    def left_behind(self) -> Sequence[DrillNote]:
        """Return the notes of drills that have not ended.

        Raises
        ------
        Refused
            One of them is under way.
        """

    def existing(self, note: DrillNote) -> Sequence[str]:
        """Return which of the names, and of what begins with them, are there already."""

    def write(self, note: DrillNote) -> None:
        """Write a note; durable when it returns."""

    def make_topics(self, note: DrillNote) -> Came:
        """Make the topics at the source."""

    def start_link(self, note: DrillNote, way: Way, *, groups: bool) -> Came:
        """Start the link of that way, producers and readers where it begins, and wait for it."""

    def go_back(self, note: DrillNote) -> Came:
        """Begin a switch, cut it short, and take it back."""

    def switch(self, note: DrillNote, way: Way) -> Came:
        """Switch, and move producers and readers."""

    def reverse(self, note: DrillNote, way: Way) -> Came:
        """Have the link of that way go on where the other one gave its mirrors away."""

    def fail_over(self, note: DrillNote) -> Came:
        """Cut the link off from its source and fail over."""

    def stop(self) -> None:
        """End producers, readers and the link's process, if there are any."""

    def await_no_owner(self, note: DrillNote) -> None:
        """Wait until nothing of the drill's links can make anything any more."""

    def lift_rules(self, note: DrillNote) -> None:
        """Lift rules that its links have laid."""

    def delete_groups(self, note: DrillNote) -> None:
        """Delete its groups, on both sides."""

    def delete_topics(self, note: DrillNote) -> None:
        """Delete its topics and mirrors, and the topics of its links, on both sides."""

    def forget(self, note: DrillNote) -> None:
        """Remove its row, and the topic of rows if there is no other."""
