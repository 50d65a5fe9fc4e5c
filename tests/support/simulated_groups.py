"""A coordinator's answers about consumer groups in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from support.simulated_cluster import SimulatedCluster, SimulatedGroup, error
from support.simulated_settings import OFFSET_METADATA_MAX

from heliostat.clusters.admin import CommittedOffset, GroupListing, GroupMember, ListedGroup
from heliostat.clusters.admin.group_calls import CommitAnswers, Commits, FetchedOffsets
from heliostat.clusters.admin.group_values import CLASSIC_KIND, NO_COMMIT
from heliostat.errors import BrokerError
from heliostat.names import BrokerId, GroupId, TopicPartition

UNKNOWN_PARTITION, METADATA_TOO_LARGE, INVALID_GROUP, UNKNOWN_MEMBER = 3, 12, 24, 25
NO_RIGHT, NOT_EMPTY, NOT_FOUND = 29, 68, 69
ALL_OPERATIONS = frozenset({3, 6, 8, 10, 11})
"""Read, Delete, Describe, DescribeConfigs, AlterConfigs: of a cluster without an authorizer."""


def list_groups(
    cluster: SimulatedCluster, states: Sequence[str], kinds: Sequence[str]
) -> GroupListing:
    """List groups; the first broker coordinates all: if it fails, none is listed."""
    brokers = [each.broker_id for each in cluster.brokers]
    failed = {
        BrokerId(broker): refused
        for broker, refused in cluster.take("list_groups", brokers).items()
        if isinstance(broker, int)
    }
    wanted = {each.lower() for each in states}
    listed = {
        name: ListedGroup(name, brokers[0], group.state, group.kind, group.protocol)
        for name, group in cluster.groups.items()
        if (not wanted or group.state.lower() in wanted) and (not kinds or group.kind in kinds)
    }
    return GroupListing({} if brokers[0] in failed else listed, failed)


def members(
    cluster: SimulatedCluster, kind: str, groups: Iterable[GroupId]
) -> dict[GroupId, tuple[GroupMember, ...] | BrokerError]:
    """Return members of groups of one kind; others are not found."""
    asked = sorted(set(groups))
    failed = cluster.take("describe_members", asked)
    answers: dict[GroupId, tuple[GroupMember, ...] | BrokerError] = {}
    for name in asked:
        group = cluster.groups.get(name)
        if name in failed:
            answers[name] = failed[name]
        elif kind != CLASSIC_KIND and not name:
            answers[name] = error(INVALID_GROUP, "describe group")
        elif group is None or group.kind != kind:
            answers[name] = error(NOT_FOUND, f"describe group {name}")
        else:
            answers[name] = tuple(group.members)
    return answers


def operations(
    cluster: SimulatedCluster, groups: Iterable[GroupId]
) -> dict[GroupId, frozenset[int] | BrokerError]:
    """Return that everything may be done with groups."""
    asked = sorted(set(groups))
    failed = cluster.take("group_operations", asked)
    return {name: failed.get(name) or ALL_OPERATIONS for name in asked}


def delete(
    cluster: SimulatedCluster, groups: Iterable[GroupId]
) -> dict[GroupId, BrokerError | None]:
    """Delete groups without members, with their offsets."""
    asked = sorted(set(groups))
    failed = cluster.take("delete_groups", asked)
    answers: dict[GroupId, BrokerError | None] = {}
    for name in asked:
        group = cluster.groups.get(name)
        if name in failed or group is None:
            answers[name] = failed.get(name) or error(NOT_FOUND, f"delete group {name}")
        elif group.members:
            answers[name] = error(NOT_EMPTY, f"delete group {name}")
        else:
            del cluster.groups[name]
            answers[name] = None
    return answers


def committed(
    cluster: SimulatedCluster, groups: Iterable[GroupId]
) -> dict[GroupId, FetchedOffsets | BrokerError]:
    """Return offsets of visible topics; negative ones only if not `NO_COMMIT`."""
    asked = sorted(set(groups))
    failed = cluster.take("committed_offsets", asked)
    nobody = SimulatedGroup()
    return {
        name: failed.get(name)
        or {
            partition: row
            for partition, row in cluster.groups.get(name, nobody).offsets.items()
            if row.offset != NO_COMMIT and partition.topic not in cluster.hidden
        }
        for name in asked
    }


def commit(
    cluster: SimulatedCluster, commits: Mapping[GroupId, Commits]
) -> dict[GroupId, CommitAnswers | BrokerError]:
    """Commit without being a member; the first commit creates the group."""
    asked = {name: rows for name, rows in commits.items() if rows}
    failed = cluster.take("commit_offsets", asked)
    return {
        name: failed.get(name) or {p: _commit(cluster, name, p, row) for p, row in rows.items()}
        for name, rows in asked.items()
    }


def _commit(
    cluster: SimulatedCluster, name: GroupId, partition: TopicPartition, row: CommittedOffset
) -> BrokerError | None:
    what = f"commit for {partition}"
    if partition.topic in cluster.hidden:
        return error(NO_RIGHT, what)
    if cluster.log(partition) is None:
        return error(UNKNOWN_PARTITION, what)
    known = cluster.groups.get(name)
    if known is not None and known.members:
        return error(UNKNOWN_MEMBER, what)
    if len(row.metadata) > OFFSET_METADATA_MAX:
        return error(METADATA_TOO_LARGE, what)
    cluster.groups.setdefault(name, SimulatedGroup()).offsets[partition] = row
    return None
