"""What a link knows, all of it on the target: a driver that dies is restarted anywhere.

    heliostat.<link>.state     compacted: producer id, owner, mirrors, start offsets
    heliostat.<link>.control   compacted: which generation of which lane is wanted
    heliostat.<link>.progress  an hour of reports, one a second and lane

Losing `progress` costs the view of the last hour, losing `control` nothing (it is written anew),
losing `state` the knowledge which target topics are ours: the plan then refuses non-empty ones.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from heliostat.clusters.keyed_topic import KeyedTopic
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import STATE_TOPIC_PREFIX, ClusterConfig, LinkConfig
from heliostat.names import LaneId, LinkName, Offset, PartitionId, ProducerId, TopicId, TopicName
from heliostat.records.state_channel import CONTROL_KEY
from heliostat.topics.values import MirrorRecord

PRODUCER_KEY = "producer"
OWNER_KEY = "owner"
DRIVER_KEY = "driver"
MIRROR_PREFIX = "mirror/"
START_PREFIX = "start/"


@dataclass(frozen=True, slots=True)
class Starts:
    """Source offsets that the partitions of one mirror begin with; of that target topic only."""

    target_id: TopicId | None
    offsets: dict[PartitionId, Offset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who drives the link, and until when its rounds may still send (I10)."""

    instance: str
    host: str
    pid: int
    deadline_ms: int
    """Wall clock: no round that this driver gave out sends anything later."""
    resigned: bool

    @classmethod
    def here(cls, deadline_ms: int, instance: str, *, resigned: bool = False) -> Owner:
        """The process that calls, as the owner."""
        return cls(instance, socket.gethostname(), os.getpid(), deadline_ms, resigned)

    @staticmethod
    def new_instance() -> str:
        """A name that no other driver has or had."""
        return uuid.uuid4().hex


@dataclass(slots=True)
class Stored:
    """The state topic, read once."""

    producer_id: ProducerId | None = None
    owner: Owner | None = None
    mirrors: dict[TopicName, MirrorRecord] = field(default_factory=dict)
    starts: dict[TopicName, Starts] = field(default_factory=dict)


def state_topic(link: LinkName) -> str:
    """Name of the link's state topic."""
    return f"{STATE_TOPIC_PREFIX}{link}.state"


def control_topic(link: LinkName) -> str:
    """Name of the topic that tells lanes which generation is wanted."""
    return f"{STATE_TOPIC_PREFIX}{link}.control"


def progress_topic(link: LinkName) -> str:
    """Name of the topic that lanes report to."""
    return f"{STATE_TOPIC_PREFIX}{link}.progress"


class LinkState:
    """The link's state topics; every write is durable when it returns.

    Parameters
    ----------
    link
        Whose state.
    target
        The cluster that holds it.
    """

    def __init__(self, link: LinkConfig, target: ClusterConfig) -> None:
        access = target.access()
        self._replicas = link.state.replication_factor
        self._state = KeyedTopic(access, state_topic(link.name))
        self._control = KeyedTopic(access, control_topic(link.name))
        self._progress = RecentRecords(access, progress_topic(link.name))
        self._progress_writer = KeyedTopic(access, progress_topic(link.name))

    def ensure(self) -> None:
        """Create the state topics where they are missing."""
        self._state.ensure(self._replicas)
        self._control.ensure(self._replicas)
        self._progress.ensure(self._replicas)

    def close(self) -> None:
        """Close the connections."""
        self._state.close()
        self._control.close()
        self._progress.close()
        self._progress_writer.close()

    def read(self) -> Stored:
        """All that is remembered."""
        stored = Stored()
        for key, value in self._state.read_all().items():
            if key == PRODUCER_KEY:
                stored.producer_id = ProducerId(value["producer_id"])
            elif key == OWNER_KEY:
                stored.owner = Owner(**value)
            elif key.startswith(MIRROR_PREFIX):
                record = MirrorRecord.from_json(value)
                stored.mirrors[record.source] = record
            elif key.startswith(START_PREFIX):
                topic = TopicName(key.removeprefix(START_PREFIX))
                target_id = value["target_id"]
                stored.starts[topic] = Starts(
                    None if target_id is None else TopicId(target_id),
                    {
                        PartitionId(int(partition)): Offset(offset)
                        for partition, offset in value["starts"].items()
                    },
                )
        return stored

    def read_generations(self) -> dict[LaneId, int]:
        """The generations that were wanted last."""
        lanes = self._control.read_all().get(CONTROL_KEY, {}).get("lanes", {})
        return {LaneId(int(lane)): int(generation) for lane, generation in lanes.items()}

    def put_producer(self, producer_id: ProducerId) -> None:
        """Remember the link's one producer id (I1)."""
        self._state.write(PRODUCER_KEY, {"producer_id": producer_id})

    def put_owner(self, owner: Owner) -> None:
        """Announce who drives, and the last deadline it gave out (I10)."""
        self._state.write(
            OWNER_KEY,
            {
                "instance": owner.instance,
                "host": owner.host,
                "pid": owner.pid,
                "deadline_ms": owner.deadline_ms,
                "resigned": owner.resigned,
            },
        )

    def put_mirrors(self, records: Mapping[TopicName, MirrorRecord]) -> None:
        """Remember mirrors."""
        self._state.write_many(
            {f"{MIRROR_PREFIX}{name}": record.to_json() for name, record in records.items()}
        )

    def put_starts(self, starts: Mapping[TopicName, Starts]) -> None:
        """Remember the source offsets that partitions of mirrors begin with."""
        self._state.write_many(
            {
                f"{START_PREFIX}{name}": {
                    "target_id": None if row.target_id is None else str(row.target_id),
                    "starts": {str(p): offset for p, offset in row.offsets.items()},
                }
                for name, row in starts.items()
            }
        )

    def put_driver(self, report: Mapping[str, object]) -> None:
        """Tell how the driver fares, beside the lanes' reports."""
        self._progress_writer.write(DRIVER_KEY, report)

    def announce(self, generations: Mapping[LaneId, int]) -> None:
        """Tell running tasks which generation of each lane is wanted; all others end."""
        lanes = {str(lane): generation for lane, generation in generations.items()}
        self._control.write(CONTROL_KEY, {"lanes": lanes})
