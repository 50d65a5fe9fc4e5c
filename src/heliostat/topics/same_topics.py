"""Whether topics are still the same as when a decision was made: Kafka deletes by name.

DeleteRecords has no topic id in any version, so a topic that is recreated between a check and the
deletion loses the records below the offset. Checks right before and right after make that window as
small as possible, and detect what fell into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heliostat.clusters.admin import TopicInfo
from heliostat.names import TopicName, id_text, is_another, is_still

Found = Mapping[TopicName, TopicInfo]
"""The cluster's current answer (`ClusterAdmin.describe_topics`)."""


def recreated(found: Found, ids: Mapping[TopicName, str]) -> frozenset[TopicName]:
    """Topics that have another id now; not those that are gone, or with an unknown id."""
    return _those(found, ids, is_another)


def not_shown_same(found: Found, ids: Mapping[TopicName, str]) -> frozenset[TopicName]:
    """Topics whose records must not be deleted: recreated, or their id is no longer reported."""
    return _those(found, ids, lambda was, now: not is_still(was, now))


def _those(
    found: Found,
    ids: Mapping[TopicName, str],
    is_meant: Callable[[str, str], bool],
) -> frozenset[TopicName]:
    return frozenset(
        name
        for name, was in ids.items()
        if name in found
        and found[name].error is None
        and is_meant(was, id_text(found[name].topic_id))
    )
