"""What a driver gives to a lane's task, and what the task reports: plain values that pickle.

A lane is the set of partitions that one Spark task serves; a round is one Spark job of one lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, Flag, StrEnum
from typing import NamedTuple

from typing_extensions import override

from heliostat.access import ClusterAccess
from heliostat.merge.own_end import OwnNote
from heliostat.names import (
    LaneId,
    LinkName,
    Offset,
    ProducerId,
    TopicId,
    TopicName,
    TopicPartition,
)
from heliostat.offsets.offset_map import Break, MapTail
from heliostat.ops.latency import Counts
from heliostat.ops.process_use import ProcessUse
from heliostat.records.batches.batch import Codec
from heliostat.records.batches.converted import ConvertSettings, StopReason
from heliostat.records.copier.lane_limits import NO_LIMITS, ByteLimits, LimitUse, Priority
from heliostat.records.copier.merged_lane import MergedLane
from heliostat.records.copier.pipeline_steps import Pipeline


class PartitionState(Enum):
    """State of a mirror's partition, as people see it."""

    STARTING = "starting"
    """Its position has not been read from the target yet."""
    ALIGNING = "aligning"
    """The empty target partition is filled up to the offset the source begins at."""
    COPYING = "copying"
    PAUSED = "paused"
    """An operator wishes that nothing is copied; its lag is known all the while."""
    RETRYING = "retrying"
    """A passing fault: retried with exponential backoff."""
    BLOCKED = "blocked"
    """Its records can't be copied as they are; the reason says what to do."""
    GAP = "gap"
    """Source records are gone before they were copied (I6)."""
    DIVERGED = "diverged"
    """The target holds records that this link did not put there (I1)."""

    @classmethod
    @override
    def _missing_(cls, value: object) -> PartitionState | None:
        """Map `lifting`, as reports of earlier versions, an hour old at most, call aligning."""
        return cls.ALIGNING if value == "lifting" else None

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is copied until a person decides."""
        return self in (PartitionState.BLOCKED, PartitionState.GAP, PartitionState.DIVERGED)


class PartitionCode(StrEnum):
    """Why a partition is stopped or retried, in a word, if it is not the name of a broker's code.

    The names of `StopReason` are codes, too.
    """

    SOURCE_OVERTOOK = "SOURCE_OVERTOOK"
    """Retention or DeleteRecords took source records before they were copied."""
    SOURCE_TRUNCATED = "SOURCE_TRUNCATED"
    """The source lost records that the target has: unclean election, or a recreated log."""
    TARGET_TRUNCATED = "TARGET_TRUNCATED"
    """The target's log ends before records that were acknowledged."""
    FOREIGN_TAIL = "FOREIGN_TAIL"
    """Another producer wrote the mirror's last record."""
    TAIL_UNKNOWN = "TAIL_UNKNOWN"
    """Nobody knows who wrote the mirror's last records: gone, and their producer forgotten."""
    TAIL_UNREAD = "TAIL_UNREAD"
    """Who wrote the mirror's last record can't be read at the moment; retried."""
    APPENDED_ELSEWHERE = "APPENDED_ELSEWHERE"
    """A batch landed after records of another producer."""
    TARGET_REFUSES_SEQUENCE = "TARGET_REFUSES_SEQUENCE"
    """The broker expects another sequence at the mirror's end: another producer has appended."""
    OFFSETS_GO_BACK = "OFFSETS_GO_BACK"
    """The decision was to go back to an earlier source offset, but offsets are to stay equal."""
    OFFSET_MAP_LOST = "OFFSET_MAP_LOST"
    """Records of the mirror's offset map are gone, or it is not the map by which records landed:
    where the mirror continues can't be known."""
    MARKERS_MISSING = "MARKERS_MISSING"
    """The mirror does not end where the markers for a hole should have brought it; retried."""
    LEASE_ENDED = "LEASE_ENDED"
    """The lane has no answers from its driver, and may not send (I10); it goes on with the next."""
    PIPELINE_REFUSED = "PIPELINE_REFUSED"
    """Spark can't run the pipeline that its records are to go through."""
    SCHEMA_UNREADABLE = "SCHEMA_UNREADABLE"
    """Its next records have schema ids that can't be read at the target's registry yet (I8), or
    that can't be replaced by the target's."""
    PRODUCERS_LOST = "PRODUCERS_LOST"
    """Rows of links' producer ids may be gone at the source: what links brought there, and would
    come back, can't be told from its own records."""
    CONNECTION_LOST = "CONNECTION_LOST"
    """An answer never came; the mirror's end is read before anything is sent again (I4)."""


