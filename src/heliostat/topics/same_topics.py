"""Whether topics are still those that something was decided about: Kafka deletes by name.

DeleteRecords has no topic id in any version, so a topic that is made anew between a look and the
deletion loses the records below the offset. Looks right before and right after make that window as
small as it can be, and tell of what fell into it.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName, id_text


def recreated(admin: ClusterAdmin, ids: Mapping[TopicName, str]) -> frozenset[TopicName]:
    """Those that have another id now; none where a topic is gone, or brokers know no ids.

    Raises
    ------
    ConnectionLost
        The cluster does not answer.
    """
    found = admin.describe_topics(ids)
    return frozenset(
        name
        for name, was in ids.items()
        if was
        and name in found
        and found[name].error is None
        and id_text(found[name].topic_id) not in {"", was}
    )
