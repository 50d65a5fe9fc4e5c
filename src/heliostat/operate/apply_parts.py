"""The parts of a link that `plan` and `apply` know: each says what it would change, and does it.

A part is asked what it would change before and after: what is left has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from heliostat.changes import Change
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.config.passwords import load_passwords
from heliostat.fencing.rule_book import RuleBook
from heliostat.link.compacted_later import CompactedLater
from heliostat.link.identity import known_of, own_identity
from heliostat.link.mirror_memory import MirrorMemory
from heliostat.link.planning import Planner
from heliostat.link.topic_look import see
from heliostat.link.topics_once import TopicsOnce
from heliostat.names import LinkName, TopicName
from heliostat.operate.access import access_sync, link_access, looked, users_of
from heliostat.operate.groups import LinkGroups, group_views, publish_once
from heliostat.other_links.at_source import Upstream
from heliostat.other_links.at_target import other_links_at
from heliostat.other_links.same_file import NamesOf, Neighbours
from heliostat.security.ledger import AccessTopic, Ledger, Limit
from heliostat.security.scram_users import ScramPlan, make_users
from heliostat.security.sync import AccessPlan, AccessSync
from heliostat.state.connections import Admins, LinkConnections, connected
from heliostat.state.link_state import LinkState, Stored
from heliostat.topics.changes import topic_changes
from heliostat.topics.drift import drift_lines

PUBLISH = "publish_offsets"
NAMED_MAX = 3
"""Topics and reasons named in a line."""


@dataclass(frozen=True, slots=True)
class PartLook:
    """What one part of a link would change, and what it can't."""

    changes: tuple[Change, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    """Items that are left as they are, and why."""
    drift: tuple[str, ...] = ()
    """What differs and is not changed, a line each."""


class Part(Protocol):
    """One kind of what a link changes at its target."""

    def look(self) -> PartLook:
        """Return what would be changed; changes nothing.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses.
        """
        ...

    def carry_out(
        self, state: LinkState, guard: Callable[[], None], *, allow_delete: bool
    ) -> Mapping[str, str]:
        """Change it, for the link's owner; return items that failed, and why.

        Raises
        ------
        LinkTakenOver
            Another instance owns the link.
        ConnectionLost, BrokerError
            A cluster does not answer or refuses.
        """
        ...

    def allow(self, by: str) -> None:
        """Note that a person allows what was shown to be deleted, for a running link.

        Raises
        ------
        Refused
            Something else would be deleted by now.
        ConnectionLost, BrokerError
            A cluster does not answer or refuses.
        """
        ...

    def reasons(self, refused: Mapping[str, str]) -> Mapping[str, str]:
        """Return items that a running link could not change, by what it reports as refused."""
        ...


class TopicsPart:
    """Mirrors: topics, partitions, settings, and whose they are.

    Parameters
    ----------
    config, link
        The configuration, and the link.
    names_of
        Returns the topics of other links' sources; by default each is asked.
    """

    def __init__(self, config: Config, link: LinkConfig, names_of: NamesOf | None = None) -> None:
        self._config = config
        self._link = link
        self._names_of = names_of
        self._targets: dict[TopicName, TopicName] = {}

    def look(self) -> PartLook:
        """See `Part`; what waits until a source's older records are copied is no change now."""
        with (
            connected(self._config, self._link) as both,
            closing(both.state()) as state,
            both.admins({"stored": state.read}) as admins,
        ):
            snapshot = see(
                *(self._config, self._link, admins.source, admins.target, self._names_of),
                connections=both,
                stored=admins.answers["stored"],
            )
            plan, _ = CompactedLater(admins.source).hold(snapshot.plan, ())
        self._targets = {mirror.source: mirror.target for mirror in plan.mirrors}
        refused = {str(name): why.text() for name, why in plan.refuse.items()}
        left = (
            mirror_drift for mirror_drift in plan.drift if not mirror_drift.difference.is_mended
        )
        return PartLook(topic_changes(plan), refused, tuple(drift_lines(left)))

    def carry_out(
        self, state: LinkState, guard: Callable[[], None], *, allow_delete: bool
    ) -> Mapping[str, str]:
        """See `Part`."""
        config, link, clock = self._config, self._link, SystemClock()
        none: Mapping[str, Callable[[], None]] = {}
        with connected(config, link) as both, both.admins(none) as admins:
            stored, producer_id = own_identity(state, LinkName(link.name), admins.target, clock)
            memory = known_of(stored, producer_id)
            once = self._once(both, admins, state, guard)
            applied = once.run(memory, allow_delete=allow_delete)
        return self.reasons({str(name): str(why) for name, why in applied.failed.items()})

    def _once(
        self,
        both: LinkConnections,
        admins: Admins[Any],
        state: LinkState,
        guard: Callable[[], None],
    ) -> TopicsOnce:
        config, link, source, target = self._config, self._link, admins.source, admins.target
        other_links = other_links_at(link, both.target, target, source.cluster_id()).claims
        cluster = config.clusters[link.source]
        upstream = Upstream(link, cluster, source, target.cluster_id(), SystemClock())
        planner = Planner(
            link,
            source,
            target,
            state,
            claimed=Neighbours(config, link, self._names_of).claims,
            other_links=other_links,
            upstream=upstream,
        )
        mirrors = MirrorMemory(state, other_links, upstream)
        return TopicsOnce(target, planner, mirrors, CompactedLater(source), guard)

    def allow(self, _: str) -> None:
        """See `Part`; a running link deletes what its configuration says."""

    def reasons(self, refused: Mapping[str, str]) -> Mapping[str, str]:
        """See `Part`; they are told by source topic."""
        by_target = ((self._targets.get(TopicName(name)), why) for name, why in refused.items())
        return {str(target): why for target, why in by_target if target is not None}


class GroupsPart:
    """Offsets of consumer groups, where `groups.sync` is on.

    Parameters
    ----------
    config, link
        The configuration, and the link.
    """

    def __init__(self, config: Config, link: LinkConfig) -> None:
        self._config = config
        self._link = link

    def look(self) -> PartLook:
        """See `Part`."""
        if not self._link.groups.sync:
            return PartLook()
        [link_groups] = group_views(self._config, self._link.name)
        return PartLook(tuple(_group_changes(link_groups)))

    def carry_out(
        self, _: LinkState, guard: Callable[[], None], *, allow_delete: bool
    ) -> Mapping[str, str]:
        """See `Part`; nothing is ever deleted."""
        del allow_delete
        if not self._link.groups.sync:
            return {}
        failed = publish_once(self._config, self._link, guard)
        return {str(group): why for group, why in failed.items()}

    def allow(self, _: str) -> None:
        """See `Part`; nothing is ever deleted."""

    def reasons(self, _: Mapping[str, str]) -> Mapping[str, str]:
        """See `Part`; a running link tells of groups elsewhere."""
        return {}


def _group_changes(link_groups: LinkGroups) -> Iterator[Change]:
    for view in link_groups.groups:
        rows = [row for row in view.rows if row.publish is not None]
        if not rows:
            continue
        name = view.target_group or view.group
        offsets = "offset" if len(rows) == 1 else f"{len(rows)} offsets"
        topics = sorted({row.target.topic for row in rows if row.target is not None})
        more = f" and {len(topics) - NAMED_MAX} more topics" if topics[NAMED_MAX:] else ""
        what = f"publish {offsets} of group {name} in {', '.join(topics[:NAMED_MAX])}{more}"
        why = "; ".join(sorted({row.why for row in rows})[:NAMED_MAX])
        published = "" if view.published is None else str(view.published.at_ms)
        yield Change(PUBLISH, str(name), what, why, version=published)


class RightsPart:
    """ACLs, client quotas and SCRAM users, where the link follows them (`access`).

    Parameters
    ----------
    config, link
        The configuration, and the link.
    """

    def __init__(self, config: Config, link: LinkConfig) -> None:
        self._config = config
        self._link = link
        self._shown = ""
        """Stands for the removals that were shown last."""

    def look(self) -> PartLook:
        """See `Part`."""
        if not self._link.access.is_on:
            return PartLook()
        with self._opened() as opened:
            plan = looked(self._link, opened.sync(), opened.admins[0], opened.stored)
            users = users_of(self._link, opened.admins, plan)
        self._shown = plan.confirmation if plan.asks else ""
        refused = dict(plan.refused)
        if not plan.may_make:
            refused[f"rights of {self._link.name}"] = plan.asks
        foreign = (f"{limit.text} is somebody else's" for limit in plan.limits.foreign)
        drift = (*plan.notes, *users.notes, *foreign)
        return PartLook(tuple(_rights_changes(plan, users)), refused, drift)

    def carry_out(
        self, _: LinkState, guard: Callable[[], None], *, allow_delete: bool
    ) -> Mapping[str, str]:
        """See `Part`; what asks for a person goes only if it is what was shown."""
        if not self._link.access.is_on:
            return {}
        with self._opened() as opened:
            sync = opened.sync(guard)
            plan = looked(self._link, sync, opened.admins[0], opened.stored)
            if not allow_delete:
                plan.keep_all()
            elif plan.asks and plan.confirmation == self._shown:
                plan.is_confirmed = True
            done = sync.carry_out(plan)
            users = users_of(self._link, opened.admins, plan)
            guard()
            made = users
            if users.make and self._link.access.users_file is not None:
                passwords = load_passwords(self._link.access.users_file)
                made = make_users(users, opened.admins[1].security, passwords)
        changes = list(_rights_changes(plan, users))
        held = (change.item for change in changes if change.is_deletion and not plan.may_remove)
        kept = dict.fromkeys(held, plan.seen.silent or plan.asks)
        open_ones = (
            change.item for change in changes if not change.is_deletion and not plan.may_make
        )
        unmade = dict.fromkeys(open_ones, plan.asks)
        left = {f"SCRAM user {user}": "; ".join(made.notes) for user in users.make if made.notes}
        return {**kept, **unmade, **left, **done.failed}

    def allow(self, by: str) -> None:
        """See `Part`; a running link removes just what was shown."""
        if self._shown:
            link_access(self._config, self._link.name, allow_delete_by=by, shown=self._shown)

    def reasons(self, _: Mapping[str, str]) -> Mapping[str, str]:
        """See `Part`; a running link tells of rights elsewhere."""
        return {}

    @contextmanager
    def _opened(self) -> Iterator[_OpenRights]:
        config, link = self._config, self._link
        name = LinkName(link.name)
        with (
            connected(config, link) as both,
            closing(both.state()) as state,
            both.admins({"stored": state.read}) as admins,
            closing(
                AccessTopic(
                    both.target,
                    name,
                    admins.target,
                    replication_factor=link.state.replication_factor,
                )
            ) as topic,
            closing(RuleBook(both.target, name)) as fences,
        ):
            pair = (admins.source, admins.target)
            make = partial(access_sync, config, link, pair, Ledger(topic), fences=fences)
            yield _OpenRights(
                pair, admins.answers["stored"], lambda guard=_ignore: make(guard=guard)
            )


class _OpenRights(NamedTuple):
    """Connections, and what compares rights over them."""

    admins: tuple[ClusterAdmin, ClusterAdmin]
    stored: Stored
    sync: Callable[..., AccessSync]


def _ignore() -> None:
    pass


def _rights_changes(plan: AccessPlan, users: ScramPlan) -> Iterator[Change]:
    for binding in plan.acls.make:
        causes = [str(cause) for cause in plan.reasons.get(binding, ()) if cause != binding]
        why = f"the source has {causes[0]}" if causes else "the source has it"
        yield Change("make_acl", str(binding), f"make {binding}", why)
    for limit, value in plan.limits.make.items():
        what = f"set {limit.text} to {value:g}"
        yield Change("set_quota", _item(limit), what, "the source has it")
    for binding in plan.hold:
        what = f"keep ready {binding}"
        yield Change("keep_ready", f"kept ready: {binding}", what, "for the promotion")
    for user in users.make:
        what = f"make SCRAM user {user}"
        yield Change("make_user", f"SCRAM user {user}", what, "it is missing")
    gone = "gone at the source"
    for binding in plan.acls.remove:
        yield Change("remove_acl", str(binding), f"remove {binding}", gone, is_deletion=True)
    for limit in plan.limits.remove:
        what = f"remove {limit.text}"
        yield Change("remove_quota", _item(limit), what, gone, is_deletion=True)
    for binding in plan.drop:
        what = f"keep {binding} ready no more"
        yield Change("drop_held", f"kept ready: {binding}", what, gone, is_deletion=True)


def _item(limit: Limit) -> str:
    """Return its name; the part before the colon is what brokers refuse as a whole."""
    return f"quotas of {limit.entity}: {limit.key}"


def parts_of(config: Config, link: LinkConfig, names_of: NamesOf | None = None) -> Sequence[Part]:
    """Return the parts of a link, in the order in which they are brought up to date."""
    rights = RightsPart(config, link)
    return (TopicsPart(config, link, names_of), GroupsPart(config, link), rights)
