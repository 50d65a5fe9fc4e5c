"""READ FIRST: one turn of a link, in the order in which things move.

    observe    what both clusters have                                   reads only
    maps       whether all rows of offset maps are there                 else what is mapped stops
    plan       what the target must become, and what is refused          pure
    gaps       what stands stopped and was decided on                    recorded before passed
    apply      topics first: records need a partition to land in
    remember   whose mirror is whose, and where each partition begins    durable before records
    look again whether another link has claimed the same, or feeds our source, at the same time
    lanes      which Spark task copies which partitions; rounds run by themselves from here on

Copying goes on between turns: a turn costs a few requests and takes no lane from its work unless
its partitions change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from heliostat.clock import SystemClock
from heliostat.clusters.admin import EARLIEST, LATEST, ClusterAdmin
from heliostat.config import LinkConfig
from heliostat.gaps.keeper import GapKeeper
from heliostat.gaps.rows import Memory
from heliostat.link.beginnings import Beginnings
from heliostat.link.compacted_later import CompactedLater
from heliostat.link.exact import filling_notes, why_not_exact, with_filling
from heliostat.link.lane_packing import pack
from heliostat.link.lane_set import LaneSet
from heliostat.names import LaneId, Offset, PartitionId, ProducerId, TopicName, TopicPartition
from heliostat.offsets.keeper import MapKeeper
from heliostat.ops.events import Events, shortened
from heliostat.other_links.at_source import Upstream, blind_note, left_out_notes
from heliostat.other_links.at_target import claims_on, new_mirrors, plan_beside
from heliostat.other_links.claims import NeighbourClaims, OtherClaims
from heliostat.records.copier.lane import PartitionReport, PartitionSpec
from heliostat.state.link_state import LinkState, Starts, begun_of
from heliostat.topics.apply import ApplyReport, apply_plan
from heliostat.topics.observe import observe
from heliostat.topics.producer_age import old_backlog_note
from heliostat.topics.select import why_nothing_selected
from heliostat.topics.topic_plan import Mirror, TopicPlan
from heliostat.topics.values import MirrorRecord, SourceTopics

Load = Mapping[TopicPartition, float]
"""Observed bytes a second by source partition."""
TOLD_MAX = 20
"""Topics told of one by one in a turn; thousands may have the same trouble."""
REPORTED_MAX = 100
"""Topics named in the driver's report: a record of some 30 kB at most."""
Lanes = Callable[[int, float | None], int]
"""Lanes at most, by the number of partitions and their load; None: not known yet."""


