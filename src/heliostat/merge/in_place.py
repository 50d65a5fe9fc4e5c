"""Whether a running mirror can become a merged topic as it stands, and with which first note.

A mirror's sequences are target offsets (I1), those of merged topics the numbers of the link's own
records: while only the link has written, both are the same. So nothing is copied or appended, and
the offset map stays as it is (docs/adr/0061).
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.invariants import last_batch_is_ours
from heliostat.merge.own_end import OwnNote
from heliostat.names import Offset


@dataclass(frozen=True, slots=True)
class MirrorStand:
    """What is known of one partition of a mirror whose link copies nothing now.

    Parameters
    ----------
    begin
        Target offset of its first record: the source's, if offsets are equal; else 0.
    log_start, end
        The target's log, by the word of all brokers.
    epoch
        Its leader epoch, from before they were asked for.
    last
        Producer id and sequence of the record before the end; where that is gone, of the link's
        last one that the leader remembers. None: neither.
    is_mapped_whole
        Whether all rows of its offset map are there, up to this end.
    is_filled, is_adopted
        Whether its holes are filled with markers; whether another tool wrote its beginning.
    stopped
        Why it is stopped; empty: it is not.
    """

    begin: Offset
    log_start: Offset
    end: Offset
    epoch: int
    last: tuple[int, int] | None
    is_mapped_whole: bool = True
    is_filled: bool = False
    is_adopted: bool = False
    stopped: str = ""


class NotInPlaceError(Exception):
    """Why a mirror can't become a merged topic as it stands."""


def first_note(stand: MirrorStand, producer_id: int) -> OwnNote:
    """Return what is noted before others may write: all below its end is the link's.

    It is open: what a killed round has sent may still land, and does so behind it.

    Parameters
    ----------
    stand
        The partition.
    producer_id
        The link's present one.

    Raises
    ------
    NotInPlaceError
        It can't be turned.
    """
    if why := _why_of_another_kind(stand) or _why_others(stand, producer_id):
        raise NotInPlaceError(why)
    return OwnNote(stand.end, stand.end, stand.epoch)


def _why_of_another_kind(stand: MirrorStand) -> str:
    """Return why its offsets are not the numbers of the link's records; empty: they are."""
    if stand.stopped:
        return f"it is stopped: {stand.stopped}"
    if stand.is_filled:
        return "its holes are filled with markers (offsets: exact)"
    if stand.is_adopted:
        return "another tool wrote its beginning"
    if not stand.is_mapped_whole:
        return "rows of its offset map are missing"
    if min(stand.end, stand.log_start) < stand.begin:
        return f"it does not begin at {stand.begin} yet, as its source does"
    return ""


def _why_others(stand: MirrorStand, producer_id: int) -> str:
    """Return why somebody else may have written there; empty: only the link has.

    Each record of others would have moved those of the link behind it: the last one would not be
    where its sequence says.
    """
    end = stand.end
    if end == stand.begin:
        return ""  # nothing was copied yet
    if stand.last is not None:
        is_ours = last_batch_is_ours(stand.last, producer_id, end)
        return "" if is_ours else f"the record before its end {end} is not this link's last one"
    return f"its last record is gone, and the brokers don't know who wrote up to its end {end}"
