"""What the link's principals may do of what a drill needs: asked of brokers, changing nothing.

To create is asked by a request that is only validated, to delete by one for a name that nobody has,
what may be done with groups and the cluster by KIP-430.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from heliostat.clusters.admin import ClusterAdmin, NewTopic
from heliostat.clusters.kafka_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    NOT_COORDINATOR,
    TOPIC_AUTHORIZATION_FAILED,
)
from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.errors import BrokerError
from heliostat.handover.drill import PREFIX, MissingRight, Part
from heliostat.names import Alias, GroupId, TopicName

READ, DELETE = 3, 6  # `AclOperation`
COORDINATOR_WITHIN_S, LOOK_S = 30.0, 0.5
"""A cluster without any group makes the topic of their offsets when it is asked first."""
_MOVING = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
_REFUSED = frozenset({TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED})


def missing_rights(
    source: tuple[Alias, ClusterAdmin],
    target: tuple[Alias, ClusterAdmin],
    drawn: str,
    *,
    syncs_groups: bool,
) -> Iterator[MissingRight]:
    """Yield what is missing, the most important first.

    Parameters
    ----------
    drawn
        Letters that no name has.

    Raises
    ------
    ConnectionLost, BrokerError
        A cluster does not answer, or refuses for another reason than rights.
    """
    state = f"{STATE_TOPIC_PREFIX}{PREFIX}"
    yield from _of_topics(*source, PREFIX, drawn, Part.ALL)
    yield from _of_topics(*target, PREFIX, drawn, Part.ALL)
    yield from _of_topics(*target, state, drawn, Part.ALL)
    yield from _of_topics(*source, state, drawn, Part.WAY_BACK)
    if syncs_groups:
        yield from _of_groups(*source, drawn)
        yield from _of_groups(*target, drawn)
    for alias, admin in (source, target):
        may = admin.may_alter_cluster()
        if isinstance(may, BrokerError) and may.kafka_code != CLUSTER_AUTHORIZATION_FAILED:
            raise may
        if may is not True:
            yield MissingRight(
                alias,
                "Alter on the cluster: producers are not kept out by rules but stopped by hand",
                Part.RULES,
            )


def _of_topics(
    alias: Alias, admin: ClusterAdmin, prefix: str, drawn: str, part: Part
) -> Iterator[MissingRight]:
    name = TopicName(f"{prefix}{drawn}")
    made = admin.create_topics([NewTopic(name, 1, 1, {})], validate_only=True)[name]
    if isinstance(made, BrokerError) and made.kafka_code in _REFUSED:
        yield MissingRight(alias, f"Create on topics {prefix}*", part)
    gone = admin.delete_topics([name])[name]
    if gone is not None and gone.kafka_code in _REFUSED:
        yield MissingRight(alias, f"Delete on topics {prefix}*", part)


def is_moving(answer: object) -> bool:
    """Return whether a group has no coordinator at the moment."""
    return isinstance(answer, BrokerError) and answer.kafka_code in _MOVING


def _of_groups(alias: Alias, admin: ClusterAdmin, drawn: str) -> Iterator[MissingRight]:
    group = GroupId(f"{PREFIX}{drawn}")
    until_s = time.monotonic() + COORDINATOR_WITHIN_S
    while is_moving(may := admin.group_operations([group])[group]) and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    if isinstance(may, BrokerError):
        if may.kafka_code != GROUP_AUTHORIZATION_FAILED:
            raise may
        may = frozenset()
    for operation, word in ((READ, "Read"), (DELETE, "Delete")):
        if operation not in may:
            yield MissingRight(alias, f"{word} on groups {PREFIX}*", Part.GROUPS)
