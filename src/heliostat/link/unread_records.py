"""Where an application's group stands in the mirror of its repartition topic: what it has not read.

An application deletes what it has read. Its group's offset at the target follows a few seconds
later, and the records that it made of them may not be copied yet. After a failover it goes on from
there: so nothing goes by default that its group at the target has still to read.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError
from heliostat.groups.naming import group_naming_of
from heliostat.groups.select import compile_selection
from heliostat.groups.values import FetchedOffsets
from heliostat.names import GroupId, Offset, TopicPartition
from heliostat.records.copier.lane import PartitionSpec

NOTHING_READ = Offset(0)


class UnreadRecords:
    """Asks both clusters for the groups of applications.

    Parameters
    ----------
    link
        Which groups it syncs, and under which names.
    source, target
        Both clusters.
    """

    def __init__(self, link: LinkConfig, source: ClusterAdmin, target: ClusterAdmin) -> None:
        self._is_synced = link.groups.sync
        self._selection = compile_selection(link.groups)
        self._naming = group_naming_of(link)
        self._source = source
        self._target = target

    def of(self, specs: Mapping[TopicPartition, PartitionSpec]) -> dict[TopicPartition, Offset]:
        """Return from which target offset on groups have not read, by source partition.

        Kafka Streams names the topic `<application>-<name>-repartition`, and its group as the
        application. Partitions without such a group, or whose group is not synced, are left out.

        Raises
        ------
        ConnectionLost
            A cluster does not answer.
        """
        if not self._is_synced:
            return {}
        topics = {source.topic for source in specs}
        listed = self._source.list_groups().groups.values()
        selected = {row.group for row in listed if self._selection.choose(row).skip is None}
        readers = {
            topic: self._naming.target_name(group)
            for topic in topics
            for group in sorted(selected, key=len)
            if topic.startswith(f"{group}-")
        }
        if not readers:
            return {}
        committed = self._target.committed_offsets(set(readers.values()))
        return {
            source: self._of(committed, readers[source.topic], spec.target)
            for source, spec in specs.items()
            if source.topic in readers
        }

    @staticmethod
    def _of(
        committed: Mapping[GroupId, FetchedOffsets | BrokerError],
        group: GroupId,
        mirror: TopicPartition,
    ) -> Offset:
        offsets = committed.get(group)
        row = None if offsets is None or isinstance(offsets, BrokerError) else offsets.get(mirror)
        return NOTHING_READ if row is None or isinstance(row, BrokerError) else row.offset
