"""READ FIRST: one reconciliation of a link, step by step.

    observe    what both clusters have                                   reads only
    maps       whether all rows of offset maps are there                 if not, mapped mirrors stop
    plan       what the target must become, and what is refused          pure
    gaps       carry out decisions on stopped partitions                 recorded before passed
    apply      topics first: records need a partition to land in
    remember   which mirrors are ours, and where each partition begins   durable before records
    look again whether another link has claimed the same, or feeds our source, at the same time
    lanes      which Spark task copies which partitions; rounds run by themselves from here on

    planning          observes and plans
    mirror_memory     remembers which mirrors are ours, and looks again
    start_offsets     where each partition begins
    turn_notes        what a reconciliation logs

Copying continues meanwhile: a reconciliation costs a few requests, and interrupts a lane only if
its partitions change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import LinkConfig
from heliostat.gaps.keeper import GapKeeper
from heliostat.gaps.rows import Memory
from heliostat.link.compacted_later import CompactedLater
from heliostat.link.deletions import DeletionFollower
from heliostat.link.exact import filling_notes, why_not_exact, with_filling
from heliostat.link.known import Known
from heliostat.link.lane_packing import SHARED_BYTES, SHARED_ROWS, Packing, pack, pack_pipeline
from heliostat.link.lane_set import LaneSet
from heliostat.link.merging import Merging
from heliostat.link.mirror_memory import MirrorMemory
from heliostat.link.pipeline_faults import PipelineFaults
from heliostat.link.pipeline_rules import pipeline_of
from heliostat.link.planning import Planner
from heliostat.link.start_offsets import StartOffsets
from heliostat.link.turn_notes import TurnNotes
from heliostat.link.wish_part import Steering
from heliostat.names import LaneId, PartitionId, TopicName, TopicPartition
from heliostat.offsets.keeper import MapKeeper
from heliostat.ops.asked import both
from heliostat.ops.events import Events
from heliostat.records.copier.lane import (
    NO_FRAMES,
    PartitionReport,
    PartitionSpec,
    SchemaFrames,
)
from heliostat.state.link_state import LinkState, Starts
from heliostat.topics.apply import apply_plan, count_topics
from heliostat.topics.drift import drift_notes, left_over
from heliostat.topics.select import why_nothing_selected
from heliostat.topics.topic_plan import Mirror, TopicPlan
from heliostat.topics.values import SourceTopics

Load = Mapping[TopicPartition, float]
"""Observed bytes a second by source partition."""
Lanes = Callable[[int, float | None, str], int]
"""The most lanes, by the number of partitions, their load (None: not known yet) and pipeline."""
FramesOf = Callable[[TopicName], SchemaFrames]


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Reconciles one link.

    Parameters
    ----------
    link
        Its configuration.
    target
        The cluster that is copied to.
    state
        The link's durable state.
    lanes
        Copy the partitions.
    steering
        Gives lanes their partitions, as operators wish.
    lane_count
        The most lanes there may be now.
    events
        Where changes are logged.
    planner
        Looks at both clusters and plans.
    mirrors
        Which mirrors are the link's.
    starts
        Where partitions begin.
    notes
        Logs what is new.
    gaps
        Handles missing records.
    maps
        Handles missing rows of offset maps.
    compacted_later
        Delays a mirror's compaction until it has all records from before its source's.
    reports
        Last report of each partition by rounds of the lanes' newest plans: older rounds may not
        know later decisions, and would seem to contradict them.
    frames
        What of a topic's records begins with a schema id.
    deletions
        Deletes what sources have deleted, where that is wanted.
    faults
        Where pipelines fail.
    merging
        What a link of merged topics knows besides; None: its topics are mirrors.
    """

    link: LinkConfig
    target: ClusterAdmin
    state: LinkState
    lanes: LaneSet
    steering: Steering
    lane_count: Lanes
    events: Events
    planner: Planner
    mirrors: MirrorMemory
    starts: StartOffsets
    notes: TurnNotes
    gaps: GapKeeper
    maps: MapKeeper
    compacted_later: CompactedLater
    deletions: DeletionFollower
    reports: Callable[[], Sequence[PartitionReport]] = tuple
    frames: FramesOf = lambda _: NO_FRAMES
    faults: PipelineFaults = field(default_factory=lambda: PipelineFaults({}, {}))
    merging: Merging | None = None

    def run(self, known: Known, load: Load) -> None:
        """Bring topics and lanes up to date with the source.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses; the next reconciliation starts over, and lanes
            continue.
        """
        known.drop_promoted()
        _, observed = both(lambda: self._look_at_own(known), lambda: self.planner.observe(known))
        source, plan = self.planner.plan(known, observed)
        if self._settle_gaps(known, source, plan):
            source, plan = self.planner.plan(known)
        self.mirrors.forget(known, plan.let_go)
        plan, later = self.compacted_later.hold(plan, self.reports())
        self.mirrors.announce(known, plan)
        applied = apply_plan(plan, self.target, tell=self.events.info)
        new = self.mirrors.remember(known, plan, applied)
        applied = self.mirrors.let_go(known, applied, new)
        applied, held = self.mirrors.leave_circles(known, source, applied)
        starts = self.starts.look_up(known, applied.mirrors)
        refused = {name: item.text() for name, item in plan.refuse.items()}
        self.notes.tell(known, applied, refused)
        known.source_topics = frozenset(source.names)
        known.topics = count_topics(plan, applied, known.refused)
        done = {*applied.grown, *applied.configured}
        known.drift = left_over(plan.drift, done, applied.failed)
        merges = self.merging is not None
        mirrored = _specs(applied.mirrors, starts, self.frames, self._pipeline_of, merges=merges)
        found = self.gaps.with_gaps(mirrored)
        specs, notes = self._filled(self.faults.marked(self.maps.with_lost(found)))
        if self.merging is not None:
            specs = self.merging.marked(specs)
        self.state.stops.foresee(specs.values())
        known.nothing_selected = why_nothing_selected(self.link, source.names)
        held += self.planner.notes(plan, known) + self.maps.notes() + later
        held += drift_notes(known.drift)
        partitions = sorted(specs, key=lambda p: (p.topic, p.partition))  # its own order is slower
        known.packing = self._packed(partitions, specs, load, known.packing)
        wanted = {lane: tuple(specs[p] for p in items) for lane, items in known.packing.items()}
        if self.merging is not None:
            self.merging.turn(self.reports(), specs)
        self.steering.assign(wanted)
        self.gaps.told()
        held += self.deletions.turn(plan.follow, specs, self.reports)
        backlog = self.notes.old_backlog(known, applied)  # takes a while, and copying doesn't wait
        self.notes.remark(known, plan.notes + held + backlog + notes)
        known.turns += 1

    def with_link(self, link: LinkConfig) -> Reconciler:
        """Return it with another configuration of the link, for what lanes don't depend on."""
        self.planner.upstream.link = link
        return replace(self, link=link, planner=replace(self.planner, link=link))

    def _look_at_own(self, known: Known) -> None:
        """Look at the link's own topics, while both clusters' topics are looked at."""

        def maps() -> None:
            self._keep_state(known)
            if self.merging is not None:
                self.merging.look()
            self.maps.look(known.mirrors, known.starts, self.reports())

        both(self.gaps.look, maps)

    def _pipeline_of(self, topic: TopicName) -> str:
        return pipeline_of(self.link, topic)

    def _packed(
        self,
        partitions: Sequence[TopicPartition],
        specs: Mapping[TopicPartition, PartitionSpec],
        load: Load,
        previous: Packing,
    ) -> dict[LaneId, tuple[TopicPartition, ...]]:
        """Return the lanes of partitions without a pipeline, and those of each pipeline.

        One whose records are rows of Spark has one lane: its task has three processes. Where there
        are too few places, some share one.
        """
        of: dict[str, list[TopicPartition]] = {}
        for each in partitions:
            of.setdefault(specs[each].pipeline, []).append(each)
        plain = of.get("", [])
        found = pack(plain, load, self._lanes_for(plain, load), previous)
        together = self.faults.together()
        for number, names in ((SHARED_ROWS, together.rows), (SHARED_BYTES, together.in_place)):
            if some := [each for name in names for each in of.pop(name, [])]:
                is_in_place = number == SHARED_BYTES
                count = self._lanes_for(some, load, "several") if is_in_place else 1
                found |= pack_pipeline(number, some, load, count, previous)
        for number, name in enumerate(each.name for each in self.link.pipelines):
            if some := of.get(name, []):
                pipeline = self.faults.pipeline(name)
                is_in_place = pipeline is not None and pipeline.is_in_place
                count = self._lanes_for(some, load, name) if is_in_place else 1
                found |= pack_pipeline(number, some, load, count, previous)
        return found

    def _lanes_for(
        self, partitions: Sequence[TopicPartition], load: Load, pipeline: str = ""
    ) -> int:
        bytes_per_s = sum(load.get(each, 0.0) for each in partitions) if load else None
        return self.lane_count(len(partitions), bytes_per_s, pipeline)

    def _filled(
        self, specs: Mapping[TopicPartition, PartitionSpec]
    ) -> tuple[Mapping[TopicPartition, PartitionSpec], tuple[str, ...]]:
        """Mark partitions whose holes are filled; return also notes on those that stay mapped."""
        wanted = self.link.topics.offsets == "exact"
        refused = why_not_exact(self.link, self.target)
        filled = with_filling(
            specs, self.state.offsets.is_filled, may_fill=wanted and refused is None
        )
        return filled, filling_notes(self.link, filled, refused)

    def _settle_gaps(self, known: Known, source: SourceTopics, plan: TopicPlan) -> bool:
        """Carry out decisions on stopped partitions; return whether to plan again."""
        reports = self.reports()
        memory = Memory(known.mirrors, known.starts, source.topics)
        later = self.starts.begin_later(known, reports)
        reports = [report for report in reports if report.source not in later]
        self.gaps.consume(reports, memory)
        settled = self.gaps.settle(plan, reports, memory)
        kept = {name: record for name, record in settled.items() if record is not None}
        if kept:
            self.state.put_mirrors(kept)
            known.mirrors.update(kept)
        return bool(settled)

    def _keep_state(self, known: Known) -> None:
        """Rewrite state that somebody deleted: this driver knows all that was in it."""
        missing = self.state.missing(self.target)
        if missing:
            self.state.restore(
                self.target,
                known.producer_id,
                known.mirrors,
                known.starts,
                at_beginning=known.at_beginning,
                former_producers=known.former_producers,
                promoted=known.promoted.values(),
            )
            self.maps.restore()
            if self.merging is not None:
                self.merging.restore()
            self.lanes.announce()
            self.events.warn(
                f"{', '.join(missing)} was gone at the target and is recreated from what this "
                "driver knows; find out who deletes state topics"
            )


