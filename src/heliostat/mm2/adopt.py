"""Take over, in place, what MirrorMaker 2 or any other tool has copied.

    look      MirrorMaker 2's positions, both logs of each partition, the resume point   reads only
    check     its workers are gone, the target's log ends do not move, the link is ours
    write     offset map, then where partitions begin, then whose mirrors they are
    look      whether another link took over one of them in the meantime: then give it up

Nothing is written to the mirrors themselves. The row written last makes them the link's, so an
interrupted takeover can be repeated from its beginning.

I2  The resume point belongs to the target's log end: from there the link copies by its own rules.
I10 One owner: the link is claimed while its state is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from heliostat.clusters.admin import TopicInfo
from heliostat.clusters.plain_records import LogBounds, PlainReader
from heliostat.config import Config, LinkConfig, compile_pattern
from heliostat.errors import BrokerError, Refused
from heliostat.invariants import first_generation
from heliostat.mm2.adopt_clusters import (
    OWN_LASTS_S,
    LinkClusters,
    let_go,
    other_claims_of,
    owned,
    positions,
    refuse_live_workers,
    refuse_moved,
)
from heliostat.mm2.adopt_contents import ContentLook
from heliostat.mm2.adopt_look import PartitionLogs, look_for_resume_point
from heliostat.mm2.adopt_plan import AdoptionPlan, PartitionAdoption, Peer, TopicAdoption
from heliostat.mm2.connect_offsets import Position
from heliostat.mm2.resume_point import NoResumePoint, ResumePoint
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition, id_text, is_another
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.offsets.map_rows import RowKey, Stamp
from heliostat.offsets.offset_map import MapRow, OffsetMap
from heliostat.other_links.claims import Claims
from heliostat.state.link_state import LinkState, Starts
from heliostat.state_topics import state_topic
from heliostat.topics.merged_links import refuse_if_merged
from heliostat.topics.naming import naming_of
from heliostat.topics.select import selection_of
from heliostat.topics.values import MirrorRecord

STILL_S = 2.0
"""The target's log ends are read twice, this far apart, so that a request in flight has landed."""
ROW_BREAKS = 2000
"""Breaks in one row of the offset map, at most."""
STAMPS_TYPE = "message.timestamp.type"


def plan_adoption(config: Config, link: LinkConfig, peer: Peer | None) -> AdoptionPlan:
    """Read both clusters and find the resume points; changes nothing.

    Parameters
    ----------
    peer
        The MirrorMaker 2 that made the copies; None: any tool did, by contents alone.

    Raises
    ------
    Refused
        MirrorMaker 2 has no positions under that name, or still copies; or the link puts other
        schema ids into records than MirrorMaker 2 has left in them.
    ConnectionLost, BrokerError
        A cluster does not answer.
    """
    refuse_if_merged(link, "adopt")
    _refuse_other_ids(link)
    with LinkClusters(config, link) as clusters:
        _refuse_live(clusters, peer)
        return _plan(clusters, peer)


def adopt(
    config: Config,
    link: LinkConfig,
    peer: Peer | None,
    agree: Callable[[AdoptionPlan], bool] = lambda _: True,
) -> AdoptionPlan:
    """Take over every topic whose partitions all have a resume point.

    Parameters
    ----------
    peer
        As `plan_adoption`.
    agree
        Called with the plan before anything is written; if it returns False, nothing is.

    Raises
    ------
    Refused
        As `plan_adoption`; or the link runs; or something was written to a mirror in the
        meantime, or another link took it over.
    ConnectionLost, BrokerError
        A cluster does not answer; call again.
    """
    refuse_if_merged(link, "adopt")
    _refuse_other_ids(link)
    with LinkClusters(config, link) as clusters:
        _refuse_live(clusters, peer)
        plan = _plan(clusters, peer)
        if not plan.adopted or not agree(plan):
            return plan
        with owned(clusters) as (state, ownership):
            _refuse_live(clusters, peer)
            records = [topic.record for topic in plan.adopted]
            looked = {
                TopicPartition(topic.record.target, partition.partition): partition.target_end
                for topic in plan.adopted
                for partition in topic.partitions
            }
            refuse_moved(clusters.target, records, looked)
            ownership.hold(OWN_LASTS_S)
            _write(state, plan.adopted, Stamp(first_generation(ownership.claim_number), 0))
            let_go(state, records, other_claims_of(clusters, (record.target for record in records)))
        return plan


def _refuse_live(clusters: LinkClusters, peer: Peer | None) -> None:
    """Refuse while MirrorMaker 2's workers live; of another tool only the log ends can tell."""
    if peer is not None:
        refuse_live_workers(clusters, peer)


