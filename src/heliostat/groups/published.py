"""What a link has published for groups, kept on the target: `heliostat.<link>.groups`.

One row per group. Without it a reset at the source looks the same as a consumer that has advanced
at the target. If the topic is lost, only this knowledge is: such offsets are
then left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heliostat.access import Reachable
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.foreign_records import NOT_A_ROW, ForeignRecords
from heliostat.clusters.keyed_topic import KeyedTopic, OwnRows, missing_topics
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.groups.values import Published
from heliostat.names import GroupId, LinkName, TopicName


def groups_topic(link: LinkName) -> str:
    """Name of the topic that holds what was published for groups."""
    return f"{STATE_TOPIC_PREFIX}{link}.groups"


class PublishedOffsets:
    """Rows of all groups, in memory and on the target.

    Parameters
    ----------
    target
        The cluster that keeps them.
    link
        Name of the link.
    foreign
        Told of records that are not the link's; they are ignored.
    """

    def __init__(
        self, target: Reachable, link: LinkName, foreign: ForeignRecords | None = None
    ) -> None:
        own = OwnRows((), foreign or ForeignRecords())
        self._topic = KeyedTopic(target, groups_topic(link), "heliostat-groups", own)
        self._foreign = own.foreign
        self.rows: dict[GroupId, Published] = {}

    @property
    def topic(self) -> TopicName:
        """The topic's name."""
        return self._topic.topic

    def close(self) -> None:
        """Close the connections."""
        self._topic.close()

    def read(self) -> None:
        """Read all rows; none if the topic does not exist.

        A group whose row is none of ours counts as one of which nothing was published.
        """
        self.rows = {}
        for key, value in self._topic.read_all().items():
            try:
                self.rows[GroupId(key)] = Published.from_json(value)
            except NOT_A_ROW as error:
                self._foreign.note(self._topic.topic, None, key, error)

    def ensure(self, target: ClusterAdmin, replication_factor: int | None) -> bool:
        """If the topic is missing, create it and write the known rows; return whether it was."""
        if not missing_topics(target, [self._topic.topic]):
            return False
        self._topic.ensure(replication_factor)
        self.remember(self.rows)
        return True

    def remember(self, rows: Mapping[GroupId, Published]) -> None:
        """Write rows; they are durable when it returns."""
        if rows:
            self._topic.write_many({group: row.to_json() for group, row in rows.items()})
            self.rows.update(rows)

    def forget(self, groups: Iterable[GroupId]) -> None:
        """Remove the rows of groups that no longer exist anywhere."""
        gone = [group for group in groups if group in self.rows]
        if gone:
            self._topic.write_many(dict.fromkeys(gone))
            for group in gone:
                del self.rows[group]
