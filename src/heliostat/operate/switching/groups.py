"""Groups that read what is switched: who still reads at the source, and whose offsets lack."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from heliostat.clusters.admin import ClusterAdmin, GroupMember
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError
from heliostat.groups.select import ELECTING_PROTOCOLS, KINDS_WITH_OFFSETS
from heliostat.groups.values import SETTLED, Reason, Skip
from heliostat.handover.desk import GroupsSeen
from heliostat.names import GroupId, TopicName
from heliostat.operate.groups import group_views

_LEFT_ALONE = SETTLED | {Reason.ACTIVE_AT_TARGET, Reason.REWOUND_AT_TARGET}
"""Also where a group reads at the target already: its offsets there are its own."""

_NOT_OURS = frozenset({Skip.EXCLUDED, Skip.NO_OFFSETS})


def groups_seen(
    config: Config, link: LinkConfig, source: ClusterAdmin, topics: AbstractSet[TopicName]
) -> GroupsSeen:
    """Return who reads these topics at the source, and whether the link's groups may move."""
    readers, silent = readers_at(source, topics)
    if not link.groups.sync:
        return GroupsSeen(is_synced=False, reading=silent, apart=tuple(readers.values()))
    [found] = group_views(config, link.name)
    reading: list[str] = []
    behind: list[str] = []
    rereads: dict[str, int] = {}
    level = 0
    for view in found.groups:
        if view.skip in _NOT_OURS:
            continue
        decided = view.decided
        rows = [row for row in view.rows if row.source.topic in topics]
        lacking = [row for row in rows if row.reason not in _LEFT_ALONE]
        again = sum(row.reread_records or 0 for row in rows)
        if again and link.topics.merges:
            rereads[view.shown_name] = again
        if view.group in readers:
            reading.append(readers.pop(view.group))
        elif decided is not None and (lacking or decided.problem):
            why = f"{lacking[0].source}: {lacking[0].why}" if lacking else decided.problem
            behind.append(f"{view.shown_name}: {why}")
        else:
            level += bool(rows)
    return GroupsSeen(
        is_synced=True,
        reading=(*reading, *silent),
        behind=tuple(behind),
        level=level,
        apart=tuple(readers.values()),
        rereads=rereads,
    )


def readers_at(
    source: ClusterAdmin, topics: AbstractSet[TopicName]
) -> tuple[dict[GroupId, str], tuple[str, ...]]:
    """Return groups with members that read some of these topics, in words, and silent brokers.

    A group reads what it has committed, is assigned, or asks for; one of which that is not known
    may read them.
    """
    listing = source.list_groups()
    busy = {
        name: each
        for name, each in sorted(listing.groups.items())
        if each.has_members
        and each.kind in KINDS_WITH_OFFSETS
        and each.protocol not in ELECTING_PROTOCOLS
    }
    commits = source.committed_offsets(busy)
    members: dict[GroupId, tuple[GroupMember, ...] | BrokerError] = {}
    for kind in {each.kind for each in busy.values()}:
        some = [name for name, each in busy.items() if each.kind == kind]
        members |= source.describe_members(some, kind)
    readers: dict[GroupId, str] = {}
    for name in busy:
        committed, those = commits.get(name, {}), members.get(name, ())
        if isinstance(those, BrokerError):
            asked, who = set[TopicName](), ""
        else:
            asked = {topic for each in those for topic in each.topics}
            who = ", ".join(sorted({f"{each.client_id} at {each.host}" for each in those}))
        if isinstance(committed, BrokerError):
            if not asked:
                readers[name] = f"{name} (what it reads is not known: {committed.text})"
                continue
            committed = {}
        if not topics.isdisjoint(asked | {place.topic for place in committed}):
            readers[name] = f"{name} ({who})" if who else name
    silent = (f"those of broker {each}: {why.text}" for each, why in listing.failed.items())
    return readers, tuple(silent)
