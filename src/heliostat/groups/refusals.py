"""Commits that the target refuses until somebody changes something; pure.

The link's row of a group says which are refused, so that who asks both clusters needs not try.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from heliostat.clusters.kafka_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE,
    REQUEST_TIMED_OUT,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from heliostat.errors import BrokerError, kafka_error
from heliostat.groups.plan import GroupDecision
from heliostat.groups.values import Answers, CommitDecision, Published, Reason
from heliostat.names import TopicPartition

PASSING = frozenset(
    {
        UNKNOWN_TOPIC_OR_PARTITION,
        REQUEST_TIMED_OUT,
        NETWORK_EXCEPTION,
        COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR,
        UNKNOWN_MEMBER_ID,
    }
)
"""What ends by itself: a coordinator moves, or a group has members. Of a topic that has just been
seen, brokers may not all know yet."""


def refusals(decided: GroupDecision, answers: Answers) -> dict[TopicPartition, int]:
    """Return Kafka's codes of the commits that stay refused, by target partition."""
    errors = {target: error_for(target, answers) for target in decided.commits}
    return {
        target: error.kafka_code
        for target, error in errors.items()
        if error is not None and error.kafka_code not in PASSING
    }


def error_for(target: TopicPartition, answers: Answers) -> BrokerError | None:
    """Return the error that answers the commit of one partition; None: it is done."""
    return answers if isinstance(answers, BrokerError) else answers.get(target)


def refused(row: CommitDecision, code: int) -> CommitDecision:
    """Return the decision on a partition whose commit the target has refused."""
    known = kafka_error(code)
    if code == OFFSET_METADATA_TOO_LARGE:
        why = (
            f"the group commits {len(row.metadata):,} characters of its own with the offset, more "
            f"than the target takes: {known.hint}"
        )
        return replace(row, publish=None, reason=Reason.METADATA_TOO_LARGE, why=why)
    why = f"the target refuses it: {known.name}({code})"
    why += f" (hint: {known.hint})" if known.hint else ""
    return replace(row, publish=None, reason=Reason.REFUSED, why=why)


def with_refusals(decided: GroupDecision, published: Published | None) -> GroupDecision:
    """Return the decision with the commits that were refused the last time told as refused."""
    codes: Mapping[TopicPartition, int] = {} if published is None else published.refused
    rows = tuple(
        refused(row, codes[row.target])
        if row.publish is not None and row.target is not None and row.target in codes
        else row
        for row in decided.partitions
    )
    return replace(decided, partitions=rows)