class SchemaFrames(Flag):
    """What of a topic's records begins with a schema id; nothing: its link mirrors no schemas."""

    MAYBE_VALUES = 1
    """Values that look so, unless the source's registry has no such id."""
    VALUES = 2
    KEYS = 4
    REPLACED = 8
    """The target's ids are put in their place. So nothing may only seem to be one: with
    `MAYBE_VALUES` such values wait."""


NO_FRAMES = SchemaFrames(0)
Ranges = tuple[tuple[int, int], ...]
"""Ids as `(first, last)`, ascending, both included."""


@dataclass(frozen=True, slots=True)
class SchemaIds:
    """What the driver has found out about schema ids of the source's registry.

    Parameters
    ----------
    readable
        Those whose content can be read at each address of the target's registry.
    foreign
        Ids that records seemed to have and the source's registry has not: where nothing says that
        a topic's values begin with an id, they are none.
    shifts
        For each range of `readable`, by how much its ids are greater at the target; empty: all are
        the same there.
    guids
        The target's GUIDs that are others there (16 bytes each). GUIDs of the source are among
        the ids, by the numbers that they are known by (`heliostat.framed_ids`); shifted, one is the
        place of the target's here.
    """

    readable: Ranges = ()
    foreign: Ranges = ()
    shifts: tuple[int, ...] = ()
    guids: tuple[bytes, ...] = ()


NO_IDS = SchemaIds()


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One partition to copy.

    `start` is the source offset that the mirror begins with: fixed when the mirror was created and
    stored in the link's state, so that every round aligns an empty target with the same offset.
    """

    source: TopicPartition
    target: TopicPartition
    source_topic_id: TopicId | None
    target_topic_id: TopicId | None
    start: Offset
    batch_bytes_max: int
    """The target topic's `max.message.bytes`."""
    is_compacted: bool
    """Whether the source topic, and so its mirror, is compacted: fillers need a key, and a later
    read may find fewer records."""
    adopted_at: Offset | None = None
    """The target's end when the mirror was taken over: the record before it may be another
    producer's."""
    jump: Break | None = None
    """Where to continue after a recorded gap: at this target offset with this source offset (I6).
    It applies only if the target's log ends exactly there."""
    truncated: str = ""
    """Not empty: stop; the driver found that the source lost or replaced what was copied."""
    map_lost: str = ""
    """Not empty: stop; rows of its offset map are gone."""
    fills: bool = False
    """Whether holes are filled with markers to keep offsets equal, unless it is mapped already."""
    can_align: bool = True
    """Whether an empty target is aligned with `start`: not if `cleanup.policy` is `compact`, as
    records can't be deleted there; its mirror is mapped from the beginning."""
    pipeline: str = ""
    """Name of the link's pipeline that its records go through; empty: they cross as they are."""
    fails_at: int = -1
    """Source offset of a record that can't be copied, as the driver has found: nothing from there
    on is; -1: none is known."""
    fail_code: str = StopReason.TRANSFORM_FAILED.name
    """What is wrong with it: its pipeline fails, or its schema is missing."""
    attempt: int = 0
    """How often a stop was tried again by an error policy: with another number the lane takes the
    partition anew."""
    why_fails: str = ""
    """Why it fails there; with no offset: why Spark refuses the pipeline, so that nothing is
    copied."""
    frames: SchemaFrames = NO_FRAMES
    """Where its records have schema ids, which must be readable at the target first (I8)."""
    is_paused: bool = False
    """An operator wishes that nothing is copied."""
    priority: Priority = Priority.NORMAL
    """As an operator wishes."""
    merged_from: Offset | None = None
    """Of a merged topic: the target's end when the link began there; its own records come later.
    None: only the link writes its mirror."""


