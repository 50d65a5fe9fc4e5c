"""Rebuild the rows of a lost state, for mirrors whose contents prove that they are the link's.

    look      mirrors that the link does not know as its own, both logs of each        reads only
    claim     nobody else drives the link; wait until a killed driver's rounds can't send any more
    check     no mirror has changed since it was read
    write     offset maps, the marks that they exist, start offsets, then the mirrors' records
    look      whether another link has claimed one of the mirrors meanwhile: then leave it to that

Nothing is written to the mirrors. The last write makes them the link's, so a rebuild that was
interrupted can be repeated from its beginning.

I2  A mirror continues by its stored map, if contents agree; else by one made from the contents.
I10 The producer id is lost with the state, so the link continues with another one, for which the
    broker's sequence check does not cover the former one's appends. So these must all have landed,
    or be impossible, before the ends are read for the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.invariants import GENERATIONS_PER_CLAIM
from heliostat.link.identity import estranged
from heliostat.mm2.adopt_clusters import (
    OWN_LASTS_S,
    LinkClusters,
    let_go,
    other_claims_of,
    owned,
    refuse_moved,
)
from heliostat.names import Offset, TopicName, TopicPartition, id_text, is_still
from heliostat.offsets.marks import Mapped
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.asked import PendingAnswer
from heliostat.rebuild.compared_rows import OpenPipes
from heliostat.rebuild.look import Look
from heliostat.rebuild.merged_state import notes_now, unproven_after, write_merged
from heliostat.rebuild.offset_maps import put_map
from heliostat.rebuild.plan import RebuildPlan, TopicRebuild
from heliostat.rebuild.proof import Kind
from heliostat.records.copier.lane import Announcement
from heliostat.state.link_state import LinkState
from heliostat.state.ownership import Ownership, owner_lasts_s
from heliostat.state_topics import progress_topic
from heliostat.status.reader import StatusReader
from heliostat.topics.values import MirrorRecord

HEAR_S = 3.0
"""How long to wait for reports; a running driver and its lanes write one each second."""
RENEW_EVERY_S = 2.0


def plan_rebuild(
    config: Config, link: LinkConfig, open_pipes: OpenPipes, topics: str | None = None
) -> RebuildPlan:
    """Read and compare both sides, and return the plan; changes nothing.

    Parameters
    ----------
    open_pipes
        Makes the link's pipelines ready.
    topics
        As `Look.plan`.

    Raises
    ------
    Refused
        The link runs.
    ConnectionLost, BrokerError
        A cluster does not answer.
    """
    with LinkClusters(config, link, may_share=True) as clusters:
        look, _ = _looked_at(clusters, open_pipes)
        return look.plan(topics)


def rebuild_state(
    config: Config,
    link: LinkConfig,
    open_pipes: OpenPipes,
    topics: str | None = None,
    agree: Callable[[RebuildPlan], bool] = lambda _: True,
) -> RebuildPlan:
    """Write the rows of every mirror whose partitions are all proved, and who the link is.

    Parameters
    ----------
    open_pipes
        Makes the link's pipelines ready.
    topics
        As `Look.plan`.
    agree
        Called with the plan before anything is written; if False, nothing is written.

    Raises
    ------
    Refused
        The link runs; or something was written to a mirror meanwhile, or another link took it.
    ConnectionLost, BrokerError
        A cluster does not answer; the rebuild can be repeated.
    """
    with LinkClusters(config, link, may_share=True) as clusters:
        look, ended_well = _looked_at(clusters, open_pipes)
        plan = look.plan(topics)
        # A merged link that is not shown to have appended what it has begins nothing.
        if not (plan.taken or (plan.missing and look.own is None)) or not agree(plan):
            return plan
        with owned(clusters) as (state, ownership):
            stored = state.read()
            again = stored.mirrors.keys() - estranged(stored)
            taken = [topic for topic in plan.taken if topic.record.source not in again]
            _end_rounds(state, ownership, look.maps, 0.0 if ended_well else _rounds_last_s(link))
            records = [topic.record for topic in taken]
            _refuse_other_sources(clusters.source, records)
            if look.own is not None:
                notes = notes_now(clusters, look.own, taken)
                unproven = unproven_after(plan, stored, look.own, look.at_both())
                ownership.hold(OWN_LASTS_S)
                write_merged(state, clusters, look.own, notes, unproven)
                write_state(state, taken, plan.at_beginning)
                return plan
            refuse_moved(clusters.target, records, _looked(taken))
            ownership.hold(OWN_LASTS_S)
            if plan.missing and stored.producer_id is None:
                state.put_producer(clusters.target.init_producer_id(), stored.producers)
            write_state(state, taken, plan.at_beginning)
            let_go(state, records, other_claims_of(clusters, (record.target for record in records)))
        return plan


def _looked_at(clusters: LinkClusters, open_pipes: OpenPipes) -> tuple[Look, bool]:
    """Return a look at a link that does not run, and whether its last driver said that it stopped.

    Raises
    ------
    Refused
        The link runs.
    """
    running = PendingAnswer(partial(_refuse_running, clusters), "refuse running")
    look = Look(clusters, open_pipes)
    look.see()
    return look, running.answer()


# -- nobody else writes ------------------------------------------------------------------------


def _refuse_running(clusters: LinkClusters) -> bool:
    """Refuse if the link runs; return whether the last driver reported that it has stopped.

    Raises
    ------
    Refused
        A driver or a lane still reports.
    """
    topic = progress_topic(clusters.name)
    with closing(RecentRecords(clusters.connections.target, topic)) as progress:
        if not progress.exists():
            return False
        reader = StatusReader(clusters.name, progress)
        reader.begin()
        if reader.read(HEAR_S):
            raise Refused(
                f"link {clusters.name} runs, or rounds of a killed driver have not ended",
                hint="stop it, then try again; a running link rewrites a lost state by itself",
            )
        return reader.board.status(SystemClock().wall_ms()).state == "no_owner"


def _rounds_last_s(link: LinkConfig) -> float:
    """Return the longest time for which a round may still send without its driver."""
    return owner_lasts_s(link.lanes.lease_s)


def _end_rounds(
    state: LinkState,
    ownership: Ownership,
    maps: MapReader,
    last_s: float,
    clock: Clock | None = None,
) -> None:
    """Announce to lanes that none is wanted, and wait until none can send any more.

    If the claim number was lost as well, it continues above those of all owners that have written
    to the maps: otherwise rows of a later owner would seem older and be ignored.
    """
    clock = clock or SystemClock()
    stamps = (maps.stamp_of(*name).generation for name in maps.maps)
    newest = max(stamps, default=0) // GENERATIONS_PER_CLAIM
    state.claim = max(ownership.claim_number, newest)
    state.announce(Announcement({}, (), {}))
    until_s = clock.monotonic_s() + last_s
    while (left_s := until_s - clock.monotonic_s()) > 0:
        ownership.keep(OWN_LASTS_S)
        clock.sleep(min(left_s, RENEW_EVERY_S))


def _looked(taken: Iterable[TopicRebuild]) -> dict[TopicPartition, Offset]:
    return {
        topic.record.mirror_of(each.partition): each.target_end
        for topic in taken
        for each in topic.partitions
    }


def _refuse_other_sources(source: ClusterAdmin, records: Iterable[MirrorRecord]) -> None:
    chosen = {record.source: record for record in records}
    for name, info in source.describe_topics(chosen).items():
        if not is_still(chosen[name].source_id, info.topic_id):
            raise Refused(f"{name} was deleted at the source meanwhile", hint="try again")


# -- writing -----------------------------------------------------------------------------------


def write_state(
    state: LinkState,
    taken: Iterable[TopicRebuild],
    at_beginning: frozenset[TopicName] | None,
) -> None:
    """Make the rebuilt state durable; the records that make mirrors ours come last.

    Raises
    ------
    Refused
        Somebody else writes rows of the maps.
    """
    topics = list(taken)
    _write_maps(state, topics)
    _write_marks(state, topics)
    if at_beginning is not None:
        state.put_beginning(at_beginning)
    state.put_starts({topic.record.source: topic.starts() for topic in topics})
    state.put_mirrors({topic.record.source: topic.record for topic in topics})


def _write_maps(state: LinkState, topics: Iterable[TopicRebuild]) -> None:
    """Write the rebuilt maps with the newest round's stamp, and read them back."""
    known = state.offsets.fresh()
    for topic in topics:
        for one in topic.partitions:
            if one.proof is None or one.proof.breaks is None:
                continue
            name = topic.record.mirror_of(one.partition), id_text(topic.record.target_id)
            breaks = one.proof.breaks
            if not breaks and name not in known.maps:
                continue  # equal offsets need no rows
            known_from = 0 if one.merged is None else one.merged.known_from
            if not put_map(state.offsets, name, breaks, known.stamp_of(*name), known_from):
                raise Refused(
                    f"another writer has put other rows into the map of {name[0]}",
                    hint="check who else runs this link, then try again",
                )


def _write_marks(state: LinkState, topics: Iterable[TopicRebuild]) -> None:
    """Note which mirrors have maps, so that the loss of one is noticed."""
    marks = state.marks.read()
    names = {
        (topic.record.mirror_of(each.partition), id_text(topic.record.target_id))
        for topic in topics
        for each in topic.partitions
    }
    mapped: dict[TopicName, Mapped] = {}
    for topic in topics:
        record = topic.record
        numbers = frozenset(
            record.mirror_of(each.partition).partition
            for each in topic.partitions
            if each.proof is not None and each.proof.kind is not Kind.EXACT
        )
        if numbers:
            mapped[record.source] = Mapped(record.target, id_text(record.target_id), numbers)
    state.marks.put_mapped(mapped)
    if marks.topic is None and state.offsets.known is not None:
        state.marks.put_topic(state.offsets.known)
    if lost := names & marks.lost.keys():
        state.marks.put_rebuilt(lost)
