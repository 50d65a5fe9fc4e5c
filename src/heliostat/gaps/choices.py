"""What can be done where records are missing, and what each choice means in numbers; pure.

I6  A source record that was not copied and never will be is a gap, never passed in silence.

A partition (or a whole topic) is stopped for a `Cause`. Fresh facts from both clusters show what
`continue` and `restart` would do: which offsets become a row of the ledger, where the mirror
continues, whether its target is emptied. Driver and `heliostat resolve` call the same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from heliostat.names import Offset, TopicPartition
from heliostat.offsets.offset_map import Break
from heliostat.records.batches.converted import StopReason
from heliostat.records.copier.lane import PartitionCode
from heliostat.topics.topic_plan import RefusalCode


class Cause(Enum):
    """Why source records are missing from a mirror, or records of the mirror are gone."""

    SOURCE_OVERTOOK = "source_overtook"
    """Retention or DeleteRecords took records before they were copied."""
    SOURCE_TRUNCATED = "source_truncated"
    """The source lost records that the target has: unclean election, or a recreated log."""
    SOURCE_RECREATED = "source_recreated"
    """The source topic was deleted and created again: another topic id."""
    TARGET_RECREATED = "target_recreated"
    """The target topic was deleted and created again, and others wrote into it."""
    TARGET_DELETED = "target_deleted"
    """The target topic was deleted; its mirror started from the beginning."""
    TARGET_TRUNCATED = "target_truncated"
    """The target lost acknowledged records; the source has them, and they are copied again."""
    TARGET_DIVERGED = "target_diverged"
    """Another producer wrote into the mirror."""
    TARGET_UNKNOWN = "target_unknown"
    """It can't be known who wrote the mirror's last records: they are gone."""
    RECORD_TOO_LARGE = "record_too_large"
    """A single record is larger than the target accepts."""
    RECORD_REFUSED = "record_refused"
    """The target rejects a record: no key although the topic is compacted, or its timestamp."""
    RECORD_FAILED = "record_failed"
    """The mirror's pipeline fails at a record."""
    SCHEMA_MISSING = "schema_missing"
    """Schemas of records could not be read at the target for as long as the link waits."""
    RECORD_CORRUPT = "record_corrupt"
    """A batch of the source can't be decoded."""
    TAIL_DROPPED = "tail_dropped"
    """The mirror was given away before the records came, and a person let them go."""
    SKIPPED = "skipped"
    """An operator has set the offset of a stopped link forwards, and so left them out."""

    @property
    def words(self) -> str:
        """In plain words."""
        return _WORDS[self]


_WORDS = {
    Cause.SOURCE_OVERTOOK: "deleted at the source before they were copied",
    Cause.SOURCE_TRUNCATED: "the source was truncated",
    Cause.SOURCE_RECREATED: "the source topic was deleted and created again",
    Cause.TARGET_RECREATED: "the target topic was deleted and created again by others",
    Cause.TARGET_DELETED: "the target topic was deleted",
    Cause.TARGET_TRUNCATED: "the target lost acknowledged records",
    Cause.TARGET_DIVERGED: "another producer wrote into the mirror",
    Cause.TARGET_UNKNOWN: "it is not known who wrote the mirror's last records",
    Cause.RECORD_TOO_LARGE: "a record is larger than the target accepts",
    Cause.RECORD_REFUSED: "the target refuses a record",
    Cause.RECORD_FAILED: "the pipeline fails at a record",
    Cause.SCHEMA_MISSING: "schemas of records can't be read at the target",
    Cause.RECORD_CORRUPT: "a batch can't be decoded",
    Cause.TAIL_DROPPED: "never copied before the mirror was given away, and dropped",
    Cause.SKIPPED: "left out, as an operator has set the offset forwards",
}


