"""Finds mirrors that the link does not know as its own, and compares each with its source.

Their row is missing in the link's state; or the rows that say who the link is, see `estranged`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

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
from heliostat.offsets.store import MapsLook
from heliostat.ops.asked import PendingAnswer
from heliostat.rebuild.compared_rows import OpenPipes, ViewsOf, compared_rows
from heliostat.rebuild.merged_map import merged_proof
from heliostat.rebuild.merged_maps import recorded_gaps
from heliostat.rebuild.merged_state import OwnIds, own_ids, own_sides
from heliostat.rebuild.own_records import OwnCount, OwnSides, own_view
from heliostat.rebuild.plan import MergedStand, PartitionRebuild, RebuildPlan, TopicRebuild
from heliostat.rebuild.proof import MirrorStanding, NotProved, Proof, prove
from heliostat.rebuild.several_readers import SeveralReaders
from heliostat.rebuild.side_rows import SideRows
from heliostat.topics.naming import naming_of
from heliostat.topics.topic_plan import RefusalCode
from heliostat.topics.values import MirrorRecord
from heliostat.verify.both_readers import BothReaders, first_parts
from heliostat.verify.compaction import Cleaning, CleaningRule
from heliostat.verify.origin import LinkIds
from heliostat.verify.places import EXACT, Places
from heliostat.verify.reader import Bounds, FetchedPart

HANDED_BACK = (
    "it was handed back to MirrorMaker 2: `heliostat adopt` takes it over, once MirrorMaker 2 "
    "is stopped"
)


FIRST_BYTES = 64 * 1024
"""Of each partition with one fetch for many; the rest is fetched afterwards."""


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
        self._seen: Seen | None = None
        self.own: OwnIds | None = None
        """Of a link that merges topics: who it was, once `see` has looked; else None."""
        self.maps = MapReader()
        """The rows that exist of offset maps."""

    def see(self) -> Seen:
        """Observe both clusters as a reconciliation does; raises as `plan`."""
        clusters = self._clusters
        with closing(clusters.connections.state()) as state:
            stored = state.read()
        if clusters.link.topics.merges:
            self.own = own_ids(clusters, stored)
        self._seen = see(
            *(clusters.config, clusters.link, clusters.source, clusters.target),
            connections=clusters.connections,
            stored=stored,
        )
        return self._seen

    def at_both(self) -> frozenset[TopicName]:
        """Return the topics that both sites have, under one name."""
        seen, here = self._seen or self.see(), self._clusters.target.describe_topics()
        return frozenset(seen.source.names) & here.keys()

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
        seen = self._seen or self.see()
        unknown = self._without_row(seen)
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
            *(clusters.config, clusters.link, clusters.target, replace(seen, stored=again)),
            connections=clusters.connections,
        )
        kept = {record.source: record for record in after.remember}
        missing = missing_rows(seen.stored)
        if self.own is not None and not self.own.ids <= seen.stored.producers:
            missing = missing or "producer ids under which it has appended to merged topics"
        return RebuildPlan(
            clusters.name,
            tuple(replace(t, record=kept.get(t.record.source, t.record)) for t in found),
            _notes(unknown, chosen),
            _at_beginning(seen),
            {name: after.refuse[name].text() for name in taken if name in after.refuse},
            missing,
        )

    def _without_row(self, seen: Seen) -> list[TopicName]:
        """Return source topics whose mirrors may be the link's, and of which it has no row."""
        if self.own is None:
            refusals = seen.plan.refuse.items()
            return [n for n, each in refusals if each.code == RefusalCode.TARGET_NOT_OURS]
        if not self.own.ids:
            return []  # it has never begun
        selected = {mirror.source for mirror in seen.plan.mirrors}
        refused = {n for n, each in seen.plan.refuse.items() if each.code == RefusalCode.MERGE}
        naming = naming_of(self._clusters.link)
        return sorted(
            name
            for name in selected | (refused & seen.stored.unproven)
            if name not in seen.stored.mirrors and naming.target_name(name) in seen.target.topics
        )

    def _looked(self, seen: Seen, chosen: Iterable[TopicName]) -> Iterator[TopicRebuild]:
        """Yield each topic; target ends are read first, so that the source had all before them."""
        clusters = self._clusters
        records = [_record(seen, clusters, name) for name in chosen]
        if not records:
            return
        infos = clusters.target.describe_topics({record.target for record in records})
        there = [info for info in infos.values() if info.error is None]
        with ExitStack() as stack:
            lent = clusters.connections.target
            ledger = stack.enter_context(closing(GapLedger(clusters.name, lent)))
            maps = stack.enter_context(closing(MapsLook(lent, clusters.name, clusters.target)))
            reading = PendingAnswer(ledger.read, "ledger")
            maps.prepare()
            target_seen = EndsThenMaps(lambda: log_ends_of(clusters.target, there), maps.read)
            self.maps = target_seen.maps
            reading.answer()
            readers = SeveralReaders(clusters.source_access, clusters.target_access)
            stack.enter_context(closing(readers))
            mirrors = {record.source: record.target for record in records}
            rows = compared_rows(clusters.link, mirrors, self._open_pipes)
            views_of = stack.enter_context(rows)
            own = None
            if self.own is not None:
                own = stack.enter_context(closing(own_sides(clusters, self.own)))
            ends = target_seen.ends
            compared = _Partitions(seen, readers, self.maps, ledger, ends, views_of, own)
            yield from compared.topics(records)


