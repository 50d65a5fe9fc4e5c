"""Which topics of a status are shown first, and which at all; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from heliostat.records.copier.lane import PartitionState
from heliostat.status.values import TopicStatus

_COPYING = PartitionState.COPYING.value
_STOPPED = frozenset(state.value for state in PartitionState if state.is_stopped)
_Key = tuple[float | str, ...]


def _by_lag(topic: TopicStatus) -> _Key:
    """Topics with stopped partitions, then those that lag or may, the oldest first."""
    stopped = sum(number for state, number in topic.states.items() if state in _STOPPED)
    troubled = sum(number for state, number in topic.states.items() if state != _COPYING)
    age_s = 0.0 if topic.lag_s is None else topic.lag_s
    is_unclear = topic.lag_s is None or topic.unknown > 0
    return (-min(stopped, 1), -min(troubled, 1), -is_unclear, -age_s, -(topic.lag_records or 0))


def _by_rate(topic: TopicStatus) -> _Key:
    return (-topic.bytes_per_s, -topic.records_per_s)


ORDERS: dict[str, Callable[[TopicStatus], _Key]] = {
    "lag": _by_lag,
    "rate": _by_rate,
    "name": lambda _: (),
}
"""By what topics are ordered; by name where that is equal."""


def ordered(topics: Iterable[TopicStatus], order: str) -> list[TopicStatus]:
    """Return topics in one of `ORDERS`."""
    key = ORDERS[order]
    return sorted(topics, key=lambda topic: (*key(topic), topic.source))


def matching(topics: Iterable[TopicStatus], text: str) -> list[TopicStatus]:
    """Return the topics of which a name, at either side, has this text or regular expression."""
    try:
        matches = re.compile(text, re.IGNORECASE).search
    except re.error:  # half typed, or plain text
        matches = re.compile(re.escape(text), re.IGNORECASE).search
    return [topic for topic in topics if matches(topic.source) or matches(topic.target)]


def chosen(topics: Sequence[TopicStatus], patterns: Sequence[str]) -> list[TopicStatus]:
    """Return the topics of which a name, at either side, fits one of the patterns; none: all."""
    return [
        topic
        for topic in topics
        if not patterns
        or any(fnmatchcase(name, p) for name in (topic.source, topic.target) for p in patterns)
    ]
