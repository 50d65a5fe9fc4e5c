"""Decides on each group's offsets at the target; pure: values in, values out.

I9  A published group offset never points past what has landed and never moves a live group.

The offset to publish is where a consumer at the target continues exactly where it stopped at the
source (`OffsetMap.target_of`), limited to the mirror's start and end. The offset at the target
decides whether it may be written: if there is none, or ours, we may move it, both ways; an offset
that a consumer there has reached itself is never moved back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from heliostat.clusters.admin import CommittedOffset, ListedGroup
from heliostat.clusters.admin.group_values import SHARE_KIND
from heliostat.errors import BrokerError
from heliostat.groups.naming import SAME_NAMES, GroupNaming
from heliostat.groups.values import (
    CommitDecision,
    MergedPlace,
    MirrorPartition,
    Published,
    Reason,
    Sent,
    SourceGroups,
    TargetGroups,
)
from heliostat.invariants import group_offset_may_be_published
from heliostat.names import GroupId, Offset, TopicPartition

SHARED_THERE = (
    "the target has a share group of this name, which takes no offsets: exclude the group, or "
    "delete the share group"
)
Policy: TypeAlias = Literal["advance", "leave"]
_Verdict: TypeAlias = tuple[Reason, str]
_PUBLISHING = frozenset({Reason.PUBLISH, Reason.RESET, Reason.NOT_LANDED, Reason.BELOW_START})


NO_NAME = GroupId("")
"""Of a decision that nobody publishes."""


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """One group: its state at both sides, and its partitions."""

    group: GroupId
    source: ListedGroup | None
    target: ListedGroup | None
    partitions: tuple[CommitDecision, ...]
    problem: str = ""
    """Why none of its offsets is known."""
    target_group: GroupId = NO_NAME
    """Its name at the target."""

    @property
    def commits(self) -> dict[TopicPartition, CommittedOffset]:
        """Offsets to commit at the target."""
        return {
            each.target: each.publish
            for each in self.partitions
            if each.target is not None and each.publish is not None
        }


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """All groups of one pass."""

    groups: Mapping[GroupId, GroupDecision]

    @property
    def commits(self) -> dict[GroupId, dict[TopicPartition, CommittedOffset]]:
        """Offsets to commit, by the groups' names at the target; only groups that have any."""
        found = {decided.target_group: decided.commits for decided in self.groups.values()}
        return {name: rows for name, rows in found.items() if rows}


def plan_groups(
    source: SourceGroups,
    target: TargetGroups,
    published: Mapping[GroupId, Published],
    policy: Policy,
    naming: GroupNaming = SAME_NAMES,
) -> GroupPlan:
    """Decide on every partition of the groups whose offsets were requested.

    Parameters
    ----------
    published
        The link's record of what it has written, by the groups' names at the target.
    policy
        `consumed_at_target` of the configuration.
    naming
        How groups are called at the target.
    """
    names = {group: naming.target_name(group) for group in source.offsets}
    return GroupPlan(
        {
            group: _decide_group(group, name, source, target, published.get(name), policy)
            for group, name in names.items()
        }
    )


