"""What the link's principals may do of what a drill needs: asked of brokers, changing nothing.

Topics and ids by `check_rights`' requests, for names that nobody has; what may be done with groups
and the cluster by KIP-430.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from heliostat.clusters.acl import Operation
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.admin.right_calls import Right
from heliostat.clusters.kafka_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    NOT_COORDINATOR,
)
from heliostat.errors import BrokerError
from heliostat.handover.drill import PREFIX, MissingRight, Part
from heliostat.names import Alias, GroupId
from heliostat.operate.acls import SOURCE_TOPIC
from heliostat.operate.check_rights import refused
from heliostat.operate.verb_acls import MADE_UP_TOPIC, VerbRight, made_up_names

READ, DELETE = 3, 6  # `AclOperation`
COORDINATOR_WITHIN_S, LOOK_S = 30.0, 0.5
"""A cluster without any group makes the topic of their offsets when it is asked first."""
_MOVING = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
_OF_SOURCE = {*SOURCE_TOPIC, Operation.CREATE, Operation.WRITE, Operation.DELETE}
"""Where topics are made, written, copied from, and removed."""


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
    missing = [*_of_names(*source, drawn, _at_source), *_of_names(*target, drawn, _at_target)]
    order = list(Part)
    yield from sorted(missing, key=lambda right: order.index(right.part))
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


def _of_names(
    alias: Alias, admin: ClusterAdmin, drawn: str, part_of: Callable[[VerbRight, Operation], Part]
) -> Iterator[MissingRight]:
    """Ask for each right on names that a drill makes up; what brokers don't show is not missing."""
    asked = {
        Right(verb_right.kind, f"{verb_right.reach.name}{drawn}", operation): (
            verb_right,
            operation,
        )
        for verb_right in made_up_names()
        for operation in verb_right.operations
    }
    answers = admin.may(asked)
    for right in refused(asked, answers):
        wanted, operation = asked[right]
        kinds = f"{wanted.kind.value}s".replace("-", " ")
        text = f"{operation.value} on {kinds} {wanted.reach.name}*"
        is_used = operation is not Operation.ALTER  # no topic of a drill ever grows
        yield MissingRight(alias, text, part_of(wanted, operation) if is_used else Part.NOTHING)


def _at_source(wanted: VerbRight, operation: Operation) -> Part:
    """Return what needs a right at the source: the way there has its topics, no state."""
    is_used = wanted.operations is MADE_UP_TOPIC and operation in _OF_SOURCE
    return Part.ALL if is_used else Part.WAY_BACK


def _at_target(_wanted: VerbRight, _operation: Operation) -> Part:
    return Part.ALL


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
