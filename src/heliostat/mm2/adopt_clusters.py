"""Both clusters of a link, as those see them who take mirrors over, or hand them back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Self

from heliostat.access import ClusterAccess
from heliostat.clock import Clock, SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import GROUP_AUTHORIZATION_FAILED
from heliostat.clusters.plain_records import PlainReader
from heliostat.config import Config, LinkConfig, check_distinct_clusters
from heliostat.errors import BrokerError, LinkTakenOver, Refused
from heliostat.mm2.adopt_plan import Peer
from heliostat.mm2.connect_offsets import ConnectOffsetsRecord, Position, flows_of, positions_of
from heliostat.names import GroupId, LinkName, Offset, TopicName, TopicPartition, is_still
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.ops.events import Events
from heliostat.other_links.at_target import OtherLinks
from heliostat.other_links.claims import Claims
from heliostat.state.link_state import LinkState
from heliostat.state.ownership import Ownership
from heliostat.topics.values import MirrorRecord

WORKERS_GONE_WITHIN_S = 30.0
"""Workers that were killed stay members until their session is over: 10 s by default."""
OWNER_GONE_WITHIN_S = 30.0
"""A link that was killed is its owner's for as long as its last round may send."""
LOOK_EVERY_S = 0.5
OWN_LASTS_S = 30.0
"""Writing takes less; it is looked before whether the link is still ours."""


class LinkClusters:
    """Both clusters of a link, looked at with its eyes.

    Parameters
    ----------
    may_share
        Whether the link may share its target topics: MirrorMaker 2 keeps the source's partitions.

    Raises
    ------
    Refused
        It shares them, and must not.
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
            self.source = opened.enter_context(ClusterAdmin(self.source_access))
            self.target = opened.enter_context(ClusterAdmin(self.target_access))
            self.source_id = self.source.cluster_id()
            check_distinct_clusters(self.link, self.source_id, self.target.cluster_id())
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def name(self) -> LinkName:
        """The link's."""
        return LinkName(self.link.name)

    def known(self) -> dict[TopicName, MirrorRecord]:
        """What the link remembers of its mirrors."""
        with contextlib.closing(LinkState(self.link, self.config.clusters[self.link.target])) as s:
            return s.read().mirrors


@contextlib.contextmanager
def owned(clusters: LinkClusters) -> Iterator[tuple[LinkState, Ownership]]:
    """The link's state, while nobody else drives the link."""
    clock: Clock = SystemClock()
    state = LinkState(clusters.link, clusters.config.clusters[clusters.link.target])
    with contextlib.closing(state):
        state.ensure()
        until_s = clock.monotonic_s() + OWNER_GONE_WITHIN_S
        ownership = Ownership(
            clusters.name,
            state,
            clock=clock,
            events=Events(clock.wall_ms, out=None),
            must_stop=lambda: clock.monotonic_s() > until_s,
        )
        if not ownership.claim():
            raise Refused(
                f"link {clusters.name} is driven by another instance",
                hint="stop it, then try again",
            )
        try:
            yield state, ownership
        finally:
            with contextlib.suppress(LinkTakenOver):
                ownership.resign()


def refuse_live_workers(clusters: LinkClusters, peer: Peer) -> None:
    """Wait until MirrorMaker 2's workers are no longer members of their group."""
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
    """Who is in a group; nobody where it is not known.

    A group that we have no right to see is not listed, and only asked for is it refused. Other
    errors of one that is not listed mean that it is not there: a cluster that has no groups yet
    can't tell a coordinator.
    """
    listing = target.list_groups()
    found = target.describe_members([group])[group]
    if not isinstance(found, BrokerError):
        return tuple(f"{each.client_id} at {each.host}" for each in found)
    if group in listing.groups or found.kafka_code == GROUP_AUTHORIZATION_FAILED:
        raise found
    for error in listing.failed.values():
        raise error  # it may be there
    return ()


def _stored(access: ClusterAccess, topic: TopicName) -> list[ConnectOffsetsRecord]:
    """All records of Connect's offsets topic, each partition in order."""
    with PlainReader(access, committed=True) as reader:
        partitions = reader.partitions(topic)
        if not partitions:
            raise Refused(
                f"the target has no topic {topic}",
                hint="name MirrorMaker 2's offsets topic (offset.storage.topic) and the alias "
                "of the source as it has it",
            )
        return [
            ConnectOffsetsRecord(record.key or b"", record.value, each.partition)
            for each, bounds in reader.bounds(partitions).items()
            for record in reader.read(each, bounds.start, bounds.end)
        ]


def positions(
    clusters: LinkClusters, peer: Peer, *, must_be: bool
) -> dict[TopicPartition, Position]:
    """What MirrorMaker 2 has committed of the flow.

    Parameters
    ----------
    must_be
        Whether there must be some.

    Raises
    ------
    Refused
        There is no such topic, or nothing of this flow in it; the text says what there is.
    """
    rows = _stored(clusters.target_access, peer.offsets_topic)
    flows = flows_of(rows)
    if must_be and peer.flow not in flows:
        known = ", ".join(sorted(f"{f.connector} of {f.alias}" for f in flows)) or "none"
        raise Refused(
            f"{peer.offsets_topic} has no positions of connector {peer.flow.connector} for source "
            f"{peer.flow.alias}; there are {known}",
            hint="name the connector and the alias as MirrorMaker 2 has them",
        )
    return positions_of(rows, peer.flow)


def refuse_moved(
    target: ClusterAdmin,
    records: Iterable[MirrorRecord],
    looked: Mapping[TopicPartition, Offset],
) -> None:
    """What was found holds for these ends of these very topics.

    Raises
    ------
    Refused
        A target topic was made anew, or has another end than when it was looked at.
    """
    chosen = {record.target: record for record in records}
    infos = target.describe_topics(chosen)
    for name, record in chosen.items():
        if not is_still(record.target_id, infos[name].topic_id):
            raise Refused(f"{name} was deleted and made anew meanwhile", hint="try again")
    ends = log_ends_of(target, infos.values())
    for each, end in looked.items():
        now = ends.get(each)
        if now != end:
            raise Refused(
                f"something writes into {each}: its end went from {end} to {now}",
                hint="stop whatever copies into it, then try again",
            )


def let_go(state: LinkState, records: Iterable[MirrorRecord], theirs: Claims) -> None:
    """Leave mirrors to a link that took them over at the same time; it may do so as well.

    What the offset map says of them stays: it is true whoever has them.

    Raises
    ------
    Refused
        There was one.
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
        hint="all else was taken over; see with --dry-run which link has them now, or try again",
    )


def other_claims_of(clusters: LinkClusters, targets: Iterable[TopicName]) -> Claims:
    """Those of some target topics that are other links' mirrors."""
    target = clusters.config.clusters[clusters.link.target]
    return OtherLinks(clusters.link, target, clusters.target).claims(set(targets))
