"""What an operator wishes of a link, a topic or a partition; pure.

A wish is a level: one key for each place, and what was written last counts, by the topic's order
and never by a clock. Of a topic and one of its partitions the later wish counts. A link that is
paused or stopped copies nothing, whatever is wished of its topics; these wishes outlast it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from typing_extensions import override

from heliostat.handover.promotion import Promotion
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.wishes.levels import Levels

STATE_PREFIX = "state"
NAME_CHARS_MAX, WHY_CHARS_MAX = 200, 1_000
"""Longer ones are cut: they are repeated in each report of the driver."""


class WishedState(Enum):
    """What is wished."""

    RUNNING = "running"
    PAUSED = "paused"
    """Nothing is copied; topics, groups and schemas are kept in step, and lag is measured."""
    STOPPED = "stopped"
    """Nothing at all is done at either cluster. Only for a link as a whole."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a wish is about: the link, a topic by its name at the source, or a partition."""

    topic: TopicName | None = None
    partition: PartitionId | None = None

    @property
    def key(self) -> str:
        """Its key in the topic."""
        parts = [
            STATE_PREFIX,
            *(str(part) for part in (self.topic, self.partition) if part is not None),
        ]
        return "/".join(parts)

    @classmethod
    def of_key(cls, key: str) -> Self:
        """Return the place of a key.

        Raises
        ------
        ValueError
            It is not the key of a place.
        """
        match key.split("/"):
            case [prefix] if prefix == STATE_PREFIX:
                return cls()
            case [prefix, topic] if prefix == STATE_PREFIX and topic:
                return cls(TopicName(topic))
            case [prefix, topic, number] if prefix == STATE_PREFIX and topic and number.isdecimal():
                return cls(TopicName(topic), PartitionId(int(number)))
        raise ValueError(f"{key!r} names no place")

    def holds(self, partition: TopicPartition) -> bool:
        """Return whether a wish for this place concerns a partition."""
        if self.topic is None:
            return True
        return self.topic == partition.topic and self.partition in {None, partition.partition}

    @override
    def __str__(self) -> str:
        """Return it as people write it."""
        if self.topic is None:
            return "the link"
        if self.partition is None:
            return self.topic
        return str(TopicPartition(self.topic, self.partition))


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish for one place: what, who, when and why."""

    place: Place
    state: WishedState
    by: str
    at_ms: int
    """Wall clock of who wrote it, for people."""
    why: str = ""

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return self.place.key

    def to_json(self) -> dict[str, Any]:
        """Return its row."""
        return {"state": self.state.value, "by": self.by, "at_ms": self.at_ms, "why": self.why}

    @classmethod
    def from_json(cls, key: str, value: Mapping[str, Any]) -> Self:
        """Build from a row.

        Raises
        ------
        ValueError, LookupError, TypeError
            It is not a row.
        """
        place, state = Place.of_key(key), WishedState(value["state"])
        if place.topic is not None and state is WishedState.STOPPED:
            raise ValueError("only a link can be stopped")
        by, why, at_ms = value["by"], value.get("why", ""), value["at_ms"]
        if not isinstance(by, str) or not isinstance(why, str):
            raise TypeError("`by` and `why` are text")
        return cls(place, state, by[:NAME_CHARS_MAX], int(at_ms), why[:WHY_CHARS_MAX])


class Wishes:
    """All wishes of a link, the last of each place, in the order in which they were written."""

    def __init__(self) -> None:
        self._by_place: dict[Place, tuple[int, Wish]] = {}
        self._count = 0
        self.levels = Levels()
        """Limits and priorities."""
        self.promotions: dict[TopicName, Promotion] = {}
        """Mirrors to give away, or given away, by source topic."""

    def take(self, wish: Wish) -> None:
        """Take the newest wish."""
        self._count += 1
        self._by_place[wish.place] = self._count, wish

    def forget(self, place: Place) -> None:
        """Take it that nothing is wished of a place any more."""
        self._by_place.pop(place, None)

    def places(self) -> frozenset[Place]:
        """Return the places for which something is wished."""
        return frozenset(self._by_place)

    def copy(self) -> Wishes:
        """Return them as they are now."""
        copied = Wishes()
        copied._by_place, copied._count = dict(self._by_place), self._count
        copied.levels = self.levels.copy()
        copied.promotions = dict(self.promotions)
        return copied

    def state_of(self, place: Place) -> WishedState:
        """Return what is wished of just this place; a topic's own wish covers its partitions."""
        wish = self.last_of(place)
        return WishedState.RUNNING if wish is None else wish.state

    def is_wished(self, place: Place, state: WishedState) -> bool:
        """Return whether this is wished of a place, and nothing else later of a part of it."""
        if self.state_of(place) is not state:
            return False
        if place.topic is None or place.partition is not None:
            return True  # a wish for a link lifts none for its topics
        since, _ = self._by_place.get(place, (0, None))
        return not any(
            own.topic == place.topic and count > since and wish.state is not state
            for own, (count, wish) in self._by_place.items()
        )

    def of_link(self) -> Wish | None:
        """Return the wish for the link as a whole, if it is not to run."""
        _, wish = self._by_place.get(Place(), (0, None))
        return wish if wish is not None and wish.state is not WishedState.RUNNING else None

    def pause_of(self, partition: TopicPartition) -> Wish | None:
        """Return the wish by which a partition is paused on its own; None: by none."""
        wish = self.last_of(Place(partition.topic, partition.partition))
        return wish if wish is not None and wish.state is WishedState.PAUSED else None

    def is_stopped(self) -> bool:
        """Return whether nothing at all is to be done at either cluster."""
        of_link = self.of_link()
        return of_link is not None and of_link.state is WishedState.STOPPED

    def last_of(self, place: Place) -> Wish | None:
        """Return the last wish for a place; a topic's is one for its partitions, too."""
        places = {place, Place(place.topic)}
        _, wish = max(
            (self._by_place.get(candidate, (0, None)) for candidate in places),
            key=lambda item: item[0],
        )
        return wish

    def is_paused(self, partition: TopicPartition) -> bool:
        """Return whether nothing of a partition is to be copied."""
        return self.of_link() is not None or self.pause_of(partition) is not None

    def pauses(self) -> Iterator[Wish]:
        """Yield the pauses of topics and partitions, but for those that a later wish has lifted."""
        for place, (_, wish) in self._by_place.items():
            is_named = place.topic is not None and wish.state is WishedState.PAUSED
            if is_named and self.last_of(place) is wish:
                yield wish
