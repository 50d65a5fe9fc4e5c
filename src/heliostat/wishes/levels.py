"""How fast a link or topic may be copied, and which topics come first; pure.

    limit             of the link, bytes a second
    limit/TOPIC       of a topic, by its name at the source
    priority/TOPICS   of a topic, or of all whose names match, with `*` for any characters

Of a key the newest row counts, and of several that match a topic the newest one: by the topic's
order, never by a clock. Topics that come later are covered, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from heliostat.names import TopicName
from heliostat.records.copier.lane_limits import ByteLimits, Priority
from heliostat.wishes.rate import RATE_MAX, RATE_MIN

NAME_CHARS_MAX, WHY_CHARS_MAX = 200, 1_000
LIMIT, PRIORITY = "limit", "priority"
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
PATTERN = re.compile(r"[a-zA-Z0-9._*-]{1,249}")
ANY = "*"
LIMITED_TOPICS_MAX = 100
"""Each limited topic has connections of its own in each lane that has partitions of it; further
ones are ignored."""


@dataclass(frozen=True, slots=True)
class Said:
    """Who wishes something, when and why."""

    by: str
    at_ms: int
    """Wall clock of who wrote it, for people."""
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return its fields of a row."""
        return {"by": self.by, "at_ms": self.at_ms, "why": self.why}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises `LookupError`, `TypeError` or `ValueError` if it is none."""
        by, why, at_ms = value["by"], value.get("why", ""), value["at_ms"]
        if not isinstance(by, str) or not isinstance(why, str):
            raise TypeError("`by` and `why` are text")
        return cls(by[:NAME_CHARS_MAX], int(at_ms), why[:WHY_CHARS_MAX])


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit for the link (`topic` is None) or for a topic; None: it has none."""

    topic: TopicName | None
    bytes_per_s: int | None
    said: Said

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return LIMIT if self.topic is None else f"{LIMIT}/{self.topic}"

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {"bytes_per_second": self.bytes_per_s, **self.said.to_json()}

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises as `Said.from_json`."""
        _, slash, topic = key.partition("/")
        if slash and not TOPIC.fullmatch(topic):
            raise ValueError(f"{topic!r} is no topic")
        rate = value["bytes_per_second"]
        if rate is not None and (type(rate) is not int or not RATE_MIN <= rate <= RATE_MAX):
            raise ValueError(f"{rate!r} is no limit")
        return cls(TopicName(topic) if slash else None, rate, Said.from_json(value))


@dataclass(frozen=True, slots=True)
class Preference:
    """The priority of topics."""

    topics: str
    """A name at the source, or a pattern with `*`."""
    priority: Priority
    said: Said

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return f"{PRIORITY}/{self.topics}"

    @property
    def is_pattern(self) -> bool:
        """Whether it may be about several topics."""
        return ANY in self.topics

    def covers(self, topic: TopicName) -> bool:
        """Return whether it is about a topic."""
        return fnmatchcase(topic, self.topics)

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {"priority": self.priority.value, **self.said.to_json()}

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any]) -> Self:
        """Build from a row; raises as `Said.from_json`."""
        _, _, topics = key.partition("/")
        if not PATTERN.fullmatch(topics):
            raise ValueError(f"{topics!r} names no topics")
        return cls(topics, Priority(value["priority"]), Said.from_json(value))


Level = Limit | Preference


def is_level(key: str) -> bool:
    """Return whether a key is that of a limit or priority."""
    return key.partition("/")[0] in {LIMIT, PRIORITY}


class Levels:
    """All limits and priorities of a link, the last of each key, in the order of the topic."""

    def __init__(self) -> None:
        self._by_key: dict[str, Level] = {}
        self._count = 0
        self._numbers: dict[str, int] = {}
        """Which row it was, by the key of a priority: names may be thousands, patterns are few."""
        self._patterns: dict[str, Preference] = {}

    def take(self, key: str, value: Mapping[str, Any] | None) -> None:
        """Take the newest row of a key; None: there is none any more.

        Raises
        ------
        ValueError, LookupError, TypeError
            It is not a row; an earlier one of its key counts on.
        """
        kind = Limit if key.partition("/")[0] == LIMIT else Preference
        level = None if value is None else kind.from_json(key, value)
        for rows in (self._by_key, self._numbers, self._patterns):
            rows.pop(key, None)  # the newest is last
        if level is not None:
            self._by_key[key] = level
        if isinstance(level, Preference):
            self._count += 1
            self._numbers[key] = self._count
            if level.is_pattern:
                self._patterns[key] = level

    def copy(self) -> Levels:
        """Return them as they are now."""
        copied = Levels()
        copied._by_key, copied._patterns = dict(self._by_key), dict(self._patterns)
        copied._numbers, copied._count = dict(self._numbers), self._count
        return copied

    def is_wished(self, level: Level) -> bool:
        """Return whether just this is wished already."""
        if isinstance(level, Limit):
            return self.limit_of(level.topic) == level.bytes_per_s
        rows = reversed(self._by_key.values())
        newest = next((row for row in rows if isinstance(row, Preference)), None)
        if newest is None:
            return level.priority is Priority.NORMAL
        return (newest.topics, newest.priority) == (level.topics, level.priority)

    def limit_of(self, topic: TopicName | None) -> int | None:
        """Return the limit of the link (None) or of a topic, in bytes a second; None: none."""
        level = self._by_key.get(Limit(topic, None, Said("", 0)).key)
        return level.bytes_per_s if isinstance(level, Limit) else None

    def limits(self) -> Iterator[Limit]:
        """Yield the limits that hold, the link's first, then by name."""
        held = [
            level
            for level in self._by_key.values()
            if isinstance(level, Limit) and level.bytes_per_s is not None
        ]
        yield from sorted(held, key=lambda limit: limit.key)[: LIMITED_TOPICS_MAX + 1]

    def byte_limits(self) -> ByteLimits:
        """Return the limits that hold, without who wishes them."""
        link, topics = 0, list[tuple[TopicName, int]]()
        for limit in self.limits():
            if limit.topic is None:
                link = limit.bytes_per_s or 0
            elif limit.bytes_per_s:
                topics.append((limit.topic, limit.bytes_per_s))
        return ByteLimits(link, tuple(topics))

    def preferences(self) -> Iterator[Preference]:
        """Yield the priorities, the newest last."""
        for level in self._by_key.values():
            if isinstance(level, Preference):
                yield level

    def priority_of(self, topic: TopicName) -> Priority:
        """Return the priority of a topic."""
        own = self._by_key.get(f"{PRIORITY}/{topic}")
        number = self._numbers.get(f"{PRIORITY}/{topic}", 0)
        for key, pattern in reversed(self._patterns.items()):
            if self._numbers[key] < number:
                break
            if pattern.covers(topic):
                return pattern.priority
        return own.priority if isinstance(own, Preference) else Priority.NORMAL
