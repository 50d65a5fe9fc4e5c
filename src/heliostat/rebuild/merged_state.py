"""What is rebuilt of a merged link's state besides its mirrors' rows: who it is, what it appended.

Its ids in `heliostat.producers` are taken to be all it ever had. Notes of own records, which topics
may not begin, and the source's rows of producer ids are durable before the first mirror's row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from heliostat.clusters.producer_rows import ProducerRows, ProducersTopic
from heliostat.errors import Refused
from heliostat.link.merging import rows_may_be_lost
from heliostat.merge.own_end import OwnNote
from heliostat.merge.producers import lost_rows
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import Offset, PartitionId, ProducerId, TopicName, TopicPartition, id_text
from heliostat.rebuild.own_records import OwnSides
from heliostat.rebuild.plan import RebuildPlan, TopicRebuild
from heliostat.state.link_state import LinkState, Stored
from heliostat.state.merged_notes import MergedNotes, OwnNotes, StoredNotes


class OwnIds(NamedTuple):
    """Who a link was, by all that is left."""

    ids: frozenset[ProducerId]
    """Under which it has appended to merged topics."""
    notes: StoredNotes
    seen: ProducersTopic | None
    """The source's topic of links' producer ids; None: it has none."""


def own_ids(clusters: LinkClusters, stored: Stored) -> OwnIds:
    """Return who a link was.

    Raises
    ------
    Refused
        Rows of producer ids at the source may be gone.
    ConnectionLost, BrokerError
        A cluster does not answer.
    """
    lent = clusters.connections
    with (
        closing(ProducerRows(lent.target, clusters.target)) as here,
        closing(ProducerRows(lent.source, clusters.source)) as there,
        closing(MergedNotes(lent.target, clusters.name)) as kept,
    ):
        rows = {} if here.look() is None else here.read()
        notes, seen = kept.read(), there.look()
    if notes.seen is not None and (lost := lost_rows(notes.seen, seen)):
        raise rows_may_be_lost(clusters.name, lost)
    own = {number for number, name in rows.items() if name == clusters.name}
    return OwnIds(frozenset(own | stored.producers), notes, seen)


def own_sides(clusters: LinkClusters, own: OwnIds) -> OwnSides:
    """Return what asks both sites; the caller closes it."""
    target = clusters.connections.target
    return OwnSides(clusters.source_access, target, own.ids, sorted(own.ids), own.notes.own)


def notes_now(
    clusters: LinkClusters, own: OwnIds, taken: Sequence[TopicRebuild]
) -> dict[TopicName, OwnNotes]:
    """Return what is to be noted of own records, which are as many as were compared.

    Raises
    ------
    Refused
        Some have landed meanwhile, or how many there are can't be told any more.
    ConnectionLost
        The target does not answer.
    """
    compared: dict[TopicPartition, tuple[Offset, TopicRebuild]] = {
        TopicPartition(topic.record.source, one.partition): (one.target_end, topic)
        for topic in taken
        for one in topic.partitions
    }
    with closing(own_sides(clusters, own)) as sides:
        counts = sides.counts([(one, topic.record) for one, (_, topic) in compared.items()])
    notes: dict[TopicName, dict[PartitionId, OwnNote]] = {}
    for source, (number, topic) in compared.items():
        count = counts[source]
        if isinstance(count, str) or count.number != number:
            why = count if isinstance(count, str) else "the link has appended records meanwhile"
            raise Refused(f"{source}: {why}", hint="try again")
        notes.setdefault(topic.record.source, {})[source.partition] = count.note
    ids = {topic.record.source: id_text(topic.record.target_id) for topic in taken}
    return {name: OwnNotes(ids[name], some) for name, some in notes.items()}


def write_merged(
    state: LinkState,
    clusters: LinkClusters,
    own: OwnIds,
    notes: Mapping[TopicName, OwnNotes],
    unproven: Iterable[TopicName],
) -> None:
    """Write who the link is and what it has appended; before any mirror's row.

    Parameters
    ----------
    notes
        By source topic.
    unproven
        Topics that may not begin.
    """
    stored = state.read()
    with closing(MergedNotes(state.clusters, clusters.name)) as kept:
        kept.put_format()
        kept.put_unproven(unproven)
        kept.put_own(notes)
        if own.seen is not None:
            kept.put_seen(own.seen)
    present = stored.producer_id
    if present is None:
        present = clusters.target.init_producer_id()
    state.put_producer(present, own.ids | stored.producers)


def unproven_after(
    plan: RebuildPlan, stored: Stored, own: OwnIds, at_both: frozenset[TopicName]
) -> frozenset[TopicName]:
    """Return topics that may not begin: what the link has appended there is not known.

    Parameters
    ----------
    at_both
        All topics that both sites have. Where the link's ids were lost, any of them may have been
        merged, also one that is not selected now.
    """
    before = stored.unproven if own.ids <= stored.producers else at_both
    taken = {topic.record.source for topic in plan.taken}
    return (before | plan.unproven) - taken - stored.mirrors.keys()
