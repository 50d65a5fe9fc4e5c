"""What a driver has seen of a source's log start, and up to where its mirror may follow; pure.

I2  Nothing at or after the source's log start goes, and nothing at or after the position: by the
    mirror's offset map, so that offsets may differ.
I1  Nothing goes that may be another writer's: a mirror that others write into is stopped, or has
    their records at its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from heliostat.names import Offset, TopicName
from heliostat.offsets.offset_map import OffsetMap

OFFSETS_DIFFER = "its offsets differ from the source's (topics.follow_deletes can list it)"
"""Why a mirror that nobody has listed keeps what its source deletes."""


@dataclass(frozen=True, slots=True)
class WatchedStart:
    """The log start of one source partition, as this driver has seen it.

    A move is followed once a second look has shown it: nothing goes by one answer of one broker.

    Parameters
    ----------
    settled
        Where the log began before the newest move; at first where this driver found it.
    moved
        Where one look has seen it since; None: no move waits for its second look.
    goal
        Up to where deletions are followed; None: this driver has seen no move.
    """

    settled: Offset
    moved: Offset | None = None
    goal: Offset | None = None

    def after(self, start: Offset) -> WatchedStart:
        """Return what is known after one more look."""
        if self.moved is None:
            return replace(self, moved=start) if start > self.settled else self
        sure = min(self.moved, start)
        if sure <= self.settled:
            return replace(self, moved=None)  # a broker with less of the log had answered
        return WatchedStart(sure, start if start > sure else None, sure)


class MirrorStanding(NamedTuple):
    """One partition of a mirror whose source has deleted records."""

    goal: Offset
    """Source offset before which they are deleted there."""
    position: Offset
    """Source offset that is copied next."""
    noted: Offset
    """Source offset up to which it is durably noted as copied (-1: none). A mirror without a record
    continues by that note, once its brokers have forgotten the producer."""
    offset_map: OffsetMap
    begins: Offset
    """The target's log start."""
    others_before: Offset
    """Target offset before which records of others may be: of a tool that it was taken over from,
    or left there by a decision."""
    needs_exact: bool
    """See `DeletionRule`."""
    unread_from: Offset | None = None
    """Target offset from which on a group has not read its records; None: there is no such
    group."""

    @property
    def upto(self) -> Offset:
        """Source offset up to which deletions can be followed now."""
        return min(self.goal, self.position, self.noted)


class Verdict(NamedTuple):
    """What goes of a mirror's partition."""

    before: Offset | None = None
    """Target offset before which all goes; None: nothing does."""
    why_kept: str = ""
    """Why what the source has deleted stays; empty: it does not, or not for long."""
    is_whole: bool = True
    """Whether nothing is left to be deleted up to the goal, or as far as it is copied."""


def kept_note(mirror: TopicName, why: str) -> str:
    """Return the remark on a target topic that keeps what its source deletes."""
    return f"{mirror} is left with what the source deletes: {why}"


def what_goes(mirror: MirrorStanding) -> Verdict:
    """Decide what goes of a mirror's partition, as the source has deleted it."""
    if mirror.upto < 0:
        return Verdict()
    if mirror.needs_exact and not mirror.offset_map.is_identity:
        return Verdict(why_kept=OFFSETS_DIFFER)
    before = mirror.offset_map.target_of(mirror.upto)
    if mirror.begins < mirror.others_before:
        return Verdict(why_kept="records of others are at its beginning")
    if mirror.unread_from is not None and mirror.unread_from < before:
        unread = max(mirror.begins, mirror.unread_from)
        return Verdict(unread if unread > mirror.begins else None, is_whole=False)
    return Verdict(before) if before > mirror.begins else Verdict()
