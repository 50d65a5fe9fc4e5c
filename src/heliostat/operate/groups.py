"""`heliostat groups`: every group and partition of a link, and why it is or isn't synced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from heliostat.access import Reachable
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin, GroupListing, GroupMember
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError
from heliostat.groups.apply import Committers, Guard, is_not_done, publish
from heliostat.groups.merged_places import MergedPlaces
from heliostat.groups.merged_site import MergedSite
from heliostat.groups.naming import GroupNaming, group_naming_of
from heliostat.groups.observe import observe_target
from heliostat.groups.plan import NO_NAME, GroupDecision, GroupPlan, plan_groups
from heliostat.groups.published import PublishedOffsets
from heliostat.groups.refusals import with_refusals
from heliostat.groups.select import GroupChoice, compile_selection, is_left_out
from heliostat.groups.sync import Steps
from heliostat.groups.values import SETTLED, CommitDecision, Published, Skip, SourceGroups
from heliostat.names import GroupId, LinkName, TopicPartition
from heliostat.offsets.landed import Landed
from heliostat.offsets.offset_map import MapReader
from heliostat.offsets.store import MapsLook
from heliostat.operate.links import links_of
from heliostat.ops.asked import PendingAnswer, asked_at_once
from heliostat.state.connections import Admins, LinkConnections, connected
from heliostat.status.reader import last_reported


@dataclass(frozen=True, slots=True)
class GroupView:
    """Current state of one group of the source.

    Parameters
    ----------
    group
        Name of the group.
    skip, why
        Why it is not synced at all, or which entry selects it.
    decided
        Decisions on its partitions; None if it is skipped.
    members
        Its members at the target; empty unless they were asked for and the target returned them.
    published
        Offsets that the link has published for it, by the link's own record.
    target_group
        Its name at the target.
    """

    group: GroupId
    skip: Skip | None
    why: str
    decided: GroupDecision | None
    members: tuple[GroupMember, ...] = ()
    published: Published | None = None
    target_group: GroupId = NO_NAME

    @property
    def shown_name(self) -> str:
        """Its name, and the one at the target if that is another."""
        renamed = self.target_group not in {"", self.group}
        return f"{self.group} → {self.target_group}" if renamed else self.group

    @property
    def rows(self) -> tuple[CommitDecision, ...]:
        """Decisions on partitions of mirrored topics."""
        every = () if self.decided is None else self.decided.partitions
        return tuple(row for row in every if row.target is not None)

    @property
    def open_rows(self) -> tuple[CommitDecision, ...]:
        """Those that are not in sync."""
        return tuple(row for row in self.rows if row.reason not in SETTLED)

    @property
    def reread_records(self) -> int:
        """How many records a consumer that continued at the target now would read again."""
        return sum(row.reread_records or 0 for row in self.rows)

    @property
    def is_in_sync(self) -> bool:
        """Whether nothing of it remains to be done; so it is of a group that is not selected."""
        if self.decided is None:
            return True
        reasons = (row.reason for row in self.decided.partitions)
        return not self.decided.problem and all(reason in SETTLED for reason in reasons)

    def to_json(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        answer: dict[str, Any] = {
            "group": self.group,
            "target_group": self.target_group or self.group,
            "selected": self.skip is None,
            "why": self.why,
        }
        if self.decided is not None:
            decision = self.decided
            answer["source_state"] = None if decision.source is None else decision.source.state
            answer["target_state"] = None if decision.target is None else decision.target.state
            answer["problem"] = decision.problem
            answer["partitions"] = [row.to_json() for row in decision.partitions]
        if self.members:
            answer["target_members"] = [
                {"client_id": member.client_id, "host": member.host} for member in self.members
            ]
        return answer


@dataclass(frozen=True, slots=True)
class LinkGroups:
    """All groups of a link, and how many milliseconds each step took."""

    link: LinkName
    sync: bool
    groups: tuple[GroupView, ...]
    took_ms: dict[str, int]
    unlisted: int = 0
    """Brokers of the source that did not list their groups."""

    @property
    def reasons(self) -> dict[str, int]:
        """Number of partitions by reason."""
        return dict(
            Counter(
                row.reason.name
                for view in self.groups
                if view.decided is not None
                for row in view.decided.partitions
            )
        )

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "sync": self.sync,
            "reasons": self.reasons,
            "took_ms": self.took_ms,
            "groups": [view.to_json() for view in self.groups],
        }


def group_views(
    config: Config, link_name: str | None = None, group: str | None = None
) -> list[LinkGroups]:
    """Return the current state of each group on both sides of links; changes nothing.

    Only the running link knows how long a group has been idle: groups that it no longer follows
    for that reason (`active_within_s`) are shown as if it did.

    Parameters
    ----------
    config
        The configuration.
    link_name
        Name of the link; None for all links.
    group
        Show only this group, and its members at the target; None for all groups.

    Raises
    ------
    ConfigError
        No such link, or both aliases lead to the same cluster.
    ConnectionLost, BrokerError
        A cluster does not answer or refuses.
    """
    return [_views_of(config, link, group) for link in links_of(config, link_name)]


def all_groups(config: Config, link: LinkConfig) -> LinkGroups:
    """Return what `group_views` does, with offsets of groups that the link does not select, too."""
    return _views_of(config, link, None, is_selected_only=False)


def publish_once(config: Config, link: LinkConfig, guard: Guard) -> dict[GroupId, str]:
    """Publish the groups' offsets once, for the link's owner; return which are not, and why.

    Parameters
    ----------
    guard
        Raises unless the link is still ours.

    Raises
    ------
    LinkTakenOver
        Another instance owns the link; the remaining offsets are not published.
    ConnectionLost, BrokerError
        A cluster does not answer or refuses.
    """
    failed: dict[GroupId, str] = {}

    def publish_views(
        link_groups: LinkGroups, admins: Admins[Any], memory: PublishedOffsets
    ) -> None:
        memory.ensure(admins.target, link.state.replication_factor)
        decided = {
            view.group: view.decided for view in link_groups.groups if view.decided is not None
        }
        target = config.clusters[link.target].access()
        now_ms = SystemClock().wall_ms()
        with closing(Committers(admins.target, partial(ClusterAdmin, target))) as committers:
            done = publish(GroupPlan(decided), committers, memory, now_ms, guard)
        for name, before in decided.items():
            pairs = zip(before.partitions, done.groups[name].partitions, strict=True)
            why = [row.why for was, row in pairs if was.publish is not None and is_not_done(row)]
            failed.update({before.target_group: why[0]} if why else {})

    _views_of(config, link, None, publish_views)
    return failed


_Act = Callable[[LinkGroups, Admins[Any], PublishedOffsets], None]


def _views_of(
    config: Config,
    link: LinkConfig,
    group: str | None,
    act: _Act = lambda *_: None,
    *,
    is_selected_only: bool = True,
) -> LinkGroups:
    name = LinkName(link.name)
    with (
        connected(config, link, "heliostat-groups") as both,
        closing(both.state()) as state,
        closing(PublishedOffsets(both.target, name)) as memory,
    ):
        asks: dict[str, Callable[[], Any]] = {
            "stored": state.read,
            "published": memory.read,
        }
        # Read before the mirrors' ends, so that these cover them.
        positions = PendingAnswer(partial(_positions, both.target, name), "positions")
        with both.admins(asks) as admins:
            maps = MapsLook(both.target, name, admins.target)
            with closing(maps), _merged(link, both, admins.target) as merged:
                link_groups = _views_by(
                    link,
                    group,
                    admins,
                    memory,
                    maps,
                    positions,
                    merged,
                    is_selected_only=is_selected_only,
                )
                act(link_groups, admins, memory)
                return link_groups


@contextmanager
def _merged(
    link: LinkConfig, both: LinkConnections, target: ClusterAdmin
) -> Iterator[MergedPlaces | None]:
    """Yield what tells places in merged topics; None: the link merges none."""
    if not link.topics.merges:
        yield None
        return
    sites = MergedSite(both.source), MergedSite(both.target)
    with closing(MergedPlaces(*sites, target.cluster_id())) as merged:
        yield merged


def _views_by(  # noqa: PLR0917 - what is asked, and of what
    link: LinkConfig,
    group: str | None,
    admins: Admins[Any],
    memory: PublishedOffsets,
    maps: MapsLook,
    positions: PendingAnswer[dict[TopicPartition, Landed]],
    merged: MergedPlaces | None,
    *,
    is_selected_only: bool,
) -> LinkGroups:
    source, target, mirrors = admins.source, admins.target, admins.answers["stored"].mirrors
    steps = Steps(SystemClock())
    asks: dict[str, Callable[[], Any]] = {
        "source": source.list_groups,
        "target": target.list_groups,
    }
    prepared = PendingAnswer(maps.prepare, "maps")

    def read_maps() -> MapReader:
        prepared.answer()
        return maps.read()

    there, here = asked_at_once(asks).values()
    steps.done("list")
    naming = group_naming_of(link)
    choices = _choices(link, group, there, memory.rows, naming)
    chosen = [group_id for group_id, choice in choices.items() if choice.skip is None]
    if not is_selected_only:
        chosen = [
            group_id for group_id, choice in choices.items() if choice.skip is not Skip.NO_OFFSETS
        ]
    source_groups = SourceGroups(there, source.committed_offsets(chosen))
    steps.done("source offsets")
    target_groups = observe_target(
        source,
        target,
        source_groups,
        here,
        mirrors=mirrors,
        maps=read_maps,
        positions=positions.answer,
        naming=naming,
        merged=merged,
    )
    steps.done("target")
    plan = plan_groups(
        source_groups, target_groups, memory.rows, link.groups.consumed_at_target, naming
    )
    steps.done("plan")
    decided = {
        group_id: with_refusals(decision, memory.rows.get(decision.target_group))
        for group_id, decision in plan.groups.items()
    }
    names = {group_id: naming.target_name(group_id) for group_id in choices}
    members = {} if group is None else _members(target, here, names.values())
    views = tuple(
        GroupView(
            group_id,
            choice.skip,
            choice.why,
            decided.get(group_id),
            members.get(names[group_id], ()),
            memory.rows.get(names[group_id]),
            names[group_id],
        )
        for group_id, choice in sorted(choices.items())
    )
    name, unlisted = LinkName(link.name), len(there.failed)
    return LinkGroups(name, link.groups.sync, views, steps.took_ms, unlisted)


def _choices(
    link: LinkConfig,
    group: str | None,
    there: GroupListing,
    published: Mapping[GroupId, Published],
    naming: GroupNaming,
) -> dict[GroupId, GroupChoice]:
    """Return the groups of the source that are asked for, and whether each is synced."""
    selection = compile_selection(link.groups)
    now_ms = SystemClock().wall_ms()
    choices: dict[GroupId, GroupChoice] = {}
    for listed_group in there.groups.values():
        name = naming.target_name(listed_group.group)
        if group not in {None, listed_group.group, name}:
            continue
        choice = selection.choose(listed_group)
        row = published.get(name)
        if choice.skip is None and is_left_out(link.groups, listed_group, row, now_ms):
            choice = GroupChoice(Skip.INACTIVE, "left out until somebody is in it (states: active)")
        choices[listed_group.group] = choice
    return choices


def _positions(target: Reachable, link: LinkName) -> dict[TopicPartition, Landed]:
    """Return how far each partition is copied, as the link's lanes reported last."""
    board = last_reported(link, target)
    return {} if board is None else board.landed()


def _members(
    target: ClusterAdmin, here: GroupListing, groups: Iterable[GroupId]
) -> dict[GroupId, tuple[GroupMember, ...]]:
    """Return groups' members, of those that exist and can be described."""
    members: dict[GroupId, tuple[GroupMember, ...]] = {}
    for group in groups:
        if group in here.groups:
            answer = target.describe_members([group], here.groups[group].kind)[group]
            if not isinstance(answer, BrokerError):
                members[group] = answer
    return members
