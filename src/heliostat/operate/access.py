"""`heliostat access`: which rights and quotas a link would make and remove at its target, and why.

What needs a person is confirmed by a row at the target: it stands for just the removals that were
shown, and the link's owner carries them out with its next comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from heliostat.access import Reachable
from heliostat.clock import SystemClock
from heliostat.clusters.acl import AclBinding
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig
from heliostat.config.passwords import load_passwords
from heliostat.errors import Refused
from heliostat.fencing.rule_book import RuleBook
from heliostat.names import LinkName, TopicName
from heliostat.operate.links import links_of
from heliostat.security import rules
from heliostat.security.granting import Granted, grant_held, to_grant
from heliostat.security.ledger import CONFIRMED, AccessTopic, Ledger
from heliostat.security.rules import acl_rules_of
from heliostat.security.scram_users import ScramPlan, look_at_users
from heliostat.security.sync import AccessPlan, AccessSync
from heliostat.state.connections import connected
from heliostat.state.link_state import LinkState, Stored
from heliostat.topics.naming import naming_of


@dataclass(frozen=True, slots=True)
class LinkAccess:
    """What a link would do about rights and quotas."""

    link: LinkName
    is_on: bool
    """Whether the configuration wants any to be followed; else this is what would be done."""
    plan: AccessPlan
    is_confirmed: bool
    """Whether its removals are confirmed, and wait for the link's owner."""

    @property
    def is_in_step(self) -> bool:
        """Whether there is nothing to do, and nothing that a person must decide."""
        return self.plan.is_in_step

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "is_on": self.is_on,
            "make": [str(binding) for binding in self.plan.acls.make],
            "set": {limit.text: value for limit, value in self.plan.limits.make.items()},
            "keep_ready": [str(binding) for binding in self.plan.hold],
            "kept_ready": self.plan.kept,
            "remove": self.plan.removals,
            "asks": self.plan.asks,
            "confirmation": self.plan.confirmation if self.plan.asks else "",
            "is_over": self.plan.is_over,
            "is_confirmed": self.is_confirmed,
            "somebody_elses": [
                *(str(binding) for binding in self.plan.acls.foreign),
                *(limit.text for limit in self.plan.limits.foreign),
            ],
            "refused": self.plan.refused,
            "notes": self.plan.notes,
        }


def link_access(
    config: Config, link_name: str | None = None, *, allow_delete_by: str = "", shown: str = ""
) -> list[LinkAccess]:
    """Return what links would do; with `allow_delete_by`, that person confirms what they remove.

    Parameters
    ----------
    shown
        What stands for the removals that the person has seen; empty: those of now are meant.

    Raises
    ------
    ConfigError
        No such link, or both aliases lead to the same cluster.
    Refused
        Other removals than those that were shown would be confirmed.
    ConnectionLost, BrokerError
        A cluster does not answer or refuses.
    """
    return [_of_link(config, link, allow_delete_by, shown) for link in links_of(config, link_name)]


def _of_link(config: Config, link: LinkConfig, by: str, shown: str) -> LinkAccess:
    with (
        connected(config, link) as both,
        closing(both.state()) as state,
        both.admins({"stored": state.read}) as admins,
        closing(AccessTopic(both.target, LinkName(link.name), admins.target)) as topic,
        closing(RuleBook(both.target, LinkName(link.name))) as fences,
    ):
        ledger = Ledger(topic)
        stored = admins.answers["stored"]
        plan = access_plan(
            config, link, (admins.source, admins.target), ledger, stored, fences=fences
        )
        if by and plan.asks and not plan.is_confirmed:
            if shown not in {"", plan.confirmation}:
                raise Refused(
                    "other rights would be removed now than those that were shown",
                    hint="look at them again, and confirm these",
                )
            row = {"removals": plan.confirmation, "by": by, "at_ms": SystemClock().wall_ms()}
            ledger.write({CONFIRMED: row})
            plan.is_confirmed = True
    is_on = link.access.is_on
    return LinkAccess(LinkName(link.name), is_on, plan, plan.is_confirmed)


def grant_rights(config: Config, link: LinkConfig, topics: Collection[TopicName]) -> Granted:
    """Grant what was kept ready for source topics whose mirrors are promoted; may be repeated.

    From then on nothing is synced about them, whatever the link's driver does.

    Raises
    ------
    ConnectionLost, BrokerError
        A cluster does not answer or refuses.
    """
    with _held(config, link, topics) as held:
        return grant_held(held.ledger, held.target.security, held.promoted, held.remaining)


