"""Writes the state of a link that leads back, and last the rows that make the topics its mirrors.

I10 The link is claimed while its state is written.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import replace

from heliostat.clusters.acl import AclBinding
from heliostat.config import Config, LinkConfig
from heliostat.errors import ConnectionLost
from heliostat.handover.promotion import Promotion
from heliostat.mm2.adopt_clusters import LinkClusters
from heliostat.names import LinkName, Offset, TopicName, TopicPartition, id_text
from heliostat.offsets.log_bounds import log_ends_of
from heliostat.offsets.map_rows import Stamp
from heliostat.offsets.offset_map import Break, MapReader, MapRow
from heliostat.offsets.store import read_maps
from heliostat.operate.protection import protect
from heliostat.operate.reversing.turned_map import new_rows, turned
from heliostat.operate.reversing.values import TopicReturn
from heliostat.operate.source_fence import RESCUE, SWITCH, SourceFence
from heliostat.security.ledger import AccessTopic, Ledger
from heliostat.state.link_state import LinkState, Starts, Stored
from heliostat.wishes.wish_book import WishBook


def write(
    clusters: LinkClusters,
    link: LinkConfig,
    state: LinkState,
    topics: Collection[TopicReturn],
    stamp: Stamp,
) -> None:
    """Write the state, and last the rows that make the topics mirrors of the way back.

    Parameters
    ----------
    clusters
        Those of the link that leads back.
    link
        The link whose mirrors were promoted.
    """
    stored = state.read()
    names = [topic.mirror for topic in topics]
    if stored.producer_id is not None and stored.promoted.keys() & set(names):
        take_another_id(clusters, state, stored)
    with closing(WishBook(clusters.name, clusters.target_access)) as book:
        book.read()
        gone = [
            book.wishes.promotions[name].key for name in names if name in book.wishes.promotions
        ]
        if gone:
            book.put(dict.fromkeys(gone))
    link_maps = read_maps(clusters.source_access, LinkName(link.name))
    if rows := _map_rows(topics, link_maps, state.offsets.fresh(), stamp):
        state.offsets.put(rows)
    state.put_starts({topic.mirror: _starts(topic) for topic in topics})
    state.promotions.take_back(names)
    state.put_mirrors({topic.mirror: topic.record for topic in topics if topic.record is not None})


def _map_rows(
    topics: Collection[TopicReturn], link_maps: MapReader, maps: MapReader, stamp: Stamp
) -> list[MapRow]:
    """Return rows of maps: what was copied before the promotion, and where copying goes on."""
    rows: list[MapRow] = []
    for topic in topics:
        assert topic.record is not None
        topic_id, primary_id = id_text(topic.record.target_id), id_text(topic.record.source_id)
        for part in topic.partitions:
            mirror = TopicPartition(topic.topic, part.partition)
            ends = part.promotion
            before = link_maps.of(TopicPartition(topic.mirror, part.partition), primary_id)
            wanted = [
                *turned(before, ends.target_end, ends.source_end),
                Break(part.old_end, ends.target_end),
            ]
            rows += new_rows(wanted, maps.of(mirror, topic_id), mirror, topic_id, stamp)
    return rows


def take_another_id(clusters: LinkClusters, state: LinkState, stored: Stored) -> None:
    """Give the link a new producer id: brokers remember the last sequences of the one it has.

    They lie in logs that have others' records since. All mirrors that it still has are taken over
    at their ends, under the new id: nothing of them is under way, as the link was claimed.

    Raises
    ------
    ConnectionLost, BrokerError
        The cluster does not answer, or refuses; nothing was written.
    """
    infos = clusters.target.confirm_topics(
        [mirror_record.target for mirror_record in stored.mirrors.values()]
    )
    ends = log_ends_of(clusters.target, [info for info in infos.values() if not info.error])
    starts: dict[TopicName, Starts] = {}
    for name, record in stored.mirrors.items():
        own = record.own(infos[record.target].partitions)
        if missing := own.keys() - ends.keys():
            raise ConnectionLost(f"the log end of {min(missing)} can't be read now")
        before = stored.starts.get(name)
        if before is not None and before.target_id == record.target_id:
            adopted = {number: ends[mirror] for mirror, number in own.items()}
            starts[name] = replace(before, adopted=adopted)
    state.put_starts(starts)
    state.put_producer(clusters.target.init_producer_id(), stored.producers)


def _starts(topic: TopicReturn) -> Starts:
    ends = {part.partition: part.old_end for part in topic.partitions}
    target_id = None if topic.record is None else topic.record.target_id
    return Starts(target_id, dict.fromkeys(ends, Offset(0)), ends)


def note(clusters: LinkClusters, link: LinkConfig, promotions: Collection[Promotion]) -> None:
    """Note that the old source's topics are mirrors now, whose rights are synced again."""
    with closing(WishBook(LinkName(link.name), clusters.source_access)) as book:
        book.read()
        book.write(
            [replace(promotion, is_source_fenced=True, recreation=None) for promotion in promotions]
        )
    if clusters.link.access.is_on:
        access = AccessTopic(clusters.target_access, clusters.name, clusters.target)
        with closing(access) as topic:
            ledger = Ledger(topic)
            ledger.read()
            ledger.forget_promoted(promotion.topic for promotion in promotions)


def open_source(
    config: Config, link: LinkConfig, clusters: LinkClusters, topics: Collection[TopicName]
) -> None:
    """Lift what fenced the old source's topics: it keeps the link that leads back out, too.

    Where that link protects its mirrors (`topics.protect`), they are protected before: nobody gets
    in between, though its driver may not run.

    Raises
    ------
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses; call it again.
    """
    with closing(WishBook(LinkName(link.name), clusters.source_access)) as book:
        book.read()
        others = book.wishes.promotions.keys() - set(topics)
    fences = [
        SourceFence(config, link, clusters.target, clusters.source_access, purpose)
        for purpose in (SWITCH, RESCUE)
    ]
    laid = frozenset[AclBinding]().union(*(fence.laid() for fence in fences))
    protect(config, clusters.link, (clusters.target, clusters.target_access), topics, laid)
    for fence in fences:
        fence.open(topics, others)
