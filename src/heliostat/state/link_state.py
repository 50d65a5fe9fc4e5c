"""What a link knows, all of it on the target, so that a driver can be restarted anywhere.

    heliostat.<link>.state     compacted: producer id, owner, mirrors, start offsets; the owner is
                               written in transactions, which fence a predecessor (I10)
    heliostat.<link>.control   compacted: which round each lane should have, and its changes
    heliostat.<link>.offsets   compacted: the offset maps of mirrors whose source has holes (I3)
    heliostat.<link>.progress  an hour of reports, one per second and lane
    heliostat.<link>.history   a day of figures and events, written each minute

Losing `progress` costs the view of the last hour, losing `history` that of the last day, losing
`control` nothing (it is written again), losing `state` the knowledge which target topics are ours:
the plan then refuses non-empty ones, until `heliostat state rebuild` has proved by contents whose
they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.fenced_writer import FencedWriter
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.clusters.keyed_topic import (
    COMPACTED,
    KeyedTopic,
    OwnRows,
    ensure_own_topics,
    missing_topics,
    read_as_row,
)
from heliostat.clusters.past_records import A_DAY, PastRecords
from heliostat.clusters.recent_records import AN_HOUR, RecentRecords
from heliostat.clusters.wire.lent import LentClusters, lent_clusters
from heliostat.config import STATE_TOPIC_PREFIX, ClusterConfig, LinkConfig
from heliostat.handover.promotion import PROMOTED_PREFIX
from heliostat.names import LinkName, Offset, PartitionId, ProducerId, TopicId, TopicName
from heliostat.offsets.marks import MapMarks
from heliostat.offsets.store import OffsetMaps
from heliostat.ops.asked import PendingAnswer
from heliostat.records.copier.lane import NO_IDS, Announcement, SchemaFrames, SchemaIds
from heliostat.records.transport.announcements import CONTROL_KEY
from heliostat.records.transport.plan_rows import encode_announcement
from heliostat.records.transport.schema_id_rows import (
    SCHEMAS_KEY,
    encode_schema_ids,
    schema_ids_in,
)
from heliostat.state.merged_notes import NAMES_MAX, unproven_in
from heliostat.state.owner_record import OWNER_KEY, OwnerRecord
from heliostat.state.ownership import Owner
from heliostat.state.promotions import PromotedMirror, PromotionBook
from heliostat.state.row_format import FORMAT_KEY, check_format
from heliostat.state.stops import Changed, StopBook, Stops, sound_stops_in, stop_key, stop_row
from heliostat.state_topics import (
    DRIVER_KEY,
    control_topic,
    history_topic,
    offsets_topic,
    progress_topic,
    state_topic,
)
from heliostat.topics.values import Feed, MirrorRecord

CLIENT_ID = "heliostat-state"
PRODUCER_KEY = "producer"
PRODUCERS_KEY = "producers"
"""All ids that the link ever had: never deleted, so that its own records are known as such."""
MIRROR_PREFIX = "mirror/"
MAKING_PREFIX = "making/"
"""Mirrors whose topics are about to be created, by source topic: no mirror's topic ever exists
without a row that names it."""
HANDED_BACK_PREFIX = "handed-back/"
"""Mirrors handed back to MirrorMaker 2: equal contents alone must not make them ours again."""
START_PREFIX = "start/"
BEGINNING_PREFIX = "beginning/"
FRAMED_PREFIX = "framed/"
"""Topics whose records have schema ids that are replaced: without a registry's answer nothing else
tells a new driver."""
VITAL = (
    FORMAT_KEY,
    PRODUCER_KEY,
    OWNER_KEY,
    MIRROR_PREFIX,
    MAKING_PREFIX,
    HANDED_BACK_PREFIX,
    PROMOTED_PREFIX,
    START_PREFIX,
    BEGINNING_PREFIX,
    FRAMED_PREFIX,
)
"""Rows without which a link would take itself for another one: what replaced one halts it. Stops
are found again by lanes, and marks are judged where they are read (`MapMarks`)."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Source offsets at which the partitions of one mirror begin; valid for that topic id only.

    `adopted` are the target's log end offsets when the link took the mirror over, `merged` those
    when it began to merge: the first own record lands there or later. `cuts` are those of them
    where a mirror became merged: below it all is the mirror's.
    """

    target_id: TopicId | None
    offsets: dict[PartitionId, Offset] = field(default_factory=dict)
    adopted: dict[PartitionId, Offset] = field(default_factory=dict)
    merged: dict[PartitionId, Offset] = field(default_factory=dict)
    cuts: dict[PartitionId, Offset] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As JSON, for the state topic."""
        rows = {"adopted": self.adopted, "merged": self.merged, "cuts": self.cuts}
        return {
            "target_id": None if self.target_id is None else str(self.target_id),
            "starts": _by_number(self.offsets),
            **{name: _by_number(row) for name, row in rows.items() if row},
        }


