"""What a link notes of merged topics in its state topic, besides what it notes of every mirror.

    producers-seen       the source's topic of links' producer ids: its id, and how far it was read
    own/<source topic>   how many records the link has appended to each partition (`OwnNote`)

Every driver reads them as it begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from heliostat.access import Reachable
from heliostat.clusters.keyed_topic import KeyedTopic, OwnRows, read_as_row
from heliostat.clusters.producer_rows import ProducersTopic
from heliostat.merge.own_end import OwnNote
from heliostat.names import LinkName, Offset, PartitionId, TopicName
from heliostat.state.row_format import FORMAT_KEY, MERGED
from heliostat.state_topics import state_topic

SEEN_KEY = "producers-seen"
OWN_PREFIX = "own/"
MERGED_ROWS = OwnRows((SEEN_KEY, OWN_PREFIX))
"""The other rows of the state topic are read, and judged, elsewhere."""


@dataclass(frozen=True, slots=True)
class OwnNotes:
    """What is noted of one topic's partitions; holds only for the target topic with this id."""

    target_id: str
    partitions: Mapping[PartitionId, OwnNote]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, for the state topic."""
        rows = {str(number): list(note) for number, note in sorted(self.partitions.items())}
        return {"target_id": self.target_id, "partitions": rows}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse what `to_json` returned."""
        return cls(
            str(value["target_id"]),
            {
                PartitionId(int(number)): OwnNote(count, Offset(to), epoch, bool(is_closed))
                for number, (count, to, epoch, is_closed) in value["partitions"].items()
            },
        )


@dataclass(slots=True)
class StoredNotes:
    """All that is noted, read once."""

    seen: ProducersTopic | None = None
    own: dict[TopicName, OwnNotes] = field(default_factory=dict)
    """By source topic."""


class MergedNotes:
    """Reads and writes these rows; every write is durable when it returns.

    Parameters
    ----------
    cluster
        The target, which holds the state.
    link
        Name of the link.
    """

    def __init__(self, cluster: Reachable, link: LinkName) -> None:
        self._topic = KeyedTopic(cluster, state_topic(link), own=MERGED_ROWS)

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()

    def read(self) -> StoredNotes:
        """Return all that is noted."""
        return notes_in(self._topic.topic, self._topic.read_all())

    def put_format(self) -> None:
        """Keep out versions that would take merged topics for mirrors: before any other row."""
        self._topic.write(FORMAT_KEY, dict(MERGED))

    def put_seen(self, producers_topic: ProducersTopic) -> None:
        """Note the source's topic of links' producer ids, and how far it was read."""
        self._topic.write(SEEN_KEY, producers_topic._asdict())

    def put_own(self, notes: Mapping[TopicName, OwnNotes]) -> None:
        """Note what the link has appended, by source topic."""
        if notes:
            rows = {f"{OWN_PREFIX}{name}": own_notes.to_json() for name, own_notes in notes.items()}
            self._topic.write_many(rows)


def notes_in(topic: str, rows: Mapping[str, Mapping[str, Any]]) -> StoredNotes:
    """Return all that is noted, by a state topic's latest values."""
    notes = StoredNotes()
    for key, value in rows.items():
        with read_as_row(topic, key):
            if key == SEEN_KEY:
                notes.seen = ProducersTopic(str(value["topic_id"]), Offset(value["end"]))
            elif key.startswith(OWN_PREFIX):
                name = TopicName(key.removeprefix(OWN_PREFIX))
                notes.own[name] = OwnNotes.from_json(value)
    return notes