class GapChoice(Enum):
    """What an operator or the link's policy decides."""

    CONTINUE = "continue"
    """Continue after the gap; the mirror keeps its records."""
    DEAD_LETTER = "dead_letter"
    """The same, once the records that can't be copied lie in the link's dead letters."""
    RESTART = "restart"
    """Empty the mirror and copy what the source has now."""
    WAIT = "wait"
    """Leave it stopped, whatever the policy says."""


CAUSE_OF_CODE: dict[str, Cause] = {
    PartitionCode.SOURCE_OVERTOOK: Cause.SOURCE_OVERTOOK,
    PartitionCode.SOURCE_TRUNCATED: Cause.SOURCE_TRUNCATED,
    PartitionCode.FOREIGN_TAIL: Cause.TARGET_DIVERGED,
    PartitionCode.TARGET_REFUSES_SEQUENCE: Cause.TARGET_DIVERGED,
    PartitionCode.APPENDED_ELSEWHERE: Cause.TARGET_DIVERGED,
    PartitionCode.TAIL_UNKNOWN: Cause.TARGET_UNKNOWN,
    "INVALID_PRODUCER_EPOCH": Cause.TARGET_DIVERGED,
    PartitionCode.TARGET_TRUNCATED: Cause.TARGET_TRUNCATED,
    StopReason.TOO_LARGE.name: Cause.RECORD_TOO_LARGE,
    StopReason.RECORD_REFUSED.name: Cause.RECORD_REFUSED,
    StopReason.TRANSFORM_FAILED.name: Cause.RECORD_FAILED,
    StopReason.SCHEMA_UNREADABLE.name: Cause.SCHEMA_MISSING,
    StopReason.CORRUPT.name: Cause.RECORD_CORRUPT,
    RefusalCode.SOURCE_RECREATED: Cause.SOURCE_RECREATED,
    RefusalCode.TARGET_RECREATED: Cause.TARGET_RECREATED,
}
"""Codes of stopped partitions and of refused topics that can be decided on."""

OF_WHOLE_TOPICS = frozenset({Cause.SOURCE_RECREATED, Cause.TARGET_RECREATED, Cause.TARGET_DIVERGED})
"""Causes where `restart` recreates the target topic: one partition's log could not continue in
sequence, or none of it is wanted."""

MIXES_WRITERS = frozenset(
    {
        Cause.SOURCE_TRUNCATED,
        Cause.SOURCE_RECREATED,
        Cause.TARGET_RECREATED,
        Cause.TARGET_DIVERGED,
        Cause.TARGET_UNKNOWN,
    }
)
"""Causes where `continue` leaves records in the mirror that the source never had, or no longer."""

OF_RECORDS = frozenset(
    {
        Cause.RECORD_TOO_LARGE,
        Cause.RECORD_REFUSED,
        Cause.RECORD_FAILED,
        Cause.SCHEMA_MISSING,
        Cause.RECORD_CORRUPT,
    }
)
"""Causes where what stands at the position can't be copied; the records after that can."""

AT_THE_LANES_POSITION = OF_RECORDS | {Cause.SOURCE_OVERTOOK}
"""Causes where the offsets that a lane passed after the last record were holes, and no loss: the
gap begins at the position that the lane reports."""

FROM_ITS_BEGINNING = Offset(0)


@dataclass(frozen=True, slots=True)
class FailingRange:
    """Source offsets `[position, end)` that can't be copied.

    Parameters
    ----------
    end
        None: not known.
    count
        Records in it that readers see; None: not known.
    """

    end: Offset | None
    count: int | None


