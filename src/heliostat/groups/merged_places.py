"""Where groups of merged topics go on at the target: at the first record that they have not read.

Both sites are looked at together (`MergedSite`), and the rule is `heliostat.merge.places`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from heliostat.clusters.admin import CommittedOffset
from heliostat.errors import BrokerError
from heliostat.groups.merged_site import NO_LEADER, MergedSite, SiteLook
from heliostat.groups.values import FetchedOffsets, MergedPlace, Sent
from heliostat.merge.landed_log import UnknownPlaceError
from heliostat.merge.places import (
    Place,
    Published,
    ReadTo,
    Site,
    as_it_stands,
    place_at,
    read_behind,
    read_to,
    with_earlier,
)
from heliostat.names import ClusterId, GroupId, Offset, TopicName, TopicPartition
from heliostat.topics.values import MirrorRecord

Offsets = Mapping[GroupId, FetchedOffsets | BrokerError]
Places = Mapping[tuple[GroupId, TopicPartition], MergedPlace | str]
"""By group and source partition; a text says why it is not known."""


class MergedPlaces:
    """Works out places of groups at the target of one link; one thread.

    Parameters
    ----------
    source, target
        Both sites; `close` closes them.
    target_id
        Cluster id of the target.
    """

    def __init__(self, source: MergedSite, target: MergedSite, target_id: ClusterId) -> None:
        self._source = source
        self._target = target
        self._target_id = target_id

    def close(self) -> None:
        """Close both."""
        self._source.close()
        self._target.close()

    def of(
        self, records: Mapping[TopicName, MirrorRecord], offsets: Offsets, there: Offsets
    ) -> Places:
        """Return where groups go on.

        Parameters
        ----------
        records
            The link's mirrors, by source topic.
        offsets, there
            What groups have committed at the source and at the target, read before.

        Raises
        ------
        ConnectionLost, BrokerError, ProtocolError
            A site does not answer, or what links have noted there can't be read.
        """
        asked = [
            (group, one, commit)
            for group, rows in offsets.items()
            if not isinstance(rows, BrokerError)
            for one, commit in rows.items()
            if not isinstance(commit, BrokerError)
            and (record := records.get(one.topic)) is not None
            and record.is_merged
        ]
        if not asked:
            return {}
        merged = [records[name] for name in {one.topic for _, one, _ in asked}]
        with ExitStack() as looks:
            here = looks.enter_context(self._source.look({each.source for each in merged}))
            far = looks.enter_context(self._target.look({each.target for each in merged}))
            both = BothSites(here, far, self._target_id)
            return {
                (group, one): both.place(group, one, commit, records[one.topic], there.get(group))
                for group, one, commit in asked
            }


class BothSites:
    """Both sites as of one look at each.

    Parameters
    ----------
    here, there
        The source and the target.
    target_id
        Cluster id of the target.
    """

    def __init__(self, here: SiteLook, there: SiteLook, target_id: ClusterId) -> None:
        self._here = here
        self._there = there
        self._target = Site(target_id)

    def place(
        self,
        group: GroupId,
        source: TopicPartition,
        commit: CommittedOffset,
        record: MirrorRecord,
        committed: FetchedOffsets | BrokerError | None,
    ) -> MergedPlace | str:
        """Return where a group goes on at the target, or why that is not known.

        Parameters
        ----------
        group, source, commit
            The group, a partition, and what the group has committed of it.
        record
            The mirror.
        committed
            What the group has committed at the target.
        """
        target = record.mirror_of(source.partition)
        into, log = self._there.into.get(target, NO_LEADER), self._there.logs.get(target)
        if isinstance(into, str) or log is None:
            return into if isinstance(into, str) else NO_LEADER
        try:
            read = self._read(group, source, commit.offset, Site(record.source_cluster))
            if isinstance(read, str):
                return read
            place = place_at(self._target, read, into, log.end)
            if place.offset < log.start:
                again = read_behind(log.start, self._target, read, into, log.end)
                place = Place(log.start, again)
            begins = log.start
            rows = {} if committed is None or isinstance(committed, BrokerError) else committed
            now = rows.get(target)
            if isinstance(now, CommittedOffset) and log.start <= now.offset <= log.end:
                begins = now.offset
            again_now = read_behind(begins, self._target, read, into, log.end)
            place = as_it_stands(place, begins, again_now, log.start)
        except UnknownPlaceError as error:
            return str(error)
        read_to_there = {str(site): offset for site, offset in read.items()}
        return MergedPlace(place.offset, place.again, again_now, read_to_there, log.start, log.end)

    def _read(
        self, group: GroupId, source: TopicPartition, offset: Offset, site: Site
    ) -> ReadTo | str:
        """Return what a group has read that stands at an offset of the source."""
        into, log = self._here.into.get(source, NO_LEADER), self._here.logs.get(source)
        if isinstance(into, str) or log is None:
            return into if isinstance(into, str) else NO_LEADER
        if offset < log.start:
            return f"it stands at {offset}, and the source has nothing before {log.start}"
        read: ReadTo = read_to(site, offset, into)
        for earlier in self._published(group, source):
            read = with_earlier(read, offset, earlier)
        return read

    def _published(self, group: GroupId, partition: TopicPartition) -> Iterable[Published]:
        """Yield what links have published for a group at the source."""
        for memory in self._here.published.values():
            row = memory.rows.get(group)
            sent: Sent | None = None if row is None else row.sent.get(partition)
            if sent is not None and sent.read_to is not None:
                earlier = {Site(name): Offset(at) for name, at in sent.read_to.items()}
                yield Published(sent.offset, earlier)