def _decide_group(  # noqa: PLR0917 - what is asked, and of what
    group: GroupId,
    name: GroupId,
    source: SourceGroups,
    target: TargetGroups,
    published: Published | None,
    policy: Policy,
) -> GroupDecision:
    listed, there = source.listing.groups.get(group), target.group(name)
    offsets = source.offsets[group]
    at_target = target.offsets.get(name, {})
    decided = partial(GroupDecision, group, listed, there, target_group=name)
    if there is not None and there.kind == SHARE_KIND:
        return decided((), SHARED_THERE)
    if isinstance(offsets, BrokerError):
        return decided((), f"the source does not answer: {offsets}")
    if isinstance(at_target, BrokerError):
        return decided((), f"the target does not answer: {at_target}")
    if there is None and target.listing.failed:
        error = next(iter(target.listing.failed.values()))
        problem = f"a target broker does not list its groups: {error}"
        return decided((), problem)
    sent = {} if published is None else published.sent
    has_members = there is not None and there.has_members
    rows: list[CommitDecision] = []
    for partition, commit in sorted(offsets.items(), key=lambda item: item[0]):
        mirror = target.partitions.get(partition, "the topic has no mirror of this link")
        if isinstance(commit, BrokerError):
            rows.append(_without(partition, None, Reason.NOT_TOLD, f"at the source: {commit}"))
        elif isinstance(mirror, BrokerError):
            why = f"at the target: {mirror}"
            rows.append(_without(partition, commit.offset, Reason.NOT_TOLD, why))
        elif isinstance(mirror, str):
            rows.append(_without(partition, commit.offset, Reason.NOT_MIRRORED, mirror))
        else:
            committed = at_target.get(mirror.target)
            if isinstance(committed, BrokerError):
                why = f"at the target: {committed}"
                rows.append(_without(partition, commit.offset, Reason.NOT_TOLD, why))
                continue
            merged = target.merged.get((group, partition))
            if isinstance(merged, str):
                rows.append(_without(partition, commit.offset, Reason.NOT_TOLD, merged))
                continue
            if merged is not None:
                mirror = replace(mirror, start=merged.start, end=merged.end)
            own = sent.get(mirror.target)
            exact = mirror.place_of(commit.offset) if merged is None else merged.offset
            wanted = max(mirror.start, min(exact, mirror.end))
            case = _Case(
                partition,
                commit,
                mirror,
                committed,
                own,
                has_members,
                policy,
                exact,
                wanted,
                merged,
            )
            rows.append(case.decide())
    return decided(tuple(rows))


def _without(
    partition: TopicPartition, offset: Offset | None, reason: Reason, why: str
) -> CommitDecision:
    return CommitDecision(partition, None, offset, None, None, None, reason, why)