def _by_number(offsets: Mapping[PartitionId, Offset]) -> dict[str, int]:
    return {str(number): offset for number, offset in offsets.items()}


@dataclass(slots=True)
class Stored:
    """The state topic, read once."""

    producer_id: ProducerId | None = None
    producers: frozenset[ProducerId] = frozenset()
    """All ids that the link ever had, the present one included; versions before 0.2 noted none."""
    owner: Owner | None = None
    mirrors: dict[TopicName, MirrorRecord] = field(default_factory=dict)
    starts: dict[TopicName, Starts] = field(default_factory=dict)
    at_beginning: frozenset[TopicName] | None = None
    """The source's topics when the link began; None: it has not."""
    making: set[TopicName] = field(default_factory=set)
    """Source topics of mirrors whose topics were about to be created."""
    stops: Stops = field(default_factory=dict)
    """The stops as last written."""
    handed_back: set[TopicName] = field(default_factory=set)
    """Source topics of former mirrors that were handed back to MirrorMaker 2."""
    promoted: dict[TopicName, PromotedMirror] = field(default_factory=dict)
    """Former mirrors, by source topic: no row makes one of them a mirror."""
    frames: dict[TopicName, SchemaFrames] = field(default_factory=dict)
    """What of topics' records begins with a schema id, where ids are replaced."""
    unproven: frozenset[TopicName] = frozenset()
    """Source topics to be merged that may not begin, see `MergedNotes.put_unproven`."""

    def appended_to(self) -> frozenset[TopicName]:
        """Return the source topics whose mirrors the link itself has begun, not taken over."""
        begun = (name for name, start in self.starts.items() if not start.adopted)
        return frozenset(name for name in begun if name in self.mirrors)

    def take(self, key: str, value: Mapping[str, Any]) -> None:
        """Apply one row."""
        self._take_mirrors(key, value)
        self.starts |= starts_in({key: value})
        self.stops |= sound_stops_in({key: value})
        self.unproven |= unproven_in(key, value)
        if key == PRODUCER_KEY:
            self.producer_id = ProducerId(int(value["producer_id"]))
        elif key == PRODUCERS_KEY:
            self.producers = frozenset(ProducerId(int(number)) for number in value["ids"])
        elif key == OWNER_KEY:
            self.owner = Owner.from_json(value)
        elif key.startswith(MAKING_PREFIX):
            self.making.add(TopicName(key.removeprefix(MAKING_PREFIX)))
        elif key.startswith(HANDED_BACK_PREFIX):
            self.handed_back.add(TopicName(key.removeprefix(HANDED_BACK_PREFIX)))
        elif key.startswith(BEGINNING_PREFIX):
            names = (TopicName(name) for name in value["topics"])
            self.at_beginning = (self.at_beginning or frozenset()).union(names)
        elif key.startswith(FRAMED_PREFIX):
            name = TopicName(key.removeprefix(FRAMED_PREFIX))
            self.frames[name] = SchemaFrames(value["frames"])

    def _take_mirrors(self, key: str, value: Mapping[str, Any]) -> None:
        """Take a mirror's row; one that was promoted is none, whichever row comes first."""
        if key.startswith(PROMOTED_PREFIX):
            former = PromotedMirror.from_json(key, value)
            self.promoted[former.source] = former
            self.mirrors.pop(former.source, None)
        elif not self.promoted.keys() & (mirrors := mirrors_in({key: value})).keys():
            self.mirrors |= mirrors


