"""What making a lost state anew would do: values to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat.names import LinkName, Offset, PartitionId, TopicName
from heliostat.rebuild.proof import NotProved, Proof
from heliostat.state.link_state import Starts
from heliostat.topics.mirror_plans import REFUSED, as_json, lines_of, refused_numbers
from heliostat.topics.values import MirrorRecord


@dataclass(frozen=True, slots=True)
class PartitionRebuild:
    """One partition of a mirror.

    Parameters
    ----------
    partition
        Its number at the source.
    source_end, target_end
        Where both logs ended when they were looked at.
    found
        That it is the source's, or why that is not shown; None where nothing was ever written, so
        that it begins as any other.
    """

    partition: PartitionId
    source_end: Offset
    target_end: Offset
    found: Proof | NotProved | None

    @property
    def proof(self) -> Proof | None:
        """That it is the source's, if it is."""
        return self.found if isinstance(self.found, Proof) else None

    @property
    def verdict(self) -> str:
        """`exact`, `mapped`, `filled`, `new` or `refused`."""
        if self.found is None:
            return "new"
        return REFUSED if isinstance(self.found, NotProved) else self.found.kind.value

    def to_json(self) -> dict[str, Any]:
        """As the command line answers it."""
        proof = self.proof
        why = self.found if isinstance(self.found, NotProved) else None
        return {
            "partition": self.partition,
            "source_end": self.source_end,
            "target_end": self.target_end,
            "verdict": self.verdict,
            "goes_on_at": None if proof is None else proof.position,
            "compared": None if proof is None else proof.compared,
            "map_made_anew": proof is not None and proof.breaks is not None,
            "differs_at": None if why is None else why.at,
            "reason": "" if why is None else str(why),
        }

    def describe(self) -> str:
        """One line for people."""
        ends = f"source end {self.source_end}, target end {self.target_end}"
        proof = self.proof
        if proof is not None:
            anew = ", its offset map made anew" if proof.breaks is not None else ""
            return (
                f"{self.verdict}: {ends}; goes on with source offset {proof.position} "
                f"({proof.compared} records compared{anew})"
            )
        if self.found is None:
            return f"new: {ends}; copied from its beginning"
        return f"refused: {ends}; {self.found}"


@dataclass(frozen=True, slots=True)
class TopicRebuild:
    """One mirror: all of its partitions become the link's again, or none; `reason` says why not."""

    record: MirrorRecord
    partitions: tuple[PartitionRebuild, ...]
    reason: str = ""

    @property
    def refusal(self) -> str:
        """Why it stays refused; empty if it does not."""
        numbers = refused_numbers(self.partitions)
        if self.reason or not numbers:
            return self.reason
        return f"partition {numbers} is not shown to be a copy of the source's"

    def starts(self) -> Starts:
        """Where its partitions begin; what is there already is never lifted, nor asked whose."""
        proofs = {p.partition: p for p in self.partitions if p.proof is not None}
        return Starts(
            self.record.target_id,
            {number: one.proof.start for number, one in proofs.items() if one.proof is not None},
            {number: one.target_end for number, one in proofs.items()},
        )


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What would be made anew; `notes` are what an operator should know."""

    link: LinkName
    topics: tuple[TopicRebuild, ...]
    notes: tuple[str, ...] = ()
    at_beginning: frozenset[TopicName] | None = None
    """The source's topics to be remembered as older than the link; None: they are known."""
    warnings: Mapping[TopicName, str] = field(default_factory=dict)
    """Why mirrors that are the link's again are not copied all the same."""

    @property
    def taken(self) -> tuple[TopicRebuild, ...]:
        """Mirrors that are the link's again."""
        return tuple(topic for topic in self.topics if not topic.refusal)

    @property
    def has_refusals(self) -> bool:
        """Whether something stays refused."""
        return len(self.taken) < len(self.topics)

    def describe(self) -> Iterator[str]:
        """Plain lines for people."""
        if not self.topics:
            yield "no mirror is without its row in the link's state"
        yield from lines_of(self.topics, "rebuild")
        for name, why in self.warnings.items():
            yield f"note: {name} is not copied all the same: {why}"
        for note in self.notes:
            yield f"note: {note}"

    def to_json(self) -> dict[str, Any]:
        """As the command line answers it."""
        return {
            "link": self.link,
            "topics": as_json(self.topics),
            "not_copied": dict(self.warnings),
            "notes": list(self.notes),
        }
