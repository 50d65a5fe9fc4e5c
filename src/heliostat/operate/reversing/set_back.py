"""Offsets of the old source's groups that lie beyond a promotion.

Whoever committed them has read records that never crossed, or that the old source has lost. Behind
the promotion other records come: a group that began at such an offset could skip some of these. So
they are set back before anything is copied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.clusters.kafka_codes import UNKNOWN_MEMBER_ID
from heliostat.errors import BrokerError
from heliostat.names import GroupId, Offset, TopicPartition
from heliostat.operate.reversing.values import GroupSetBack, TopicReturn


def groups_beyond(old: ClusterAdmin, topics: Collection[TopicReturn]) -> tuple[GroupSetBack, ...]:
    """Return the groups of the old source with offsets beyond these topics' promotions.

    Raises
    ------
    ConnectionLost, BrokerError
        The old source does not answer, or refuses.
    """
    ends = {
        TopicPartition(topic.topic, part.partition): part.promotion.source_end
        for topic in topics
        for part in topic.partitions
    }
    if not ends:
        return ()
    listing = old.list_groups()
    for error in listing.failed.values():
        raise error
    beyond: list[GroupSetBack] = []
    for group, rows in sorted(old.committed_offsets(listing.groups).items()):
        if isinstance(rows, BrokerError):
            raise rows
        for partition, commit in sorted(rows.items(), key=lambda item: item[0]):
            if partition not in ends or isinstance(commit, BrokerError):
                continue
            if commit.offset > ends[partition]:
                has_members = listing.groups[group].has_members
                beyond.append(
                    GroupSetBack(
                        *(group, partition, commit.offset, ends[partition]),
                        *(commit.metadata, has_members),
                    )
                )
    return tuple(beyond)


def set_back(old: ClusterAdmin, groups: Collection[GroupSetBack]) -> tuple[GroupSetBack, ...]:
    """Set offsets back to the promotion; return the groups, with those that run by now.

    Raises
    ------
    ConnectionLost, BrokerError
        The old source does not answer, or refuses.
    """
    commits: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
    for setback in groups:
        if not setback.has_members:
            rows = commits.setdefault(setback.group, {})
            rows[setback.partition] = CommittedOffset(Offset(setback.until), setback.metadata)
    if not commits:
        return tuple(groups)
    running = {
        group for group, answers in old.commit_offsets(commits).items() if _is_running(answers)
    }
    return tuple(
        replace(group_setback, has_members=True)
        if group_setback.group in running
        else group_setback
        for group_setback in groups
    )


def _is_running(answers: Mapping[TopicPartition, BrokerError | None] | BrokerError) -> bool:
    """Return whether brokers refused, as the group has members; raise what else they say."""
    errors = (
        [answers]
        if isinstance(answers, BrokerError)
        else [answer for answer in answers.values() if answer is not None]
    )
    for error in errors:
        if error.kafka_code != UNKNOWN_MEMBER_ID:
            raise error
    return bool(errors)
