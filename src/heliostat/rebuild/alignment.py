"""Which source offset belongs to which target offset, by the contents of both logs; no I/O.

A mirror's records are records of its source in the source's order. So the two logs can be aligned;
if there is only one way to do it, that is the offset map. Repeated contents may allow several:
then nothing is guessed, and the error says where.

A compacted source may have cleaned away records that the target still has. Contents that occur
once on each side are aligned; target records between those get the highest possible source
offsets: a consumer group that is moved there reads records again, and misses none. If the mirror's
last record has been cleaned away as well, only the link's note shows where copying continues.
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
"""The chance that one of 10**8 records is taken for its neighbor is less than 1 in 10**11."""


class NotAligned(Exception):
    """The two logs do not allow exactly one map; the text says where."""


@dataclass(slots=True)
class Contents:
    """Records of one log in order: 16 bytes each."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("Q"))

    @classmethod
    def of(cls, rows: Iterable[ConsumedRecord]) -> Contents:
        """Return the contents of all records: offset, timestamp, key, value, headers."""
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
    """Return the breaks of the only map that both logs allow.

    Parameters
    ----------
    source
        The source's records as a `read_committed` consumer sees them, from log start to log end.
    target
        All records of the mirror.
    is_compacted
        Whether the source compacts.
    goes_on_at
        Source offset of the record at the mirror's log end, if the link has noted it.

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
                f"it is not clear which source record is the mirror's last, target offset {end - 1}"
                ": the source has no equal record, or several"
            )
        places.append(Break(end, goes_on_at))
    return list(_breaks(places, target))


def _places(source: Contents, target: Contents, pairs: list[tuple[int, int]]) -> list[Break]:
    return [Break(target.offsets[two], source.offsets[one]) for one, two in pairs]


def _breaks(places: Iterable[Break], target: Contents) -> Iterator[Break]:
    """Yield breaks as early as possible: right after the last record whose place is known.

    Before the first known record the distance is taken to be the same; it can only be smaller. If
    the mirror has nothing before that record, its source offset may be lower than its target
    offset: the mirror was emptied, and the source copied again.
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
                "records between them, unless it was truncated and copying continued"
            )
        if moved:
            yield Break(before.target + 1, before.source + 1 + moved)
        before = place


def _by_order(source: Contents, target: Contents) -> list[tuple[int, int]]:
    """Return each target record's source record: the earliest possible, if it is the latest too.

    Records that the source's retention has deleted are at the target only: they must all come
    before the source's first record.
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
                f"{source.offsets[at]} or {source.offsets[found]}: both are equal"
            )
    return [(found, first_target + index) for index, found in enumerate(last)]


def _from_end(source: Contents, target: Contents) -> list[int]:
    """Return the latest possible source records of the last target records, as many as fit."""
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
    """Return records that occur once on each side; their order must be the same on both."""
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
        raise NotAligned(f"target offset {where} comes after a record that is later at the source")
    return list(zip(at_source.tolist(), at_target.tolist(), strict=True))


def _once(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return digests that occur once, and their indexes."""
    values, first, counts = np.unique(digests, return_index=True, return_counts=True)
    return values[counts == 1], first[counts == 1]