@dataclass(slots=True)
class Known:
    """What the link knows between turns; all of it is on the target as well."""

    mirrors: dict[TopicName, MirrorRecord]
    starts: dict[TopicName, Starts]
    making: set[TopicName] = field(default_factory=set)
    """Source topics whose mirrors' topics the state says are about to be created."""
    packing: dict[LaneId, tuple[TopicPartition, ...]] = field(default_factory=dict)
    refused: dict[TopicName, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What the last plan remarked: mirrors whose source is gone, fewer replicas than wanted."""
    producer_id: ProducerId | None = None
    at_beginning: frozenset[TopicName] | None = None
    """The source's topics when the link began; None: this is its first turn."""
    turns: int = 0
    """Those that came to their end."""
    nothing_selected: str = ""
    """Why there is no topic to copy; empty: there is one."""
    old_backlog: str | None = ""
    """What is remarked of records that brokers check no duplicates of; empty: not looked yet."""

    def mirrored(self) -> Callable[[TopicPartition], bool]:
        """Tells what is copied or refused, as far as is known: until the first turn all may be."""
        copied = frozenset(chain.from_iterable(self.packing.values()))
        return lambda each: not self.turns or each in copied or each.topic in self.refused

    def report(self) -> dict[str, object]:
        """What the driver's report says of topics; it is written each second, so not of all."""
        refused = sorted(self.refused.items())
        notes = list(self.notes[:REPORTED_MAX])
        if refused[REPORTED_MAX:]:
            notes.insert(0, f"{len(refused) - REPORTED_MAX} more topics are refused")
        if self.notes[REPORTED_MAX:]:
            notes.append(f"and {len(self.notes) - REPORTED_MAX} more remarks")
        return {
            "refused": dict(refused[:REPORTED_MAX]),
            "notes": notes,
            "turns": self.turns,
            "partitions": sum(len(partitions) for partitions in self.packing.values()),
            "troubles": [self.nothing_selected] if self.nothing_selected else [],
        }


@dataclass(frozen=True, slots=True)
class Reconciler:
    """One turn of one link.

    Parameters
    ----------
    link
        Its configuration.
    source, target
        Both clusters.
    state
        The link's memory.
    lanes
        What copies.
    lane_count
        Lanes at most, now.
    events
        Where changes are told.
    claimed
        Target topics that other links of the file write, and which.
    rivals
        Those of some target topics that are mirrors of links of other files.
    upstream
        Which topics of the source are mirrors.
    gaps
        What is done where records are missing.
    beginnings
        Looks up where partitions begin.
    maps
        What is done where rows of offset maps are missing.
    compacted_later
        Lets mirrors compact when they have what their source took before it did.
    reports
        What rounds of the lanes' newest plans said last of each partition: others may not know
        what was decided since, and would seem to contradict it.
    """

    link: LinkConfig
    source: ClusterAdmin
    target: ClusterAdmin
    state: LinkState
    lanes: LaneSet
    lane_count: Lanes
    events: Events
    claimed: NeighbourClaims
    other_links: OtherClaims
    upstream: Upstream
    gaps: GapKeeper
    beginnings: Beginnings
    maps: MapKeeper
    compacted_later: CompactedLater
    reports: Callable[[], Sequence[PartitionReport]] = tuple

    def run(self, known: Known, load: Load) -> None:
        """Bring topics and lanes up to what the source has now.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses; the next turn begins afresh, lanes go on.
        """
        self._keep_state(known)
        self.maps.look(known.mirrors, known.starts, self.reports())
        source, plan = self._plan(known)
        if self._settle_gaps(known, source, plan):
            source, plan = self._plan(known)
        self._forget(known, plan.let_go)
        plan, later = self.compacted_later.hold(plan, self.reports())
        self._announce(known, plan)
        applied = apply_plan(plan, self.target, tell=self.events.info)
        applied = self._let_go(known, applied, self._remember(known, plan, applied))
        applied, held = self._not_in_a_circle(known, source, applied)
        starts = self._starts(known, applied.mirrors)
        self._tell(known, applied, {name: item.text() for name, item in plan.refuse.items()})
        found = self.gaps.with_gaps(_specs(applied.mirrors, starts))
        specs, notes = self._filled(self.maps.with_lost(found))
        self.state.stops.foresee(specs.values())
        known.nothing_selected = why_nothing_selected(self.link, source.names)
        held += left_out_notes(self.link, plan.left_out) + blind_note(self.link, self.source)
        held += self.upstream.notes + self.maps.notes() + later
        self._remark(known, plan.notes + held + self._old_backlog(known, applied) + notes)
        partitions = sorted(specs, key=lambda p: (p.topic, p.partition))  # its own order is slower
        count = self.lane_count(len(partitions), sum(load.values()) if load else None)
        known.packing = pack(partitions, load, count, known.packing)
        wanted = {lane: tuple(specs[p] for p in items) for lane, items in known.packing.items()}
        self.lanes.assign(wanted)
        known.turns += 1

    def _plan(self, known: Known) -> tuple[SourceTopics, TopicPlan]:
        source, target = observe(self.source, self.target, self.link, known.mirrors)
        if known.at_beginning is None:
            self.state.put_beginning(source.names)
            known.at_beginning = frozenset(source.names)
        feeds = self.upstream.feeds(source)
        source = replace(source, at_beginning=known.at_beginning, feeds=feeds)
        return source, plan_beside(
            self.link,
            source,
            target,
            known,
            claimed=claims_on(self.link, source, known.mirrors, self.claimed),
            other_links=self.other_links,
        )

    def _filled(
        self, specs: Mapping[TopicPartition, PartitionSpec]
    ) -> tuple[Mapping[TopicPartition, PartitionSpec], tuple[str, ...]]:
        """Say where holes are filled, and what keeps them from it."""
        wanted = self.link.topics.offsets == "exact"
        refused = why_not_exact(self.link, self.target)
        filled = with_filling(
            specs, self.state.offsets.is_filled, may_fill=wanted and refused is None
        )
        return filled, filling_notes(self.link, filled, refused)

    def _settle_gaps(self, known: Known, source: SourceTopics, plan: TopicPlan) -> bool:
        """Decide on what stands stopped; whether the plan must be made anew."""
        reports = self.reports()
        memory = Memory(known.mirrors, known.starts, source.topics)
        later = self.beginnings.overtaken(reports)
        if later:
            self._begin_later(known, later)
            reports = [report for report in reports if report.source not in later]
        self.gaps.consume(reports, memory)
        settled = self.gaps.settle(plan, reports, memory)
        kept = {name: record for name, record in settled.items() if record is not None}
        if kept:
            self.state.put_mirrors(kept)
            known.mirrors.update(kept)
        return bool(settled)

    def _keep_state(self, known: Known) -> None:
        """Write the state anew where somebody deleted it: this driver knows all that was in it."""
        missing = self.state.missing(self.target)
        if missing:
            self.state.restore(known.producer_id, known.mirrors, known.starts, known.at_beginning)
            self.maps.restore()
            self.lanes.announce()
            self.events.warn(
                f"{', '.join(missing)} was gone at the target and is made anew from what this "
                "driver knows; see who deletes state topics"
            )

    def _remember(
        self, known: Known, plan: TopicPlan, applied: ApplyReport
    ) -> Collection[TopicName]:
        """Make mirrors durable; target topics that were none before."""
        records = {record.source: record for record in applied.remember}
        usable = {mirror.source: mirror for mirror in applied.mirrors}
        for record in plan.remember:  # of those that are copied none may be unknown
            mirror = usable.get(record.source)
            is_unknown = record.source not in records and record.source not in known.mirrors
            if mirror is not None and is_unknown:
                made = replace(record, target_id=mirror.target_id, synced_configs=())
                records[record.source] = made
        new = new_mirrors(known.mirrors, records.values())
        if records:
            self.state.put_mirrors(records)
            known.mirrors.update(records)
        told = known.making - applied.failed.keys()  # those that failed may appear yet
        if told:
            self.state.drop_making(told)
            known.making -= told
        return new

    def _announce(self, known: Known, plan: TopicPlan) -> None:
        """Tell of mirrors before their topics are there: a link that lists them must know."""
        created = {topic.target for topic in plan.create}
        making = [record for record in plan.remember if record.target in created]
        if making:
            known.making.update(record.source for record in making)
            self.state.put_making(making)

    def _forget(self, known: Known, names: Collection[TopicName]) -> None:
        """Leave mirrors to others; a source topic's mirror here may be wanted again later."""
        if names:
            self.state.drop_mirrors(names)
            for name in names:
                known.mirrors.pop(name, None)
                known.starts.pop(name, None)

    def _not_in_a_circle(
        self, known: Known, source: SourceTopics, applied: ApplyReport
    ) -> tuple[ApplyReport, tuple[str, ...]]:
        """Look once more at what feeds the source, for mirrors of which nothing is copied yet."""
        begun = begun_of(known.mirrors, known.starts)
        claims = {
            m.source: known.mirrors[m.source] for m in applied.mirrors if m.source not in begun
        }
        found = self.upstream.look_again(source, claims, applied.created)
        self._forget(known, found.let_go)
        kept = tuple(m for m in applied.mirrors if m.source not in found.not_yet)
        return replace(applied, mirrors=kept), found.notes()

    def _let_go(
        self, known: Known, applied: ApplyReport, new: Collection[TopicName]
    ) -> ApplyReport:
        """Leave new mirrors to a link that has said just now that they are its own."""
        other_links = self.other_links(new)
        lost = [mirror.source for mirror in applied.mirrors if mirror.target in other_links]
        if not lost:
            return applied
        self._forget(known, lost)
        kept = tuple(mirror for mirror in applied.mirrors if mirror.target not in other_links)
        return replace(applied, mirrors=kept)

    def _starts(self, known: Known, mirrors: tuple[Mirror, ...]) -> Mapping[TopicName, Starts]:
        """Source offsets that partitions begin with: looked up once, durable, then fixed."""
        rows = {mirror.source: _start_row(known, mirror) for mirror in mirrors}
        asked = {
            TopicPartition(mirror.source, PartitionId(number)): _when(mirror, number)
            for mirror in mirrors
            for number in range(mirror.partitions)
            if number not in rows[mirror.source].offsets
        }
        if asked:
            for partition, offset in self.beginnings.look_up(asked).items():
                rows[partition.topic].offsets[partition.partition] = offset
            self._note_again(known, rows)
            self.state.put_starts({partition.topic: rows[partition.topic] for partition in asked})
            known.starts.update(rows)
        return rows

    def _begin_later(self, known: Known, later: Mapping[TopicPartition, Offset]) -> None:
        """Retention took what mirrors were to begin with, before they had anything."""
        later = {each: offset for each, offset in later.items() if each.topic in known.starts}
        for partition, offset in later.items():
            known.starts[partition.topic].offsets[partition.partition] = offset
        self.state.put_starts({each.topic: known.starts[each.topic] for each in later})

    def _note_again(self, known: Known, rows: Mapping[TopicName, Starts]) -> None:
        """Of mirrors that somebody deleted: what the source has no more went with them (I6)."""
        for name, row in rows.items():
            was, record = known.starts.get(name), known.mirrors.get(name)
            if was is not None and record is not None and was.target_id != row.target_id:
                self.gaps.note_again(record, was, row.offsets)

    def _tell(self, known: Known, applied: ApplyReport, refused: dict[TopicName, str]) -> None:
        """Say what changed since the last turn, once."""
        for word, names in (
            ("created", applied.created),
            ("grown", applied.grown),
            ("configured", applied.configured),
        ):
            if names:
                shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
                self.events.info(f"{word} {len(names)} topic(s) at the target: {shown}")
        problems = {**refused, **{name: str(error) for name, error in applied.failed.items()}}
        new = [name for name, reason in problems.items() if known.refused.get(name) != reason]
        lines = [f"{name}: {problems[name]}" for name in new]
        for line in shortened(lines, TOLD_MAX, "topics: see `heliostat plan`"):
            self.events.warn(line)
        over = sorted(known.refused.keys() - problems.keys())
        lines = [f"{name}: is no longer refused" for name in over]
        for line in shortened(lines, TOLD_MAX, "topics are no longer refused"):
            self.events.info(line)
        known.refused = problems

    def _old_backlog(self, known: Known, applied: ApplyReport) -> tuple[str, ...]:
        """Looked for in the first turn, and from then on only whether it still holds."""
        if known.old_backlog is not None:
            found = old_backlog_note(
                applied.mirrors,
                self.source,
                self.target,
                SystemClock().wall_ms(),
                self.state.offsets.position_at,
            )
            known.old_backlog = found and (known.old_backlog or found)
        return () if known.old_backlog is None else (known.old_backlog,)

    def _remark(self, known: Known, notes: tuple[str, ...]) -> None:
        new = sorted(set(notes) - set(known.notes))
        for line in shortened(new, TOLD_MAX, "remarks: see `heliostat plan`"):
            self.events.info(line)
        known.notes = notes


def _start_row(known: Known, mirror: Mirror) -> Starts:
    """What is remembered for this very target topic; another one of its name begins anew."""
    row = known.starts.get(mirror.source)
    return (
        row if row is not None and row.target_id == mirror.target_id else Starts(mirror.target_id)
    )


def _when(mirror: Mirror, number: int) -> int:
    """What ListOffsets is asked: partitions that came later are copied from their beginning."""
    if number >= mirror.initial_partitions:
        return EARLIEST
    return {"earliest": EARLIEST, "latest": LATEST}.get(mirror.start) or int(mirror.start)


def _specs(
    mirrors: tuple[Mirror, ...], starts: Mapping[TopicName, Starts]
) -> dict[TopicPartition, PartitionSpec]:
    specs: dict[TopicPartition, PartitionSpec] = {}
    for mirror in mirrors:
        row = starts.get(mirror.source, Starts(mirror.target_id))
        known = row.offsets
        for number in range(mirror.partitions):
            partition = PartitionId(number)
            if partition in known:
                source = TopicPartition(mirror.source, partition)
                specs[source] = PartitionSpec(
                    source=source,
                    target=mirror.mirror_of(partition),
                    source_topic_id=mirror.source_id,
                    target_topic_id=mirror.target_id,
                    start=known[partition],
                    batch_bytes_max=mirror.target_max_message_bytes,
                    is_compacted=mirror.is_compacted,
                    adopted_at=row.adopted.get(partition),
                    can_align=not mirror.is_compacted,
                )
    return specs