def mirrors_in(rows: Mapping[str, Mapping[str, Any]]) -> dict[TopicName, MirrorRecord]:
    """Return the mirrors in a state topic's latest values, by source topic."""
    records = (
        MirrorRecord.from_json(value)
        for key, value in rows.items()
        if key.startswith(MIRROR_PREFIX) and _promoted_key(key, MIRROR_PREFIX) not in rows
    )
    return {record.source: record for record in records}


def starts_in(rows: Mapping[str, Mapping[str, Any]]) -> dict[TopicName, Starts]:
    """Return where the mirrors in a state topic's latest values begin, by source topic."""
    return {
        TopicName(key.removeprefix(START_PREFIX)): Starts(
            None if value["target_id"] is None else TopicId(value["target_id"]),
            _offsets(value["starts"]),
            _offsets(value.get("adopted", {})),
            _offsets(value.get("merged", {})),
            _offsets(value.get("cuts", {})),
        )
        for key, value in rows.items()
        if key.startswith(START_PREFIX)
    }


def begun_of(
    mirrors: Mapping[TopicName, MirrorRecord], starts: Mapping[TopicName, Starts]
) -> frozenset[TopicName]:
    """Return mirrors that may have records: their start is durable before their first record."""
    return frozenset(
        name
        for name, record in mirrors.items()
        if name in starts and starts[name].target_id == record.target_id
    )


def feeds_in(link: LinkName, rows: Mapping[str, Mapping[str, Any]]) -> list[Feed]:
    """Return the topics that a link writes or is about to, by its state topic's latest values."""
    mirrors = mirrors_in(rows)
    begun = begun_of(mirrors, starts_in(rows))
    making = (
        MirrorRecord.from_json(value)
        for key, value in rows.items()
        if key.startswith(MAKING_PREFIX) and _promoted_key(key, MAKING_PREFIX) not in rows
    )
    return [
        *(Feed(link, record, name in begun) for name, record in mirrors.items()),
        *(Feed(link, record, False) for record in making),
    ]


def _promoted_key(key: str, prefix: str) -> str:
    return PROMOTED_PREFIX + key.removeprefix(prefix)


def owner_id(link: LinkName) -> str:
    """Return the transactional id of the link's owner."""
    return f"{STATE_TOPIC_PREFIX}{link}.owner"


def _offsets(value: Mapping[str, int]) -> dict[PartitionId, Offset]:
    return {PartitionId(int(partition)): Offset(offset) for partition, offset in value.items()}


def _without_mirrors(names: Iterable[TopicName]) -> dict[str, None]:
    return {f"{MIRROR_PREFIX}{name}": None for name in names}


def _without_claims(names: Iterable[TopicName]) -> dict[str, None]:
    making = {f"{MAKING_PREFIX}{name}": None for name in names}
    return _without_mirrors(names) | making


def own_topics(link: LinkName) -> dict[TopicName, Mapping[str, str]]:
    """Return the topics that each link has at its target, with their settings."""
    return {
        TopicName(state_topic(link)): COMPACTED,
        TopicName(control_topic(link)): COMPACTED,
        TopicName(offsets_topic(link)): COMPACTED,
        TopicName(progress_topic(link)): AN_HOUR,
        TopicName(history_topic(link)): A_DAY,
    }


