"""Removing what a drill has made: only what its note names, and what begins with its links' names.

Done again it goes on where it ended.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.kafka_codes import (
    GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from heliostat.config import STATE_TOPIC_PREFIX, Config
from heliostat.errors import BrokerError, ConnectionLost, Refused
from heliostat.fencing import ClusterRules, Fence, RuleBook
from heliostat.fencing.rule_book import rules_topic
from heliostat.handover.drill import DrillNote, Way
from heliostat.names import ClusterId, LinkName, TopicName
from heliostat.operate.drilling.rights import is_moving
from heliostat.operate.link_removal import owner_after

CLIENT_ID = "heliostat-drill"
OWNER_WITHIN_S = 60.0
EMPTY_WITHIN_S = 45.0
"""A member that has crashed leaves its group once its session is over."""
GONE_WITHIN_S = 30.0
LOOK_S = 0.5


def accesses(config: Config) -> list[ClusterAccess]:
    """Return both clusters of a drill's links."""
    link = config.links[0]
    return [config.clusters[alias].access() for alias in (link.source, link.target)]


def await_no_owner(config: Config, note: DrillNote) -> None:
    """Wait until nobody runs the drill's links; a crashed drill's drivers end by themselves.

    Raises
    ------
    Refused
        Somebody still does.
    """
    for way in Way:
        link = config.link(note.links[way])
        if owner := owner_after(config, link, OWNER_WITHIN_S):
            raise Refused(
                f"link {link.name} still has an owner, at {owner}",
                hint="end the `heliostat run` that a drill has left there, then clean again",
            )


def lift_rules(config: Config, note: DrillNote) -> None:
    """Lift all rules that the drill's links have noted, whatever they were laid for."""
    both = [ClusterAdmin(access, CLIENT_ID) for access in accesses(config)]
    try:
        admin_of = {admin.cluster_id(): admin for admin in both}
        for way in Way:
            link = config.link(note.links[way])
            _lift(config.clusters[link.target].access(), LinkName(link.name), admin_of)
    finally:
        for admin in both:
            admin.close()


def _lift(
    target: ClusterAccess, link: LinkName, admin_of: Mapping[ClusterId, ClusterAdmin]
) -> None:
    with ClusterAdmin(target, CLIENT_ID) as admin:
        if rules_topic(link) not in admin.describe_topics():
            return
    with closing(RuleBook(target, link)) as book:
        book.read()
        for purpose, rules in list(book.rows.items()):
            if not rules or purpose.cluster not in admin_of:
                continue
            cluster = ClusterRules(admin_of[purpose.cluster])
            standing = Fence(cluster, book, purpose, SystemClock()).take_down()
            if standing.missing:
                raise ConnectionLost(f"rules of {link} may still be there: {standing.text()}")


def delete_groups(config: Config, note: DrillNote) -> None:
    """Delete the drill's groups at both clusters, once they have no members.

    Raises
    ------
    BrokerError
        One can't be deleted.
    """
    for access in accesses(config):
        with ClusterAdmin(access, CLIENT_ID) as admin:
            until_s = time.monotonic() + EMPTY_WITHIN_S
            left = list(note.groups)
            while left:
                answers = admin.delete_groups(left)
                left = []
                for group, error in answers.items():
                    if error is None or error.kafka_code == GROUP_ID_NOT_FOUND:
                        continue
                    is_busy = is_moving(error) or error.kafka_code == NON_EMPTY_GROUP
                    if not is_busy or time.monotonic() >= until_s:
                        raise BrokerError(
                            f"group {group} can't be deleted at {access.described}: {error.text}",
                            kafka_code=error.kafka_code,
                        )
                    left.append(group)
                if left:
                    time.sleep(LOOK_S)


def existing(config: Config, note: DrillNote) -> list[str]:
    """Return which of the drill's names are there already, at either cluster."""
    there: list[str] = []
    for access in accesses(config):
        with ClusterAdmin(access, CLIENT_ID) as admin:
            there += sorted(owned(note, admin.describe_topics()))
            there += sorted(set(note.groups) & admin.list_groups().groups.keys())
    return list(dict.fromkeys(there))


def owned(note: DrillNote, topics: Collection[TopicName]) -> Iterator[TopicName]:
    """Yield those of the topics that are the drill's: its own, and those of its links."""
    states = tuple(f"{STATE_TOPIC_PREFIX}{name}." for name in note.links.values())
    for topic in topics:
        if topic in note.topics or topic.startswith(states):
            yield topic


def delete_topics(config: Config, note: DrillNote) -> None:
    """Delete the drill's topics, mirrors and its links' topics, and see that they are gone.

    Raises
    ------
    BrokerError
        One can't be deleted.
    """
    for access in accesses(config):
        with ClusterAdmin(access, CLIENT_ID) as admin:
            until_s = time.monotonic() + GONE_WITHIN_S
            while left := sorted(owned(note, admin.describe_topics())):
                for topic, error in admin.delete_topics(left).items():
                    if error is None or error.kafka_code == UNKNOWN_TOPIC_OR_PARTITION:
                        continue
                    raise BrokerError(
                        f"topic {topic} can't be deleted at {access.described}: {error.text}",
                        kafka_code=error.kafka_code,
                    )
                if time.monotonic() > until_s:
                    raise ConnectionLost(f"{left[0]} is still there at {access.described}")
                time.sleep(LOOK_S)
