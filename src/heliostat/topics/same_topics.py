"""Whether topics are still those that something was decided about: Kafka deletes by name.

DeleteRecords has no topic id in any version, so a topic that is made anew between a look and the
deletion loses the records below the offset. Looks right before and right after make that window as
small as it can be, and tell of what fell into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heliostat.clusters.admin import TopicInfo
from heliostat.names import TopicName, id_text, is_another, is_still

Found = Mapping[TopicName, TopicInfo]
"""What the cluster answers now (`ClusterAdmin.describe_topics`)."""


def recreated(found: Found, ids: Mapping[TopicName, str]) -> frozenset[TopicName]:
    """Those that have another id now; none where a topic is gone, or an id is unknown."""
    return _those(found, ids, is_another)


def not_shown_same(found: Found, ids: Mapping[TopicName, str]) -> frozenset[TopicName]:
    """Those that must not be deleted from: recreated, or of an id that is not reported any more."""
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
