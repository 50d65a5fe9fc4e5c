"""Whether a mirror of a stopped link may go on at a later source offset; pure.

I1  The record before the target's end must be the link's: a lane that goes on after a recorded gap
    does not look again, so the mirror must end where the link noted that it left it.
I6  What lies between becomes a gap of the ledger, with the cause `SKIPPED`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from heliostat.errors import Refused
from heliostat.gaps.choices import Effect, Facts, GapChoice, effect_of, why_not
from heliostat.gaps.facts import after_jump, is_pending
from heliostat.gaps.ledger import CopyNote, GapRow
from heliostat.invariants import last_batch_is_ours
from heliostat.names import Offset
from heliostat.records.copier.lane import PartitionReport
from heliostat.topics.values import MirrorRecord

START_FILE = "let the link begin it there: topics.start with a file of offsets (docs/configure.md)"
COPY_AGAIN = "delete its topic at the target, so that it is copied again"
LOOK_AGAIN = "start the link, which says what is wrong with the mirror, and stop it again"


@dataclass(frozen=True, slots=True)
class Standing:
    """All that must be known of one partition before it may skip records.

    Parameters
    ----------
    facts
        What both clusters show.
    record
        Its mirror.
    jump
        The ledger's last row that moves it; None: there is none.
    note
        How far it was copied, as the link noted; None: it did not.
    adopted
        Where the mirror ended when the link took it over; None: it began it itself.
    stop
        Why it is stopped; None: it is not.
    last_sequence
        Sequence of the last record that its leader remembers of the link (-1: of none).
    """

    facts: Facts
    record: MirrorRecord
    jump: GapRow | None = None
    note: CopyNote | None = None
    adopted: Offset | None = None
    stop: PartitionReport | None = None
    last_sequence: int = -1

    def at_position(self) -> Facts:
        """Return the facts at the source offset that would be copied next.

        That is after holes that the link has passed, and after a gap that is recorded already.
        """
        facts, note = after_jump(self.facts, self.jump, self.record), self.note
        if note is None or note.end not in {-1, facts.target_end}:
            return facts
        return replace(facts, position=max(facts.position, Offset(note.offset)))

    def is_as_left(self) -> bool:
        """Return whether the mirror ends where the link left it: by its note, or its sequences.

        An append may land whose answer a round that ended has not seen.
        """
        facts, note = self.facts, self.note
        if not facts.fills and self.last_sequence >= 0:
            last = 0, self.last_sequence
            if last_batch_is_ours(last, 0, facts.target_end):
                return True
        if self.jump is not None and is_pending(self.jump, facts, self.record):
            return True
        if note is not None and note.end >= 0:
            return note.end == facts.target_end
        if note is not None and note.offset >= facts.position:
            return True
        return self.adopted == facts.target_end


def skip_effect(at: Standing, to: Offset) -> tuple[Facts, Effect] | None:
    """Return what it means that a partition goes on at `to`; None: it would anyway.

    Raises
    ------
    Refused
        It may not.
    """
    facts = at.at_position()
    _refuse_unsound(at, facts)
    name, position = facts.source, facts.position
    if to < position:
        raise Refused(
            f"{name} was copied up to offset {position - 1}: from {to} on its mirror would hold "
            "records twice",
            hint=COPY_AGAIN,
        )
    if to == position:
        return None
    if not facts.source_start <= to <= facts.source_end:
        raise Refused(
            f"{name} has offsets {facts.source_start} to {facts.source_end - 1} at the source: its "
            f"mirror can't go on at {to}",
            hint=f"the first that can be chosen is {max(position, facts.source_start)}, the last "
            f"is {facts.source_end}, its end",
        )
    wanted = replace(facts, skip_to=to)
    effect = effect_of(wanted, GapChoice.CONTINUE)
    if effect is None:
        raise Refused(f"{name}: {why_not(wanted, GapChoice.CONTINUE)}", hint=COPY_AGAIN)
    return wanted, effect


def _refuse_unsound(at: Standing, facts: Facts) -> None:
    """Refuse where the mirror is not sound, or there is none to speak of."""
    name, stop = facts.source, at.stop
    if facts.is_gone:
        raise Refused(
            f"the source has no partition {name} any more",
            hint="see `heliostat plan` for what becomes of its mirror",
        )
    if stop is not None:
        place = f"{name.topic} {name.partition}"
        raise Refused(
            f"{name} is stopped: {stop.code}: {stop.reason}",
            hint=f"decide on that: heliostat resolve {place}; heliostat explain {name} says more",
        )
    if at.adopted is None and facts.position <= facts.begin:
        raise Refused(f"the mirror of {name} holds no record of it", hint=START_FILE)
    if not at.is_as_left():
        noted = "did not note how far it copied" if at.note is None else _noted(at.note)
        raise Refused(
            f"{facts.target} ends at {facts.target_end}, and the link {noted}: it is not certain "
            "that its last record is the link's",
            hint=LOOK_AGAIN,
        )
    if facts.is_known_truncated:
        raise Refused(
            f"the source has lost records of {name} that were copied",
            hint=f"start the link, which stops there: then heliostat resolve {name.topic} "
            f"{name.partition}",
        )


def _noted(note: CopyNote) -> str:
    if note.end >= 0:
        return f"left it at {note.end}"
    return f"noted only that it copied up to source offset {note.offset}"
