"""Transactions that are open at a source that is given up, as far as they can be named; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from heliostat.handover.held_back import HeldBack
from heliostat.names import TopicName, TopicPartition


@dataclass(frozen=True, slots=True)
class StillOpen:
    """What was open when the source was last seen.

    Parameters
    ----------
    named
        Transactions, as the link's driver named them: of 50 partitions at most.
    unnamed
        Partitions more in which records are held back by transactions that are not named.
    """

    named: tuple[HeldBack, ...] = ()
    unnamed: int = 0

    def __bool__(self) -> bool:
        return bool(self.named or self.unnamed)

    def to_json(self) -> dict[str, Any]:
        """Return its part of a row."""
        return {
            "named": [transaction.to_json() for transaction in self.named],
            "unnamed": self.unnamed,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from a row's part; raises as `HeldBack.from_json`."""
        named = tuple(HeldBack.from_json(transaction) for transaction in value["named"])
        return cls(named, int(value["unnamed"]))

    @classmethod
    def summed(cls, parts: Iterable[Self]) -> Self:
        """Return those of several topics as one, the oldest first."""
        parts = list(parts)
        named = sorted((transaction for part in parts for transaction in part.named), key=_by_age)
        return cls(tuple(named), sum(part.unnamed for part in parts))

    def lines(self) -> Iterator[str]:
        """Yield a line for each that is named, and one about the others."""
        yield from (transaction.text() for transaction in self.named)
        if self.unnamed:
            rest = f"{self.unnamed:,} more" if self.named else f"{self.unnamed:,}"
            yield f"in {rest} partitions transactions that are not named hold back records"


NONE_OPEN = StillOpen()


def still_open(
    named: Iterable[HeldBack],
    held: Mapping[TopicPartition, int],
    topics: Collection[TopicName],
) -> dict[TopicName, StillOpen]:
    """Return what was open in topics, by topic; those without any are left out.

    Parameters
    ----------
    named
        Transactions, as the driver named them last.
    held
        Records that transactions hold back, by partition, as lanes reported them last.
    topics
        Names at the source.
    """
    rows: dict[TopicName, list[HeldBack]] = {}
    places: set[tuple[str, int]] = set()
    for transaction in named:
        rows.setdefault(TopicName(transaction.source), []).append(transaction)
        places.add((transaction.source, transaction.partition))
    unnamed = Counter(
        place.topic
        for place, records in held.items()
        if records and (place.topic, place.partition) not in places
    )
    return {
        topic: StillOpen(tuple(rows.get(topic, ())), unnamed[topic])
        for topic in topics
        if topic in rows or topic in unnamed
    }


def _by_age(transaction: HeldBack) -> float:
    return -transaction.age_s
