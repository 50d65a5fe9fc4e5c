"""Plans, as values, of taking over copies, and of handing mirrors back to MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from heliostat.config import LinkConfig
from heliostat.mm2.connect_offsets import CONNECTOR, FlowName, Position, offsets_topic
from heliostat.mm2.resume_point import NoResumePoint, ResumePoint
from heliostat.names import Alias, LinkName, Offset, PartitionId, TopicName
from heliostat.topics.mirror_plans import REFUSED, as_json, lines_of, refused_numbers
from heliostat.topics.values import MirrorRecord


@dataclass(frozen=True, slots=True)
class Peer:
    """The MirrorMaker 2 that a link takes over from, or hands back to.

    Parameters
    ----------
    flow
        Name of the source connector, and the source's alias in its configuration.
    offsets_topic
        Connect's offsets topic, on the target.
    group
        Group of its Connect workers, on the target; None if they keep running and only the
        connector is stopped: then only the target's log ends show whether it still copies.
    """

    flow: FlowName
    offsets_topic: TopicName
    group: str | None


def peer_of(
    link: LinkConfig,
    *,
    alias: str | None = None,
    connector: str | None = None,
    topic: str | None = None,
    group: str | None = None,
    workers_run_on: bool = False,
) -> Peer:
    """Return the peer; what is not given is as in dedicated mode (`MirrorMakerConfig`)."""
    source = Alias(alias or link.source)
    return Peer(
        flow=FlowName(connector or CONNECTOR, source),
        offsets_topic=TopicName(topic) if topic else offsets_topic(source),
        group=None if workers_run_on else group or f"{source}-mm2",
    )


@dataclass(frozen=True, slots=True)
class PartitionAdoption:
    """One partition that MirrorMaker 2 or another tool has written.

    Parameters
    ----------
    committed
        The source offset that MirrorMaker 2 has committed last; None before its first commit, and
        if the end of the copy was found by contents alone.
    source_end, target_end
        Log end offsets of both sides when they were read.
    found
        Where to resume, or why that is not known; None if nothing was written yet, so that the
        mirror begins like any other.
    """

    partition: PartitionId
    committed: Offset | None
    source_end: Offset
    target_end: Offset
    found: ResumePoint | NoResumePoint | None

    @property
    def verdict(self) -> str:
        """`exact`, `mapped`, `new` or `refused`."""
        if self.found is None:
            return "new"
        if isinstance(self.found, NoResumePoint):
            return REFUSED
        return "exact" if self.found.is_exact else "mapped"

    def to_json(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        resume_point = self.found if isinstance(self.found, ResumePoint) else None
        return {
            "partition": self.partition,
            "committed": self.committed,
            "source_end": self.source_end,
            "target_end": self.target_end,
            "seam": None if resume_point is None else resume_point.source,
            "compared": None if resume_point is None else resume_point.compared,
            "doubled": None if resume_point is None else resume_point.doubled,
            "verdict": self.verdict,
            "reason": self.found.reason if isinstance(self.found, NoResumePoint) else "",
        }

    def describe(self) -> str:
        """Return one line for people."""
        committed = "" if self.committed is None else f"committed {self.committed}, "
        ends = f"{committed}source end {self.source_end}, target end {self.target_end}"
        if isinstance(self.found, ResumePoint):
            doubled = f", {self.found.doubled} doubled before" if self.found.doubled else ""
            goes_on = f"continues with source offset {self.found.source}"
            return f"{self.verdict}: {ends}; {goes_on} ({self.found.compared} compared{doubled})"
        if self.found is None:
            return f"new: {ends}; copied from its beginning as the link's start says"
        return f"refused: {ends}; {self.found.reason}"


@dataclass(frozen=True, slots=True)
class TopicAdoption:
    """One topic: taken over with all its partitions, or not at all (`reason`)."""

    record: MirrorRecord
    partitions: tuple[PartitionAdoption, ...]
    reason: str = ""

    @property
    def refusal(self) -> str:
        """Why the topic is not taken over; empty if it is."""
        numbers = refused_numbers(self.partitions)
        if self.reason or not numbers:
            return self.reason
        return f"no resume point in partition {numbers}"


@dataclass(frozen=True, slots=True)
class AdoptionPlan:
    """What would be taken over, with notes for the operator; without `peer` by contents alone."""

    link: LinkName
    peer: Peer | None
    topics: tuple[TopicAdoption, ...]
    notes: tuple[str, ...] = ()

    @property
    def adopted(self) -> tuple[TopicAdoption, ...]:
        """Topics that can be taken over."""
        return tuple(topic for topic in self.topics if not topic.refusal)

    @property
    def has_refusals(self) -> bool:
        """Whether a topic stays as it is."""
        return len(self.adopted) < len(self.topics)

    def describe(self) -> Iterator[str]:
        """Yield lines for people."""
        yield from lines_of(self.topics, "adopt")
        for note in self.notes:
            yield f"note: {note}"

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "offsets_topic": None if self.peer is None else self.peer.offsets_topic,
            "connector": None if self.peer is None else self.peer.flow.connector,
            "alias": None if self.peer is None else self.peer.flow.alias,
            "group": None if self.peer is None else self.peer.group,
            "topics": as_json(self.topics),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Handback:
    """One partition that MirrorMaker 2 is to continue.

    Parameters
    ----------
    next_offset
        Source offset that it is to read next.
    was
        Position that it has committed itself; None before its first commit.
    """

    source: TopicName
    target: TopicName
    partition: PartitionId
    target_end: Offset
    next_offset: Offset
    was: Position | None

    def to_json(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        return {
            "source": self.source,
            "target": self.target,
            "partition": self.partition,
            "target_end": self.target_end,
            "next_offset": self.next_offset,
            "committed_before": None if self.was is None else self.was.copied,
        }

    def describe(self) -> str:
        """Return one line for people."""
        was = "nothing" if self.was is None else str(self.was.copied)
        return (
            f"{self.source}-{self.partition}: MirrorMaker 2 continues with source offset "
            f"{self.next_offset}, at target offset {self.target_end} (it had committed {was})"
        )


@dataclass(frozen=True, slots=True)
class HandbackPlan:
    """Positions that would be written for MirrorMaker 2."""

    link: LinkName
    peer: Peer
    partitions: tuple[Handback, ...]
    notes: tuple[str, ...] = ()

    def describe(self) -> Iterator[str]:
        """Yield lines for people."""
        for partition in self.partitions:
            yield partition.describe()
        for note in self.notes:
            yield f"note: {note}"

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "offsets_topic": self.peer.offsets_topic,
            "connector": self.peer.flow.connector,
            "alias": self.peer.flow.alias,
            "partitions": [partition.to_json() for partition in self.partitions],
            "notes": list(self.notes),
        }
