"""What the state topic says about the offset maps: where they are, who has one, and whose is lost.

    maps                          the topic of the maps when all its rows were read
    mapped/<source topic>         partitions of its mirror that have a map
    map-lost/<target>/<number>    a mirror's partition whose map lost rows, or was rebuilt since

The maps' own topic can't show that a row is missing: a mirror without rows is an exact one. So this
is recorded elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from heliostat.access import Reachable
from heliostat.clusters.keyed_topic import KeyedTopic, OwnRows, read_as_row
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition, is_another
from heliostat.state_topics import state_topic

TOPIC_KEY = "maps"
MAPPED_PREFIX = "mapped/"
LOST_PREFIX = "map-lost/"
OWN_MARKS = OwnRows((TOPIC_KEY, MAPPED_PREFIX, LOST_PREFIX))
"""The other rows of the state topic are read, and judged, elsewhere."""
MirrorId = tuple[TopicPartition, str]
"""A partition of a target topic, and that topic's id: together they name a map."""


class MapTopic(NamedTuple):
    """The topic of a link's maps; all its rows in `[start, end)` were read."""

    topic_id: str
    """Empty before Kafka 2.8."""
    start: int
    end: int
    epoch: int = -1
    """Leader epoch of the last row read; -1: not known."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row; fields of later versions are left alone."""
        return cls(value["topic_id"], value["start"], value["end"], value.get("epoch", -1))

    def why_lost(self, now: MapTopic) -> str:
        """Say why rows that were there are missing; empty if none is.

        Compaction moves no start: only DeleteRecords, retention or a lost log do.
        """
        if is_another(self.topic_id, now.topic_id):
            return "it was deleted and recreated"
        if now.start > self.start:
            return f"rows before {now.start} were deleted"
        if now.end < self.end:
            return f"it ends at {now.end}, and had rows up to {self.end}"
        return ""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Partitions of one mirror that have a map, by their number at the target."""

    target: TopicName
    target_id: str
    partitions: frozenset[PartitionId]

    def names(self) -> frozenset[MirrorId]:
        """Names of their maps."""
        mirrors = (TopicPartition(self.target, number) for number in self.partitions)
        return frozenset((mirror, self.target_id) for mirror in mirrors)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, for the state topic."""
        numbers = sorted(self.partitions)
        return {"target": self.target, "target_id": self.target_id, "partitions": numbers}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse what `to_json` returned."""
        numbers = frozenset(PartitionId(number) for number in value["partitions"])
        return cls(TopicName(value["target"]), str(value["target_id"]), numbers)


@dataclass(slots=True)
class Marks:
    """Everything that the state topic says about the maps, read once."""

    topic: MapTopic | None = None
    mapped: dict[TopicName, Mapped] = field(default_factory=dict)
    """By source topic."""
    lost: dict[MirrorId, str] = field(default_factory=dict)
    """Maps that lost rows, and why."""
    had: dict[MirrorId, MapTopic] = field(default_factory=dict)
    """Of these maps: the topic as it was when its rows seemed to be lost. If it is still so, a
    broker was believed that had been deposed."""
    rebuilt: set[MirrorId] = field(default_factory=set)
    """Maps that were lost and have been rebuilt, which the driver has not noted yet."""

    def names(self) -> frozenset[MirrorId]:
        """Mirrors that have a map."""
        return frozenset(name for mapped in self.mapped.values() for name in mapped.names())

    def take(self, key: str, value: Mapping[str, Any]) -> None:
        """Apply one row of the state topic, if it is a mark."""
        if key == TOPIC_KEY:
            self.topic = MapTopic.from_json(value)
        elif key.startswith(MAPPED_PREFIX):
            source = TopicName(key.removeprefix(MAPPED_PREFIX))
            self.mapped[source] = Mapped.from_json(value)
        elif key.startswith(LOST_PREFIX):
            mirror = TopicPartition(TopicName(value["target"]), PartitionId(value["partition"]))
            name = mirror, str(value["target_id"])
            if value["is_rebuilt"]:
                self.rebuilt.add(name)
            else:
                self.lost[name] = value["why"]
                if value.get("had"):
                    self.had[name] = MapTopic.from_json(value["had"])


class MapMarks:
    """Reads and writes these marks; every write is durable when it returns.

    Only one thread may read. Every method raises `ConnectionLost` when the target does not
    answer and `BrokerError` when it refuses.
    """

    def __init__(self, cluster: Reachable, link: LinkName) -> None:
        self._topic = KeyedTopic(cluster, state_topic(link), own=OWN_MARKS)

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()

    def read(self) -> Marks:
        """Read the current marks; none if the state topic does not exist."""
        marks = Marks()
        for key, value in self._topic.read_all().items():
            with read_as_row(self._topic.topic, key):
                marks.take(key, value)
        return marks

    def put_topic(self, topic: MapTopic) -> None:
        """Record which topic's rows have been read, and how far."""
        self._topic.write(TOPIC_KEY, topic._asdict())

    def put_mapped(self, mapped: Mapping[TopicName, Mapped]) -> None:
        """Record that mirrors of these source topics have maps."""
        if mapped:
            rows = {f"{MAPPED_PREFIX}{name}": mirror.to_json() for name, mirror in mapped.items()}
            self._topic.write_many(rows)

    def put_lost(
        self, lost: Mapping[MirrorId, str], had: Mapping[MirrorId, MapTopic] | None = None
    ) -> None:
        """Record lost maps, and why: nothing is appended there until they are rebuilt.

        Parameters
        ----------
        had
            See `Marks`.
        """
        topics = had or {}
        if lost:
            rows = (_lost_row(name, why, had=topics.get(name)) for name, why in lost.items())
            self._topic.write_many(dict(rows))

    def put_rebuilt(self, names: Iterable[MirrorId]) -> None:
        """Record that these maps are durable again: copying continues."""
        self._topic.write_many(dict(_lost_row(name, "", is_rebuilt=True) for name in names))

    def forget(self, names: Iterable[MirrorId]) -> None:
        """Remove the marks of these maps, once the driver has noted that they were rebuilt."""
        self._topic.write_many({_lost_row(name, "")[0]: None for name in names})


def _lost_row(
    name: MirrorId, why: str, *, is_rebuilt: bool = False, had: MapTopic | None = None
) -> tuple[str, dict[str, Any]]:
    mirror, target_id = name
    return f"{LOST_PREFIX}{mirror.topic}/{mirror.partition}", {
        "target": mirror.topic,
        "partition": mirror.partition,
        "target_id": target_id,
        "why": why,
        "is_rebuilt": is_rebuilt,
        "had": None if had is None else had._asdict(),
    }
