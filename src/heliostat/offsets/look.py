"""Reads a link's mirrors, and how far their maps are right; changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from uuid import UUID

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.gaps.choices import Cause
from heliostat.gaps.ledger import GapLedger
from heliostat.names import (
    LinkName,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
    id_text,
    is_another,
)
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.log_bounds import bounds_of
from heliostat.offsets.store import read_maps
from heliostat.offsets.values import TranslatedMirrors, TranslatedPartition, Untranslatable, Why
from heliostat.state.link_state import LinkState, Starts
from heliostat.status.reader import last_reported
from heliostat.topics.values import MirrorRecord
from heliostat.verify.ranges import LeftOut, MapClaim, MapView

SOURCE_CONNECT_TIMEOUT_S = 5.0
"""The source may be gone for good; its answers only make the reasons more precise."""
NO_TOPIC_ID = str(UUID(int=0))
"""What brokers before Kafka 2.8 answer."""


def look(
    config: Config, link: LinkConfig, topics: Iterable[TopicName] | None = None
) -> TranslatedMirrors:
    """Read the link's mirrors and maps from the target, and ask both sides for their topics.

    Parameters
    ----------
    topics
        Only these, by their name at the source or at the target; all by default.

    Raises
    ------
    ConnectionLost
        The target does not answer; the source need not.
    """
    cluster = config.clusters[link.target]
    passed = _passed(config, link)  # read before the ends: what it reports has landed by then
    with closing(LinkState(link, cluster)) as state:
        stored = state.read()
    wanted = None if topics is None else set(topics)
    records = {
        name: record
        for name, record in stored.mirrors.items()
        if wanted is None or name in wanted or record.target in wanted
    }
    mirrors = TranslatedMirrors(
        names={name: record.target for name, record in records.items()},
        slots={name: record.slot for name, record in records.items()},
    )
    with ClusterAdmin(cluster.access()) as target:
        pairs, ids = _see_target_topics(mirrors, target, records)
        snapshot = EndsThenMaps(
            lambda: _bounds(mirrors, target, pairs),
            lambda: read_maps(cluster.access(), LinkName(link.name)),
        )
    for partition, (start, end) in snapshot.ends.items():
        record, source = pairs[partition]
        if snapshot.maps.is_lost(partition, ids[partition.topic]):
            mirrors.not_known[partition] = (
                "rows of its offset map are gone: heliostat offsets rebuild"
            )
            continue
        mirrors.partitions.append(
            TranslatedPartition(
                source=source,
                target=partition,
                offsets=snapshot.maps.of(partition, ids[partition.topic]),
                start=start,
                end=end,
                begin=_begin(stored.starts.get(record.source), record, source.partition),
                passed=Offset(passed.get(source, 0)),
            )
        )
    _see_source(mirrors, config, link, records)
    return mirrors


def read_map_view(config: Config, link: LinkConfig) -> MapView:
    """Read the link's offset maps now, and what it leaves out, in the form that `verify` needs.

    Raises
    ------
    ConnectionLost
        The target does not answer.
    """
    access, name = config.clusters[link.target].access(), LinkName(link.name)
    maps = read_maps(access, name)
    with closing(GapLedger(name, access)) as ledger:
        ledger.read()
    left_out: dict[tuple[TopicPartition, str], list[LeftOut]] = defaultdict(list)
    for row in ledger.rows.values():
        if row.cause is Cause.SKIPPED and row.last is not None:
            gone = LeftOut(row.first, row.last + 1, f"{row.cause.words}, {row.decided_by}")
            left_out[row.target, row.target_id].append(gone)

    def claim(partition: TopicPartition, topic_id: str) -> MapClaim:
        own_id = "" if topic_id == NO_TOPIC_ID else topic_id
        offset_map = maps.of(partition, own_id)
        gone = left_out.get((partition, own_id), ())
        return MapClaim(offset_map.pairs(), offset_map.known_from, gone)

    return claim


def _see_target_topics(
    mirrors: TranslatedMirrors, admin: ClusterAdmin, records: Mapping[TopicName, MirrorRecord]
) -> tuple[dict[TopicPartition, tuple[MirrorRecord, TopicPartition]], dict[TopicName, str]]:
    """Return each mirror's target partitions with the source's, and topic ids as maps have them.

    A topic that is missing or was recreated becomes a trouble of `mirrors`.
    """
    infos = admin.describe_topics()
    mirrors.target_topics = frozenset(infos)
    pairs: dict[TopicPartition, tuple[MirrorRecord, TopicPartition]] = {}
    ids: dict[TopicName, str] = {}
    for name, record in records.items():
        info = infos.get(record.target)
        if info is None or info.error is not None:
            trouble = Untranslatable(Why.NO_SUCH_TOPIC, f"the target has no topic {record.target}")
        elif is_another(record.target_id, info.topic_id):
            text = f"{record.target} was deleted at the target and recreated"
            trouble = Untranslatable(Why.REMADE, text)
        else:
            ids[record.target] = id_text(record.target_id)
            own = record.own(info.partitions)
            pairs |= {
                partition: (record, TopicPartition(name, source))
                for partition, source in own.items()
            }
            continue
        mirrors.source_troubles[name] = mirrors.target_troubles[record.target] = trouble
    return pairs, ids


def _bounds(
    mirrors: TranslatedMirrors, admin: ClusterAdmin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[Offset, Offset]]:
    """Log start and end (high watermark) of each target partition whose broker reports them."""
    ends: dict[TopicPartition, tuple[Offset, Offset]] = {}
    for partition, bounds in bounds_of(admin, partitions).items():
        if isinstance(bounds, BrokerError):
            mirrors.not_known[partition] = str(bounds)
        else:
            ends[partition] = bounds
    return ends


def _passed(config: Config, link: LinkConfig) -> dict[TopicPartition, int]:
    """Positions as lanes reported them; none if the link has not run for an hour."""
    board = last_reported(LinkName(link.name), config.clusters[link.target].access())
    reports = [] if board is None else board.reports()
    return {report.source: report.position for report in reports if report.position >= 0}


def _begin(starts: Starts | None, record: MirrorRecord, partition: PartitionId) -> Offset:
    """Source offset that a partition begins with; starts of an earlier target topic don't count."""
    if starts is None or starts.target_id != record.target_id:
        return Offset(0)
    return starts.offsets.get(partition, Offset(0))


def _see_source(
    mirrors: TranslatedMirrors,
    config: Config,
    link: LinkConfig,
    records: Mapping[TopicName, MirrorRecord],
) -> None:
    """Note which topics the source has; those recreated there become troubles of `mirrors`."""
    access = config.clusters[link.source].access()
    try:
        with ClusterAdmin(access, connect_timeout_s=SOURCE_CONNECT_TIMEOUT_S) as admin:
            infos = admin.describe_topics()
    except ConnectionLost:
        return  # shown by `is_source_known`
    mirrors.source_topics = frozenset(infos)
    for name, record in records.items():
        info = infos.get(name)
        if info is not None and is_another(record.source_id, info.topic_id):
            text = f"{name} was deleted at the source and recreated"
            mirrors.source_troubles[name] = Untranslatable(Why.REMADE, text)
