"""Reads groups at both clusters, many groups a request; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from heliostat.clusters.admin import ClusterAdmin, GroupListing, TopicInfo
from heliostat.clusters.kafka_codes import UNKNOWN_TOPIC_OR_PARTITION
from heliostat.errors import BrokerError
from heliostat.groups.merged_places import MergedPlaces
from heliostat.groups.naming import SAME_NAMES, GroupNaming
from heliostat.groups.values import MirrorPartition, SourceGroups, TargetGroups
from heliostat.names import TopicName, TopicPartition, id_text, is_another, is_still
from heliostat.offsets.ends_then_maps import EndsThenMaps
from heliostat.offsets.landed import NOT_REPORTED, Landed
from heliostat.offsets.log_bounds import landed_bounds
from heliostat.offsets.offset_map import MapReader
from heliostat.ops.asked import asked_at_once
from heliostat.topics.values import MirrorRecord

MAP_LOST = "rows of the mirror's offset map are gone"
OpenMaps = Callable[[], MapReader]
Topics = Mapping[TopicName, TopicInfo]
Mirrors = Mapping[TopicName, MirrorRecord]
Positions = Callable[[], Mapping[TopicPartition, Landed]]
Partitions = Mapping[TopicPartition, MirrorPartition | str | BrokerError]


def observe_target(
    source: ClusterAdmin,
    target: ClusterAdmin,
    seen: SourceGroups,
    listing: GroupListing,
    *,
    mirrors: Mirrors,
    maps: OpenMaps,
    positions: Positions,
    naming: GroupNaming = SAME_NAMES,
    merged: MergedPlaces | None = None,
) -> TargetGroups:
    """Read the same groups at the target, and the mirrors' partitions of their offsets.

    `merged` tells where groups of merged topics go on; None: the link merges none.
    """
    names = [
        naming.target_name(group)
        for group, rows in seen.offsets.items()
        if not isinstance(rows, BrokerError)
    ]
    there_too = [name for name in names if name in listing.groups]
    asked = {
        partition
        for rows in seen.offsets.values()
        if not isinstance(rows, BrokerError)
        for partition in rows
    }
    asks: dict[str, Callable[[], Any]] = {
        "offsets": partial(target.committed_offsets, there_too),
        "positions": positions,
        "topics": partial(_topics_of, source, target, asked, mirrors),
    }
    # All read before the mirrors' ends, so that these cover them.
    offsets, landed, topics = asked_at_once(asks).values()
    partitions = _observe(target, asked, topics, mirrors=mirrors, maps=maps, landed=landed)
    places = {} if merged is None else merged.of(mirrors, seen.offsets, offsets)
    return TargetGroups(listing, offsets, partitions, places)


def observe_mirrors(
    source: ClusterAdmin,
    target: ClusterAdmin,
    asked: Collection[TopicPartition],
    mirrors: Mirrors,
    *,
    maps: OpenMaps,
    positions: Positions,
) -> Partitions:
    """Read the mirrors of source partitions, as `observe_target` does for those of groups."""
    asks: dict[str, Callable[[], Any]] = {
        "positions": positions,
        "topics": partial(_topics_of, source, target, asked, mirrors),
    }
    landed, topics = asked_at_once(asks).values()
    return _observe(target, asked, topics, mirrors=mirrors, maps=maps, landed=landed)


def _topics_of(
    source: ClusterAdmin, target: ClusterAdmin, asked: Iterable[TopicPartition], mirrors: Mirrors
) -> tuple[Topics, Topics]:
    """Describe the topics of these partitions, and their mirrors."""
    records = [mirrors[name] for name in {each.topic for each in asked} if name in mirrors]
    if not records:
        return {}, {}
    there, here = asked_at_once(
        {
            "source": partial(source.describe_topics, {record.source for record in records}),
            "target": partial(target.describe_topics, {record.target for record in records}),
        }
    ).values()
    return there, here


def _observe(
    target: ClusterAdmin,
    asked: Iterable[TopicPartition],
    topics: tuple[Topics, Topics],
    *,
    mirrors: Mirrors,
    maps: OpenMaps,
    landed: Mapping[TopicPartition, Landed],
) -> Partitions:
    """Read mirrors' partitions, by source partition; or why there is none.

    Parameters
    ----------
    asked
        Source partitions.
    topics
        Their topics, and those topics' mirrors.
    maps
        Reads the offset maps, see `EndsThenMaps`.
    landed
        How far source partitions were copied before this call.
    """
    found: dict[TopicPartition, MirrorPartition | str | BrokerError] = {}
    there, here = topics
    of_mirrors: list[tuple[TopicPartition, MirrorRecord]] = []
    for partition in asked:
        record = mirrors.get(partition.topic)
        if record is None:
            found[partition] = "the topic has no mirror of this link"
        else:
            of_mirrors.append((partition, record))
    if not of_mirrors:
        return found
    wrong = {
        record.source: _unfit(record, there.get(record.source), here.get(record.target))
        for record in {record.source: record for _, record in of_mirrors}.values()
    }
    pairs: dict[TopicPartition, TopicPartition] = {}
    for partition, record in of_mirrors:
        why = wrong[record.source]
        if why is not None:
            found[partition] = why
            continue
        mirror = record.mirror_of(partition.partition)
        if mirror.partition >= len(here[record.target].partitions):
            found[partition] = "the mirror has no such partition yet"
        else:
            pairs[partition] = mirror
    reached = {at: landed.get(each, NOT_REPORTED).target_end for each, at in pairs.items()}
    seen = EndsThenMaps(lambda: landed_bounds(target, reached), maps)
    for partition, mirror in pairs.items():
        bounds, topic_id = seen.ends[mirror], id_text(mirrors[partition.topic].target_id)
        if isinstance(bounds, BrokerError):
            found[partition] = bounds
        elif seen.maps.is_lost(mirror, topic_id):
            found[partition] = MAP_LOST
        else:
            offset_map = seen.maps.of(mirror, topic_id)
            copied = landed.get(partition, NOT_REPORTED).position
            found[partition] = MirrorPartition(mirror, bounds.start, bounds.end, offset_map, copied)
    return found


def _unfit(
    record: MirrorRecord, there: TopicInfo | None, here: TopicInfo | None
) -> str | BrokerError | None:
    """Why a mirror can't be used for its source topic now; None if it can."""
    for info, side, known in (
        (there, "source", record.source_id),
        (here, "target", record.target_id),
    ):
        code = None if info is None or info.error is None else info.error.kafka_code
        if info is None or code == UNKNOWN_TOPIC_OR_PARTITION:
            return f"the {side} topic is gone"
        if info.error is not None:
            return info.error
        if is_another(known, info.topic_id):
            return f"the {side} topic was deleted and recreated"
        if not is_still(known, info.topic_id):  # an offset of another topic would skip records
            return f"the {side} topic's id is not reported now: it may be another topic"
    return None
