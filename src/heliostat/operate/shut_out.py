"""The link's own principal kept out of its mirrors by rules, where its driver does not answer.

The rules name the principal that the driver itself reported: whoever calls may be another one. They
stay until the link has given the mirrors up, or all its leases are over; the same verb lifts them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.wire.lent import LentClusters
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.fencing.cluster_rules import ClusterRules
from heliostat.fencing.fence import Fence
from heliostat.fencing.preflight import can_fence, still_lets_us_write
from heliostat.fencing.rule_book import Purpose, RuleBook
from heliostat.names import LinkName, TopicName

PURPOSE = "failover"
SHOWN_WITHIN_S = 3.0
APPENDED_WITHIN_S = 1.0
"""What a broker allowed before it had the rule, it has appended by then."""


def principal_of(driver: Mapping[str, Any]) -> str | None:
    """Return whom the driver's report names as the link, at its target; None: it is not known."""
    principal = driver.get("principal")
    return principal if isinstance(principal, str) and principal else None


def why_not(
    config: Config,
    link: LinkConfig,
    clusters: LentClusters,
    driver: Mapping[str, Any],
    mirrors: Collection[TopicName],
) -> str:
    """Return why rules can't keep the link out of mirrors; empty: they can. Changes nothing.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses for another reason than rights.
    """
    principal = principal_of(driver)
    if principal is None:
        return "it is not known who the link is to the target"
    with closing(ClusterAdmin(clusters)) as target:
        cluster, ours = ClusterRules(target), _principal_here(config, link)
        if principal != ours and cluster.authorizer().super_users is None:
            return f"brokers do not show whether {principal} is a super user"
        deny = can_fence(cluster, [principal], mirrors, viewer=ours)
    return "; ".join(obstacle.text() for obstacle in deny.cannot)


def shut_out(
    config: Config,
    link: LinkConfig,
    clusters: LentClusters,
    driver: Mapping[str, Any],
    mirrors: Collection[TopicName],
) -> str:
    """Keep the link out of its mirrors by rules that every broker shows; return why it can't be.

    Empty: nothing of the link can land there any more.
    """
    try:
        if why := why_not(config, link, clusters, driver, mirrors):
            return why
        with (
            closing(ClusterAdmin(clusters)) as target,
            closing(_book(link, clusters)) as book,
        ):
            whom = str(principal_of(driver)), _principal_here(config, link)
            return _shut_out(target, book, whom, mirrors)
    except (ConnectionLost, BrokerError) as error:
        return error.text


def _shut_out(
    target: ClusterAdmin,
    book: RuleBook,
    whom: tuple[str, str | None],
    mirrors: Collection[TopicName],
) -> str:
    book.read()
    principal, ours = whom
    cluster, purpose = ClusterRules(target), Purpose(target.cluster_id(), PURPOSE)
    fence = Fence(cluster, book, purpose, SystemClock())
    deny = can_fence(cluster, [principal], mirrors, viewer=ours, ours=fence.laid)
    if deny.cannot or not deny.rules:
        return (
            "; ".join(obstacle.text() for obstacle in deny.cannot)
            or "no rule of ours would deny it"
        )
    standing = fence.put_up(deny.rules, SHOWN_WITHIN_S)
    if not standing.is_whole:
        return standing.text()
    if principal == ours and (left := still_lets_us_write(cluster, mirrors)):
        topic, why = min(left.items())
        return f"{topic}: {why}"
    time.sleep(APPENDED_WITHIN_S)
    return ""


def let_in_again(link: LinkConfig, clusters: LentClusters) -> None:
    """Lift these rules, once the link has given its mirrors up.

    Raises
    ------
    ConnectionLost, BrokerError
        The target does not answer, or refuses; call it again.
    """
    with closing(_book(link, clusters)) as book:
        book.read()
        with closing(ClusterAdmin(clusters)) as target:
            purpose = Purpose(target.cluster_id(), PURPOSE)
            if not book.rules(purpose):
                return
            standing = Fence(ClusterRules(target), book, purpose, SystemClock()).take_down()
    if standing.missing:
        raise ConnectionLost(f"the link's principal may still be denied: {standing.text()}")


def _book(link: LinkConfig, clusters: LentClusters) -> RuleBook:
    return RuleBook(clusters, LinkName(link.name), link.state.replication_factor)


def _principal_here(config: Config, link: LinkConfig) -> str | None:
    return config.clusters[link.target].security.known_principal
