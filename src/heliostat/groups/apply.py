"""Publishes planned offsets: records them, checks the target once more, then commits.

I9  Between the plan and the commit a consumer may come and go at the target. A broker refuses a
    commit for a group that has members; the offsets there are read again right before, and those
    that have changed are left for the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from heliostat.clusters.admin import ClusterAdmin, CommittedOffset
from heliostat.clusters.admin.group_calls import chunks
from heliostat.clusters.kafka_codes import UNKNOWN_MEMBER_ID
from heliostat.errors import BrokerError
from heliostat.groups.plan import GroupDecision, GroupPlan, sent_after
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.refusals import PASSING, error_for, refusals, refused
from heliostat.groups.values import (
    UNPUBLISHED,
    Answers,
    CommitDecision,
    FetchedOffsets,
    Published,
    Reason,
)
from heliostat.names import GroupId, TopicPartition

GROUPS_AT_ONCE = 200
"""Groups in one step: between reading their offsets and the last commit about 0.1 s pass."""
CONNECTIONS = 4
"""Connections for commits: a broker answers requests of one connection one by one, each once its
commit is in the log. Measured with 10,000 groups of 3 partitions: 2.5 ms a commit over one."""
FEW = 20
"""Up to this many groups are committed over one connection, without opening others."""
_NOT_DONE = frozenset({Reason.ACTIVE_AT_TARGET, Reason.NOT_TOLD, *UNPUBLISHED})
Guard = Callable[[], None]
Commits: TypeAlias = Mapping[TopicPartition, CommittedOffset]


def is_not_done(row: CommitDecision) -> bool:
    """Whether what was to be published of a partition is not, by the decision after it."""
    return row.reason in _NOT_DONE


class Committers:
    """Commits offsets over several connections; those beyond the first are opened when needed.

    Parameters
    ----------
    first
        The target.
    open_another
        Opens one more connection to it.
    """

    def __init__(self, first: ClusterAdmin, open_another: Callable[[], ClusterAdmin]) -> None:
        self.admin = first
        self._open_another = open_another
        self._others: list[ClusterAdmin] = []

    def close(self) -> None:
        """Close the connections that were opened here."""
        for admin in self._others:
            admin.close()
        self._others = []

    def commit(self, commits: Mapping[GroupId, Commits]) -> dict[GroupId, Answers]:
        """Commit offsets of groups; returns what `ClusterAdmin.commit_offsets` does."""
        if len(commits) <= FEW:
            return dict(self.admin.commit_offsets(commits))
        while len(self._others) < CONNECTIONS - 1:
            self._others.append(self._open_another())
        admins = [self.admin, *self._others]
        groups = list(commits)
        parts = [
            {each: commits[each] for each in groups[n::CONNECTIONS]} for n in range(len(admins))
        ]
        answers: dict[GroupId, Answers] = {}
        with ThreadPoolExecutor(CONNECTIONS, "groups") as pool:
            for found in pool.map(_commit_part, admins, parts):
                answers.update(found)
        return answers


def _commit_part(
    admin: ClusterAdmin, commits: Mapping[GroupId, Commits]
) -> Mapping[GroupId, Answers]:
    return admin.commit_offsets(commits)


@dataclass(slots=True)
class Applied:
    """What was done: number of committed offsets, and the decision on each group after it."""

    committed: int = 0
    groups: dict[GroupId, GroupDecision] = field(default_factory=dict)


def publish(
    plan: GroupPlan,
    target: Committers,
    memory: PublishedOffsets,
    at_ms: int,
    guard: Guard,
) -> Applied:
    """Commit the plan's offsets at the target.

    Parameters
    ----------
    guard
        Called before each step; raises if we no longer own the link (I10).

    Raises
    ------
    LinkTakenOver
        Another instance owns the link; the remaining offsets are not committed.
    ConnectionLost, BrokerError
        The record of what is published can't be written.
    """
    done = Applied(groups=dict(plan.groups))
    read_more = _new_rows(plan, memory, _read_elsewhere(plan), at_ms)
    if read_more:
        guard()
        memory.remember(read_more)
    pending = [group for group, decided in plan.groups.items() if decided.commits]
    for some in chunks(pending, GROUPS_AT_ONCE):
        guard()
        memory.remember(_new_rows(plan, memory, some, at_ms))
        names = {group: plan.groups[group].target_group for group in some}
        fresh = target.admin.committed_offsets(names.values())
        decided = {group: _unchanged(plan.groups[group], fresh[names[group]]) for group in some}
        answers = target.commit({names[group]: each.commits for group, each in decided.items()})
        memory.remember(_refused_rows(memory, decided.values(), answers))
        for group, each in decided.items():
            settled = _answered(each, answers.get(names[group], {}))
            done.groups[group] = settled
            done.committed += sum(
                before.publish is not None and not is_not_done(after)
                for before, after in zip(each.partitions, settled.partitions, strict=True)
            )
    return done


def _read_elsewhere(plan: GroupPlan) -> list[GroupId]:
    """Groups of merged topics of which nothing is committed: they may have read more elsewhere."""
    return [
        group
        for group, decided in plan.groups.items()
        if not decided.commits and any(row.read_to is not None for row in decided.partitions)
    ]


def _new_rows(
    plan: GroupPlan, memory: PublishedOffsets, groups: Iterable[GroupId], at_ms: int
) -> dict[GroupId, Published]:
    """Rows to write before the commits; retries of refused commits have theirs already."""
    rows: dict[GroupId, Published] = {}
    for group in groups:
        decided = plan.groups[group]
        known = memory.rows.get(decided.target_group)
        row = sent_after(known, decided.partitions, at_ms)
        if known is None or known.sent != row.sent:
            rows[decided.target_group] = row
    return rows


def _refused_rows(
    memory: PublishedOffsets,
    decided: Iterable[GroupDecision],
    answers: Mapping[GroupId, Answers],
) -> dict[GroupId, Published]:
    """Rows of groups of which other commits are refused than the last time."""
    rows: dict[GroupId, Published] = {}
    for each in decided:
        name = each.target_group
        known, codes = memory.rows[name], refusals(each, answers.get(name, {}))
        if known.refused != codes:
            rows[name] = replace(known, refused=codes)
    return rows


def _unchanged(decided: GroupDecision, fresh: FetchedOffsets | BrokerError) -> GroupDecision:
    """The decision without partitions whose offset at the target has changed since the plan."""
    if isinstance(fresh, BrokerError):
        why = f"at the target: {fresh}"
        return _each(
            decided, lambda row: replace(row, publish=None, reason=Reason.NOT_TOLD, why=why)
        )

    def checked(row: CommitDecision) -> CommitDecision:
        assert row.target is not None
        now = fresh.get(row.target)
        if isinstance(now, BrokerError):
            why = f"at the target: {now}"
            return replace(row, publish=None, reason=Reason.NOT_TOLD, why=why)
        if (None if now is None else now.offset) == row.target_offset:
            return row
        why = "it has just moved at the target: checked again in the next pass"
        return replace(row, publish=None, reason=Reason.MOVED_AT_TARGET, why=why)

    return _each(decided, checked)


def _answered(decided: GroupDecision, answers: Answers) -> GroupDecision:
    """The decision, updated by the target's answers."""

    def after(row: CommitDecision) -> CommitDecision:
        assert row.target is not None
        assert row.publish is not None
        error = error_for(row.target, answers)
        if error is None:
            return _landed(row, row.publish)
        if error.kafka_code == UNKNOWN_MEMBER_ID:
            why = "somebody has just joined the group at the target: held back"
            return replace(row, publish=None, reason=Reason.ACTIVE_AT_TARGET, why=why)
        if error.kafka_code in PASSING:
            why = f"at the target: {error}"
            return replace(row, publish=None, reason=Reason.NOT_TOLD, why=why)
        return refused(row, error.kafka_code)

    return _each(decided, after)


def _landed(row: CommitDecision, commit: CommittedOffset) -> CommitDecision:
    is_whole = row.reason in {Reason.PUBLISH, Reason.RESET}
    return replace(
        row,
        target_offset=commit.offset,
        publish=None,
        reason=Reason.SYNCED if is_whole else row.reason,
        why="the target has it" if is_whole else row.why,
        reread_now=row.again,
        begins_anew=False,
    )


def _each(
    decided: GroupDecision, change: Callable[[CommitDecision], CommitDecision]
) -> GroupDecision:
    """Apply `change` to the partitions that would be published."""
    rows = tuple(row if row.publish is None else change(row) for row in decided.partitions)
    return replace(decided, partitions=rows)