@dataclass(frozen=True, slots=True)
class _Case:
    """One partition of one group, with all that the decision depends on."""

    source: TopicPartition
    commit: CommittedOffset
    mirror: MirrorPartition
    there: CommittedOffset | None
    """What is committed at the target."""
    sent: Sent | None
    has_members: bool
    policy: Policy
    exact: Offset
    """Where a consumer at the target continues exactly; valid up to the mirror's end."""
    wanted: Offset
    """What may be published: limited to records that have landed, and are not gone."""
    merged: MergedPlace | None = None
    """Where it goes on in a merged topic."""

    def decide(self) -> CommitDecision:
        """Return the decision."""
        reason, why = self._verdict()
        publishes = reason in _PUBLISHING and self._differs
        if publishes and not group_offset_may_be_published(
            self.wanted, self.mirror.end, has_members=self.has_members
        ):
            publishes = False
            reason, why = Reason.ACTIVE_AT_TARGET, "the group has members at the target: held back"
        at = self.wanted if publishes else None if self.there is None else self.there.offset
        return CommitDecision(
            source=self.source,
            target=self.mirror.target,
            source_offset=self.commit.offset,
            target_offset=None if self.there is None else self.there.offset,
            wanted=self.wanted,
            reread_records=None if at is None else self._reread(at),
            reason=reason,
            why=why,
            publish=CommittedOffset(self.wanted, self.commit.metadata) if publishes else None,
            metadata=self.commit.metadata,
            reread_now=self._reread_now,
            again=0 if self.merged is None else self.merged.again,
            read_to=None if self.merged is None else self.merged.read_to,
            begins_anew=self._begins_anew,
        )

    @property
    def _reread_now(self) -> int:
        if self.merged is not None:
            return self.merged.again_now
        return max(0, min(self.exact, self.mirror.end) - self._begin)

    @property
    def _begins_anew(self) -> bool:
        """Whether the offset at the target, if there is one, is outside of the mirror's log."""
        there = self.there
        return there is None or not self.mirror.start <= there.offset <= self.mirror.end

    @property
    def _begin(self) -> Offset:
        """Where a consumer at the target begins now; the earliest place, if it has no offset."""
        if self.there is None or self._begins_anew:
            return self.mirror.start
        return self.there.offset

    @property
    def _is_ours(self) -> bool:
        return (
            self.there is not None and self.sent is not None and self.sent.holds(self.there.offset)
        )

    @property
    def _differs(self) -> bool:
        """Whether something would change at the target; metadata of others is left alone."""
        if self.there is None or self.there.offset != self.wanted:
            return True
        return self._is_ours and self.there.metadata != self.commit.metadata

    def _reread(self, at: Offset) -> int:
        """Offsets that a consumer at the target reads again; until all have landed, a bound."""
        if self.merged is not None:
            return self.merged.again if at == self.wanted else self.merged.again_now
        if self.exact <= self.mirror.end:
            return max(0, self.exact - at)
        return max(0, self.commit.offset - self.mirror.offsets.source_of(at))

    def _verdict(self) -> _Verdict:
        if self.there is None or self.there.offset == self.wanted:
            return self._forward()
        return self._after_ours(self.there.offset) if self._is_ours else self._after_theirs()

    def _forward(self) -> _Verdict:
        """Decide to publish, or say what limits the offset, or that it is published."""
        if self.exact > self.mirror.end:
            return Reason.NOT_LANDED, (
                f"the mirror ends at {self.mirror.end}: published up to there, the rest as it lands"
            )
        if self.exact < self.mirror.start:
            return Reason.BELOW_START, (
                f"records up to {self.mirror.start} are gone at the target, too: published there"
            )
        if self._differs:
            return Reason.PUBLISH, "to be published"
        return Reason.SYNCED, "the target has it"

    def _after_ours(self, there: Offset) -> _Verdict:
        """Decide if the offset there is ours: we may move it, both ways."""
        if there < self.wanted:
            if self.exact <= there:
                why = f"records up to {self.mirror.start} are gone at the target since"
                return Reason.TARGET_AGED, why
            return self._forward()
        if self.exact >= there:
            why = f"the mirror ends at {self.mirror.end}, before what was published"
            return Reason.TARGET_SHORTER, why
        return Reason.RESET, f"the source went back to {self.commit.offset}"

    def _after_theirs(self) -> _Verdict:
        """Decide if the offset there was not written by this link: it is never moved back."""
        assert self.there is not None
        there = self.there.offset
        if there > self.wanted:
            why = "a consumer at the target is further on: left alone"
            return Reason.MOVED_AT_TARGET, why
        if self.sent is not None and there < self.sent.lowest:
            why = f"moved back at the target, before the published {self.sent.lowest}: left alone"
            return Reason.REWOUND_AT_TARGET, why
        if self.exact <= there:
            why = f"records up to {self.mirror.start} are gone at the target since"
            return Reason.TARGET_AGED, why
        if self.policy == "leave":
            why = "a consumer at the target has moved it: left alone (consumed_at_target: leave)"
            return Reason.MOVED_AT_TARGET, why
        return self._forward()


def sent_after(
    published: Published | None, decisions: Iterable[CommitDecision], at_ms: int
) -> Published:
    """Return the row to write before publishing: the new offsets, and the previous ones.

    Of merged topics also where the target has the offset already: what the group has read by now.
    """
    old = {} if published is None else published.sent
    new = dict(old)
    for each in decisions:
        if each.target is None:
            continue
        known, there = old.get(each.target), each.target_offset
        if each.publish is None:
            if each.read_to is None or each.reason is not Reason.SYNCED or there is None:
                continue
            is_known = known is not None and known.offset == there
            row = known if known is not None and is_known else Sent(there, over=there)
            new[each.target] = row._replace(read_to=each.read_to)
        elif there is not None and known is not None and known.holds(there):
            new[each.target] = Sent(each.publish.offset, before=there, read_to=each.read_to)
        else:
            new[each.target] = Sent(each.publish.offset, over=there, read_to=each.read_to)
    return Published(new, at_ms, {} if published is None else published.refused)
