"""Decides where a new mirror begins, once; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from heliostat.config import LinkConfig, StartAt
from heliostat.names import Offset, PartitionId, is_another
from heliostat.topics.given_starts import NO_STARTS, GivenStarts
from heliostat.topics.values import MirrorRecord, SourceTopic, SourceTopics


class Begin(NamedTuple):
    """Where a mirror begins.

    Parameters
    ----------
    start, given
        As in its record.
    by
        What the group or the file says of it, which may refuse it.
    words
        What it says, for the plan; empty if neither a group nor a file is asked.
    """

    start: str = "earliest"
    given: Mapping[PartitionId, Offset] = {}
    by: GivenStarts = NO_STARTS
    words: str = ""


BEGUN = Begin()
"""Of a mirror whose record says where it begins."""


def begin_of(
    link: LinkConfig,
    source: SourceTopics,
    topic: SourceTopic,
    remembered: MirrorRecord | None,
) -> Begin:
    """Decide where the new mirror of a topic begins.

    `latest`, a group and a file mean nothing to a topic that was deleted and created again, and
    the former two nothing to one that came after the link began: all its records are new.

    Parameters
    ----------
    remembered
        The record of its mirror that is gone; None if it had none.
    """
    start = link.topics.start
    was_recreated = remembered is not None and is_another(remembered.source_id, topic.topic_id)
    is_new = was_recreated or source.is_later(topic.name)
    if isinstance(start, StartAt):
        return Begin(str(start.timestamp))
    if start == "latest" and not is_new:
        return Begin("latest")
    by = source.given
    if not by.origin or was_recreated or (is_new and by.is_of_beginning):
        return BEGUN
    listed = by.of_topic(topic.name, topic.partitions)
    given = {number: place.offset for number, place in listed.items()}
    return Begin(given=given, by=by, words=by.words(topic.name, topic.partitions))