def rights_to_grant(
    config: Config, link: LinkConfig, topics: Collection[TopicName]
) -> list[AclBinding]:
    """Return what `grant_rights` would grant; changes nothing.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer or refuses.
    """
    with _held(config, link, topics) as held:
        return to_grant(held.ledger, held.promoted, held.remaining)


class _Held(NamedTuple):
    """What was kept ready, and for which names at the target."""

    ledger: Ledger
    target: ClusterAdmin
    promoted: Collection[TopicName]
    remaining: Collection[TopicName]


@contextmanager
def _held(config: Config, link: LinkConfig, topics: Collection[TopicName]) -> Iterator[_Held]:
    naming, target = naming_of(link), config.clusters[link.target].access()
    with (
        closing(LinkState(link, config.clusters[link.target])) as state,
        ClusterAdmin(target) as admin,
        closing(AccessTopic(target, LinkName(link.name), admin)) as topic,
    ):
        remaining = [
            mirror.target for name, mirror in state.read().mirrors.items() if name not in topics
        ]
        promoted = [naming.target_name(name) for name in topics]
        yield _Held(Ledger(topic), admin, promoted, remaining)


def access_sync(
    config: Config,
    link: LinkConfig,
    admins: tuple[ClusterAdmin, ClusterAdmin],
    ledger: Ledger,
    *,
    fences: RuleBook,
    guard: Callable[[], None] = lambda: None,
) -> AccessSync:
    """Return what compares a link's rights; without any wish: its ACLs."""
    source, target = admins
    wanted = link.access
    if not wanted.is_on:
        wanted = wanted.model_copy(update={"sync_acls": True})
    return AccessSync(
        wanted,
        acl_rules_of(link, config.clusters[link.target]),
        source=source.security,
        target=target.security,
        source_id=source.cluster_id,
        ledger=ledger,
        fences=lambda: fences.now_at(source.cluster_id()),
        guard=guard,
    )


def looked(link: LinkConfig, sync: AccessSync, source: ClusterAdmin, stored: Stored) -> AccessPlan:
    """Return what a link would do about ACLs and quotas; changes nothing."""
    mirrored, promoted = stored.mirrors.keys(), stored.promoted.keys()
    return rules.looked(link, sync, source.describe_topics(), mirrored, promoted)


def users_of(
    link: LinkConfig, admins: tuple[ClusterAdmin, ClusterAdmin], plan: AccessPlan
) -> ScramPlan:
    """Return what a link would do about SCRAM users; changes nothing."""
    if link.access.users_file is None or plan.is_over:
        return ScramPlan()
    source, target = admins
    passwords = load_passwords(link.access.users_file)
    return look_at_users(source.security, target.security, link.access.principals, passwords)


def access_plan(
    config: Config,
    link: LinkConfig,
    admins: tuple[ClusterAdmin, ClusterAdmin],
    ledger: Ledger,
    stored: Stored,
    *,
    fences: RuleBook,
) -> AccessPlan:
    """Return what the link would do about rights; changes nothing. Without any wish: about ACLs."""
    sync = access_sync(config, link, admins, ledger, fences=fences)
    plan = looked(link, sync, admins[0], stored)
    users = users_of(link, admins, plan)
    plan.notes += [*(f"make SCRAM user {user}" for user in users.make), *users.notes]
    return plan


def planned_rights(
    config: Config,
    link: LinkConfig,
    admins: tuple[ClusterAdmin, ClusterAdmin],
    reachable: Reachable,
    stored: Stored,
) -> tuple[str, ...]:
    """Return lines of `plan` on rights that a link follows; none if it follows none."""
    if not link.access.is_on:
        return ()
    name = LinkName(link.name)
    with (
        closing(AccessTopic(reachable, name, admins[1])) as topic,
        closing(RuleBook(reachable, name)) as fences,
    ):
        plan = access_plan(config, link, admins, Ledger(topic), stored, fences=fences)
    if plan.is_over:
        return ()
    asks = (f"nothing is removed: {plan.asks}",) if plan.asks and not plan.is_confirmed else ()
    return (*plan.lines(), *asks)
