"""Whose records a merged topic never gets, and which link would carry them round; pure.

Seen from one link, by what links say at its source: which links lead elsewhere, those from there
see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from heliostat.config import LinkConfig
from heliostat.merge.mesh import Copy, TopicAt, missing_ways, wrong_ways
from heliostat.merge.places import Site
from heliostat.names import ClusterId, TopicName
from heliostat.topics.topic_plan import Mirror
from heliostat.topics.values import SourceTopics


def missing_notes(
    link: LinkConfig, source: SourceTopics, target_id: ClusterId, topics: Collection[TopicName]
) -> list[str]:
    """Return a note for each site whose records never get to the source.

    Parameters
    ----------
    source, target_id
        The source as observed, and the target's cluster id.
    topics
        What the link merges.
    """
    if not link.topics.merges:
        return []
    copies, here = _copies(link, source, target_id, topics), Site(link.source)
    missing = (way for way in missing_ways(copies) if way.site == here and way.topic in topics)
    return [str(way) for way in missing]


def compacted_notes(link: LinkConfig, mirrors: Iterable[Mirror]) -> list[str]:
    """Return a note for each compacted topic that the link merges."""
    return [
        f"{mirror.source} is compacted and merged: of a key that several sites write, each site "
        "may keep another last value"
        for mirror in mirrors
        if link.topics.merges and mirror.is_compacted
    ]


def wrong_into(
    link: LinkConfig, source: SourceTopics, target_id: ClusterId
) -> dict[TopicName, str]:
    """Return source topics into which another link copies without merging, and what that means.

    Parameters
    ----------
    source, target_id
        See `missing_notes`.
    """
    if not link.topics.merges:
        return {}
    here, topics = Site(link.source), source.topics.keys()
    wrong = wrong_ways(_copies(link, source, target_id, topics))
    return {way.copy.target.topic: str(way) for way in wrong if way.copy.target.site == here}


def _copies(
    link: LinkConfig, source: SourceTopics, target_id: ClusterId, topics: Collection[TopicName]
) -> list[Copy]:
    aliases = {source.cluster_id: link.source, target_id: link.target}
    here, there = Site(link.source), Site(link.target)
    copies = [
        Copy(link.name, TopicAt(here, name), TopicAt(there, name), merges=True) for name in topics
    ]
    for feed in source.feeds:
        record = feed.record
        origin = Site(aliases.get(record.source_cluster, record.source_cluster))
        into, name = TopicAt(here, record.target), TopicAt(origin, record.source)
        copies.append(Copy(feed.link, name, into, merges=record.is_merged))
    return copies
