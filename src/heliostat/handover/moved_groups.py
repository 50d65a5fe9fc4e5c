"""Groups as a failover leaves them at the target, and what each reads again there; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliostat.groups.values import Published
from heliostat.names import GroupId, Offset, TopicPartition
from heliostat.status.loss import Rereads


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """A group of which offsets were published.

    Parameters
    ----------
    group
        Its name at the target.
    published_ms
        When its offsets were published last (wall ms).
    again
        Records that it reads again, as the driver measured it last; None: not known.
    at_most
        Records of these mirrors after its offsets there: it reads no more than those again.
    partitions
        Partitions of these mirrors of which it has an offset.
    """

    group: GroupId
    published_ms: int
    again: int | None
    at_most: int
    partitions: int

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "group": self.group,
            "published_ms": self.published_ms,
            "again": self.again,
            "at_most": self.at_most,
            "partitions": self.partitions,
        }

    def text(self) -> str:
        """Return in words what it reads again."""
        if self.again is None:
            return f"not measured, {self.at_most:,} records at most"
        return f"{self.again:,} records as last measured, {self.at_most:,} at most"


def moved_groups(
    published: Mapping[GroupId, Published],
    committed: Mapping[GroupId, Mapping[TopicPartition, Offset]],
    ends: Mapping[TopicPartition, Offset],
    rereads: Mapping[GroupId, int],
    *,
    are_all: bool,
) -> tuple[MovedGroup, ...]:
    """Return the groups that have offsets of mirrors, those that read most again first.

    Parameters
    ----------
    published
        What the link has published, by names at the target.
    committed
        Offsets as they stand at the target, where that was read.
    ends
        Where the mirrors end.
    rereads
        What was measured, of groups that read something again.
    are_all
        Whether these are all: then every other one reads nothing again.
    """
    rows: list[MovedGroup] = []
    for group, of_group in published.items():
        standing = committed.get(group, {})
        sent = {
            place: sent_offset.offset
            for place, sent_offset in of_group.sent.items()
            if place in ends
        }
        if not sent:
            continue
        at_most = sum(
            max(0, ends[place] - standing.get(place, offset)) for place, offset in sent.items()
        )
        measured = rereads.get(group, 0 if are_all else None)
        again = None if measured is None else min(at_most, measured)
        rows.append(MovedGroup(group, of_group.at_ms, again, at_most, len(sent)))
    return tuple(sorted(rows, key=lambda row: (-row.at_most, row.group)))


def measured_rereads(rereads: Rereads | None) -> tuple[Mapping[str, int], bool]:
    """Return what the driver's last report says of groups, and whether of all that read again.

    Where it is not known of some group, no figure is told: the report does not say of which, and
    a figure that it has may be too small.
    """
    if rereads is None or rereads.records is None or rereads.unknown:
        return {}, False
    return rereads.most, rereads.groups == len(rereads.most)
