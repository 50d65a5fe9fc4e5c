"""Whether topics are still the same as when a decision was made: Kafka deletes by name.

DeleteRecords has no topic id in any version, so a topic that is recreated between a check and the
deletion loses the records below the offset. Checks right before and right after make that window as
small as possible, and detect what fell into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from heliostat.clusters.admin import ClusterAdmin, TopicInfo
from heliostat.errors import BrokerError
from heliostat.names import Offset, TopicName, TopicPartition, id_text, is_another, is_still

Found = Mapping[TopicName, TopicInfo]
"""The cluster's current answer (`ClusterAdmin.describe_topics`)."""


class DeletedRecords(NamedTuple):
    """What became of a request to delete records."""

    answers: Mapping[TopicPartition, Offset | BrokerError]
    """New log starts, or errors, of topics that were still the same right before."""
    gone: frozenset[TopicName]
    """Topics that had been recreated before."""
    meanwhile: frozenset[TopicName]
    """Topics that were recreated while records were deleted: others' may be gone as well."""


def delete_in_same_topics(
    admin: ClusterAdmin, before: Mapping[TopicPartition, Offset], ids: Mapping[TopicName, str]
) -> DeletedRecords:
    """Delete records before these offsets, in topics that still have these ids.

    Raises
    ------
    ConnectionLost
        The cluster does not answer.
    """
    infos = admin.describe_topics(ids)
    kept = not_shown_same(infos, ids)
    left = {
        partition: offset for partition, offset in before.items() if partition.topic not in kept
    }
    answers = admin.delete_records(left) if left else {}
    meanwhile = recreated(admin.describe_topics(ids), ids) - kept if left else frozenset()
    return DeletedRecords(answers, recreated(infos, ids), meanwhile)


def recreated(infos: Found, ids: Mapping[TopicName, str]) -> frozenset[TopicName]:
    """Topics that have another id now; not those that are gone, or with an unknown id."""
    return _those(infos, ids, is_another)


def not_shown_same(infos: Found, ids: Mapping[TopicName, str]) -> frozenset[TopicName]:
    """Topics whose records must not be deleted: recreated, or their id is no longer reported."""
    return _those(infos, ids, lambda was, now: not is_still(was, now))


def _those(
    infos: Found,
    ids: Mapping[TopicName, str],
    is_meant: Callable[[str, str], bool],
) -> frozenset[TopicName]:
    return frozenset(
        name
        for name, was in ids.items()
        if name in infos
        and infos[name].error is None
        and is_meant(was, id_text(infos[name].topic_id))
    )
