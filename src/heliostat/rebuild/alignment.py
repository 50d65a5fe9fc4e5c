"""Which source offset stands at which target offset, by what both logs hold; no I/O.

A mirror's records are records of its source in the source's order. So there is a way to lay one log
over the other; where it is the only one it is the offset map. Contents that repeat may allow
several: then nothing is guessed, and it is said where.

Where the source is compacted it may have cleaned away records that the target still has. Contents
that both have just once are laid over each other; what lies between is put as far back at the
source as can be: a reader that is sent there reads records again, and misses none. Where the
mirror's last record has been cleaned away, too, only a note of the link tells where it goes on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from heliostat.clusters.record_digest import digest_of
from heliostat.offsets.offset_map import Break
from heliostat.verify.stream import ConsumedRecord

DIGEST_BYTES = 8
"""That of 10**8 records one is taken for its neighbour has a chance of less than 1 in 10**11."""


class NotAligned(Exception):
    """Both sides do not show one map, in words that say where."""


@dataclass(slots=True)
class Contents:
    """Records of one log in order: 16 bytes each."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("Q"))

    @classmethod
    def of(cls, rows: Iterable[ConsumedRecord]) -> Contents:
        """All of a stream's records: offset, timestamp, key, value, headers."""
        found = cls()
        for offset, timestamp_ms, key, value, headers in rows:
            digest = digest_of(key, value, headers, timestamp_ms)[:DIGEST_BYTES]
            found.offsets.append(offset)
            found.digests.append(int.from_bytes(digest, "big"))
        return found

    def __len__(self) -> int:
        return len(self.offsets)


def align(
    source: Contents, target: Contents, *, is_compacted: bool, goes_on_at: int | None = None
) -> list[Break]:
    """The breaks of the only map that both logs allow.

    Parameters
    ----------
    source
        What readers of committed records see of it, from its log's start to its end.
    target
        All of the mirror.
    is_compacted
        Whether the source compacts.
    goes_on_at
        Source offset of what comes behind the mirror's end, where the link has noted it.

    Raises
    ------
    NotAligned
        There is none, or more than one.
    """
    if not len(target):
        raise NotAligned("the mirror holds no record any more: nothing shows where it ended")
    if not is_compacted:
        return list(_breaks(_places(source, target, _by_order(source, target)), target))
    places = _places(source, target, _by_anchors(source, target))
    end = target.offsets[-1] + 1
    if not places or places[-1].target != end - 1:
        if goes_on_at is None:
            raise NotAligned(
                f"which source record the mirror's last is, target offset {end - 1}, is not shown: "
                "the source has none like it, or several are alike"
            )
        places.append(Break(end, goes_on_at))
    return list(_breaks(places, target))


def _places(source: Contents, target: Contents, pairs: list[tuple[int, int]]) -> list[Break]:
    return [Break(target.offsets[two], source.offsets[one]) for one, two in pairs]


def _breaks(places: Iterable[Break], target: Contents) -> Iterator[Break]:
    """Breaks as early as can be: right behind the last record whose place is known.

    Before the first one the distance is taken to be the same: it may only be smaller. Where the
    mirror has nothing before it, it may go back: it was emptied, and the source copied again.
    """
    before = Break(-1, -1)
    for place in places:
        moved = place.source - before.source - (place.target - before.target)
        if moved < 0 and before.target < 0 and place.target == target.offsets[0]:
            yield place
            before = place
            continue
        if moved < 0:
            raise NotAligned(
                f"target offset {place.target} is source offset {place.source}, though target "
                f"offset {before.target} is {before.source}: the source can't have had so few "
                "records between, as where it was truncated and copied on"
            )
        if moved:
            yield Break(before.target + 1, before.source + 1 + moved)
        before = place


def _by_order(source: Contents, target: Contents) -> list[tuple[int, int]]:
    """Each target record's source record: the first way to lay them, if it is the last one too.

    What the source's retention has taken is the target's only: all before its first record.
    """
    last = _from_end(source, target)
    first_target = len(target) - len(last)
    if first_target and (not last or last[0] != 0):
        raise _lacks(source, target, first_target - 1, last)
    at = -1
    for index, found in enumerate(last):
        wanted = target.digests[first_target + index]
        at += 1
        while source.digests[at] != wanted:
            at += 1
        if at != found:
            raise NotAligned(
                f"target offset {target.offsets[first_target + index]} may be source offset "
                f"{source.offsets[at]} or {source.offsets[found]}: both are alike"
            )
    return [(found, first_target + index) for index, found in enumerate(last)]


def _from_end(source: Contents, target: Contents) -> list[int]:
    """For the last target records, as many as fit, the last source records that they can be."""
    found: list[int] = []
    at = len(source)
    for wanted in reversed(target.digests):
        at -= 1
        while at >= 0 and source.digests[at] != wanted:
            at -= 1
        if at < 0:
            break
        found.append(at)
    found.reverse()
    return found


def _lacks(source: Contents, target: Contents, index: int, last: list[int]) -> NotAligned:
    where = f"before source offset {source.offsets[last[0]]}" if last else "at all"
    return NotAligned(
        f"the source has no record like target offset {target.offsets[index]} {where}"
    )


def _by_anchors(source: Contents, target: Contents) -> list[tuple[int, int]]:
    """Records that each side has once, in the same order on both."""
    ours, theirs = (np.frombuffer(side.digests, np.uint64) for side in (source, target))
    unique_ours, at_ours = _once(ours)
    unique_theirs, at_theirs = _once(theirs)
    _, one, two = np.intersect1d(
        unique_ours, unique_theirs, assume_unique=True, return_indices=True
    )
    order = np.argsort(at_theirs[two])
    at_source, at_target = at_ours[one][order], at_theirs[two][order]
    back = np.flatnonzero(np.diff(at_source) < 0)
    if len(back):
        where = target.offsets[int(at_target[back[0] + 1])]
        raise NotAligned(f"target offset {where} stands behind what comes later at the source")
    return list(zip(at_source.tolist(), at_target.tolist(), strict=True))


def _once(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Digests that occur once, and where."""
    values, first, counts = np.unique(digests, return_index=True, return_counts=True)
    return values[counts == 1], first[counts == 1]
