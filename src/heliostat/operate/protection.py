"""What of a link's mirrors would be protected, and by what it can't be; opened at a promotion."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing

from heliostat.access import Reachable
from heliostat.clock import SystemClock
from heliostat.clusters.acl import AclBinding
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.fencing.cannot import Cannot, Why
from heliostat.fencing.cluster_rules import ClusterRules
from heliostat.fencing.deny_rules import DenyRules, Rights, Writer, protection_of
from heliostat.fencing.fence import Fence, Standing
from heliostat.fencing.protection import shown_by_any, told, unprotect
from heliostat.fencing.rule_book import PROTECTION, Purpose, RuleBook
from heliostat.names import LinkName, TopicName
from heliostat.state.connections import LinkConnections
from heliostat.topics.naming import TOPIC, naming_of


def protection_notes(
    config: Config,
    both: LinkConnections,
    target: ClusterAdmin,
    mirrors: Collection[TopicName],
) -> tuple[str, ...]:
    """Return notes on rules that would be laid, and on what they would leave open.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses for another reason than rights.
    """
    link = both.link
    if not link.topics.protect:
        return ()
    cluster = ClusterRules(target)
    shown, problem = shown_by_any(cluster.all_rules())
    if problem is not None:
        return (_cannot(problem),)
    purpose = Purpose(target.cluster_id(), PROTECTION)
    with closing(RuleBook(both.target, LinkName(link.name))) as book:
        book.read()
        laid, others = book.rules(purpose), book.others(purpose)
    deny = _wanted(config, link, cluster, shown - laid - others, mirrors)
    may = cluster.may_alter()
    missing = () if may is True else (Cannot(Why.MAY_NOT_CHANGE),)
    if isinstance(may, BrokerError):
        raise may
    return (
        *(f"protect: {line}" for line in told(deny.rules - laid)),
        *((f"protect: {len(laid - deny.rules)} rules to lift",) if laid - deny.rules else ()),
        *(_cannot(obstacle) for obstacle in (*missing, *deny.cannot)),
    )


def protect(
    config: Config,
    link: LinkConfig,
    at_target: tuple[ClusterAdmin, Reachable],
    mirrors: Collection[TopicName],
    fences: frozenset[AclBinding],
) -> None:
    """Protect mirrors before the fence goes that keeps all out, the link too.

    By the same rules that the link's driver would lay, which keeps them in step. Where no rule may
    be laid nothing is done: the driver tells why.

    Parameters
    ----------
    fences
        The fence's rules: what they deny is not denied any more afterwards.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses; call it again.
    """
    if not link.topics.protect or not mirrors:
        return
    target, access = at_target
    cluster, purpose = ClusterRules(target), Purpose(target.cluster_id(), PROTECTION)
    shown, problem = shown_by_any(cluster.all_rules())
    if problem is not None or cluster.may_alter() is not True:
        return
    with closing(RuleBook(access, LinkName(link.name), link.state.replication_factor)) as book:
        book.read()
        fence = Fence(cluster, book, purpose, SystemClock())
        others = shown - fences - fence.laid - book.others(purpose)
        standing = fence.put_up(_wanted(config, link, cluster, others, mirrors).rules)
    if standing.missing:
        raise ConnectionLost(f"mirrors may not be protected yet: {standing.text()}")


def open_to_writers(
    link: LinkConfig,
    clusters: LentClusters,
    topics: Collection[TopicName],
    others: Collection[TopicName],
) -> Standing:
    """Lift what protects these mirrors, which are promoted; `others` stay protected.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses: they may still be protected; call it again.
    """
    with (
        closing(ClusterAdmin(clusters)) as target,
        closing(RuleBook(clusters, LinkName(link.name), link.state.replication_factor)) as book,
    ):
        book.read()
        purpose = Purpose(target.cluster_id(), PROTECTION)
        fence = Fence(ClusterRules(target), book, purpose, SystemClock())
        standing = unprotect(fence, topics, others)
    if standing.missing:
        raise ConnectionLost(f"promoted topics may still be protected: {standing.text()}")
    return standing


def lift_protection(link: LinkConfig, target: Reachable) -> None:
    """Lift all rules that protect the link's mirrors, which nobody will keep in step any more.

    Raises
    ------
    ConnectionLost, BrokerError
        As `open_to_writers`.
    """
    with (
        closing(ClusterAdmin(target)) as admin,
        closing(RuleBook(target, LinkName(link.name), link.state.replication_factor)) as book,
    ):
        book.read()
        fence = Fence(
            *(ClusterRules(admin), book),
            *(Purpose(admin.cluster_id(), PROTECTION), SystemClock()),
        )
        standing = fence.take_down()
    if standing.missing:
        raise ConnectionLost(f"mirrors may still be protected: {standing.text()}")


def _wanted(
    config: Config,
    link: LinkConfig,
    cluster: ClusterRules,
    bindings: frozenset[AclBinding],
    mirrors: Collection[TopicName],
) -> DenyRules:
    authorizer = cluster.authorizer()
    principal = config.clusters[link.target].security.known_principal
    if principal is None:
        return DenyRules(cannot=(Cannot(Why.WHO_WE_ARE),))
    writer = Writer(principal, is_super=principal in (authorizer.super_users or ()))
    rights = Rights(bindings, authorizer, cluster.topics(), writer)
    prefix = naming_of(link).rule.partition(TOPIC)[0]
    return protection_of(rights, writer, mirrors, (prefix,) if prefix else ())


def _cannot(problem: Cannot) -> str:
    return f"can't be protected: {problem.text()}"
