"""Finds mirrors that the link does not know as its own, and compares each with its source.

Their row is missing in the link's state; or the rows that say who the link is, see `estranged`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from heliostat.clock import SystemClock
from heliostat.clusters.kafka_codes import OFFSET_OUT_OF_RANGE
from heliostat.errors import BatchError, BrokerError, PipelineRefused, TransformFailed
from heliostat.gaps.ledger import CopyNote, GapLedger, copied_of
from heliostat.link.identity import estranged, missing_rows
from heliostat.link.topic_look import Seen, planned, see
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition, id_text, is_still
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.offsets.offset_map import MapReader
from heliostat.offsets.store import read_maps
from heliostat.rebuild.compared_rows import OpenPipes, ViewsOf, compared_rows
from heliostat.rebuild.plan import PartitionRebuild, RebuildPlan, TopicRebuild
from heliostat.rebuild.proof import MirrorStanding, NotProved, Proof, prove
from heliostat.topics.naming import naming_of
from heliostat.topics.topic_plan import RefusalCode
from heliostat.topics.values import MirrorRecord
from heliostat.verify.both_logs import rows_of
from heliostat.verify.compaction import Cleaning, CleaningRule
from heliostat.verify.places import Places
from heliostat.verify.reader import Bounds, Isolation, LogReader
from heliostat.verify.schema_ids import Views
from heliostat.verify.stream_values import ConsumedRecord

HANDED_BACK = (
    "it was handed back to MirrorMaker 2: `heliostat adopt` takes it over, once MirrorMaker 2 "
    "is stopped"
)


class Look:
    """One look at both sides; reads only.

    Parameters
    ----------
    clusters
        Both clusters.
    open_pipes
        Makes the link's pipelines ready.
    """

    def __init__(self, clusters: LinkClusters, open_pipes: OpenPipes) -> None:
        self._clusters = clusters
        self._open_pipes = open_pipes
        self.maps = MapReader()
        """The rows that exist of offset maps."""

    def plan(self, topics: str | None) -> RebuildPlan:
        """Plan the rebuild of all mirrors that the link does not know as its own.

        Parameters
        ----------
        topics
            Regular expression that must match a source topic's whole name; None: all topics.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer.
        SparkUnavailable, RegistryError, RegistryUnreachable, RegistryAnswerInvalid
            See `compared_rows`.
        """
        clusters = self._clusters
        seen = see(clusters.config, clusters.link, clusters.source, clusters.target)
        unknown = [
            name
            for name, refusal in seen.plan.refuse.items()
            if refusal.code == RefusalCode.TARGET_NOT_OURS
        ]
        unknown += sorted(name for name in estranged(seen.stored) if _is_comparable(seen, name))
        chosen = [name for name in unknown if topics is None or re.fullmatch(topics, name)]
        found = tuple(self._looked(seen, chosen))
        taken = {topic.record.source: topic for topic in found if not topic.refusal}
        again = replace(
            seen.stored,
            mirrors={**seen.stored.mirrors, **{n: topic.record for n, topic in taken.items()}},
            starts={**seen.stored.starts, **{n: topic.starts() for n, topic in taken.items()}},
        )
        after = planned(
            clusters.config, clusters.link, clusters.target, replace(seen, stored=again)
        )
        kept = {record.source: record for record in after.remember}
        return RebuildPlan(
            clusters.name,
            tuple(replace(t, record=kept.get(t.record.source, t.record)) for t in found),
            _notes(unknown, chosen),
            _at_beginning(seen),
            {name: after.refuse[name].text() for name in taken if name in after.refuse},
            missing_rows(seen.stored),
        )

    def _looked(self, seen: Seen, chosen: Iterable[TopicName]) -> Iterator[TopicRebuild]:
        """Yield each topic; target ends are read first, so that the source had all before them."""
        clusters = self._clusters
        records = [_record(seen, clusters, name) for name in chosen]
        if not records:
            return
        infos = clusters.target.describe_topics({record.target for record in records})
        there = [info for info in infos.values() if info.error is None]
        target_seen = EndsThenMaps(
            lambda: log_ends_of(clusters.target, there),
            lambda: read_maps(clusters.target_access, clusters.name),
        )
        self.maps = target_seen.maps
        with ExitStack() as stack:
            ledger = stack.enter_context(closing(self._ledger()))
            source = stack.enter_context(
                LogReader(clusters.source_access, Isolation.READ_COMMITTED)
            )
            target = stack.enter_context(
                LogReader(clusters.target_access, Isolation.READ_UNCOMMITTED)
            )
            mirrors = {record.source: record.target for record in records}
            rows = compared_rows(clusters.link, mirrors, self._open_pipes)
            views_of = stack.enter_context(rows)
            one_by_one = _Partitions(
                seen, source, target, self.maps, ledger, target_seen.ends, views_of
            )
            for record in records:
                if record.source in seen.stored.handed_back:
                    yield TopicRebuild(record, (), HANDED_BACK)
                else:
                    yield one_by_one.topic(record)

    def _ledger(self) -> GapLedger:
        clusters = self._clusters
        ledger = GapLedger(clusters.name, clusters.config.clusters[clusters.link.target].access())
        ledger.read()
        return ledger


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Compares partitions of mirrors with their source's."""

    seen: Seen
    source: LogReader
    target: LogReader
    maps: MapReader
    ledger: GapLedger
    ends: Mapping[TopicPartition, Offset]
    views_of: ViewsOf

    def topic(self, record: MirrorRecord) -> TopicRebuild:
        """Compare all partitions of a mirror."""
        ours, theirs = (
            self.seen.source.topics[record.source],
            self.seen.target.topics[record.target],
        )
        numbers = [
            number
            for each in range(theirs.partitions)
            if (number := record.slot.source_partition(PartitionId(each))) is not None
        ]
        unknown = [n for n in numbers if record.mirror_of(n) not in self.ends]
        if unknown:
            text = f"the log end of partition {unknown[0]} at the target can't be read; try again"
            return TopicRebuild(record, (), text)
        more = [n for n in numbers if n >= ours.partitions and self.ends[record.mirror_of(n)] > 0]
        if more:
            text = f"partition {more[0]} has records at the target, but is not at the source"
            return TopicRebuild(record, (), text)
        known = [number for number in numbers if number < ours.partitions]
        rule = CleaningRule(
            Cleaning.of(ours.configs), Cleaning.of(theirs.configs), SystemClock().wall_ms()
        )
        return TopicRebuild(record, tuple(self._partition(record, n, rule) for n in known))

    def _partition(
        self, record: MirrorRecord, number: PartitionId, rule: CleaningRule
    ) -> PartitionRebuild:
        source, mirror = TopicPartition(record.source, number), record.mirror_of(number)
        end = self.ends[mirror]
        bounds = self.target.bounds([mirror])[mirror]
        there = self.source.bounds([source])[source]  # read after the target's: covers it
        found = PartitionRebuild(number, Offset(there.end), end, None)
        if end == 0:
            return found
        if bounds.end != end:
            text = f"{mirror} is not on all its replicas yet, or is being written to; try again"
            return replace(found, found=NotProved(text))
        standing = self._standing(record, number, rule, (there, bounds))
        rows = _BothRows(self.source, source, self.target, mirror, self.views_of(source))
        return replace(found, found=_proved(rows, standing))

    def _standing(
        self,
        record: MirrorRecord,
        number: PartitionId,
        rule: CleaningRule,
        bounds: tuple[Bounds, Bounds],
    ) -> MirrorStanding:
        name = record.mirror_of(number), id_text(record.target_id)
        is_lost = self.maps.is_lost(*name)
        return MirrorStanding(
            source=bounds[0],
            target=bounds[1],
            rule=rule,
            places=None if is_lost else _places(self.maps, *name),
            is_filled=not is_lost and self.maps.is_filled(*name) is True,
            recorded=self._recorded(record, number),
            noted=self._noted(record, number),
        )

    def _recorded(self, record: MirrorRecord, number: PartitionId) -> tuple[tuple[int, int], ...]:
        """Return source offsets `[start, end)` of recorded gaps, for topics of these ids."""
        ids = id_text(record.source_id), id_text(record.target_id)
        source = TopicPartition(record.source, number)
        rows = [row for row in self.ledger.rows.values() if row.source == source]
        return tuple(
            (row.first, row.last + 1)
            for row in rows
            if (row.source_id, row.target_id) == ids and row.last is not None
        )

    def _noted(self, record: MirrorRecord, number: PartitionId) -> CopyNote | None:
        """Return how far it was copied, by the ledger, for a source topic of this id."""
        topic = self.ledger.copied.get(record.source)
        return copied_of(topic, id_text(record.source_id)).get(number)


