"""What always holds, numbered. Product, simulation and tests share these predicates.

I1  Every append names the target offset it expects; the answer's base offset is checked.
    Where holes are filled it names the number of its record, which the map holds to an offset.
I2  Position = offset map at the target's log end. Nothing else decides where copying goes on.
I3  An extent is durable before the first batch that needs it.
I4  After an ambiguous answer nothing is resent before the target's real end was read again.
I5  Same partition number, same order, same key, value, headers, timestamp and its meaning.
I6  A source record that was not copied and never will be is a gap, never passed in silence.
I7  A partition's trouble stops that partition only.
I8  A record whose schema is not readable at the target yet is not visible there yet.
I9  A published group offset never points past what has landed and never moves a live group.
I10 One owner: a round sends nothing after its deadline, and its process ends where it was frozen in
    mid send; a successor waits that out, fences its predecessor, and lanes listen to none but the
    newest owner they know.

I8 concerns schemas, which the product does not copy yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

SEQUENCE_MODULUS = 2**31
"""Sequences wrap from 2^31-1 to 0 (`DefaultRecordBatch.incrementSequence`)."""


def sequence_of(target_offset: int) -> int:
    """Sequence number by which an append names the target offset it expects (I1)."""
    return target_offset % SEQUENCE_MODULUS


def append_landed_where_named(expected_offset: int, answered_offset: int) -> bool:
    """I1: the broker put the batch where we said it must go."""
    return expected_offset == answered_offset


def last_batch_is_ours(last_batch: tuple[int, int], producer_id: int, target_end: int) -> bool:
    """I1, looked at before copying goes on: the last record stands where we named it.

    `last_batch` is the producer id of the record before `target_end` and its place in the
    sequence. What others appended has neither; a broker that has forgotten us would let us go on
    behind it.
    """
    return last_batch == (producer_id, sequence_of(target_end - 1))


def position_is_target_end(position: int, target_end: int) -> bool:
    """I2 for an exact mirror: the next source offset is the target's log end itself."""
    return position == target_end


def batch_continues(expected_offset: int, base_offset: int) -> bool:
    """I5 and I6: the next batch begins where the last one ended, nothing left out or repeated."""
    return expected_offset == base_offset


def gap_is_recorded(first: int, end: int, recorded: Iterable[tuple[int, int | None]]) -> bool:
    """I6: the source offsets `[first, end)` that are passed all lie in recorded gaps.

    `recorded` are first and last offset of the ledger's rows, both included; last None: open ended.
    """
    at = first
    for start, last in sorted(recorded, key=lambda row: row[0]):
        if at >= end or start > at:
            break
        at = end if last is None else max(at, last + 1)
    return at >= end


def may_send(now_s: float, deadline_s: float) -> bool:
    """I10: looked at before every send; both from the same monotonic clock."""
    return now_s < deadline_s


def group_offset_may_be_published(offset: int, target_end: int, *, has_members: bool) -> bool:
    """I9: what it points at has landed (or comes next), and nobody is in the group there."""
    return offset <= target_end and not has_members


def predecessors_have_ended(
    round_id: str, waits_for: Iterable[str], running: Collection[str] | None
) -> bool:
    """I10: whether rounds before this one have ended, by the rounds that the driver said run.

    What was said before this round was given out knows nothing of those given out meanwhile: so it
    must be among the ones that run itself. None: nothing was heard yet.
    """
    if running is None or round_id not in running:
        return False
    return not any(before in running for before in waits_for)


GENERATIONS_PER_CLAIM = 1_000_000_000
"""Generations of lanes that one owner may announce: one a second for 30 years."""


def first_generation(claim: int) -> int:
    """Generations of the link's owner number `claim` lie above it, and above all earlier ones'."""
    return claim * GENERATIONS_PER_CLAIM


def is_from_current_owner(announced_claim: int, generation: int) -> bool:
    """I10: whether a lane of `generation` listens to what owner `announced_claim` announces."""
    return announced_claim >= generation // GENERATIONS_PER_CLAIM