class _Pair(NamedTuple):
    """A partition of a mirror and its source's, which are to be compared."""

    record: MirrorRecord
    number: PartitionId
    rule: CleaningRule

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.record.source, self.number)

    @property
    def mirror(self) -> TopicPartition:
        return self.record.mirror_of(self.number)


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Compares partitions of mirrors with their source's."""

    seen: Seen
    readers: SeveralReaders
    maps: MapReader
    ledger: GapLedger
    ends: Mapping[TopicPartition, Offset]
    views_of: ViewsOf
    own: OwnSides | None = None

    def topics(self, records: Sequence[MirrorRecord]) -> Iterator[TopicRebuild]:
        """Compare all partitions of mirrors, several at once."""
        wanted = [(record, self._wanted(record)) for record in records]
        pairs = [pair for _, some in wanted if not isinstance(some, str) for pair in some]
        found = self.readers.each(pairs, self._compared)
        for record, some in wanted:
            if isinstance(some, str):
                yield TopicRebuild(record, (), some)
            else:
                yield TopicRebuild(record, tuple(islice(found, len(some))))

    def _wanted(self, record: MirrorRecord) -> list[_Pair] | str:
        """Return the partitions to compare, or why the mirror is refused."""
        if record.source in self.seen.stored.handed_back:
            return HANDED_BACK
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
            return f"the log end of partition {unknown[0]} at the target can't be read; try again"
        more = [n for n in numbers if n >= ours.partitions and self.ends[record.mirror_of(n)] > 0]
        if more and self.own is None:
            return f"partition {more[0]} has records at the target, but is not at the source"
        rule = CleaningRule(
            Cleaning.of(ours.configs), Cleaning.of(theirs.configs), SystemClock().wall_ms()
        )
        return [_Pair(record, number, rule) for number in numbers if number < ours.partitions]

    def _compared(self, readers: BothReaders, pairs: Sequence[_Pair]) -> list[PartitionRebuild]:
        """Compare some partitions; the sources' bounds are read after the mirrors': cover them."""
        if self.own is not None:
            return self._merged(readers, pairs, self.own)
        theirs = readers.target.bounds(pair.mirror for pair in pairs if self.ends[pair.mirror])
        ours = readers.source.bounds(pair.source for pair in pairs)
        standings = {
            pair.source: self._standing(pair, (ours[pair.source], theirs[pair.mirror]))
            for pair in pairs
            if pair.mirror in theirs
        }
        firsts = _Firsts.of(readers, pairs, standings)
        return [
            self._partition(pair, ours[pair.source], standings.get(pair.source), readers, firsts)
            for pair in pairs
        ]

    def _merged(
        self, readers: BothReaders, pairs: Sequence[_Pair], own: OwnSides
    ) -> list[PartitionRebuild]:
        """Compare the link's own records; how many there are is asked before the sources' ends."""
        counts = own.counts([(pair.source, pair.record) for pair in pairs])
        ours = readers.source.bounds(pair.source for pair in pairs)
        ids = own.ids()
        return [
            self._own(readers, pair, ours[pair.source], counts[pair.source], ids) for pair in pairs
        ]

    def _own(
        self,
        readers: BothReaders,
        pair: _Pair,
        there: Bounds,
        count: OwnCount | str,
        ids: LinkIds,
    ) -> PartitionRebuild:
        found = PartitionRebuild(pair.number, Offset(there.end), Offset(0), None)
        if isinstance(count, str):
            return replace(found, found=NotProved(count))
        found = replace(found, target_end=Offset(count.number))
        try:
            view = own_view(readers.target, pair.mirror, count, ids)
            stand = MergedStand(count.note, Offset(view.origin.start), 0)
            if not count.number:
                return replace(found, merged=stand)
            views = self.views_of(pair.source)._replace(origin=view.origin)
            rows = SideRows(pair.source, pair.mirror, readers, views)
            proved = merged_proof(rows, self._standing(pair, (there, view.numbers)), Offset(0))
        except _UNPROVEN as error:
            return replace(found, found=_not_proved(error))
        stand = stand._replace(known_from=proved.known_from)
        return replace(found, found=proved.proof, merged=stand)

    def _partition(
        self,
        pair: _Pair,
        there: Bounds,
        standing: MirrorStanding | None,
        readers: BothReaders,
        firsts: _Firsts,
    ) -> PartitionRebuild:
        end = self.ends[pair.mirror]
        found = PartitionRebuild(pair.number, Offset(there.end), end, None)
        if standing is None:
            return found
        if standing.target.end != end:
            text = f"{pair.mirror} is not on all its replicas yet, or is being written to"
            return replace(found, found=NotProved(f"{text}; try again"))
        views, first = self.views_of(pair.source), firsts.pop(pair)
        rows = SideRows(pair.source, pair.mirror, readers, views, first)
        return replace(found, found=_proved(rows, standing))

    def _standing(self, pair: _Pair, bounds: tuple[Bounds, Bounds]) -> MirrorStanding:
        record, number, rule = pair
        name = record.mirror_of(number), id_text(record.target_id)
        is_lost = self.maps.is_lost(*name)
        return MirrorStanding(
            source=bounds[0],
            target=bounds[1],
            rule=rule,
            places=None if is_lost else _places(self.maps, *name),
            is_filled=not is_lost and self.maps.is_filled(*name) is True,
            recorded=recorded_gaps(self.ledger, pair.source, record),
            noted=self._noted(record, number),
        )

    def _noted(self, record: MirrorRecord, number: PartitionId) -> CopyNote | None:
        """Return how far it was copied, by the ledger, for a source topic of this id."""
        topic = self.ledger.copied.get(record.source)
        return copied_of(topic, id_text(record.source_id)).get(number)


