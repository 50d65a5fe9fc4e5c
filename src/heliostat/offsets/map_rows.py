"""Which rows of the maps' topic a map consists of, and from which offset on its rows are kept.

Nobody needs offsets below a mirror's log start. So rows that cover nothing else are deleted
(`offsets/pruning`): first a record says from which target offset on rows are kept, then a tombstone
deletes each row before it. A tombstone that no such record explains means that a row was lost.
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
"""The key says everything. It needs a value: cleaners remove tombstones."""
_WIDTH = 5
"""How many numbers a row's first offset, stamp and first source offset are."""
_OF_KEY = 4
"""How many of them are in its key."""


class Stamp(NamedTuple):
    """Which round wrote a row: later ones are greater."""

    generation: int
    round_number: int
    attempt: int = 0
    """Within the round: a row sent before a connection was lost may arrive after its repetition."""


class RowKey(NamedTuple):
    """Key of a row: compaction keeps the last of each."""

    mirror: TopicPartition
    """Target partition."""
    target_topic_id: str
    """Id of the target topic: a recreated one begins without a map. Empty before Kafka 2.8."""
    first: int
    """Target offset of its first break."""
    stamp: Stamp

    def encode(self) -> bytes:
        """As bytes."""
        return _encoded(self.mirror, self.target_topic_id, self.first, *self.stamp)

    @classmethod
    def decode(cls, key: bytes) -> RowKey:
        """Decode bytes.

        Raises
        ------
        ProtocolError
            They are not the key of a row.
        """
        row_key = decode_key(key)
        if not isinstance(row_key, RowKey):
            raise ProtocolError("a record of the offset maps is not a row")
        return row_key


class KeptFrom(NamedTuple):
    """Key of a record that says: rows before this target offset were deleted on purpose.

    Each offset has a record of its own, so that one that is written late, by a driver that was
    replaced meanwhile, undoes nothing.
    """

    mirror: TopicPartition
    target_topic_id: str
    first: int
    """Target offset of the first row that is kept. The map is exact from there on."""

    def encode(self) -> bytes:
        """As bytes."""
        return _encoded(self.mirror, self.target_topic_id, self.first, KEPT)


class Prunable(NamedTuple):
    """Rows of one map that nobody needs any more."""

    kept: KeptFrom
    """Says from where on rows are kept."""
    rows: list[RowKey]
    said: list[KeptFrom]
    """Earlier records of this kind, which `kept` replaces."""


def _encoded(mirror: TopicPartition, target_topic_id: str, *rest: int | str) -> bytes:
    words = [mirror.topic, mirror.partition, target_topic_id, *rest]
    return json.dumps(words, separators=(",", ":")).encode()


def decode_key(key: bytes) -> RowKey | KeptFrom:
    """Decode the key of a record of the maps' topic; raises as `RowKey.decode`."""
    try:
        topic, partition, topic_id, first, *rest = json.loads(key)
        mirror = TopicPartition(TopicName(topic), PartitionId(int(partition)))
        if rest == [KEPT]:
            return KeptFrom(mirror, str(topic_id), int(first))
        generation, number, attempt = rest
        stamp = Stamp(int(generation), int(number), int(attempt))
        return RowKey(mirror, str(topic_id), int(first), stamp)
    except (ValueError, TypeError) as error:
        raise ProtocolError("a record of the offset maps has an unknown key") from error


@dataclass(slots=True)
class MapRows:
    """Rows of one map that are in the topic, 40 bytes each, and which were deleted on purpose."""

    _standing: array[int] = field(default_factory=lambda: array("q"))
    """Rows that the map consists of, by first break, which is their order of arrival."""
    _replaced: array[int] = field(default_factory=lambda: array("q"))
    """Rows that later ones have replaced, or that were ignored; also by first break."""
    kept_from: list[int] = field(default_factory=list)
    """Target offsets of the `KeptFrom` records that are in the topic."""

    def take(self, first: int, source: int, stamp: Stamp) -> None:
        """Add a row, which replaces all from its first break on, by target and by source offset.

        Where an append was lost, the next round may find the same record at a later target offset.
        """
        row = array("q", (first, *stamp, source))
        while self._standing and self._is_replaced(first, source):
            last = self._standing[-_WIDTH:]
            del self._standing[-_WIDTH:]
            if last[:_OF_KEY] != row[:_OF_KEY]:  # the same key again: the row has grown
                self._put_replaced(last)
        self._standing += row

    def _is_replaced(self, first: int, source: int) -> bool:
        return self._standing[-_WIDTH] >= first or self._standing[-1] >= source >= 0

    def ignore(self, first: int, stamp: Stamp) -> None:
        """Note a row of an older round, which changes nothing."""
        self._put_replaced(array("q", (first, *stamp, -1)))

    def _put_replaced(self, row: array[int]) -> None:
        index = bisect_right(self._replaced[::_WIDTH], row[0]) * _WIDTH
        self._replaced[index:index] = row

    def deleted(self, first: int, stamp: Stamp) -> None:
        """Note that a row was deleted."""
        row = array("q", (first, *stamp))
        for rows in (self._standing, self._replaced):
            index = bisect_left(rows[::_WIDTH], first) * _WIDTH
            while index < len(rows) and rows[index] == first:
                if rows[index : index + _OF_KEY] == row:
                    del rows[index : index + _WIDTH]
                    return
                index += _WIDTH

    def first_kept(self, target: int) -> int | None:
        """First break of the row that covers a target offset; rows before may be deleted."""
        index = bisect_right(self._standing[::_WIDTH], target)
        return self._standing[(index - 1) * _WIDTH] if index else None

    def before(self, first: int) -> Iterator[tuple[int, Stamp]]:
        """Iterate over rows with a first break before `first`, which is that of a kept row."""
        for rows in (self._standing, self._replaced):
            end = bisect_left(rows[::_WIDTH], first) * _WIDTH
            for index in range(0, end, _WIDTH):
                yield rows[index], Stamp(*rows[index + 1 : index + _OF_KEY])
