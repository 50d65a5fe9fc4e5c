"""What stops a partition as a round begins, by the end of the target's log.

I1  The record before the target's end must be ours. A foreign record persists in the target's log,
    so every round, of any owner and machine, finds it again until a person decides. If its producer
    can't be determined, nothing is appended.
I6  Source records are skipped only by a decision.
"""

from __future__ import annotations

from typing import NamedTuple

from heliostat.invariants import last_batch_is_ours
from heliostat.offsets.offset_map import Break, OffsetMap
from heliostat.records.batches.converted import RefusedRecord, StopReason
from heliostat.records.copier.lane import PartitionCode, PartitionSpec, PartitionState
from heliostat.records.copier.markers import filled_last_batch_is_ours, filler_of
from heliostat.records.copier.network import LastBatch, LogRange

GO_BACK = (
    "the decision was to continue at an earlier source offset, but offsets are to stay equal: "
    "delete the mirror, so that it is copied again, or allow different offsets (`offsets: auto`)"
)


class Stopped(NamedTuple):
    """Why a person has to decide, or that one has decided that it rests."""

    state: PartitionState
    code: str
    """A `PartitionCode`, or the name of a broker's or a stop's."""
    reason: str


class Beginning(NamedTuple):
    """What is known of a partition at the end of its target's log."""

    target: LogRange
    last_batch: LastBatch | None
    """Who appended the last record; None: not read (`needs_last_batch`), or not to be found out."""
    known: OffsetMap
    fills: bool
    copied_to: int
    """Source offset below which this link knows to have copied all (-1: not known) ..."""
    copied_end: int
    """... and the target's log end offset at that time (-1: not known)."""
    is_refused: bool
    """Whether the target has refused our appends at this very end repeatedly."""


class OwnProducers(NamedTuple):
    """The link's producer id, and those that it had before."""

    current: int
    former: frozenset[int] = frozenset()


def needs_last_batch(spec: PartitionSpec, target: LogRange) -> bool:
    """Return whether another producer may have appended the record before the target's end.

    False if it is known that one has and a decision covers it, and for an empty log that does not
    end after the mirror's start offset.
    """
    if spec.adopted_at == target.end or jump_at(spec, target.end):
        return False
    return target.end > target.start or target.end > spec.start


def fills_holes(spec: PartitionSpec, known: OffsetMap) -> bool:
    """Return whether a mirror's holes are filled, so that its offsets equal the source's."""
    return known.is_filled or (spec.fills and known.is_identity)


def jump_at(spec: PartitionSpec, end: int) -> Break | None:
    """Return where to continue from exactly this target end, if it was decided."""
    return spec.jump if spec.jump is not None and spec.jump.target == end else None


def refused_by(spec: PartitionSpec, position: int) -> RefusedRecord | None:
    """Return the record from `position` on at which the driver stops it; its pipeline has others.

    That way (`transport.row_exchange`) records beyond it must not even go in.
    """
    if spec.pipeline or spec.fails_at < position:
        return None
    return RefusedRecord(spec.fails_at, spec.why_fails, StopReason[spec.fail_code])


def why_stopped(spec: PartitionSpec, own: OwnProducers, at: Beginning) -> Stopped | None:
    """Return why nothing is copied from here on; None if copying continues."""
    if (blocked := _why_blocked(spec, at) or _why_not_from(spec, own, at)) is not None:
        return blocked
    return Stopped(PartitionState.PAUSED, "", "") if spec.is_paused else None


def _why_not_from(spec: PartitionSpec, own: OwnProducers, at: Beginning) -> Stopped | None:
    """Return why nothing can be appended at the end of the target's log."""
    if needs_last_batch(spec, at.target) and (found := _why_not_ours(own, at)) is not None:
        return found
    if (jump := jump_at(spec, at.target.end)) is not None:
        if at.fills and jump.source < at.target.end:
            return Stopped(PartitionState.BLOCKED, PartitionCode.OFFSETS_GO_BACK, GO_BACK)
    elif spec.truncated:
        return Stopped(PartitionState.GAP, PartitionCode.SOURCE_TRUNCATED, spec.truncated)
    elif (found := _why_not_so_short(at)) is not None:
        return found
    return _why_refused(at) if at.is_refused else None


def _why_blocked(spec: PartitionSpec, at: Beginning) -> Stopped | None:
    if lost := spec.map_lost or at.known.lost:
        return Stopped(PartitionState.BLOCKED, PartitionCode.OFFSET_MAP_LOST, lost)
    if spec.why_fails and spec.fails_at < 0:
        is_merged = spec.fail_code == PartitionCode.PRODUCERS_LOST
        code = PartitionCode.PRODUCERS_LOST if is_merged else PartitionCode.PIPELINE_REFUSED
        return Stopped(PartitionState.BLOCKED, code, spec.why_fails)
    return None


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


def _why_not_ours(own: OwnProducers, at: Beginning) -> Stopped | None:
    end = at.target.end
    if at.last_batch is None:
        source = end if at.fills else at.known.source_of(end)
        if at.copied_end >= end if at.copied_end >= 0 else at.copied_to >= source:
            return None  # the link has noted itself that it copied so far, or further
        return Stopped(
            PartitionState.DIVERGED,
            PartitionCode.TAIL_UNKNOWN,
            f"it is not known who wrote up to the target's end {end}: its last record is gone, the "
            f"brokers have forgotten its producer, and {_said(at.copied_to)}",
        )
    if at.fills:
        is_ours = filled_last_batch_is_ours(at.last_batch, own.current, at.known, end)
    else:
        is_ours = last_batch_is_ours(at.last_batch, own.current, end)
    if is_ours:
        return None
    return Stopped(
        PartitionState.DIVERGED,
        PartitionCode.FOREIGN_TAIL,
        f"the record before the target's end {end} was {_appender(at.last_batch, own)}",
    )


def _appender(last: LastBatch, own: OwnProducers) -> str:
    for former in own.former:
        if last.producer_id in {former, filler_of(former)}:
            return (
                f"appended by this link under a former producer id, {former}: its state was lost "
                "or written over; `heliostat state rebuild` takes the mirror back by its contents"
            )
    if last.producer_id < 0:
        return "not appended by this link, but by a producer without an id"
    return f"not appended by this link, but by the producer {last.producer_id}"


def _said(copied_to: int) -> str:
    if copied_to < 0:
        return "this link has not noted how far it copied"
    return f"this link has noted only that it copied up to source offset {copied_to}"
