"""Groups that read what is switched: who still reads at the source, and whose offsets lack."""

from __future__ import annotations

from collections.abc import Collection

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError
from heliostat.groups.values import SETTLED, Reason
from heliostat.handover.desk import GroupsSeen
from heliostat.names import TopicName
from heliostat.operate.groups import GroupView, group_views

_LEFT_ALONE = SETTLED | {Reason.ACTIVE_AT_TARGET, Reason.REWOUND_AT_TARGET}
"""Also where a group reads at the target already: its offsets there are its own."""


def groups_seen(
    config: Config, link: LinkConfig, source: ClusterAdmin, topics: Collection[TopicName]
) -> GroupsSeen:
    """Return the groups that the link syncs and that have committed offsets of these topics."""
    if not link.groups.sync:
        return GroupsSeen(is_synced=False)
    [found] = group_views(config, link.name)
    reading: list[str] = []
    behind: list[str] = []
    level = 0
    for view in found.groups:
        decided = view.decided
        if decided is None:
            continue
        rows = [row for row in view.rows if row.source.topic in topics]
        lacking = [row for row in rows if row.reason not in _LEFT_ALONE]
        if rows and decided.source is not None and decided.source.has_members:
            reading.append(_reading(view, source))
        elif lacking or decided.problem:
            why = f"{lacking[0].source}: {lacking[0].why}" if lacking else decided.problem
            behind.append(f"{view.shown_name}: {why}")
        else:
            level += bool(rows)
    return GroupsSeen(is_synced=True, reading=tuple(reading), behind=tuple(behind), level=level)


def _reading(view: GroupView, source: ClusterAdmin) -> str:
    assert view.decided is not None
    assert view.decided.source is not None
    answer = source.describe_members([view.group], view.decided.source.kind)[view.group]
    if isinstance(answer, BrokerError) or not answer:
        return view.group
    members = sorted({f"{each.client_id} at {each.host}" for each in answer})
    return f"{view.group} ({', '.join(members)})"
