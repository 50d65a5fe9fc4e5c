"""What keeps a partition from being copied on, seen where the target's log ends as a round begins.

I1  The record before the target's end must be ours. A stop for it lives in the target's log, not in
    anybody's memory: every round, of any owner and machine, sees it again until it is decided on.
    Where it can't be told whose the record was, nothing is appended.
I6  Source records that are passed are passed by a decision.
"""

from __future__ import annotations

from typing import NamedTuple

from heliostat.invariants import last_batch_is_ours
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.copier.lane import PartitionCode, PartitionSpec, PartitionState
from heliostat.records.copier.markers import filled_last_batch_is_ours
from heliostat.records.copier.network import LastBatch, LogRange

GO_BACK = (
    "it was decided to go on at an earlier source offset, but offsets are to stay equal: delete "
    "the mirror, so that it is copied again, or let its offsets differ (`offsets: auto`)"
)


class Stopped(NamedTuple):
    """Why a person has to decide."""

    state: PartitionState
    code: str
    """A `PartitionCode`, or the name of a broker's or a stop's."""
    reason: str


class Beginning(NamedTuple):
    """What is known of a partition where its target's log ends."""

    target: LogRange
    last_batch: LastBatch | None
    """Who appended the last record; None: not read (`needs_last_batch`), or nothing tells it."""
    known: OffsetMap
    fills: bool
    copied_to: int
    """Source offset below which this link knows to have copied all (-1: not known) ..."""
    copied_end: int
    """... and where the target's log ended then (-1: not known)."""
    is_refused: bool
    """The target has refused what we appended at this very end, again and again."""


def needs_last_batch(spec: PartitionSpec, target: LogRange) -> bool:
    """Whether somebody else may have appended the record before the target's end.

    Not where that is known to be so and was decided on, and not in an empty log that holds what a
    mirror begins with: nothing.
    """
    if spec.adopted_at == target.end or jump_at(spec, target.end):
        return False
    return target.end > target.start or target.end > spec.start


def fills_holes(spec: PartitionSpec, known: OffsetMap) -> bool:
    """Whether a mirror's holes are filled, so that its offsets are the source's."""
    return known.is_filled or (spec.fills and known.is_identity)


def jump_at(spec: PartitionSpec, end: int) -> Break | None:
    """What was decided of where to go on from this very end, if anything."""
    return spec.jump if spec.jump is not None and spec.jump.target == end else None


def why_stopped(spec: PartitionSpec, producer_id: int, at: Beginning) -> Stopped | None:
    """Why nothing is copied from here on; None where it goes on."""
    if lost := spec.map_lost or at.known.lost:
        return Stopped(PartitionState.BLOCKED, PartitionCode.OFFSET_MAP_LOST, lost)
    if needs_last_batch(spec, at.target) and (found := _why_not_ours(producer_id, at)) is not None:
        return found
    if (jump := jump_at(spec, at.target.end)) is not None:
        if at.fills and jump.source < at.target.end:
            return Stopped(PartitionState.BLOCKED, PartitionCode.OFFSETS_GO_BACK, GO_BACK)
    elif spec.truncated:
        return Stopped(PartitionState.GAP, PartitionCode.SOURCE_TRUNCATED, spec.truncated)
    elif (found := _why_not_so_short(at)) is not None:
        return found
    return _why_refused(at) if at.is_refused else None


def _why_not_so_short(at: Beginning) -> Stopped | None:
    end = at.target.end
    if at.known.knows(end):
        return None
    return Stopped(
        PartitionState.DIVERGED,
        PartitionCode.TARGET_TRUNCATED,
        f"the target ends at {end}, far before what it held: it was truncated",
    )


def _why_refused(at: Beginning) -> Stopped:
    return Stopped(
        PartitionState.DIVERGED,
        PartitionCode.TARGET_REFUSES_SEQUENCE,
        f"the target refuses to append at its own end {at.target.end} in our sequence: another "
        "writer has appended to this mirror",
    )


def _why_not_ours(producer_id: int, at: Beginning) -> Stopped | None:
    end = at.target.end
    if at.last_batch is None:
        source = end if at.fills else at.known.source_of(end)
        if at.copied_end >= end if at.copied_end >= 0 else at.copied_to >= source:
            return None  # the link itself has written down that it came so far, or further
        return Stopped(
            PartitionState.DIVERGED,
            PartitionCode.TAIL_UNKNOWN,
            f"who wrote up to the target's end {end} can't be told: its last record is gone, the "
            f"brokers have forgotten who appended it, and {_said(at.copied_to)}",
        )
    if at.fills:
        is_ours = filled_last_batch_is_ours(at.last_batch, producer_id, at.known, end)
    else:
        is_ours = last_batch_is_ours(at.last_batch, producer_id, end)
    if is_ours:
        return None
    return Stopped(
        PartitionState.DIVERGED,
        PartitionCode.FOREIGN_TAIL,
        f"the record before the target's end {end} was not appended by this link",
    )


def _said(copied_to: int) -> str:
    if copied_to < 0:
        return "this link has no note of it"
    return f"this link knows only that it copied what lies before source offset {copied_to}"