def conversion_of(spec: PartitionSpec, settings: CopySettings, producer_id: int) -> ConvertSettings:
    """Return how to convert a partition's batches for its mirror."""
    return ConvertSettings(
        producer_id=producer_id,
        batch_bytes_max=spec.batch_bytes_max,
        join_bytes_max=min(settings.join_bytes_max, spec.batch_bytes_max),
        join_below_bytes=settings.join_below_bytes,
        in_flight_max=settings.requests_in_flight_max,
        compression=Codec[settings.compression.upper()] if settings.compression else None,
    )


PARTITION_FETCH_BYTES = 1024 * 1024
"""What a fetch asks of a partition where the broker is near: a few batches of the largest size."""


@dataclass(frozen=True, slots=True)
class CopySettings:
    """How a lane copies; sizes in bytes, times in seconds."""

    fetch_bytes_max: int = 32 * 1024 * 1024
    partition_fetch_bytes_max: int = 2 * 1024 * 1024
    """A limit for what `LineFit` asks for; at first it is `PARTITION_FETCH_BYTES`, if less."""
    fetch_wait_ms: int = 500
    requests_in_flight_max: int = 5
    """Appends in flight per target broker, which remembers the last five batches of a producer."""
    queued_bytes_max: int = 8 * 1024 * 1024
    """Bytes of a partition that are fetched and not yet acknowledged."""
    lane_queued_bytes_max: int = 192 * 1024 * 1024
    """Bytes of a whole lane, to limit its memory."""
    join_below_bytes: int = 256 * 1024
    join_bytes_max: int = 1024 * 1024
    compression: str | None = None
    """Codec of joined batches; None leaves them as they came."""
    produce_timeout_s: float = 30.0
    producer_expiration_s: float = 86_400.0
    """The target's `producer.id.expiration.ms`: how long its sequence check covers I1."""
    report_interval_s: float = 1.0
    control_interval_s: float = 0.25
    latency_target_s: float = 0.002
    """Between an answer to a group's fetch and its next one: records that come meanwhile share a
    request."""
    backlog_connections: int = 0
    """Connections to each broker for partitions far behind; 0: as the line needs."""

    @property
    def partition_fetch_bytes(self) -> int:
        """Bytes of a partition that a fetch asks for at first."""
        return min(PARTITION_FETCH_BYTES, self.partition_fetch_bytes_max)