def _proved(rows: _BothRows, standing: MirrorStanding) -> Proof | NotProved:
    try:
        return prove(rows, standing)
    except NotProved as error:
        return error
    except BatchError as error:
        return NotProved(f"it can't be read: {error}")
    except (PipelineRefused, TransformFailed) as error:
        return NotProved(f"its pipeline can't be run: {error}")
    except BrokerError as error:
        if error.kafka_code != OFFSET_OUT_OF_RANGE:
            raise
        return NotProved("records were deleted while they were read; try again")


@dataclass(frozen=True, slots=True)
class _BothRows:
    """Both sides of one partition, see `proof.Rows`."""

    at_source: LogReader
    source_partition: TopicPartition
    at_target: LogReader
    target_partition: TopicPartition
    views: Views

    def source(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Yield the source's records."""
        view = self.views.of_source
        return rows_of(self.at_source, self.source_partition, start, stop, view)

    def target(self, start: int, stop: int) -> Iterator[ConsumedRecord]:
        """Yield the mirror's records."""
        view = self.views.of_target
        return rows_of(self.at_target, self.target_partition, start, stop, view)


def _is_comparable(seen: Seen, name: TopicName) -> bool:
    """Whether a listed mirror and its source are still the same topics, and nothing refuses it."""
    record = seen.stored.mirrors[name]
    source, target = seen.source.topics.get(name), seen.target.topics.get(record.target)
    return (
        source is not None
        and target is not None
        and is_still(record.source_id, source.topic_id)
        and is_still(record.target_id, target.topic_id)
        and name not in seen.plan.refuse
    )


def _record(seen: Seen, clusters: LinkClusters, name: TopicName) -> MirrorRecord:
    """Return a mirror's record; the plan adds what follows from the configuration."""
    if name in seen.stored.mirrors:
        return seen.stored.mirrors[name]
    naming, source = naming_of(clusters.link), seen.source.topics[name]
    mirror = seen.target.topics[naming.target_name(name)]
    return MirrorRecord(
        source=name,
        target=mirror.name,
        source_id=source.topic_id,
        target_id=mirror.topic_id,
        source_cluster=seen.source.cluster_id,
        start="earliest",  # for partitions not begun yet: none of their records may be skipped
        initial_partitions=source.partitions,
        slot=naming.slot_of(name),
    )


def _places(maps: MapReader, mirror: TopicPartition, topic_id: str) -> Places | None:
    found = maps.maps.get((mirror, topic_id))
    return None if found is None or found.is_filled else Places.of(found.pairs(), found.known_from)


def _at_beginning(seen: Seen) -> frozenset[TopicName] | None:
    """Return which source topics to note as older than the link; None: that is known.

    With `start: latest`, those are not copied from their beginning. The list is lost with the
    state, so a selected topic without a mirror is copied whole: it may be newer than the link.
    """
    if seen.stored.at_beginning is not None:
        return None
    unknown = seen.source.topics.keys() - seen.stored.mirrors.keys()
    return frozenset(seen.source.names) - unknown


def _notes(unknown: list[TopicName], chosen: list[TopicName]) -> tuple[str, ...]:
    left = len(unknown) - len(chosen)
    return (f"{left} more such mirrors were not selected",) if left else ()
