"""What always holds, numbered. Product, simulation and tests share the predicates.

I1  Every append names the target offset it expects; the answer's base offset is checked.
    Where holes are filled it names a record's number, and the offset map must confirm the offset.
I2  Position = offset map at the target's log end. Nothing else decides where copying continues.
I3  A break of the offset map is durable before the first batch that needs it is sent.
I4  After an ambiguous answer nothing is resent before the target's real end has been read again.
I5  Same partition number, same order, same key, value, headers, timestamp and its meaning; but for
    schema ids, where the target has its own (docs/adr/0025).
I6  A source record that was not copied and never will be is a gap, and never skipped silently.
I7  A partition's failure stops only that partition.
I8  A record whose schema is not readable at the target yet is not visible there yet.
I9  A published group offset never points past what has landed and never moves a live group.
I10 One owner: a round sends only while it has a lease, and its process is killed if it froze in
    mid send; a successor waits until all leases are over and fences its predecessor; lanes obey
    only the newest owner they know.

Only tests call `position_is_target_end` and `gap_is_recorded`. I8 holds for links that mirror
schemas (`schemas.strategy`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

SEQUENCE_MODULUS = 2**31
"""Sequences wrap from 2^31-1 to 0 (`DefaultRecordBatch.incrementSequence`)."""


def sequence_of(target_offset: int) -> int:
    """Sequence number by which an append names the target offset it expects (I1)."""
    return target_offset % SEQUENCE_MODULUS


def append_landed_where_named(expected_offset: int, answered_offset: int) -> bool:
    """I1: the broker appended the batch at the offset that we named."""
    return expected_offset == answered_offset


def last_batch_is_ours(last_batch: tuple[int, int], producer_id: int, target_end: int) -> bool:
    """I1, checked before copying continues: we wrote the last record, under its expected sequence.

    `last_batch` is the producer id and the sequence of the record before `target_end`. Records of
    others have neither of ours; a broker that has forgotten us would accept appends after them.
    """
    return last_batch == (producer_id, sequence_of(target_end - 1))


def position_is_target_end(position: int, target_end: int) -> bool:
    """I2 for an exact mirror: the next source offset is the target's log end itself."""
    return position == target_end


def batch_continues(expected_offset: int, base_offset: int) -> bool:
    """I5 and I6: the next batch begins where the last one ended, nothing skipped or repeated."""
    return expected_offset == base_offset


def gap_is_recorded(first: int, end: int, recorded: Iterable[tuple[int, int | None]]) -> bool:
    """I6: all skipped source offsets `[first, end)` lie in recorded gaps.

    `recorded` are first and last offset of the ledger's rows, both included; last None: open ended.
    """
    offset = first
    for start, last in sorted(recorded, key=lambda row: row[0]):
        if offset >= end or start > offset:
            break
        offset = end if last is None else max(offset, last + 1)
    return offset >= end


def may_send(now_s: float, until_s: float) -> bool:
    """I10: checked before every send; both times are from the same monotonic clock."""
    return now_s < until_s


def lease_is_covered(reported_s: float, recorded_s: float, lease_s: float, lasts_s: float) -> bool:
    """I10: a lease is over before the owner's record under which it was given.

    It lasts `lease_s` from when the lane sent the report that was answered, at `reported_s`; the
    record lasts `lasts_s` from when the driver began to write it, at `recorded_s`.
    """
    return reported_s + lease_s <= recorded_s + lasts_s


def group_offset_may_be_published(offset: int, target_end: int, *, has_members: bool) -> bool:
    """I9: the record it points at has landed (or comes next), and no member is in the group."""
    return offset <= target_end and not has_members


def predecessors_have_ended(
    round_id: str, waits_for: Iterable[str], running: Collection[str] | None
) -> bool:
    """I10: whether the rounds before this one have ended, by the rounds announced as running.

    An announcement made before this round was given out does not cover others given out meanwhile:
    so this round must itself be among the `running`. None: no announcement was read yet.
    """
    if running is None or round_id not in running:
        return False
    return not any(before in running for before in waits_for)


GENERATIONS_PER_CLAIM = 1_000_000_000
"""Generations of lanes that one owner may announce: one a second for 30 years."""


def first_generation(claim: int) -> int:
    """The generation below those of owner `claim`, and above those of all earlier owners."""
    return claim * GENERATIONS_PER_CLAIM


def is_from_current_owner(announced_claim: int, generation: int) -> bool:
    """I10: whether a lane of `generation` obeys an announcement of owner `announced_claim`."""
    return announced_claim >= generation // GENERATIONS_PER_CLAIM
