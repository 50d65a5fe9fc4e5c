"""Which rows of the maps' topic a map stands on, and from where on rows are kept of it.

What lies below a mirror's log start is asked for by nobody. So rows that tell of nothing else are
deleted (`offsets/pruning`): first a record says from which place on rows are kept, then each row
before it goes by a tombstone. A tombstone that no such record explains is a row that was lost.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from heliostat.errors import ProtocolError
from heliostat.names import PartitionId, TopicName, TopicPartition

KEPT = "kept from"
KEPT_VALUE = b"{}"
"""Its key says all. It must have a value: a tombstone would go."""
_WIDTH = 4
"""Numbers of a row's place and stamp."""


class Stamp(NamedTuple):
    """Which round wrote a row: later ones are greater."""

    generation: int
    round_number: int
    attempt: int = 0
    """Within the round: what was written before a connection broke may arrive after its repeat."""


class RowKey(NamedTuple):
    """Key of a row: compaction keeps the last of each."""

    mirror: TopicPartition
    """The target's partition."""
    target_topic_id: str
    """Of that very topic; one made anew begins without a map. Empty before Kafka 2.8."""
    first: int
    """Target offset of its first break."""
    stamp: Stamp

    def encode(self) -> bytes:
        """As bytes."""
        return _encoded(self.mirror, self.target_topic_id, self.first, *self.stamp)

    @classmethod
    def decode(cls, key: bytes) -> RowKey:
        """Back from bytes.

        Raises
        ------
        ProtocolError
            They are not ours.
        """
        found = decode_key(key)
        if not isinstance(found, RowKey):
            raise ProtocolError("a record of the offset maps is no row of one")
        return found


class KeptFrom(NamedTuple):
    """Key of a record that says: rows before this place were deleted on purpose.

    One for each place, so that one that is written late, by a driver that was replaced meanwhile,
    takes nothing back.
    """

    mirror: TopicPartition
    target_topic_id: str
    first: int
    """Of the first row that is kept. The map is exact from this target offset on."""

    def encode(self) -> bytes:
        """As bytes."""
        return _encoded(self.mirror, self.target_topic_id, self.first, KEPT)


class Prunable(NamedTuple):
    """Rows of one map that nobody asks for any more."""

    kept: KeptFrom
    """From where on rows stay."""
    rows: list[RowKey]
    said: list[KeptFrom]
    """What said so before."""


def _encoded(mirror: TopicPartition, target_topic_id: str, *rest: int | str) -> bytes:
    words = [mirror.topic, mirror.partition, target_topic_id, *rest]
    return json.dumps(words, separators=(",", ":")).encode()


def decode_key(key: bytes) -> RowKey | KeptFrom:
    """What a record of the maps' topic is; raises as `RowKey.decode`."""
    try:
        topic, partition, topic_id, first, *rest = json.loads(key)
        mirror = TopicPartition(TopicName(topic), PartitionId(int(partition)))
        if rest == [KEPT]:
            return KeptFrom(mirror, str(topic_id), int(first))
        generation, number, attempt = rest
        stamp = Stamp(int(generation), int(number), int(attempt))
        return RowKey(mirror, str(topic_id), int(first), stamp)
    except (ValueError, TypeError) as error:
        raise ProtocolError("a row of the offset map has a key that is not ours") from error


@dataclass(slots=True)
class MapRows:
    """Rows of one map that are in the topic, 32 bytes each, and what says which were deleted."""

    _standing: array[int] = field(default_factory=lambda: array("q"))
    """Those that the map stands on, by their first break, which is the order they came in."""
    _replaced: array[int] = field(default_factory=lambda: array("q"))
    """Those of which later rows left nothing, or that were not listened to; in order too."""
    kept_from: list[int] = field(default_factory=list)
    """Places of `KeptFrom` that are in the topic."""

    def take(self, first: int, stamp: Stamp) -> None:
        """A row has come that replaces all from its first break on."""
        row = array("q", (first, *stamp))
        while self._standing and self._standing[-_WIDTH] >= first:
            last = self._standing[-_WIDTH:]
            del self._standing[-_WIDTH:]
            if last != row:  # the same key once more: the row has grown
                self._put_replaced(last)
        self._standing += row

    def ignore(self, first: int, stamp: Stamp) -> None:
        """A row has come that is of an older round."""
        self._put_replaced(array("q", (first, *stamp)))

    def _put_replaced(self, row: array[int]) -> None:
        at = bisect_right(self._replaced[::_WIDTH], row[0]) * _WIDTH
        self._replaced[at:at] = row

    def deleted(self, first: int, stamp: Stamp) -> None:
        """A row was deleted."""
        row = array("q", (first, *stamp))
        for rows in (self._standing, self._replaced):
            at = bisect_left(rows[::_WIDTH], first) * _WIDTH
            while at < len(rows) and rows[at] == first:
                if rows[at : at + _WIDTH] == row:
                    del rows[at : at + _WIDTH]
                    return
                at += _WIDTH

    def first_kept(self, target: int) -> int | None:
        """First break of the row that the map stands on at a target offset: those before may go."""
        at = bisect_right(self._standing[::_WIDTH], target)
        return self._standing[(at - 1) * _WIDTH] if at else None

    def before(self, first: int) -> Iterator[tuple[int, Stamp]]:
        """Rows whose first break lies before a place; none that the map stands on behind it."""
        for rows in (self._standing, self._replaced):
            end = bisect_left(rows[::_WIDTH], first) * _WIDTH
            for at in range(0, end, _WIDTH):
                yield rows[at], Stamp(*rows[at + 1 : at + _WIDTH])