def _refuse_other_ids(link: LinkConfig) -> None:
    if link.schemas.strategy == "rewrite":
        raise Refused(
            "copies by MirrorMaker 2 or another tool have the source's schema ids, and this link "
            "would go on in them with the target's",
            hint="take strategy preserve or isolate, or let the link make mirrors of its own",
        )


# -- looking -----------------------------------------------------------------------------------


def _plan(clusters: LinkClusters, peer: Peer | None) -> AdoptionPlan:
    committed = None if peer is None else positions(clusters, peer, must_be=True)
    infos = clusters.source.describe_topics()
    chosen = selection_of(clusters.link).choose(infos)
    naming = naming_of(clusters.link)
    named = {name: naming.target_name(name) for name in chosen if infos[name].error is None}
    there = clusters.target.describe_topics(named.values()) if named else {}
    ours = {record.target: record.target_id for record in clusters.known().values()}
    candidates = {
        name: (infos[name], there[target])
        for name, target in named.items()
        if there[target].error is None
        if target not in ours or is_another(ours[target], there[target].topic_id)
    }
    notes = tuple(
        f"{source.topic} has positions of MirrorMaker 2, but the link mirrors it already or does "
        f"not select it, or there is no {naming.target_name(source.topic)} at the target"
        for source in sorted({TopicPartition(p.topic, PartitionId(0)) for p in committed or ()})
        if source.topic not in candidates
    )
    topics = _looked(clusters, committed, candidates)
    return AdoptionPlan(clusters.name, peer, tuple(topics), notes)


def _looked(
    clusters: LinkClusters,
    committed: Mapping[TopicPartition, Position] | None,
    candidates: Mapping[TopicName, tuple[TopicInfo, TopicInfo]],
) -> Iterator[TopicAdoption]:
    """Yield each topic of which something was copied; refuse those that are still written to.

    Without positions all is found by contents.
    """
    ends = log_ends_of(clusters.target, [info for _, info in candidates.values()])
    configs = clusters.target.describe_configs(
        [info.name for _, info in candidates.values()], [STAMPS_TYPE]
    )
    time.sleep(STILL_S)
    again = log_ends_of(clusters.target, [info for _, info in candidates.values()])
    theirs = other_claims_of(clusters, (info.name for _, info in candidates.values()))
    with (
        PlainReader(clusters.source_access, committed=False) as source,
        PlainReader(clusters.source_access, committed=True) as stable,
        PlainReader(clusters.target_access, committed=True) as target,
    ):
        if committed is None:
            contents = ContentLook(source, stable, target, clusters.source, clusters.target)
            look = _Look(source, target, {}, contents.resume_point)
        else:
            look = _Look(
                source, target, committed, partial(look_for_resume_point, source, stable, target)
            )
        for name, (info, mirror) in sorted(candidates.items()):
            record = _record(clusters, info, mirror)
            own = [TopicPartition(mirror.name, p.partition) for p in mirror.partitions]
            reason = _claimed(theirs, mirror.name) or _piped(clusters.link, name)
            reason = reason or _topic_refusal(info, mirror, may_lack=committed is not None)
            reason = reason or _moving(own, ends, again)
            if reason:
                yield TopicAdoption(record, (), reason)
                continue
            settings = configs[mirror.name]
            stamped = (
                not isinstance(settings, BrokerError)
                and settings[STAMPS_TYPE].value == "LogAppendTime"
            )
            partitions = look.at(name, {p: again[p] for p in own}, with_timestamps=not stamped)
            if any(p.found is not None for p in partitions):
                yield TopicAdoption(record, partitions)


def _record(clusters: LinkClusters, source: TopicInfo, mirror: TopicInfo) -> MirrorRecord:
    return MirrorRecord(
        source=source.name,
        target=mirror.name,
        source_id=source.topic_id,
        target_id=mirror.topic_id,
        source_cluster=clusters.source_id,
        start="earliest",  # of partitions that were not begun
        initial_partitions=len(source.partitions),
    )


def _claimed(theirs: Claims, mirror: TopicName) -> str:
    by = theirs.by.get(mirror)
    if by is None:
        return theirs.unsure.get(mirror, "")
    return (
        f"it is a mirror of link {by}, which gives it up with `heliostat adopt {by} --back`; "
        f"if that link no longer exists, delete {state_topic(by)} at the target"
    )


def _piped(link: LinkConfig, topic: TopicName) -> str:
    for pipeline in link.pipelines:
        if any(compile_pattern(entry).fullmatch(topic) for entry in pipeline.topics):
            return (
                f"it goes through pipeline {pipeline.name}, and was copied without it; give the "
                "mirror another name, or take the topic out of the pipeline"
            )
    return ""


