"""Who the link is to the brokers, by trying it out on a topic that is its own.

Brokers hide who is a super user, and tell nobody under which name he is known. But each tells
what we may do with a topic (KIP-430), and a rule that denies wins: who may still write into a topic
that everybody is denied to write is a super user; who may not once a principal is denied has that
name. It is tried on the topic of the rules themselves, into which nothing needs to be written until
the rule is lifted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from heliostat.clusters.acl import EVERYBODY
from heliostat.clusters.kafka_codes import TOPIC_AUTHORIZATION_FAILED
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.fencing.deny_rules import Writer, deny_write
from heliostat.fencing.fence import Fence
from heliostat.fencing.patterns import TopicPattern
from heliostat.names import BrokerId, TopicName

WHO = "who"
"""What rules are for that find out who we are."""
MayWrite = Callable[
    [Collection[TopicName]],
    Mapping[BrokerId, Mapping[TopicName, bool | BrokerError] | HeliostatError],
]


def who_writes(
    fence: Fence, own: TopicName, principal: str | None, may_write: MayWrite
) -> Writer | None:
    """Return who the link is; None: not who it takes itself for, or that is not known.

    Parameters
    ----------
    fence
        Lays and lifts rules for `WHO`; those of a process that died meanwhile are lifted first.
    own
        A topic of the link's own.
    principal
        Who it takes itself for.
    may_write
        Returns whether each broker lets us write into topics.

    Raises
    ------
    ConnectionLost
        A broker does not show in time what was laid or lifted.
    BrokerError
        We may not change rules, or a broker does not tell what we may.
    """
    _lifted(fence)
    if not _may(may_write, own):
        raise BrokerError(
            f"the link may not write into {own}", kafka_code=TOPIC_AUTHORIZATION_FAILED
        )
    if _may_though(fence, own, EVERYBODY, may_write):
        return Writer(principal or "", is_super=True)
    if principal is None or _may_though(fence, own, principal, may_write):
        return None
    return Writer(principal)


def _may_though(fence: Fence, own: TopicName, principal: str, may_write: MayWrite) -> bool:
    """Return whether we may write into the topic while this principal is denied to."""
    try:
        standing = fence.put_up([deny_write(principal, TopicPattern(own))])
        if not standing.is_whole:
            raise ConnectionLost(f"a rule on {own} is not in force: {standing.text()}")
        return _may(may_write, own)
    finally:
        _lifted(fence)


def _lifted(fence: Fence) -> None:
    standing = fence.take_down()
    if standing.missing:
        raise ConnectionLost(f"a rule of ours is not lifted: {standing.text()}")


def _may(may_write: MayWrite, topic: TopicName) -> bool:
    """Return whether every broker lets us write there.

    Raises
    ------
    BrokerError
        Brokers differ, or one does not tell.
    """
    answers = set[bool]()
    for view in may_write([topic]).values():
        may = view if isinstance(view, HeliostatError) else view[topic]
        if isinstance(may, HeliostatError):
            raise may
        answers.add(may)
    if len(answers) != 1:
        raise BrokerError(f"brokers differ in whether the link may write into {topic}")
    return answers.pop()