@dataclass(frozen=True, slots=True)
class Facts:
    """One stopped partition, as both clusters show it now.

    Ends are exclusive: `source_end` and `target_end` are the next offsets to be written.
    """

    source: TopicPartition
    target: TopicPartition
    cause: Cause
    code: str
    position: Offset
    """The next source offset that the mirror waits for, by its target's end."""
    source_start: Offset
    source_end: Offset
    target_start: Offset
    target_end: Offset
    is_dense: bool
    """Whether each offset is a record: no hole so far, and the source does not compact."""
    diverged_at: Offset | None = None
    """First source offset that is another record now; None: not known."""
    shared_epoch: int = -1
    """Leader epoch of what the source still has before that."""
    begin: Offset = FROM_ITS_BEGINNING
    """Source offset at which the mirror began."""
    is_gone: bool = False
    """The source topic has no such partition any more: it has fewer than before."""
    is_known_truncated: bool = False
    """The source's leader epochs show that it lost copied records, but not from which offset."""
    copied_to: Offset | None = None
    """Source offset below which the link noted that it copied all; None: no note."""
    is_shared: bool = False
    """Other links write into the target topic as well: it can't be deleted."""
    fills: bool = False
    """Its holes are filled, offsets must stay equal: it can't continue at an earlier offset."""
    is_recreated: bool = False
    """`restart` recreates the target topic because of another of its partitions."""
    failing: FailingRange | None = None
    """What can't be copied from the position on; None: not looked at, one record."""
    skip_to: Offset | None = None
    """Source offset at which an operator wants it to go on."""
    is_merged: bool = False
    """Others write into the target topic as well: `target_end` is the number of the link's own
    records there, and nothing is deleted."""
    own_end_unknown: str = ""
    """Not empty: why that number is not known."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a choice would do to one partition.

    Parameters
    ----------
    choice
        What was chosen.
    first, last
        Source offsets that become a row of the ledger, both included; `last` None: not known.
    count
        Records of the source that the mirror will never have; None: not known.
    jump
        Where the mirror continues: the target offset, and the source offset of the record there.
    empties
        The target partition's records are deleted first (DeleteRecords up to the end).
    recreates
        The target topic is deleted and recreated, all partitions of it.
    records
        What is lost, in words.
    consumers
        What consumers of the mirror see.
    """

    choice: GapChoice
    first: Offset
    last: Offset | None
    count: int | None
    jump: Break | None
    empties: bool
    recreates: bool
    records: str
    consumers: str


def still_holds(facts: Facts) -> bool:
    """Return whether the clusters still show why the partition stopped; reports may be late."""
    match facts.cause:
        case Cause.SOURCE_OVERTOOK:
            return facts.position < facts.source_start
        case Cause.SOURCE_TRUNCATED:
            if facts.diverged_at is not None:  # holes that were passed count as copied
                return facts.diverged_at < max(facts.position, facts.copied_to or facts.position)
            return facts.position > facts.source_end or facts.is_known_truncated
        case _:
            return True


def why_not(facts: Facts, choice: GapChoice) -> str:
    """Return why a choice is not possible; empty if it is."""
    if effect_of(facts, choice) is not None:
        return ""
    return _why_not_merged(facts, choice) or _obstacle(facts, choice)


def _obstacle(facts: Facts, choice: GapChoice) -> str:
    if choice is GapChoice.RESTART and facts.is_shared and _recreates(facts):
        return "the target topic would be deleted, and other links write into it as well (fan-in)"
    if facts.is_gone:
        return "the source has fewer partitions than before, and Kafka can't remove any"
    if facts.cause in OF_RECORDS:
        is_again = choice is GapChoice.RESTART
        again, end = "the mirror would meet the same record again", "where the damaged batch ends"
        return again if is_again else f"it is not known {end}"
    if choice is GapChoice.DEAD_LETTER:
        return "no records are there that could be kept"
    if choice is GapChoice.CONTINUE and _goes_on(facts) is not None:
        return "offsets are to stay equal, and would go back"
    is_truncated = facts.cause is Cause.SOURCE_TRUNCATED
    unknown = "it is not known from which offset on the source has other records"
    refused = "the target would not accept our batches after records of others"
    return unknown if is_truncated else refused


