"""The parts of a link that need its source: built, started and stopped together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from heliostat.clusters.admin import ClusterAdmin
from heliostat.gaps.dead_letters import DeadLetters
from heliostat.gaps.keeper import GapKeeper
from heliostat.gaps.ledger import GapLedger
from heliostat.gaps.record_errors import MissingSchemas, RecordErrors
from heliostat.groups.progress import EVERY_S as PROGRESS_EVERY_S
from heliostat.groups.progress import ProgressGroup
from heliostat.invariants import first_generation
from heliostat.link.beginnings import Beginnings
from heliostat.link.compacted_later import CompactedLater
from heliostat.link.deletions import PAUSE_MAX_S, DeletionFollower
from heliostat.link.flow import Lanes, Reconciler
from heliostat.link.known import Known
from heliostat.link.lane_set import Ended, LaneSet, Runner
from heliostat.link.link_context import LinkContext
from heliostat.link.losses import Losses
from heliostat.link.merged_numbers import MergedNumbers
from heliostat.link.merging import Merging
from heliostat.link.mirror_memory import MirrorMemory
from heliostat.link.ordered_restarts import OrderedRestarts
from heliostat.link.own_records import OwnRecordsLook
from heliostat.link.pipeline_faults import PipelineFaults
from heliostat.link.pipeline_rules import pipelines_from
from heliostat.link.planning import Planner
from heliostat.link.side_parts import SideParts
from heliostat.link.start_offsets import StartOffsets
from heliostat.link.turn_notes import TurnNotes
from heliostat.link.unread_records import UnreadRecords
from heliostat.link.wish_part import Steering
from heliostat.names import LinkName, TopicName, TopicPartition
from heliostat.offsets.keeper import MapKeeper
from heliostat.ops.asked import both
from heliostat.ops.loop_spec import LoopSpec, Wake
from heliostat.other_links.at_source import Upstream
from heliostat.other_links.at_target import OtherLinks, StatesAtTarget, target_states
from heliostat.other_links.claims import NeighbourClaims
from heliostat.records.copier.lane import (
    NO_FRAMES,
    LaneSpec,
    PartitionReport,
    PartitionSpec,
    RoundReport,
    SchemaFrames,
)
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.status.open_transactions import LOOK_EVERY_S, OpenTransactions

if TYPE_CHECKING:
    from heliostat.link.schema_part import SchemaPart

STOPS_EVERY_S = 2.0
REFRESH = "refresh"
REPORT_WITHOUT_SOURCE: dict[str, object] = {
    "access": {},
    "groups": {},
    "gaps": {},
    "held_back": [],
    "interchange": {},
    "protection": {},
    "schemas": {},
    "generations": {},
    "places": "",
    "waiting": {},
    "round_ends": [],
    "limits": [],
    "rounds": [],
}
"""`Copying.report` of a link whose source has not been reachable yet."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What the process shares out to its links.

    Parameters
    ----------
    runner
        Runs rounds on Spark.
    lane_count
        The most lanes there may be now.
    claimed
        Which target topics other links of the file write.
    states
        Returns the states of links at the target; None: this link reads them by itself.
    merging
        See `Reconciler`; of one link alone, and closed with what copies it.
    """

    runner: Runner
    lane_count: Lanes
    claimed: NeighbourClaims
    states: StatesAtTarget | None = None
    merging: Merging | None = None


class Copying:
    """The copying parts of one link; no request is sent before `begin`.

    Parameters
    ----------
    context
        What all parts share.
    resources
        What the process shares out to its links.
    source, target
        Both clusters.
    known
        What the link knows, kept up to date here.
    template, wake, after_generation
        See `LaneSet`; the newest generation that this owner has used.
    """

    def __init__(
        self,
        context: LinkContext,
        resources: Resources,
        source: ClusterAdmin,
        target: ClusterAdmin,
        *,
        known: Known,
        template: LaneSpec,
        wake: Callable[[], None],
        after_generation: int = 0,
    ) -> None:
        self._context = context
        self._resources = resources
        self._source = source
        self._target = target
        self._known = known
        self.refresh = Wake()  # set to have a reconciliation at once
        pipelines, runner = pipelines_from(context.link, source.cluster_id), resources.runner
        for text in (refused := runner.refused(pipelines)).values():
            context.events.warn(text)
        self._faults = PipelineFaults(pipelines, refused, runner.places.is_short)
        self._schemas = self._schema_part(pipelines)
        if self._schemas is not None:
            template = replace(template, registries=self._schemas.registries)
        self._errors = _record_errors(context, target, self._schemas, self._faults)
        self._gaps = _gap_keeper(context, source, target, self._errors)
        self.lanes = LaneSet(
            template,
            resources.runner,
            announce=lambda plan: context.owner.run(lambda: context.state.announce(plan)),
            clock=context.clock,
            events=context.events,
            first_generation=max(
                first_generation(context.owner.ownership.claim_number), after_generation + 1
            ),
            wake=wake,
            maps=context.state.offsets.tails,
            copied=self._gaps.copied,
            rates=context.board.rates,
            ended=_ended(self._gaps, resources.merging),
            faults=self._faults,
            merged=(lambda _: None) if resources.merging is None else resources.merging.lane,
        )
        restarts = OrderedRestarts(
            self.lanes,
            self.lanes.renewals.order,
            context.board.reports,
            self._errors.try_again,
            refresh=self.refresh.set,
            wake=wake,
        )
        self.steering = Steering(self.lanes.assign, context.wishes, restarts)
        losses = Losses(self._gaps.note_lost, known)
        context.board.listener = partial(self._take_report, losses)
        self._side = SideParts(context, source, target, known)
        self._transactions = OpenTransactions(source, context.board.held, context.clock.wall_ms)
        self._reconciler: Reconciler | None = None

    def begin(self) -> list[LoopSpec]:
        """Read stored gaps and maps; return the loops to run from now on.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses; `close` what was begun.
        """
        _, self._reconciler = both(self._gaps.begin, self._begun_reconciler)
        return [*self._specs(), *self._side.begin()]

    def _begun_reconciler(self) -> Reconciler:
        context, source, target = self._context, self._source, self._target
        state, events, target_id = context.state, context.events, target.cluster_id()
        merged_at = None if self._resources.merging is None else target
        maps = _map_keeper(context, target, self._gaps)
        maps.begin()
        other_links = _other_links(context, self._resources, source, target).claims
        upstream = Upstream(context.link, context.source, source, target_id, context.clock)
        return Reconciler(
            link=context.link,
            target=target,
            state=state,
            lanes=self.lanes,
            steering=self.steering,
            lane_count=self._resources.lane_count,
            events=events,
            planner=Planner(
                context.link,
                source,
                target,
                state,
                claimed=self._resources.claimed,
                other_links=other_links,
                upstream=upstream,
            ),
            mirrors=MirrorMemory(state, other_links, upstream),
            starts=StartOffsets(state, Beginnings(source, events.warn), self._gaps, merged_at),
            notes=TurnNotes(source, target, state, events),
            gaps=self._gaps,
            maps=maps,
            compacted_later=CompactedLater(source),
            deletions=_deletions(lambda: self._context, source, target, self._gaps),
            reports=self.reports,
            frames=(lambda _: NO_FRAMES) if self._schemas is None else self._schemas.frames,
            faults=self._faults,
            merging=self._resources.merging,
        )

    def _schema_part(self, pipelines: Mapping[str, Pipeline]) -> SchemaPart | None:
        """Return the part that mirrors schemas, if that is configured."""
        context, known = self._context, self._known
        source, target = context.source.registry_access(), context.target.registry_access()
        if context.link.schemas.strategy == "off" or source is None or target is None:
            return None
        # Only here: its HTTP client takes a quarter of a second to load, and most links need none.
        from heliostat.link.avro_part import AvroPart
        from heliostat.link.schema_part import SchemaPart
        from heliostat.link.schema_rules import TopicLooks, copied_names

        put_ids, runner = context.state.put_schema_ids, self._resources.runner
        return SchemaPart(
            context.link,
            source,
            target,
            mirrors=lambda: copied_names(context.link, known.mirrors),
            topics=TopicLooks(lambda: known.source_topics, partial(_existing, self._source)),
            announce=lambda names, ids: context.owner.run(partial(put_ids, names, ids)),
            clock=context.clock,
            events=context.events,
            guard=context.owner.check,
            told=lambda: self.lanes.told_since(),  # noqa: PLW0108  # lanes are made later
            frames=known.frames,
            reframed=self._reframed,
            avro=AvroPart(
                context.link, pipelines, runner.refused, self._faults.learn, context.events
            ),
        )

    def _reframed(self, frames: Mapping[TopicName, SchemaFrames]) -> None:
        if self._context.link.schemas.strategy == "rewrite":
            self._context.owner.run(lambda: self._context.state.put_frames(frames))
        self.refresh.set()

    def _specs(self) -> Iterator[LoopSpec]:
        context, guarded = self._context, self._context.owner.guarded
        every_s, turn = context.link.topics.refresh_interval_s, guarded(self._reconcile)
        yield LoopSpec(REFRESH, every_s, turn, self.refresh)
        yield LoopSpec("stops", STOPS_EVERY_S, self._keep_stops)
        yield LoopSpec("transactions", LOOK_EVERY_S, self._transactions.look)
        yield from _progress_loops(context, self._known, self._source)
        if self._schemas is not None:
            yield self._schemas.loop(guarded)

    def _reconcile(self) -> None:
        self._take_configuration()
        schemas, reconciler = self._schemas, self._reconciler
        assert reconciler is not None
        framing = None if schemas is None else schemas.framing()
        self.steering.restarts.turn_begins()
        reconciler.run(self._known, self._context.board.load())
        self.steering.restarts.turn_ends()
        if schemas is not None:
            schemas.planned(framing)

    def _take_configuration(self) -> None:
        """Go by the configuration that is wanted now, as far as lanes don't depend on it.

        Raises
        ------
        ConnectionLost
            A cluster does not answer; the next reconciliation tries it again.
        """
        now, wanted = self._context, self._context.as_wanted()
        if wanted.link == now.link:
            return
        self._side = self._side.as_in(wanted)
        self._gaps.go_by(wanted.link.gaps, wanted.link.errors)
        if self._reconciler is not None:
            self._reconciler = self._reconciler.with_link(wanted.link)
        now.loops.pace(REFRESH, wanted.link.topics.refresh_interval_s)
        self._context = wanted
        wanted.wanted.takes_effect(wanted.clock.wall_ms())
        wanted.events.info("goes by its new configuration")

    def _keep_stops(self) -> None:
        reports = self.reports()
        self._context.owner.run(lambda: self._context.keep_stops(reports, self._known))

    def reports(self) -> list[PartitionReport]:
        """Return the last report of each partition by rounds of the newest plans."""
        return self._context.board.reports_since(self.lanes.known_since())

    def _take_report(self, losses: Losses, report: RoundReport | None) -> None:
        """Take a lane's report, as soon as it is read; None: this driver's own."""
        if report is not None:
            if report.lost:
                losses.take(report)
            if self._schemas is not None:
                self._schemas.wants(report)
            self._faults.heard(report)
            if self._errors.is_news(report):
                self.refresh.set()
        self.lanes.reported(report)

    def report(self) -> dict[str, object]:
        """Return these parts' fields of the driver's report."""
        return {
            **self._side.report(),
            "gaps": self._gaps.report(),
            "held_back": self._transactions.report(),
            "schemas": self._schemas.report() if self._schemas else {},
            "generations": {str(lane): n for lane, n in self.lanes.generations.items()},
            **self.lanes.report(),
            "rounds": [
                health.report(self._context.clock.monotonic_s())
                for health in self.lanes.health.values()
            ],
        }

    def finish(self) -> None:
        """Make durable what only an owner may, once no round may send any more."""
        if self._resources.merging is not None:
            self._resources.merging.finish()

    def close(self) -> None:
        """Close the connections; call it when the loops and the rounds have ended."""
        self._side.close()
        if self._schemas is not None:
            self._schemas.close()
        if self._resources.merging is not None:
            self._resources.merging.close()
        self._gaps.close()


def _record_errors(
    context: LinkContext,
    target: ClusterAdmin,
    schemas: MissingSchemas | None,
    faults: PipelineFaults,
) -> RecordErrors:
    name, replication_factor = LinkName(context.link.name), context.link.state.replication_factor
    return RecordErrors(
        context.link.errors,
        context.source.access(),
        target,
        DeadLetters(name, context.target.access(), replication_factor),
        clock=context.clock,
        schemas=schemas,
        on_retry=faults.forget,
    )


def _gap_keeper(
    context: LinkContext, source: ClusterAdmin, target: ClusterAdmin, errors: RecordErrors
) -> GapKeeper:
    return GapKeeper(
        context.link,
        source,
        target,
        GapLedger(LinkName(context.link.name), context.state.clusters, context.foreign),
        maps=context.state.offsets.fresh,
        errors=errors,
        clock=context.clock,
        events=context.events,
        own=_own_records(context),
    )


def _own_records(context: LinkContext) -> OwnRecordsLook | None:
    if not context.link.topics.merges:
        return None
    return OwnRecordsLook(context.link, context.source.access(), context.state.clusters)


def _other_links(
    context: LinkContext, resources: Resources, source: ClusterAdmin, target: ClusterAdmin
) -> OtherLinks:
    """Return the other links of the target, read with those of this process where it has some."""
    link, here = context.link, context.state.clusters
    states = resources.states or partial(target_states, here, target, LinkName(link.name))
    return OtherLinks(link, states, source.cluster_id())


def _ended(gaps: GapKeeper, merging: Merging | None) -> Ended:
    """Return what is called with each round that has succeeded."""

    def ended(specs: Mapping[TopicPartition, PartitionSpec], report: RoundReport) -> None:
        gaps.round_ended(specs, report)
        if merging is not None:
            merging.round_ended(specs, report)

    return ended


def _map_keeper(context: LinkContext, target: ClusterAdmin, gaps: GapKeeper) -> MapKeeper:
    numbers = MergedNumbers(context.state.clusters, LinkName(context.link.name))
    return MapKeeper(
        context.state.offsets,
        context.state.marks,
        source=context.source.access(),
        target_access=context.target.access(),
        target=target,
        copied=gaps.copied_to,
        events=context.events,
        hides_ids=context.link.schemas.strategy == "rewrite",
        starts_of=numbers.at_starts if context.link.topics.merges else None,
    )


def _deletions(
    now: Callable[[], LinkContext], source: ClusterAdmin, target: ClusterAdmin, gaps: GapKeeper
) -> DeletionFollower:
    context = now()
    return DeletionFollower(
        source,
        target,
        gaps=gaps,
        maps=context.state.offsets.fresh,
        unread=lambda specs: UnreadRecords(now().link, source, target).of(specs),
        pause_max_s=lambda: max(PAUSE_MAX_S, 3 * now().link.topics.refresh_interval_s),
        clock=context.clock,
        events=context.events,
    )


def _progress_loops(context: LinkContext, known: Known, source: ClusterAdmin) -> Iterator[LoopSpec]:
    """Yield the loop that commits progress at the source, if that is configured."""
    if context.progress_group is None:
        return
    progress = ProgressGroup(
        context.progress_group,
        LinkName(context.link.name),
        source,
        landed=context.board.landed,
        mirrored=lambda: chain.from_iterable(list(known.packing.values())),
        clock=context.clock,
        guard=context.owner.check,
    )
    yield LoopSpec("progress group", PROGRESS_EVERY_S, context.owner.guarded(progress.turn))


def _existing(source: ClusterAdmin, names: frozenset[TopicName]) -> list[TopicName]:
    """Return which of these topics the source has now."""
    found = source.describe_topics(names)
    return [name for name, info in found.items() if info.error is None]
