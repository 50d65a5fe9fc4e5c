"""What the state topic says of the offset maps: where they are, who has one, and whose is lost.

    maps                          the topic of the maps when all its rows were read
    mapped/<source topic>         partitions of its mirror that have a map
    map-lost/<target>/<number>    a mirror's partition of whose map rows are gone, or made anew

The maps' own topic can't tell that a row is missing: a mirror without rows is an exact one. So what
tells it stands elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from heliostat.access import Reachable
from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.names import LinkName, PartitionId, TopicName, TopicPartition, is_another
from heliostat.state_topics import state_topic

TOPIC_KEY = "maps"
MAPPED_PREFIX = "mapped/"
LOST_PREFIX = "map-lost/"
MirrorId = tuple[TopicPartition, str]
"""A partition of a target topic, and the id of that very topic, as maps are named."""


class MapTopic(NamedTuple):
    """The topic of a link's maps; all its rows in `[start, end)` were read."""

    topic_id: str
    """Empty before Kafka 2.8."""
    start: int
    end: int

    def why_lost(self, now: MapTopic) -> str:
        """What rows are missing of it that were there, in words; empty where all are there.

        Compaction moves no start: only DeleteRecords, retention or a lost log do.
        """
        if is_another(self.topic_id, now.topic_id):
            return "it was deleted and made anew"
        if now.start > self.start:
            return f"what stood before {now.start} is deleted"
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
        """As maps are named."""
        found = (TopicPartition(self.target, number) for number in self.partitions)
        return frozenset((mirror, self.target_id) for mirror in found)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        numbers = sorted(self.partitions)
        return {"target": self.target, "target_id": self.target_id, "partitions": numbers}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Back from JSON."""
        numbers = frozenset(PartitionId(number) for number in value["partitions"])
        return cls(TopicName(value["target"]), str(value["target_id"]), numbers)


@dataclass(slots=True)
class Marks:
    """All of it, read once."""

    topic: MapTopic | None = None
    mapped: dict[TopicName, Mapped] = field(default_factory=dict)
    """By source topic."""
    lost: dict[MirrorId, str] = field(default_factory=dict)
    """Why rows of a map are gone."""
    rebuilt: set[MirrorId] = field(default_factory=set)
    """Maps that were lost and made anew, of which the driver has not taken note yet."""

    def names(self) -> frozenset[MirrorId]:
        """Mirrors that have a map."""
        return frozenset(name for mapped in self.mapped.values() for name in mapped.names())


class MapMarks:
    """Reads and writes them; every write is durable when it returns.

    Reading from one thread only. Every method raises `ConnectionLost` when the target does not
    answer and `BrokerError` when it refuses.
    """

    def __init__(self, cluster: Reachable, link: LinkName) -> None:
        self._topic = KeyedTopic(cluster, state_topic(link))

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()

    def read(self) -> Marks:
        """As it is now; a state topic that does not exist says nothing."""
        found = Marks()
        for key, value in self._topic.read_all().items():
            if key == TOPIC_KEY:
                found.topic = MapTopic(value["topic_id"], value["start"], value["end"])
            elif key.startswith(MAPPED_PREFIX):
                source = TopicName(key.removeprefix(MAPPED_PREFIX))
                found.mapped[source] = Mapped.from_json(value)
            elif key.startswith(LOST_PREFIX):
                mirror = TopicPartition(TopicName(value["target"]), PartitionId(value["partition"]))
                name = mirror, str(value["target_id"])
                if value["is_rebuilt"]:
                    found.rebuilt.add(name)
                else:
                    found.lost[name] = value["why"]
        return found

    def put_topic(self, topic: MapTopic) -> None:
        """Remember which topic's rows have been read, and how far."""
        self._topic.write(TOPIC_KEY, topic._asdict())

    def put_mapped(self, mapped: Mapping[TopicName, Mapped]) -> None:
        """Remember that mirrors of these source topics have maps."""
        if mapped:
            rows = {f"{MAPPED_PREFIX}{name}": one.to_json() for name, one in mapped.items()}
            self._topic.write_many(rows)

    def put_lost(self, lost: Mapping[MirrorId, str]) -> None:
        """Rows of these maps are gone: nothing is appended there until they are made anew."""
        if lost:
            self._topic.write_many(dict(_lost_row(name, why) for name, why in lost.items()))

    def put_rebuilt(self, names: Iterable[MirrorId]) -> None:
        """Their maps are durable again: copying goes on."""
        self._topic.write_many(dict(_lost_row(name, "", is_rebuilt=True) for name in names))

    def forget(self, names: Iterable[MirrorId]) -> None:
        """That they were lost and made anew is taken note of."""
        self._topic.write_many({_lost_row(name, "")[0]: None for name in names})


def _lost_row(name: MirrorId, why: str, *, is_rebuilt: bool = False) -> tuple[str, dict[str, Any]]:
    mirror, target_id = name
    return f"{LOST_PREFIX}{mirror.topic}/{mirror.partition}", {
        "target": mirror.topic,
        "partition": mirror.partition,
        "target_id": target_id,
        "why": why,
        "is_rebuilt": is_rebuilt,
    }
