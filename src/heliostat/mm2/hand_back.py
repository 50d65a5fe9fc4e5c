"""Hand mirrors back to MirrorMaker 2: write the positions from which it continues.

Its position in a partition is the source offset of the target's last record, by the offset map. So
it copies next what the link would have copied next.
"""

from __future__ import annotations

from collections.abc import Callable

from heliostat.clusters.plain_records import RecordToWrite, write_records
from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.mm2.adopt_clusters import (
    OWN_LASTS_S,
    LinkClusters,
    owned,
    positions,
    refuse_live_workers,
)
from heliostat.mm2.adopt_plan import Handback, HandbackPlan, Peer
from heliostat.mm2.connect_offsets import encode_key, encode_value
from heliostat.names import TopicPartition, id_text, is_still
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.offsets.store import read_maps


def plan_handback(config: Config, link: LinkConfig, peer: Peer) -> HandbackPlan:
    """Return the positions from which MirrorMaker 2 would continue; changes nothing.

    Raises
    ------
    Refused
        There is no offsets topic, or MirrorMaker 2 still runs.
    ConnectionLost, BrokerError
        A cluster does not answer.
    """
    with LinkClusters(config, link) as clusters:
        refuse_live_workers(clusters, peer)
        return _plan_back(clusters, peer)


def hand_back(
    config: Config,
    link: LinkConfig,
    peer: Peer,
    agree: Callable[[HandbackPlan], bool] = lambda _: True,
) -> HandbackPlan:
    """Write MirrorMaker 2's positions, so that it continues where the link has stopped.

    The mirrors no longer belong to the link: if it is started, it refuses them until they are
    adopted again.

    Parameters
    ----------
    agree
        Called with the plan before anything is written; if it returns False, nothing is.

    Raises
    ------
    Refused
        As `plan_handback`; or the link runs.
    ConnectionLost, BrokerError
        A cluster does not answer; call again.
    """
    with LinkClusters(config, link) as clusters, owned(clusters) as (state, ownership):
        refuse_live_workers(clusters, peer)
        plan = _plan_back(clusters, peer)
        if not plan.partitions or not agree(plan):
            return plan
        ownership.hold(OWN_LASTS_S)
        rows = [
            RecordToWrite(
                encode_key(peer.flow, TopicPartition(row.source, row.partition)),
                encode_value(row.next_offset),
                None if row.was is None else row.was.partition,
            )
            for row in plan.partitions
            if row.next_offset > 0 or row.was is not None  # else there is nothing to remove
        ]
        write_records(clusters.target_access, peer.offsets_topic, rows)
        state.forget_mirrors(dict.fromkeys(row.source for row in plan.partitions))
        return plan


def _plan_back(clusters: LinkClusters, peer: Peer) -> HandbackPlan:
    committed = positions(clusters, peer, must_be=False)
    records = clusters.known()
    infos = clusters.target.describe_topics({record.target for record in records.values()})
    there = [info for info in infos.values() if info.error is None]
    snapshot = EndsThenMaps(
        lambda: log_ends_of(clusters.target, there),
        lambda: read_maps(clusters.target_access, clusters.name),
    )
    ends = snapshot.ends
    rows: list[Handback] = []
    notes: list[str] = []
    for name, record in sorted(records.items()):
        info = infos[record.target]
        if info.error is not None or not is_still(record.target_id, info.topic_id):
            notes.append(f"{name}: its mirror {record.target} is gone or was recreated")
            continue
        for part in info.partitions:
            mirror = TopicPartition(record.target, part.partition)
            if mirror not in ends:
                raise Refused(f"the log end of {mirror} can't be read", hint="try again")
            offsets = snapshot.maps.of(mirror, id_text(record.target_id))
            if not offsets.knows(ends[mirror]):
                notes.append(f"{mirror}: it was truncated, and its offset map lacks the log end")
                continue
            rows.append(
                Handback(
                    source=name,
                    target=record.target,
                    partition=part.partition,
                    target_end=ends[mirror],
                    next_offset=offsets.source_of(ends[mirror]),
                    was=committed.get(TopicPartition(name, part.partition)),
                )
            )
    return HandbackPlan(clusters.name, peer, tuple(rows), tuple(notes))
