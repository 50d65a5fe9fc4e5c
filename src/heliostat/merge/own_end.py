"""How many records a link has appended to a merged partition: where it goes on, after any crash.

Its own records are numbered from 0; a record's sequence is its number modulo 2^31. Others append
behind it, so the log's end says nothing. What does: the leader's memory of the producer, the
batches in the log, and the link's note, in this order (docs/adr/0059).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from heliostat.invariants import SEQUENCE_MODULUS
from heliostat.names import Offset


class OwnNote(NamedTuple):
    """What is durable of a link's own records in a partition; one is before its first append."""

    number: int
    """How many of them had landed ..."""
    complete_to: Offset
    """... all below this target offset, and no other own record is below it."""
    epoch: int = -1
    """Leader epoch of the target at that time (-1: not known)."""
    is_closed: bool = False
    """Whether nothing was under way, and nothing is sent before the next note is durable."""


class BatchPlace(NamedTuple):
    """A batch of the target's log, by its header."""

    producer_id: int
    sequence: int
    offset: int
    """Of its first record, ..."""
    next_offset: int
    """... and behind its last one, also where a cleaner has removed records."""


class Evidence(NamedTuple):
    """What is known of a partition's own records, asked of its leader."""

    note: OwnNote
    """Cut back, if the log was (`cut_back`)."""
    remembered: int | None
    """Last sequence of the link's producer that the leader remembers; None: none."""
    log: Iterable[BatchPlace]
    """All batches from the note's `complete_to` on, or from the log's start, if it begins later."""
    end: int
    """The log's end, read before the batches."""


class OwnEnd(NamedTuple):
    """How many own records have landed, if that can be told."""

    number: int | None
    why: str = ""
    """Why it is not known."""


def numbered(sequence: int, near: int) -> int:
    """Return the number with this sequence that is nearest to another number, and not negative."""
    number = near + (sequence - near) % SEQUENCE_MODULUS
    if number - near > SEQUENCE_MODULUS // 2 and number >= SEQUENCE_MODULUS:
        number -= SEQUENCE_MODULUS
    return number


def own_batches(
    log: Iterable[BatchPlace], own: Collection[int], near: int
) -> Iterable[tuple[int, BatchPlace]]:
    """Yield the link's own batches with the number of their first record, in the log's order."""
    for batch in log:
        if batch.producer_id in own:
            near = numbered(batch.sequence, near)
            yield near, batch


def cut_back(note: OwnNote, end: int, number: int) -> OwnNote:
    """Return what of a note still holds after an election at the target.

    Parameters
    ----------
    note
        What was noted.
    end
        Where the log of the note's leader epoch ended (OffsetForLeaderEpoch); behind that, others'
        records may lie where the link's were.
    number
        How many own records landed before `end`, by where they did.
    """
    if end >= note.complete_to:
        return note
    return note._replace(number=number, complete_to=Offset(end))


def own_end(known: Evidence, own: Collection[int]) -> OwnEnd:
    """Return how many records a link has appended, by what is known of them.

    Parameters
    ----------
    known
        Leader's memory, log and note.
    own
        All producer ids that the link ever had.
    """
    note = known.note
    if (remembered := _remembered(known)) is not None:
        return remembered
    if note.is_closed:
        return OwnEnd(note.number)
    log = list(known.log)
    own_log = list(own_batches(log, own, note.number))
    ends = [number + batch.next_offset - batch.offset for number, batch in own_log]
    if is_whole(log, note.complete_to, known.end):
        begins = [number for number, _ in own_log]
        lost = next(
            (at for at, begin in zip([note.number, *ends], begins, strict=False) if begin > at),
            None,
        )
        if lost is not None:
            text = f"its target has later records of the link, and not those from number {lost} on"
            return OwnEnd(None, text)
        return OwnEnd(max([note.number, *ends]))
    if (last := _last_left(known, own)) is not None:
        return OwnEnd(last)
    return OwnEnd(
        None,
        f"the brokers have forgotten the link's producer, and of the log from {note.complete_to}, "
        f"up to which {note.number} records of the link are known, to {known.end} a part is gone",
    )


def own_end_after_cut(known: Evidence, start: int, cut_at: int, own: Collection[int]) -> OwnEnd:
    """Return how many records a link has appended where an election took a part that a note counts.

    Parameters
    ----------
    known
        As for `own_end`, with the batches of the whole log; its note counts what is gone.
    start, cut_at
        Where the log begins, and where that of the note's leader epoch ended.
    own
        All producer ids that the link ever had.
    """
    note, log = known.note, list(known.log)
    if (remembered := _remembered(known)) is not None:
        return remembered
    if (last := _last_left(known, own)) is not None:
        return OwnEnd(last)
    whole_from = cut_at if note.number == 0 else 0
    if start <= whole_from and is_whole(log, whole_from, known.end):
        return OwnEnd(0)
    text = "an election at the target took records that the link had appended, and of those before"
    return OwnEnd(None, f"{text} none is left that shows how many they were")


def _remembered(known: Evidence) -> OwnEnd | None:
    """Return the end by the leader's memory of the link's producer; None: it has none."""
    if known.remembered is None:
        return None
    return OwnEnd(numbered(known.remembered, known.note.number) + 1)


def _last_left(known: Evidence, own: Collection[int]) -> int | None:
    """Return the end by the last own batch that is left; None: it does not tell it.

    Retention removes what is before it; a cleaner may have removed later ones, and leaves a hole.
    """
    log, last, last_at = list(known.log), None, 0
    for number, batch in own_batches(log, own, known.note.number):
        last, last_at = number + batch.next_offset - batch.offset, batch.next_offset
    return last if is_whole(log, last_at, known.end) else None


def is_whole(log: Iterable[BatchPlace], start: int, end: int) -> bool:
    """Return whether each offset of `[start, end)` is one of a batch in the log."""
    at = start
    for batch in log:
        if batch.offset > at:
            return False
        at = max(at, batch.next_offset)
    return at >= end