class Suspect(NamedTuple):
    """Records that are in the pipeline of a careful round, and nothing else is."""

    source: TopicPartition
    first: int
    before: int


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """All that a task needs for one round."""

    link: LinkName
    lane: LaneId
    generation: int
    """Number of the plan that the round begins with; changes have higher ones (`PlanChange`)."""
    round_number: int
    lease_s: float
    """How long the round may send after it sent a report that the driver has answered (I10)."""
    source_access: ClusterAccess
    target_access: ClusterAccess
    producer_id: ProducerId
    partitions: tuple[PartitionSpec, ...]
    control_topic: str
    progress_topic: str
    settings: CopySettings = field(default_factory=CopySettings)
    offsets_topic: str = ""
    """Topic with the rows of the offset maps."""
    maps: tuple[tuple[int, MapTail], ...] = ()
    """(Index of the partition, its map as far as the driver has read it)."""
    maps_from: int = 0
    """Offset in the offsets topic from which on rows are not in `maps`."""
    maps_topic_id: str = ""
    """Id of the topic that these rows are from: a recreated one holds none of them. Empty: not
    known, as before Kafka 2.8."""
    copied: tuple[tuple[int, int, int, int], ...] = ()
    """(Index of the partition, source offset after a copied batch, its leader epoch, log end offset
    of the target at that time or -1). A missing partition was not yet copied by any round of this
    driver: its last records are compared (`doubts`)."""
    rates: tuple[tuple[int, float], ...] = ()
    """(Index of the partition, records a second), except for nearly silent ones."""
    may_land_s: float = 0.0
    """How long after the round's begin appends of earlier rounds may still land, because one has
    failed or another driver started them. It concerns the same records as `waits_for`."""
    registries: str = ""
    """Which registries, and how schemas get from one to the other: announcements of schema ids for
    others are not for this round (`SchemaIds`)."""
    pipeline: Pipeline | None = None
    """What the records of all its partitions go through."""
    careful: int = 0
    """How many records may be in the pipeline at a time, because a round has failed in it; 0: no
    limit. See `transport.row_exchange`."""
    waits_for: tuple[str, ...] = ()
    """Rounds (see `round_id`) that must have ended before records are sent for which the broker's
    duplicate check may not hold (I10)."""
    former_producers: frozenset[int] = frozenset()
    """Producer ids that the link had before `producer_id`, as far as its state says."""
    limits: ByteLimits = NO_LIMITS
    """Those that hold until an announcement tells others."""
    merged: MergedLane | None = None
    """None: its topics are mirrors that only the link writes."""

    @property
    def round_id(self) -> str:
        """Name of this round, unique within the link."""
        return f"{self.lane}/{self.generation}/{self.round_number}"

    @property
    def row_pipeline(self) -> Pipeline | None:
        """Its pipeline, if records are rows of Spark there; see `Pipeline.is_in_place`."""
        return None if self.pipeline is None or self.pipeline.is_in_place else self.pipeline


@dataclass(frozen=True, slots=True)
class TakenPartition:
    """A partition that a running round takes, as `LaneSpec` describes those that it begins with."""

    spec: PartitionSpec
    copied: tuple[int, int, int] | None
    """See `LaneSpec.copied`, without the index; None: not yet copied by any round of this
    driver."""
    rate: float = 0.0
    """Records a second, as far as known."""


@dataclass(frozen=True, slots=True)
class PlanChange:
    """What a running round gives up and takes.

    A partition whose specification changes is both given up and taken.
    """

    generation: int
    """Number of the plan with this change."""
    give_up: tuple[TopicPartition, ...]
    """Source partitions. The round reports the generation once nothing of them is under way."""
    take: tuple[TakenPartition, ...]
    waits_for: tuple[str, ...] = ()
    """See `LaneSpec.waits_for`, for the partitions taken."""
    may_land_s: float = 0.0
    """See `LaneSpec.may_land_s`, for the partitions taken."""


@dataclass(frozen=True, slots=True)
class WantedRound:
    """The round that a lane should have."""

    round_id: str
    """Empty: none at the moment; the one that runs ends."""
    changes: tuple[PlanChange, ...] = ()
    """Those that it has not acknowledged, in order."""
    limits: ByteLimits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class Announcement:
    """What the driver announces to running rounds."""

    rounds: Mapping[LaneId, WantedRound]
    """By lane; a round that is not named ends."""
    running: tuple[str, ...]
    """Rounds that may still send, see `LaneSpec.round_id`."""
    answered: Mapping[str, int]
    """The newest report of each round that has a lease: its number, by round (I10)."""


