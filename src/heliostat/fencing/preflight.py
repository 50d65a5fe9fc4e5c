"""What a fence would not hold, told before it is put up; changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from heliostat.clusters.acl import AclBinding
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError
from heliostat.fencing.cannot import Cannot, Why
from heliostat.fencing.deny_rules import DenyRules, Rights, Writer, fence_of
from heliostat.fencing.protection import RightsAsked, shown_by_any
from heliostat.names import BrokerId, TopicName


class FenceAsked(RightsAsked, Protocol):
    """What is asked of the cluster where a fence is to be."""

    def may_alter(self) -> bool | BrokerError:
        """Return whether we may change rules."""

    def may_write(
        self, topics: Collection[TopicName]
    ) -> Mapping[BrokerId, Mapping[TopicName, bool | BrokerError] | HeliostatError]:
        """Return whether each broker lets us write into topics."""


def can_fence(
    cluster: FenceAsked,
    principals: Collection[str],
    topics: Collection[TopicName],
    *,
    viewer: str | None = None,
    ours: frozenset[AclBinding] = frozenset(),
) -> DenyRules:
    """Return the rules that would keep principals from writing into topics, and what they can't.

    Whether a single principal is a super user, brokers may not show: on our own fence they are
    asked once it is up (`still_lets_us_write`).

    Parameters
    ----------
    principals
        Whom to keep out; `EVERYBODY` for all.
    topics
        Where.
    viewer
        Our own principal, if it is known: few rules are enough where we see all topics.
    ours
        Rules that are ours already (`RuleMemory`).

    Raises
    ------
    ConnectionLost, BrokerError
        No broker answers, or they refuse for another reason than rights.
    """
    shown, problem = shown_by_any(cluster.all_rules())
    if problem is not None:
        return DenyRules(cannot=(problem,))
    may = cluster.may_alter()
    if isinstance(may, BrokerError):
        raise may
    authorizer = cluster.authorizer()
    seen_by = None if viewer is None else Writer(viewer, viewer in (authorizer.super_users or ()))
    rights = Rights(shown - ours, authorizer, cluster.topics(), seen_by)
    deny = fence_of(rights, principals, topics)
    return deny if may else replace(deny, cannot=(Cannot(Why.MAY_NOT_CHANGE), *deny.cannot))


def still_lets_us_write(cluster: FenceAsked, topics: Collection[TopicName]) -> dict[TopicName, str]:
    """Return topics into which a broker still lets us write, or does not tell, and which one.

    The proof of a fence on the link's own principal, whoever it is to the brokers: super users too.

    Raises
    ------
    ConnectionLost
        No broker answers.
    """
    answers = cluster.may_write(topics)
    if not answers:
        raise ConnectionLost("no broker says what we may do")
    left: dict[TopicName, str] = {}
    for broker, answer in sorted(answers.items()):
        for topic in sorted(topics):
            may = answer if isinstance(answer, HeliostatError) else answer.get(topic, True)
            if isinstance(may, HeliostatError):
                left[topic] = f"broker {broker} does not say: {may.text}"
            elif may:
                left[topic] = f"broker {broker} lets us write"
    return left
