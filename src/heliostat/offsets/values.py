"""Questions of people about offsets, the answers, and the mirrors they are answered from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Extent, OffsetMap
from heliostat.slots import Slot


class Side(Enum):
    """One end of a link."""

    SOURCE = "source"
    TARGET = "target"


class Why(Enum):
    """Why an answer is not the offset of the same record."""

    HOLE = "hole"
    """No record at that source offset ever reached the target; the answer is the next one's."""
    BEYOND = "beyond"
    """It has not landed yet, so its offset at the target is not known."""
    BELOW_START = "below_start"
    """It lies before the target's log start, or before the offset at which the mirror begins."""
    NO_SUCH_TOPIC = "no_such_topic"
    NOT_MIRRORED = "not_mirrored"
    NO_SUCH_PARTITION = "no_such_partition"
    REMADE = "remade"
    """The topic was deleted and recreated: offsets of the old one mean nothing in it."""
    SEVERAL_SOURCES = "several_sources"
    """The target topic has more than one source topic; ask from the source's side."""
    ELSEWHERE = "elsewhere"
    """The target's topic is merged, and what is there did not come from the link's source."""
    NOT_TOLD = "not_told"
    """The target does not report that partition's bounds, or rows of its map are gone."""


class Question(NamedTuple):
    """An offset of one side."""

    topic: TopicName
    partition: PartitionId
    offset: Offset


@dataclass(frozen=True, slots=True)
class Answer:
    """The offset of the other side.

    Parameters
    ----------
    topic, partition, offset
        What was asked.
    to_topic
        The topic on the other side; None if there is none.
    to_offset
        Where a consumer continues so that it reads exactly what it has not read; None if that is
        not known.
    why
        None for an exact answer.
    text
        The reason in words, with the offsets that matter.
    to_partition
        The partition on the other side: it has another number with `topics.fan_in`.
    """

    topic: TopicName
    partition: PartitionId
    offset: Offset
    to_topic: TopicName | None
    to_offset: Offset | None
    why: Why | None = None
    text: str = ""
    to_partition: PartitionId | None = None

    @property
    def is_exact(self) -> bool:
        """Whether both offsets are of the same record, or of the one that comes next."""
        return self.why is None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "to_topic": self.to_topic,
            "to_partition": self.to_partition,
            "to_offset": self.to_offset,
            "exact": self.is_exact,
            "why": None if self.why is None else self.why.value,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class TranslatedPartition:
    """One mirrored partition as it was read; `start` and `end` are target offsets."""

    source: TopicPartition
    target: TopicPartition
    offsets: OffsetMap
    start: Offset
    """First offset that the target's log still has."""
    end: Offset
    """Where the next record lands."""
    begin: Offset
    """First source offset that was to be copied."""
    passed: Offset
    """Source offset below which the link has found no record that has not landed: after the last
    record there may be holes, which the map shows only when a record follows them."""

    @property
    def position(self) -> Offset:
        """Next source offset to be copied (I2)."""
        return max(self.offsets.source_of(self.end), self.passed)

    def extents(self) -> list[Extent]:
        """Runs of equal distance in what has landed; a single one for an exact mirror."""
        runs: list[Extent] = []
        for extent in self.offsets.extents(self.offsets.known_from):
            if extent.target >= self.end and runs:
                break  # written ahead of records that have not landed
            stop = self.end if extent.length is None else extent.target + extent.length
            length = max(0, min(stop, self.end) - extent.target)
            runs.append(Extent(extent.source, extent.target, length))
        return runs


@dataclass(frozen=True, slots=True)
class MapSummary:
    """One partition's map in figures; bytes are those of its rows' values."""

    topic: TopicName
    partition: PartitionId
    target_topic: TopicName
    kind: str
    """`exact`, `mapped` or `merged`: then the map leads to numbers of the link's own records."""
    extents: int
    map_bytes: int
    position: Offset
    """Next source offset to be copied."""
    target_start: Offset
    target_end: Offset
    landed: int | None = None
    """Of a merged one: how many records of the link have landed; None: that can't be told."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


class Untranslatable(NamedTuple):
    """Why nothing of a topic or partition can be translated."""

    why: Why
    text: str


@dataclass(slots=True)
class TranslatedMirrors:
    """What a translator knows, by the topics of each side."""

    partitions: list[TranslatedPartition] = field(default_factory=list)
    source_troubles: dict[TopicName, Untranslatable] = field(default_factory=dict)
    target_troubles: dict[TopicName, Untranslatable] = field(default_factory=dict)
    not_known: dict[TopicPartition, str] = field(default_factory=dict)
    """Target partitions that are there, but whose bounds are not known, and why."""
    names: dict[TopicName, TopicName] = field(default_factory=dict)
    """Target topic by source topic."""
    slots: dict[TopicName, Slot] = field(default_factory=dict)
    """By source topic, which of the target's partitions are its own; if missing, all."""
    source_topics: frozenset[TopicName] | None = None
    """All topics of the source; None if it did not answer."""
    target_topics: frozenset[TopicName] | None = None