def _topic_refusal(source: TopicInfo, mirror: TopicInfo, *, may_lack: bool) -> str:
    """Return why partitions don't belong together: MirrorMaker 2 adds missing ones, a link too."""
    has, wants = len(mirror.partitions), len(source.partitions)
    if has == wants or (has < wants and may_lack):
        return ""
    reason = f"it has {has} partitions at the target, {wants} at the source"
    if has > wants:
        return reason
    return (
        f"{reason}: if each of them is a copy of the source's, add empty ones at the target, then "
        "try again; if the tool spread records anew, it can't be taken over"
    )


def _moving(
    partitions: Iterable[TopicPartition],
    ends: Mapping[TopicPartition, Offset],
    again: Mapping[TopicPartition, Offset],
) -> str:
    for partition in partitions:
        if partition not in ends or partition not in again:
            return f"the log end of {partition} at the target can't be read"
        if ends[partition] != again[partition]:
            return (
                f"something still writes: the log end of {partition} moved from "
                f"{ends[partition]} to {again[partition]} at the target in the meantime"
            )
    return ""


@dataclass(frozen=True, slots=True)
class _Look:
    """Readers of both sides, MirrorMaker 2's positions, and what finds resume points."""

    source: PlainReader
    target: PlainReader
    committed: Mapping[TopicPartition, Position]
    find: Callable[[PartitionLogs], ResumePoint | NoResumePoint]

    def at(
        self, name: TopicName, ends: Mapping[TopicPartition, Offset], *, with_timestamps: bool
    ) -> tuple[PartitionAdoption, ...]:
        """Return every partition of a topic, with its resume point or the reason against it."""
        bounds = self.target.bounds(ends)
        sources = {mirror: TopicPartition(name, mirror.partition) for mirror in ends}
        source_bounds = self.source.bounds(sources.values())
        return tuple(
            self._partition(
                sources[mirror],
                mirror,
                source_bounds[sources[mirror]],
                bounds[mirror],
                log_end,
                with_timestamps=with_timestamps,
            )
            for mirror, log_end in sorted(ends.items())
        )

    def _partition(
        self,
        source: TopicPartition,
        target: TopicPartition,
        source_bounds: LogBounds,
        target_bounds: LogBounds,
        log_end: Offset,
        *,
        with_timestamps: bool,
    ) -> PartitionAdoption:
        position = self.committed.get(source)
        logs = PartitionLogs(
            source=source,
            target=target,
            source_bounds=source_bounds,
            target_bounds=target_bounds,
            committed=None if position is None else position.copied,
            commit_step=None if position is None else position.step,
            with_timestamps=with_timestamps,
        )
        point: ResumePoint | NoResumePoint | None
        if target_bounds.end != log_end:
            point = NoResumePoint(
                f"a transaction is open at the target, from offset {target_bounds.end} on: what "
                "copied was stopped within it, and the broker ends it after "
                "transaction.timeout.ms"
            )
        elif log_end == 0 and position is None:
            point = None
        else:
            point = self.find(logs)
        return PartitionAdoption(
            partition=source.partition,
            committed=None if position is None else position.copied,
            source_end=Offset(source_bounds.end),
            target_end=log_end,
            found=point,
        )


# -- writing -----------------------------------------------------------------------------------


def _write(state: LinkState, topics: Iterable[TopicAdoption], stamp: Stamp) -> None:
    """Write the state, and last the rows that make the mirrors the link's."""
    adopted = list(topics)
    maps = state.offsets.fresh()
    rows = [row for topic in adopted for row in _rows(topic, stamp, maps.of)]
    if rows:
        state.offsets.put(rows)
    state.put_starts({topic.record.source: _starts(topic) for topic in adopted})
    state.put_mirrors({topic.record.source: topic.record for topic in adopted})


def _rows(
    topic: TopicAdoption, stamp: Stamp, map_of: Callable[[TopicPartition, str], OffsetMap]
) -> Iterator[MapRow]:
    """Yield the rows of all partitions' offset maps; none where offsets are and were equal.

    A map from an earlier takeover, and from copying since, holds up to the compared records.
    """
    topic_id = id_text(topic.record.target_id)
    for partition in topic.partitions:
        if isinstance(partition.found, ResumePoint):
            mirror = TopicPartition(topic.record.target, partition.partition)
            breaks, first = list(partition.found.map.breaks()), partition.found.first
            if not map_of(mirror, topic_id).is_identity:
                breaks = [first, *(pair for pair in breaks if pair.target > first.target)]
            for start in range(0, len(breaks), ROW_BREAKS):
                some = tuple(breaks[start : start + ROW_BREAKS])
                yield MapRow(RowKey(mirror, topic_id, some[0].target, stamp), some)


def _starts(topic: TopicAdoption) -> Starts:
    """Return where partitions begin: adopted ones are not aligned, others as `start` says."""
    adopted = {p.partition: p.target_end for p in topic.partitions if p.found is not None}
    return Starts(topic.record.target_id, dict.fromkeys(adopted, Offset(0)), adopted)
