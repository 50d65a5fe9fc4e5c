"""What rebuilding a lost state would do, as values for display."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heliostat.merge.own_end import OwnNote
from heliostat.names import LinkName, Offset, PartitionId, TopicName
from heliostat.rebuild.proof import NotProved, Proof
from heliostat.state.link_state import Starts
from heliostat.topics.mirror_plans import REFUSED, as_json, lines_of, refused_numbers
from heliostat.topics.values import MirrorRecord


class MergedStand(NamedTuple):
    """How many records the link has appended to a merged partition; its "target end" is that."""

    note: OwnNote
    log_start: Offset
    """The target's: the link's first record is there or later."""
    known_from: int
    """Number of the first one whose place at the source is known."""


@dataclass(frozen=True, slots=True)
class PartitionRebuild:
    """One partition of a mirror.

    Parameters
    ----------
    partition
        Its number at the source.
    source_end, target_end
        Log ends of both sides when they were read.
    found
        The proof that it is a copy of the source's, or why there is none; None: nothing was ever
        written to it, so that it begins like any other.
    merged
        What is known besides of a partition that others write as well.
    """

    partition: PartitionId
    source_end: Offset
    target_end: Offset
    found: Proof | NotProved | None
    merged: MergedStand | None = None

    @property
    def proof(self) -> Proof | None:
        """The proof that it is a copy of the source's, if there is one."""
        return self.found if isinstance(self.found, Proof) else None

    @property
    def verdict(self) -> str:
        """`exact`, `mapped`, `filled`, `new` or `refused`."""
        if self.found is None:
            return "new"
        return REFUSED if isinstance(self.found, NotProved) else self.found.kind.value

    def to_json(self) -> dict[str, Any]:
        """Return it as the command line prints it with `--json`."""
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
        """Return one line for people."""
        ends = f"source end {self.source_end}, target end {self.target_end}"
        proof = self.proof
        if proof is not None:
            rebuilt = ", its offset map rebuilt" if proof.breaks is not None else ""
            return (
                f"{self.verdict}: {ends}; continues at source offset {proof.position} "
                f"({proof.compared} records compared{rebuilt})"
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
        """Why it stays refused; empty if it is taken back."""
        numbers = refused_numbers(self.partitions)
        if self.reason or not numbers:
            return self.reason
        return f"partition {numbers} is not shown to be a copy of the source's"

    def starts(self) -> Starts:
        """Return where its partitions begin, and the ends up to which records are adopted."""
        proofs = {p.partition: p for p in self.partitions if p.proof is not None}
        if self.record.is_merged:
            offsets = {n: one.proof.start for n, one in proofs.items() if one.proof is not None}
            logs = {n: one.merged.log_start for n, one in proofs.items() if one.merged is not None}
            return Starts(self.record.target_id, offsets, merged=logs)
        return Starts(
            self.record.target_id,
            {number: one.proof.start for number, one in proofs.items() if one.proof is not None},
            {number: one.target_end for number, one in proofs.items()},
        )


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What would be rebuilt; `notes` say what an operator should know."""

    link: LinkName
    topics: tuple[TopicRebuild, ...]
    notes: tuple[str, ...] = ()
    at_beginning: frozenset[TopicName] | None = None
    """The source's topics to note as older than the link; None: they are known."""
    warnings: Mapping[TopicName, str] = field(default_factory=dict)
    """By source topic: why a mirror that is the link's again is still not copied."""
    missing: str = ""
    """What the state lacks of who the link is: it is made anew; empty if nothing."""

    @property
    def taken(self) -> tuple[TopicRebuild, ...]:
        """Mirrors that are the link's again."""
        return tuple(topic for topic in self.topics if not topic.refusal)

    @property
    def unproven(self) -> frozenset[TopicName]:
        """Source topics that stay refused."""
        return frozenset(topic.record.source for topic in self.topics if topic.refusal)

    @property
    def has_refusals(self) -> bool:
        """Whether something stays refused."""
        return len(self.taken) < len(self.topics)

    def describe(self) -> Iterator[str]:
        """Yield plain lines for people."""
        if not self.topics:
            yield "the link knows all its mirrors as its own"
        yield from lines_of(self.topics, "rebuild")
        for name, why in self.warnings.items():
            yield f"note: {name} is still not copied: {why}"
        if self.missing:
            yield (
                f"note: the state lacks {self.missing}; that is made anew, and of the link's "
                "mirrors those that are not taken back stop as FOREIGN_TAIL"
            )
        for note in self.notes:
            yield f"note: {note}"

    def to_json(self) -> dict[str, Any]:
        """Return it as the command line prints it with `--json`."""
        return {
            "link": self.link,
            "topics": as_json(self.topics),
            "not_copied": dict(self.warnings),
            "missing": self.missing,
            "notes": list(self.notes),
        }