def _proved(rows: SideRows, standing: MirrorStanding) -> Proof | NotProved:
    try:
        return prove(rows, standing)
    except _UNPROVEN as error:
        return _not_proved(error)


_UNPROVEN = (NotProved, BatchError, PipelineRefused, TransformFailed, BrokerError)
"""What leaves a partition without proof, see `_not_proved`."""


def _not_proved(error: Exception) -> NotProved:
    """Return why there is no proof; raise what is no reason."""
    if isinstance(error, NotProved):
        return error
    if isinstance(error, BatchError):
        return NotProved(f"it can't be read: {error}")
    if isinstance(error, PipelineRefused | TransformFailed):
        return NotProved(f"its pipeline can't be run: {error}")
    if isinstance(error, BrokerError) and error.kafka_code == OFFSET_OUT_OF_RANGE:
        return NotProved("records were deleted while they were read; try again")
    raise error


class _Firsts(NamedTuple):
    """First parts of partitions, which came with one fetch of each side."""

    source: dict[TopicPartition, FetchedPart]
    target: dict[TopicPartition, FetchedPart]

    @classmethod
    def of(
        cls,
        readers: BothReaders,
        pairs: Iterable[_Pair],
        standings: Mapping[TopicPartition, MirrorStanding],
    ) -> _Firsts:
        """Fetch them, from where comparing most likely begins."""
        ours, theirs = dict[TopicPartition, int](), dict[TopicPartition, int]()
        for pair in pairs:
            standing = standings.get(pair.source)
            if standing is None:
                continue
            places = EXACT if standing.places is None else standing.places
            start = max(standing.source.start, places.source_at(standing.target.start))
            if start < standing.source.end:
                ours[pair.source] = start
            if standing.target.start < standing.target.end:
                theirs[pair.mirror] = standing.target.start
        return cls(
            first_parts(readers.source, ours, FIRST_BYTES),
            first_parts(readers.target, theirs, FIRST_BYTES),
        )

    def pop(self, pair: _Pair) -> tuple[FetchedPart | None, FetchedPart | None]:
        """Return those of one partition, if they have come, and forget them."""
        return self.source.pop(pair.source, None), self.target.pop(pair.mirror, None)


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
        is_merged=clusters.link.topics.merges,
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
