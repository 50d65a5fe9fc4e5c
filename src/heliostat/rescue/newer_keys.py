"""Keys of a compacted topic that others have written since it is no mirror any more.

The last record of a key is its value: what never crossed is older, and may not come behind it.
Somebody may write a key between a look and an append; then the record that was overtaken is known,
and is appended again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from heliostat.clusters.record_digest import digest_of
from heliostat.names import Offset
from heliostat.verify.stream import ConsumedRecord

NEWER = "its key was written at the target since"
NO_KEY = "it has no key, and the target compacts"
Read = Callable[[Offset, Offset], Iterable[ConsumedRecord]]
"""Yields the records of the target with offsets in `[start, stop)`."""
IsOfTail = Callable[[Iterable[tuple[str, bytes | None]]], bool]


class NewerKeys:
    """What others have written of one partition's keys.

    Parameters
    ----------
    read
        Reads the target's partition.
    start
        Where the mirror ended there.
    wanted
        Keys of the tail: no others are remembered.
    is_of_tail
        Whether a record with these headers came from the tail.
    """

    def __init__(
        self, read: Read, start: Offset, wanted: Iterable[bytes], is_of_tail: IsOfTail
    ) -> None:
        self._read = read
        self._is_of_tail = is_of_tail
        self._next = start
        self._wanted = frozenset(map(_name, wanted))
        self._others: dict[bytes, Offset] = {}
        """Offset of the last record of each key that somebody else wrote."""
        self._overtaken: dict[bytes, Offset] = {}

    def read_to(self, end: Offset) -> None:
        """Read what was written since the last time, up to a log end."""
        if end <= self._next:
            return
        for record in self._read(self._next, end):
            self._take(record)
        self._next = end

    def _take(self, record: ConsumedRecord) -> None:
        offset, _, key, _, headers = record
        if key is None or (name := _name(key)) not in self._wanted:
            return
        if not self._is_of_tail(headers):
            self._others[name] = Offset(offset)
            self._overtaken.pop(name, None)
        elif name in self._others:
            self._overtaken[name] = self._others[name]

    def why_not(self, key: bytes | None) -> str:
        """Return why a record with this key may not be appended; empty: it may."""
        if key is None:
            return NO_KEY
        return NEWER if _name(key) in self._others else ""

    def overtaken(self) -> list[Offset]:
        """Return the target offsets of others' records that a rescued one came behind."""
        return sorted(self._overtaken.values())


def _name(key: bytes) -> bytes:
    return digest_of(key, None, (), None)
