"""How far the tail of each partition is dealt with, durable at the target.

    tail/<source topic>/<partition>   in `heliostat.<link>.gaps`

A note is written before the first record is appended, while records are, and at the end. So whoever
goes on after a crash knows which producer appended, and from which target offset its records lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from heliostat.access import Reachable
from heliostat.clusters.keyed_topic import KeyedTopic, OwnRows, read_as_row
from heliostat.gaps.ledger import TAIL_PREFIX, gaps_topic
from heliostat.names import LinkName, Offset, PartitionId, ProducerId, TopicName, TopicPartition

NOTHING_APPENDED = Offset(0)


@dataclass(frozen=True, slots=True)
class TailNote:
    """What has been done with the tail of a partition so far.

    Parameters
    ----------
    source, target
        The partition at both sides.
    source_id, target_id
        Ids of the topics; empty: not known.
    mirror_end
        Source offset at which the mirror ended: the tail of a later failover is another one.
    next
        Source offset below which the tail is dealt with.
    appended, refused, dropped
        Records of the tail below that, by what became of them.
    producer_id, sequence
        Whose records the appended ones are, and with which sequence the next one is appended.
    look_from
        Target offset from which on records may lie that this note does not count.
    is_open
        Whether somebody appends, or was stopped while appending.
    by, at_ms
        Who, and when.
    """

    source: TopicPartition
    target: TopicPartition
    source_id: str
    target_id: str
    mirror_end: Offset
    next: Offset
    appended: int = 0
    refused: int = 0
    dropped: int = 0
    producer_id: ProducerId | None = None
    sequence: int = 0
    look_from: Offset = NOTHING_APPENDED
    is_open: bool = False
    by: str = ""
    at_ms: int = 0

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return f"{TAIL_PREFIX}{self.source.topic}/{self.source.partition}"

    def is_about(self, other: TailNote) -> bool:
        """Return whether both are about the same tail."""
        return (self.source, self.source_id, self.target_id, self.mirror_end) == (
            *(other.source, other.source_id, other.target_id),
            other.mirror_end,
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            **asdict(self),
            "source": [self.source.topic, self.source.partition],
            "target": [self.target.topic, self.target.partition],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Back from JSON; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        return cls(
            **{**value, "source": _place(*value["source"]), "target": _place(*value["target"])}
        )


def _place(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionId(partition))


class TailNotes:
    """Notes of a link. Every write is durable when it returns; from one thread.

    Every method raises `ConnectionLost` when the target does not answer, `BrokerError` when it
    refuses.
    """

    def __init__(self, link: LinkName, target: Reachable) -> None:
        self._topic = KeyedTopic(target, gaps_topic(link), own=OwnRows((TAIL_PREFIX,)))

    def ensure(self, replication_factor: int | None = None) -> None:
        """Create the topic if it is missing."""
        self._topic.ensure(replication_factor)

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()

    def read(self) -> dict[TopicPartition, TailNote]:
        """Return all notes by source partition.

        Raises
        ------
        ProtocolError
            A row is none of ours.
        """
        notes = {}
        for key, value in self._topic.read_all().items():
            if key.startswith(TAIL_PREFIX):
                with read_as_row(self._topic.topic, key):
                    note = TailNote.from_json(value)
                    notes[note.source] = note
        return notes

    def of(self, wanted: TailNote) -> TailNote:
        """Return the note about the same tail, or else the one that is given."""
        note = self.read().get(wanted.source)
        return wanted if note is None or not note.is_about(wanted) else note

    def write(self, note: TailNote, at_ms: int) -> TailNote:
        """Write a note; return it as it is now."""
        dated = replace(note, at_ms=at_ms)
        self._topic.write(dated.key, dated.to_json())
        return dated
