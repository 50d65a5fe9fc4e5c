"""What groups would read again at the target if they moved there now; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heliostat.groups.plan import GroupDecision
from heliostat.groups.values import CommitDecision, Reason
from heliostat.names import GroupId

LISTED_MAX = 20
"""Groups named in the driver's report; it is written each second."""


@dataclass(frozen=True, slots=True)
class Reread:
    """What one group would read again.

    Parameters
    ----------
    records
        Records, at least so many if `unknown` is not 0; None: not known.
    unknown
        Partitions of which it is not known.
    anew
        Partitions that it would begin at the mirror's first record, unless its own
        `auto.offset.reset` says otherwise: the target has no offset of it.
    without_mirror
        Partitions that have no mirror: nothing of them can be read there.
    """

    records: int | None
    unknown: int = 0
    anew: int = 0
    without_mirror: int = 0


NOT_KNOWN = Reread(None, unknown=1)
NOTHING = Reread(0)


def reread_of(decided: GroupDecision) -> Reread:
    """Return what a group would read again by the decisions on its partitions."""
    if decided.problem:
        return NOT_KNOWN
    return reread_in(decided.partitions)


def reread_in(rows: Iterable[CommitDecision]) -> Reread:
    """Return what a group would read again of these partitions."""
    records, known, unknown, anew, absent = 0, 0, 0, 0, 0
    for row in rows:
        if row.reason is Reason.NOT_MIRRORED:
            absent += 1
        elif row.reread_now is None:
            unknown += 1
        else:
            known += 1
            records += row.reread_now
            anew += row.begins_anew and row.reread_now > 0
    is_known = known or not unknown
    return Reread(records if is_known else None, unknown, anew, absent)


def rereads_report(
    rereads: Mapping[GroupId, Reread], *, moving: int, is_synced: bool
) -> dict[str, object]:
    """Return the part of the driver's report on them, see `heliostat.status.loss.rereads_of`.

    Parameters
    ----------
    rereads
        What each group would read again.
    moving
        How many groups have members, or have moved lately: they read on meanwhile.
    is_synced
        Whether offsets are published.
    """
    some = {group: each.records for group, each in rereads.items() if each.records}
    most = sorted(some.items(), key=lambda item: (-item[1], item[0]))[:LISTED_MAX]
    return {
        "records": sum(some.values()),
        "groups": len(some),
        "unknown": sum(each.unknown > 0 for each in rereads.values()),
        "moving": moving,
        "most": dict(most),
        "sync": is_synced,
    }
