"""Groups that still read a former source, after its topics became mirrors of a way back.

Producers have moved, consumers move last. Their offsets are published where they will move to: the
other way than everything else of a link. Each is raised only, and never while the group has members
there: so whatever dies, none of its records is skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from heliostat.clusters.admin import CommittedOffset
from heliostat.clusters.kafka_codes import UNKNOWN_MEMBER_ID
from heliostat.errors import BrokerError
from heliostat.groups.plan import GroupDecision
from heliostat.groups.values import MirrorPartition, TargetGroups
from heliostat.names import GroupId, Offset, TopicName, TopicPartition

Commits = Mapping[GroupId, Mapping[TopicPartition, CommittedOffset]]


def place_at_source(mirror: MirrorPartition, target: Offset) -> Offset:
    """Return where a consumer goes on at the source that stopped at an offset of the mirror.

    Where the mirror has offsets without records (a kept tail, markers of former transactions) it is
    the record after them.
    """
    found = mirror.offsets.source_of(target)
    following = next(iter(mirror.offsets.breaks(after=target)), None)
    return found if following is None else Offset(min(found, following.source))


def running_there(decided: Iterable[GroupDecision]) -> set[GroupId]:
    """Return the groups that have members at the target, and none at the source."""
    return {
        each.group
        for each in decided
        if each.target is not None
        and each.target.has_members
        and (each.source is None or not each.source.has_members)
    }


def commits_at_source(
    decided: Mapping[GroupId, GroupDecision],
    target: TargetGroups,
    returned: Collection[TopicName],
    groups: Collection[GroupId],
) -> Commits:
    """Return offsets to raise at the source.

    Parameters
    ----------
    returned
        Topics of the source whose mirrors were the topics that they were copied from.
    groups
        Those that run at the target, or did a moment ago.
    """
    commits: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
    for group in groups:
        there = target.offsets.get(decided[group].target_group) if group in decided else None
        if there is None or isinstance(there, BrokerError):
            continue
        for row in decided[group].partitions:
            mirror = target.partitions.get(row.source)
            if row.source.topic not in returned or not isinstance(mirror, MirrorPartition):
                continue
            committed = there.get(mirror.target)
            if not isinstance(committed, CommittedOffset) or row.source_offset is None:
                continue
            wanted = place_at_source(mirror, committed.offset)
            if 0 <= row.source_offset < wanted and committed.offset <= mirror.end:
                rows = commits.setdefault(group, {})
                rows[row.source] = CommittedOffset(wanted, committed.metadata)
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
