"""Checks on both clusters of a link for taking mirrors over, or handing them back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Self

from heliostat.access import ClusterAccess
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import GROUP_AUTHORIZATION_FAILED
from heliostat.clusters.plain_records import PlainReader
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, Refused
from heliostat.mm2.adopt_plan import Peer
from heliostat.mm2.connect_offsets import ConnectOffsetsRecord, Position, flows_of, positions_of
from heliostat.names import GroupId, LinkName, Offset, TopicName, TopicPartition, is_still
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.other_links.at_target import other_links_at
from heliostat.other_links.claims import Claims
from heliostat.state.claimed import claimed
from heliostat.state.connections import Admins, connected
from heliostat.state.link_state import LinkState
from heliostat.state.ownership import Ownership
from heliostat.topics.values import MirrorRecord

WORKERS_GONE_WITHIN_S = 30.0
"""Killed workers remain members until their session expires: 10 s by default."""
LOOK_EVERY_S = 0.5
OWN_LASTS_S = 30.0
"""For how long the link must still be ours before its state is written: writing takes less."""


class LinkClusters:
    """Admin connections to both clusters of a link.

    Parameters
    ----------
    may_share
        Whether the link may have `topics.fan_in`: MirrorMaker 2 keeps the source's partitions.

    Raises
    ------
    Refused
        The link has it, and must not.
    """

    def __init__(self, config: Config, link: LinkConfig, *, may_share: bool = False) -> None:
        if link.topics.fan_in is not None and not may_share:
            raise Refused(
                f"link {link.name} has topics.fan_in: its mirrors can't be MirrorMaker 2's",
                hint="take over with a link without fan_in",
            )
        self.config = config
        self.link = link
        self.source_access: ClusterAccess = config.clusters[link.source].access()
        self.target_access: ClusterAccess = config.clusters[link.target].access()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.connections = opened.enter_context(connected(self.config, self.link))
            admins: Admins[Any] = opened.enter_context(self.connections.admins({}))
            self.source, self.target = admins.source, admins.target
            self.source_id = self.source.cluster_id()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def name(self) -> LinkName:
        """The link's name."""
        return LinkName(self.link.name)

    def known(self) -> dict[TopicName, MirrorRecord]:
        """Return the link's mirrors by source topic, from its state topic."""
        with contextlib.closing(self.connections.state()) as state:
            return state.read().mirrors


@contextlib.contextmanager
def owned(clusters: LinkClusters) -> Iterator[tuple[LinkState, Ownership]]:
    """Claim the link, and yield its state and the ownership."""
    with (
        contextlib.closing(clusters.connections.state()) as state,
        claimed(clusters.link, state) as ownership,
    ):
        yield state, ownership


def refuse_live_workers(clusters: LinkClusters, peer: Peer) -> None:
    """Wait until MirrorMaker 2's workers have left their group; refuse if they don't."""
    if peer.group is None:
        return
    until_s = time.monotonic() + WORKERS_GONE_WITHIN_S
    while members := _members(clusters.target, GroupId(peer.group)):
        if time.monotonic() > until_s:
            raise Refused(
                f"MirrorMaker 2 runs: its group {peer.group} has {len(members)} members at the "
                f"target, {', '.join(sorted(set(members))[:3])}",
                hint="stop its processes, or its source connector, then try again",
            )
        time.sleep(LOOK_EVERY_S)


def _members(target: ClusterAdmin, group: GroupId) -> tuple[str, ...]:
    """Return the members of a group; none if it does not exist.

    A group that we may not see is not listed: only describing it returns an authorization error.
    Any other error for a group that is not listed means that it does not exist: a cluster without
    groups can't name a coordinator yet.
    """
    listing = target.list_groups()
    answer = target.describe_members([group])[group]
    if not isinstance(answer, BrokerError):
        return tuple(f"{member.client_id} at {member.host}" for member in answer)
    if group in listing.groups or answer.kafka_code == GROUP_AUTHORIZATION_FAILED:
        raise answer
    for error in listing.failed.values():
        raise error  # that broker may have the group
    return ()


def _stored(access: ClusterAccess, topic: TopicName) -> list[ConnectOffsetsRecord]:
    """Read all records of Connect's offsets topic, each partition in order."""
    with PlainReader(access, committed=True) as reader:
        partitions = reader.partitions(topic)
        if not partitions:
            raise Refused(
                f"the target has no topic {topic}",
                hint="name MirrorMaker 2's offsets topic (offset.storage.topic) and the alias "
                "that it uses for the source",
            )
        return [
            ConnectOffsetsRecord(record.key or b"", record.value, partition.partition)
            for partition, bounds in reader.bounds(partitions).items()
            for record in reader.read(partition, bounds.start, bounds.end)
        ]


def positions(
    clusters: LinkClusters, peer: Peer, *, must_be: bool
) -> dict[TopicPartition, Position]:
    """Read the positions that MirrorMaker 2 has committed for the flow.

    Parameters
    ----------
    must_be
        Whether to refuse if there are none.

    Raises
    ------
    Refused
        The topic does not exist, or has no positions of this flow; the text lists those it has.
    """
    rows = _stored(clusters.target_access, peer.offsets_topic)
    flows = flows_of(rows)
    if must_be and peer.flow not in flows:
        flow_names = ", ".join(sorted(f"{f.connector} of {f.alias}" for f in flows)) or "none"
        raise Refused(
            f"{peer.offsets_topic} has no positions of connector {peer.flow.connector} for source "
            f"{peer.flow.alias}; there are {flow_names}",
            hint="name the connector and the alias as MirrorMaker 2 does",
        )
    return positions_of(rows, peer.flow)


def refuse_moved(
    target: ClusterAdmin,
    records: Iterable[MirrorRecord],
    looked: Mapping[TopicPartition, Offset],
) -> None:
    """Refuse if a target topic has changed since the plan was made.

    Parameters
    ----------
    target
        Target cluster connection.
    records
        Mirrors to check.
    looked
        Log end offsets on which the plan is based.

    Raises
    ------
    Refused
        A target topic was recreated, or its log end has moved.
    """
    chosen = {record.target: record for record in records}
    infos = target.describe_topics(chosen)
    for name, record in chosen.items():
        if not is_still(record.target_id, infos[name].topic_id):
            raise Refused(f"{name} was recreated in the meantime", hint="try again")
    ends = log_ends_of(target, infos.values())
    for partition, end in looked.items():
        now = ends.get(partition)
        if now != end:
            raise Refused(
                f"something writes into {partition}: its log end moved from {end} to {now}",
                hint="stop whatever copies into it, then try again",
            )


def let_go(state: LinkState, records: Iterable[MirrorRecord], theirs: Claims) -> None:
    """Give up mirrors that another link took over at the same time; it may give them up, too.

    Their rows in the offset map remain: they are true whoever has the mirrors.

    Raises
    ------
    Refused
        Another link took over one of them.
    """
    lost = [record for record in records if record.target in theirs]
    if not lost:
        return
    state.drop_mirrors([record.source for record in lost])
    named = ", ".join(
        f"{record.target} (link {theirs.by.get(record.target, 'unknown')})" for record in lost
    )
    raise Refused(
        f"another link took over at the same time: {named}",
        hint="all others were taken over; --dry-run shows which link has these now, or try again",
    )


def other_claims_of(clusters: LinkClusters, targets: Iterable[TopicName]) -> Claims:
    """Return which of the target topics are other links' mirrors."""
    target = clusters.connections.target
    return other_links_at(clusters.link, target, clusters.target).claims(set(targets))
