"""Few patterns for many topics: a rule takes one name or all that begin alike; pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from itertools import takewhile
from typing import NamedTuple

from heliostat.clusters.acl import PatternKind

WORTH = 8
"""A prefix replaces at least so many names: a rule of one name says more to who reads it."""
SHORTEST = 3
"""A shorter prefix would catch too many topics that are created later."""


class TopicPattern(NamedTuple):
    """What a rule's resource is: one topic, or all that begin so."""

    name: str
    kind: PatternKind = PatternKind.LITERAL

    def covers(self, topic: str) -> bool:
        """Return whether a topic is meant."""
        is_prefix = self.kind is PatternKind.PREFIXED
        return topic.startswith(self.name) if is_prefix else topic == self.name


def patterns_for(
    wanted: Collection[str],
    others: Iterable[str],
    prefixes: Iterable[str],
    may_take: Callable[[str], bool] = lambda _: True,
) -> tuple[TopicPattern, ...]:
    """Return patterns that mean all wanted topics and none of the others.

    Parameters
    ----------
    wanted
        Topics to be meant.
    others
        All topics that exist and must not be.
    prefixes
        Those that may be used, where they replace `WORTH` names.
    may_take
        Returns whether one is safe otherwise.
    """
    left = sorted(set(wanted))
    rest = sorted(set(others) - set(wanted))
    patterns: list[TopicPattern] = []
    for prefix in sorted(set(prefixes), key=len):
        under = _under(left, prefix)
        if len(under) >= WORTH and not _under(rest, prefix) and may_take(prefix):
            patterns.append(TopicPattern(prefix, PatternKind.PREFIXED))
            taken = set(under)
            left = [name for name in left if name not in taken]
    return (*patterns, *(TopicPattern(name) for name in left))


def shared_prefixes(wanted: Collection[str], others: Iterable[str]) -> set[str]:
    """Return the shortest prefixes that many wanted topics share and no other topic has.

    A group of names that lie side by side in order, with no other between them, has one beginning.
    """
    names = sorted(set(wanted))
    rest = sorted(set(others) - set(names))
    groups: dict[int, list[str]] = {}
    for name in names:
        groups.setdefault(bisect_left(rest, name), []).append(name)
    prefixes = set[str]()
    for place, group in groups.items():
        beside = [*rest[max(0, place - 1) : place], *rest[place : place + 1]]
        for name in group:
            least = max((_shared(name, other) for other in beside), default=0) + 1
            if len(name) >= max(least, SHORTEST):
                prefixes.add(name[: max(least, SHORTEST)])
    return prefixes


def _shared(name: str, other: str) -> int:
    """Return how many characters two names begin with alike."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False))
    return sum(1 for _ in alike)


def _under(names: list[str], prefix: str) -> list[str]:
    """Return those of sorted names that begin so."""
    first = bisect_left(names, prefix)
    last = first
    while last < len(names) and names[last].startswith(prefix):
        last += 1
    return names[first:last]