def _why_not_merged(facts: Facts, choice: GapChoice) -> str:
    """Return why a choice is not possible where others write as well; empty: that is no reason.

    What is appended again there, or left out, nothing takes back.
    """
    if not facts.is_merged:
        return ""
    if choice is GapChoice.RESTART:
        return "nothing is deleted in a topic that others write as well"
    if facts.own_end_unknown:
        return f"how many records the link has appended is not known ({facts.own_end_unknown})"
    if facts.cause is Cause.TARGET_UNKNOWN:
        return "how many records the link has appended is not known: some might be there twice"
    is_cut = facts.cause is Cause.TARGET_TRUNCATED
    return "its offset map begins behind the cut: some records would be there twice" * is_cut


def effect_of(facts: Facts, choice: GapChoice) -> Effect | None:
    """Return what a choice does; None if it is not possible."""
    if choice is GapChoice.WAIT:
        return Effect(
            *(choice, facts.position, None, None, None),
            empties=False,
            recreates=False,
            records="nothing is given up; this partition is not copied any further",
            consumers="the records up to here, and no new ones",
        )
    if _why_not_merged(facts, choice):
        return None
    if choice is GapChoice.RESTART:
        return _restart(facts)
    if choice is GapChoice.DEAD_LETTER and facts.cause not in OF_RECORDS:
        return None
    return _continue(facts, choice)


def _continue(facts: Facts, choice: GapChoice) -> Effect | None:
    """Return how to continue after the gap; None if appending there is impossible or a guess."""
    goes_on = _after_failing(facts) if facts.cause in OF_RECORDS else _goes_on(facts)
    if goes_on is None or (facts.fills and goes_on < facts.target_end):
        return None
    is_unknown = facts.cause is Cause.TARGET_UNKNOWN
    first, last, count, records = _unknown(facts) if is_unknown else _lost(facts)
    if choice is GapChoice.DEAD_LETTER:
        records += ", kept in the dead letters"
    return Effect(
        choice,
        first,
        last,
        count,
        Break(facts.target_end, goes_on),
        empties=False,
        recreates=False,
        records=records,
        consumers=_seen_after(facts, goes_on),
    )


def _seen_after(facts: Facts, goes_on: Offset) -> str:
    """Return what consumers see where copying continues at a source offset."""
    if facts.is_merged:
        return (
            "all that is there, and what others write; source offset "
            f"{goes_on} comes next of what the link brings (number {facts.target_end})"
        )
    is_moved = goes_on != facts.position and not facts.fills
    lands_at = goes_on if facts.fills else facts.target_end
    return f"all that is there, then source offset {goes_on} at target offset {lands_at}" + (
        "; offsets of both sides differ from there on, see the offset map" * is_moved
    )


def _goes_on(facts: Facts) -> Offset | None:
    """Return the source offset after the gap; None if there is none, or it is not known."""
    match facts.cause:
        case Cause.SOURCE_OVERTOOK:
            return facts.source_start
        case Cause.SOURCE_TRUNCATED if facts.diverged_at is not None:
            is_behind = facts.position < facts.diverged_at  # holes lost, or the target lost more
            return facts.position if is_behind else max(facts.diverged_at, facts.source_start)
        case Cause.SOURCE_RECREATED if not facts.is_gone:
            return facts.source_start
        case Cause.TARGET_TRUNCATED | Cause.TARGET_UNKNOWN:
            return max(facts.position, facts.source_start)
        case Cause.SKIPPED:
            return facts.skip_to
        case _:
            return None


def _after_failing(facts: Facts) -> Offset | None:
    """Return the source offset after what can't be copied; None if it is not known."""
    if facts.failing is not None:
        return facts.failing.end
    return None if facts.cause is Cause.RECORD_CORRUPT else Offset(facts.position + 1)