class LinkState:
    """The link's state topics; every write is durable when it returns.

    Parameters
    ----------
    link
        Configuration of the link.
    target
        Configuration of the target cluster, which holds the state, or what lends connections to it.
    foreign
        Told of records that others wrote there and that concern no row of ours.
    """

    def __init__(
        self,
        link: LinkConfig,
        target: ClusterConfig | LentClusters,
        foreign: ForeignRecords | None = None,
    ) -> None:
        # One for all: what a topic's reader has opened and learnt serves the next one's.
        reachable = target if isinstance(target, LentClusters) else target.access()
        access, self._are_ours = lent_clusters(reachable, CLIENT_ID)
        self.clusters = access
        foreign = foreign or ForeignRecords()
        self._link = link.name
        self._replicas = link.state.replication_factor
        self._state = KeyedTopic(access, state_topic(link.name), own=OwnRows(VITAL, foreign))
        self.offsets = OffsetMaps(access, link.name)
        """The offset maps."""
        self.marks = MapMarks(access, link.name)
        """Rows that show whether rows of offset maps are missing."""
        self.stops = StopBook(self._put_stops)
        """The stopped partitions."""
        self.promotions = PromotionBook(self._state.write_many, self.read, _without_claims)
        """Mirrors that are given away."""
        self.claim = 0
        """Number of this process's claim; 0 before it owns the link."""
        # Each announcement is complete, and the next one replaces whatever is there.
        self._control = KeyedTopic(access, control_topic(link.name), own=OwnRows((), foreign))
        writer = FencedWriter(access, TopicName(state_topic(link.name)), owner_id(link.name))
        self.owner = OwnerRecord(self._state, writer, self._control)
        """The owner's record."""
        self._progress = RecentRecords(access, progress_topic(link.name))
        self._progress_writer = KeyedTopic(access, progress_topic(link.name))
        self.history = PastRecords(access, history_topic(link.name), CLIENT_ID)
        """A day of figures and events."""

    def ensure(self, target: ClusterAdmin | None = None, *others: TopicName) -> None:
        """Create missing state topics, and other compacted ones, all with one request."""
        topics = dict.fromkeys(others, COMPACTED) | own_topics(self._link)
        opened = (
            ClusterAdmin(self.clusters, CLIENT_ID)
            if target is None
            else contextlib.nullcontext(target)
        )
        with opened as admin:
            ensure_own_topics(admin, topics, self._replicas)
        for topic in (self._state, self._control):
            topic.exists_now()

    def missing(self, target: ClusterAdmin) -> list[TopicName]:
        """Return the state topics that do not exist, by the word of all brokers."""
        topics = (self._state, self._control, self._progress, self.offsets, self.history)
        return missing_topics(target, [topic.topic for topic in topics])

    def restore(
        self,
        target: ClusterAdmin,
        producer_id: ProducerId | None,
        mirrors: Mapping[TopicName, MirrorRecord],
        starts: Mapping[TopicName, Starts],
        *,
        at_beginning: Iterable[TopicName] | None,
        former_producers: Iterable[ProducerId] = (),
        promoted: Iterable[PromotedMirror] = (),
    ) -> None:
        """Recreate missing topics and write the state again, except the owner's record."""
        self.ensure(target)
        if producer_id is not None:
            self.put_producer(producer_id, former_producers)
        self.promotions.restore(promoted)
        self.put_mirrors(mirrors)
        self.put_starts(starts)
        if at_beginning is not None:
            self.put_beginning(at_beginning)
        self.stops.restore()

    def close(self) -> None:
        """Close the connections."""
        self.owner.close()
        self._state.close()
        self.offsets.close()
        self.marks.close()
        self._control.close()
        self._progress.close()
        self._progress_writer.close()
        self.history.close()
        if self._are_ours:
            self.clusters.close()

    def read(self) -> Stored:
        """Return all that the state topic holds."""
        stored, rows = Stored(), self._state.read_all()
        with read_as_row(self._state.topic, FORMAT_KEY):
            check_format(self._state.topic, rows)
        for key, value in rows.items():
            with read_as_row(self._state.topic, key):
                stored.take(key, value)
        return stored

    def read_stops(self) -> Stops:
        """Return the stops as last written, for commands that only read.

        Records in the topic that are not the link's own are ignored.
        """
        rows, _ = self._state.read_sound()
        return sound_stops_in(rows)

    def _put_stops(self, changed: Changed) -> None:
        rows = {
            stop_key(source): None if stop is None else stop_row(stop)
            for source, stop in changed.items()
        }
        self._state.write_many(rows)

    def put_beginning(self, names: Iterable[TopicName]) -> None:
        """Record which topics the source has when the link begins."""
        ordered = sorted(names)
        self._state.write_many(
            {
                f"{BEGINNING_PREFIX}{start // NAMES_MAX}": {
                    "topics": ordered[start : start + NAMES_MAX]
                }
                for start in range(0, max(1, len(ordered)), NAMES_MAX)
            }
        )

    def put_frames(self, frames: Mapping[TopicName, SchemaFrames]) -> None:
        """Record what of topics' records begins with a schema id that is replaced."""
        before = self.read().frames
        rows: dict[str, Mapping[str, Any] | None] = {
            f"{FRAMED_PREFIX}{name}": {"frames": schema_frames.value}
            for name, schema_frames in frames.items()
            if before.get(name) != schema_frames
        }
        rows |= {f"{FRAMED_PREFIX}{name}": None for name in before.keys() - frames.keys()}
        self._state.write_many(rows)

    def put_producer(self, producer_id: ProducerId, former: Iterable[ProducerId] = ()) -> None:
        """Record the link's one producer id (I1), and which ids it had before."""
        rows: dict[str, dict[str, Any]] = {
            PRODUCER_KEY: {"producer_id": producer_id},
            PRODUCERS_KEY: {"ids": sorted({*former, producer_id})},
        }
        self._state.write_many(rows)

    def prepare(self) -> None:
        """Open connections, and look up what the first writes need, beside what is asked meanwhile.

        A link's start has up to three questions at the same time.
        """
        self.owner.prepare()
        PendingAnswer(self._state.prepare, "asking for a producer id")

    def put_mirrors(
        self, records: Mapping[TopicName, MirrorRecord], made: Iterable[TopicName] = ()
    ) -> None:
        """Record mirrors; `made` are no longer about to be created: they exist, or will not be."""
        self.promotions.put_mirrors(
            lambda given_away: {
                **{
                    f"{MIRROR_PREFIX}{name}": record.to_json()
                    for name, record in records.items()
                    if name not in given_away
                },
                **{f"{MAKING_PREFIX}{name}": None for name in made},
            }
        )

    def forget_mirrors(self, names: Iterable[TopicName]) -> None:
        """Record that all mirrors, of these source topics, are MirrorMaker 2's, not the link's.

        The link's producer ids are deleted too: brokers remember their last sequence in each
        mirror, and would refuse appends after those of others.
        """
        left = list(names)
        rows = {f"{HANDED_BACK_PREFIX}{name}": {"to": "MirrorMaker 2"} for name in left}
        ids = dict.fromkeys((PRODUCER_KEY, PRODUCERS_KEY))
        self._state.write_many({**rows, **_without_mirrors(left), **ids})

    def drop_mirrors(self, names: Iterable[TopicName]) -> None:
        """Delete the rows of these source topics' mirrors, and their starts."""
        gone = list(names)
        begins = {f"{START_PREFIX}{name}": None for name in gone}
        self._state.write_many({**_without_mirrors(gone), **begins})

    def put_making(self, records: Iterable[MirrorRecord]) -> None:
        """Record mirrors whose topics are about to be created."""
        rows = {f"{MAKING_PREFIX}{record.source}": record.to_json() for record in records}
        self._state.write_many(rows)

    def put_starts(self, starts: Mapping[TopicName, Starts]) -> None:
        """Record the source offsets at which partitions of mirrors begin."""
        rows = {f"{START_PREFIX}{name}": row.to_json() for name, row in starts.items()}
        self._state.write_many(rows)

    def put_driver(self, report: Mapping[str, object]) -> None:
        """Write the driver's report to the topic of the lanes' reports."""
        self._progress_writer.write(DRIVER_KEY, report)

    def announce(self, plan: Announcement) -> None:
        """Announce to running rounds what they must know; those that are not named end.

        From then on they ignore announcements of earlier owners.
        """
        self._control.write(CONTROL_KEY, encode_announcement(self.claim, plan))

    def announced_schema_ids(self) -> SchemaIds:
        """Return the ids that were announced last, for whatever registries."""
        rows, _ = self._control.read_sound()
        row = rows.get(SCHEMAS_KEY)
        return NO_IDS if row is None else schema_ids_in(row, row["registries"])

    def put_schema_ids(self, registries: str, ids: SchemaIds) -> None:
        """Announce to lanes which schema ids can be read at the target."""
        self._control.write(SCHEMAS_KEY, encode_schema_ids(registries, ids))