def _specs(
    mirrors: tuple[Mirror, ...],
    starts: Mapping[TopicName, Starts],
    frames: FramesOf,
    pipeline: Callable[[TopicName], str] = lambda _: "",
    *,
    merges: bool = False,
) -> dict[TopicPartition, PartitionSpec]:
    specs: dict[TopicPartition, PartitionSpec] = {}
    for mirror in mirrors:
        row = starts.get(mirror.source, Starts(mirror.target_id))
        known = row.offsets
        framed, piped = frames(mirror.source), pipeline(mirror.source)
        for number in range(mirror.partitions):
            partition = PartitionId(number)
            if partition in known:
                source = TopicPartition(mirror.source, partition)
                merged_from = row.merged.get(partition) if merges else None
                may_lack = mirror.is_compacted or merged_from is not None
                specs[source] = PartitionSpec(
                    source=source,
                    target=mirror.mirror_of(partition),
                    source_topic_id=mirror.source_id,
                    target_topic_id=mirror.target_id,
                    start=known[partition],
                    batch_bytes_max=mirror.target_max_message_bytes,
                    is_compacted=may_lack,
                    adopted_at=row.adopted.get(partition),
                    can_align=not may_lack,
                    frames=framed,
                    pipeline=piped,
                    merged_from=merged_from,
                )
    return specs