def _restart(facts: Facts) -> Effect | None:
    if facts.cause in OF_RECORDS:
        return None
    first, last, count, records = _lost(facts)
    held = facts.target_end - facts.target_start
    if _recreates(facts):
        if facts.is_shared:
            return None
        return Effect(
            GapChoice.RESTART,
            first,
            last,
            count,
            None,
            empties=False,
            recreates=True,
            records=records,
            consumers=(
                f"the topic is deleted and recreated, all partitions of it ({held} offsets of this "
                f"one go); it then holds what the source has, from offset {facts.source_start} on, "
                "with equal offsets; groups have no position in it until they are synced or reset"
            ),
        )
    return Effect(
        GapChoice.RESTART,
        first,
        last,
        count,
        Break(facts.target_end, facts.source_start),
        empties=True,
        recreates=False,
        records=records,
        consumers=(
            f"the {held} offsets it holds are deleted; then source offset {facts.source_start} at "
            f"target offset {facts.target_end}. A group before that offset is out of range and "
            "follows its auto.offset.reset; one at the end continues"
        ),
    )


def _recreates(facts: Facts) -> bool:
    """Return whether `restart` deletes the target topic: its log can't take the source's records.

    A log with the source's offsets can't take the same offsets again, emptied or not.
    """
    goes_back = facts.fills and facts.source_start < facts.target_end
    return facts.cause in OF_WHOLE_TOPICS or facts.is_recreated or goes_back


def _lost(facts: Facts) -> tuple[Offset, Offset | None, int | None, str]:
    """Return first, last, count of the source records that are lost, and the same in words."""
    match facts.cause:
        case Cause.SOURCE_OVERTOOK | Cause.TARGET_TRUNCATED:
            return _range(facts, facts.position, facts.source_start)
        case Cause.SKIPPED if facts.skip_to is not None:
            return _range(facts, facts.position, facts.skip_to)
        case Cause.SOURCE_TRUNCATED if still_holds(facts) or not facts.is_recreated:
            return _truncated(facts)
        case cause if cause in OF_RECORDS:
            return _failing(facts)
        case Cause.SOURCE_RECREATED:
            return (
                facts.position,
                None,
                None,
                f"the deleted topic's records from offset {facts.position} on; how many is unknown",
            )
        case _:
            return _range(facts, facts.begin, max(facts.begin, facts.source_start))


def _failing(facts: Facts) -> tuple[Offset, Offset | None, int | None, str]:
    """Return what can't be copied; as `_lost`."""
    at = facts.position
    found = facts.failing or FailingRange(Offset(at + 1), 1)
    if found.end is None or found.end == at + 1 == at + (found.count or 0):
        return at, at, 1, f"1 record (source offset {at})"
    last = Offset(found.end - 1)
    count = "an unknown number of" if found.count is None else found.count
    return at, last, found.count, f"{count} records (source offsets {at} to {last})"


def _unknown(facts: Facts) -> tuple[Offset, Offset | None, int | None, str]:
    """Return the source offsets from the noted end of the copy on that may be lost; as `_lost`."""
    first = facts.begin if facts.copied_to is None else facts.copied_to
    end = max(facts.position, facts.source_start)
    text = f"unknown: of source offsets {first} to {end - 1} the mirror may not have had all"
    return first, Offset(end - 1), None, text


def _truncated(facts: Facts) -> tuple[Offset, Offset | None, int | None, str]:
    from_ = facts.diverged_at
    if from_ is None:
        return (
            facts.source_end,
            None,
            None,
            "the source lost records that the target has; how many is not known",
        )
    if facts.position <= from_:
        return from_, Offset(from_ - 1), 0, "none: no record that was copied is among what it lost"
    last = Offset(facts.position - 1)
    return (
        from_,
        last,
        0,
        f"none: {facts.position - from_} offsets ({from_} to {last}) are at the target only",
    )


def _range(facts: Facts, first: Offset, end: Offset) -> tuple[Offset, Offset, int | None, str]:
    last = Offset(end - 1)
    offsets = end - first
    if offsets <= 0:
        return first, Offset(first - 1), 0, "none"
    if facts.is_dense:
        return first, last, offsets, f"{offsets} records (source offsets {first} to {last})"
    return first, last, None, f"at most {offsets} records (source offsets {first} to {last})"
