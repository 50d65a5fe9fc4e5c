"""Groups that still read a former source, after its topics became mirrors of a way back.

Producers have moved, consumers move last. Their offsets are published where they will move to: the
other way than everything else of a link. Each is raised only, and never while the group has members
there: so whatever dies, none of its records is skipped. That includes groups that the source does
not know: without an offset they would begin at its end, or at its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.clusters.kafka_codes import UNKNOWN_MEMBER_ID
from heliostat.errors import BrokerError
from heliostat.groups.observe import Mirrors, Partitions
from heliostat.groups.values import FetchedOffsets, MirrorPartition
from heliostat.names import GroupId, Offset, TopicName, TopicPartition

Commits = Mapping[GroupId, Mapping[TopicPartition, CommittedOffset]]
OffsetsOf = Mapping[GroupId, FetchedOffsets | BrokerError]
Observed = Callable[[frozenset[TopicPartition], Mirrors], Partitions]


def place_at_source(mirror: MirrorPartition, target: Offset) -> Offset:
    """Return where a consumer goes on at the source that stopped at an offset of the mirror.

    Where the mirror has offsets without records (a kept tail, markers of former transactions) it is
    the record after them.
    """
    found = mirror.offsets.source_of(target)
    following = next(iter(mirror.offsets.breaks(after=target)), None)
    return found if following is None else Offset(min(found, following.source))


class LastToMove:
    """Publishes at a link's source where groups stand that run at its target; one thread.

    Parameters
    ----------
    source, target
        Both clusters.
    observed
        Reads the mirrors of source partitions.
    """

    def __init__(self, source: ClusterAdmin, target: ClusterAdmin, observed: Observed) -> None:
        self._source, self._target, self._observed = source, target, observed

    def publish(
        self, running: Mapping[GroupId, GroupId], mirrors: Mirrors, guard: Callable[[], None]
    ) -> None:
        """Publish the offsets of groups.

        Parameters
        ----------
        running
            Groups that run at the target, or did a moment ago, with their names there.
        mirrors
            The link's, by source topic: those that were the topics they were copied from count.
        guard
            Raises if we no longer own the link (I10).

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses.
        """
        returned = {name: each for name, each in mirrors.items() if each.is_returned}
        if not returned or not running:
            return
        here = self._target.committed_offsets(list(running.values()))
        placed = {
            group: _by_source(here.get(name, {}), returned) for group, name in running.items()
        }
        asked = frozenset(source for rows in placed.values() for source in rows)
        if not asked:
            return
        there = self._source.committed_offsets([group for group, rows in placed.items() if rows])
        commits = commits_at_source(placed, there, self._observed(asked, returned))
        if commits:
            guard()
            for error in refusals_of(self._source.commit_offsets(commits)):
                raise error


def _by_source(
    committed: FetchedOffsets | BrokerError, returned: Mirrors
) -> dict[TopicPartition, CommittedOffset]:
    """Return a group's offsets in these mirrors, by source partition."""
    if isinstance(committed, BrokerError):
        return {}
    by_target = {record.target: record for record in returned.values()}
    rows: dict[TopicPartition, CommittedOffset] = {}
    for place, commit in committed.items():
        record = by_target.get(TopicName(place.topic))
        number = None if record is None else record.slot.source_partition(place.partition)
        if record is not None and number is not None and isinstance(commit, CommittedOffset):
            rows[TopicPartition(record.source, number)] = commit
    return rows


def commits_at_source(
    placed: Mapping[GroupId, Mapping[TopicPartition, CommittedOffset]],
    there: OffsetsOf,
    partitions: Partitions,
) -> Commits:
    """Return offsets to raise at the source.

    Parameters
    ----------
    placed
        What groups have committed in mirrors, by source partition.
    there
        What they have committed at the source.
    partitions
        The mirrors' partitions, by source partition.
    """
    commits: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
    for group, rows in placed.items():
        at_source = there.get(group, {})
        if isinstance(at_source, BrokerError):
            continue
        for place, committed in rows.items():
            mirror, before = partitions.get(place), at_source.get(place)
            if not isinstance(mirror, MirrorPartition) or isinstance(before, BrokerError):
                continue
            wanted = place_at_source(mirror, committed.offset)
            if (before is None or before.offset < wanted) and committed.offset <= mirror.end:
                of_group = commits.setdefault(group, {})
                of_group[place] = CommittedOffset(wanted, committed.metadata)
    return commits


def refusals_of(
    answers: Mapping[GroupId, Mapping[TopicPartition, BrokerError | None] | BrokerError],
) -> Iterator[BrokerError]:
    """Yield what brokers refused, but for groups that have moved meanwhile."""
    for of_group in answers.values():
        errors = [of_group] if isinstance(of_group, BrokerError) else of_group.values()
        for error in errors:
            if error is not None and error.kafka_code != UNKNOWN_MEMBER_ID:
                yield error