@dataclass(slots=True)
class PartitionReport:
    """State of one partition at the end of a report's interval."""

    source: TopicPartition
    target: TopicPartition
    state: PartitionState
    position: int
    """Next source offset to copy: all below it is at the target (-1: not known yet)."""
    high_watermark: int
    """The source's high watermark when it was last seen (-1: not known yet)."""
    records: int
    """Records copied since the round began."""
    bytes: int
    """Bytes of batches appended since the round began."""
    last_timestamp_ms: int
    """Largest timestamp among the copied records (-1: none)."""
    caught_up_ms: int
    """Wall clock when the target last held all that the source had (-1: not in this round)."""
    since_ms: int
    """Wall clock when its state began."""
    code: str = ""
    reason: str = ""
    open_records: int = 0
    """Missing offsets from the last stable offset on: they wait for open transactions."""
    breaks: int = 0
    """Number of breaks in its offset map; with none, offsets are equal on both sides."""
    copied_to: int = -1
    """Source offset after the last batch whose leader epoch is known (-1: none) ..."""
    copied_epoch: int = -1
    """... and that epoch, from its header: by it a truncated source is found (KIP-320)."""
    missing_ms: int = -1
    """Timestamp of the oldest missing record (-1: not known, or none is)."""
    target_end: int = -1
    """Log end offset of the target (-1: not known)."""
    is_end_old: bool = False
    """Whether the source could not be asked for its end lately: more may be missing."""
    own: OwnNote | None = None
    """Of a merged topic: how many records the link has appended, and up to where that is so."""

    @property
    def is_known(self) -> bool:
        """Whether its position and the source's high watermark are known."""
        return self.position >= 0 and self.high_watermark >= 0


@dataclass(frozen=True, slots=True)
class LineUse:
    """The line to the brokers of one side, as the lanes' requests have found it."""

    round_trip_ms: int
    """Shortest time of an answer within a minute, of the farthest broker; 1: a millisecond or less.
    The time that a broker needs itself is included."""
    in_flight_bytes: int
    """Bytes on the line to all of them, on average since the last report: asked for and not yet
    received, or sent and not yet acknowledged."""


@dataclass(slots=True)
class RoundReport:
    """Report of a round."""

    lane: LaneId
    generation: int
    """Of the plan that the round began with."""
    round_number: int
    records: int
    bytes: int
    ended_by: str
    """`plan` (the link stops, or the driver wants another round) or `maps` (too many rows of offset
    maps to read); empty while it runs."""
    partitions: list[PartitionReport]
    latency_ms: list[int] = field(default_factory=list)
    """Counts of records by latency bucket, see `heliostat.ops.latency`."""
    copied: list[tuple[TopicPartition, int, int, int]] = field(default_factory=list)
    """At its end, (source, and the rest as in `LaneSpec.copied`) of those that went on in it."""
    lost: list[tuple[TopicPartition, int, int]] = field(default_factory=list)
    """Since the last report, (source, first, end): source offsets `[first, end)` that the target
    had acknowledged and lost; they are copied again."""
    number: int = 0
    """Counts the round's reports; the driver's answer names it."""
    plan: int = 0
    """The newest generation whose changes are carried out."""
    schema_ids: tuple[int, ...] = ()
    """Schema ids that partitions wait for."""
    lane_partitions: int = 0
    """Number of the lane's partitions."""
    is_whole: bool = False
    """Whether all of them are in it."""
    suspect: Suspect | None = None
    """What is in the pipeline of a careful round."""
    hangs: str = ""
    """Not empty: how its pipeline hangs. The task can't end by itself, as Spark waits for it."""
    source_line: LineUse | None = None
    """The line to the source; None: no broker has answered yet."""
    target_line: LineUse | None = None
    moved: tuple[int, int] = (0, 0)
    """Bytes that were fetched, and that brokers acknowledged, since the round began."""
    process: ProcessUse | None = None
    """What the lane's process has used; None: not known, or not told in this report."""
    topic_latency: list[tuple[TopicName, Counts]] = field(default_factory=list)
    """Latencies of records of some topics that were not reported before."""
    requests: list[int] = field(default_factory=list)
    """Since the round began, `RequestCounts.numbers` of fetches, then those of appends."""
    limits: list[LimitUse] = field(default_factory=list)
    """What was used of the limits that hold."""
    closed: list[tuple[TopicPartition, OwnNote]] = field(default_factory=list)
    """At its end: what the link has appended to merged partitions that it left at rest."""
