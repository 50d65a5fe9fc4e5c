"""What plans share that make mirrors a link's: each with all of its partitions, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from heliostat.names import PartitionId
from heliostat.topics.values import MirrorRecord

REFUSED = "refused"
"""The verdict on a partition that keeps its mirror from being the link's."""


class PartitionVerdict(Protocol):
    """What is found of one partition."""

    @property
    def partition(self) -> PartitionId:
        """Its number at the source."""
        ...

    @property
    def verdict(self) -> str:
        """In a word."""
        ...

    def to_json(self) -> dict[str, Any]:
        """As the command line answers it."""
        ...

    def describe(self) -> str:
        """One line for people."""
        ...


class MirrorVerdict(Protocol):
    """What is found of one mirror."""

    @property
    def record(self) -> MirrorRecord:
        """What would be remembered of it."""
        ...

    @property
    def partitions(self) -> Sequence[PartitionVerdict]:
        """All that it has."""
        ...

    @property
    def refusal(self) -> str:
        """Why it is not to be the link's; empty if it is."""
        ...


def refused_numbers(partitions: Iterable[PartitionVerdict]) -> str:
    """Those that are refused, by number; empty if none is."""
    return ", ".join(str(each.partition) for each in partitions if each.verdict == REFUSED)


def lines_of(mirrors: Iterable[MirrorVerdict], verb: str) -> Iterator[str]:
    """Plain lines for people; `verb` is what becomes of those that are not refused."""
    for mirror in mirrors:
        word = f"refuse ({mirror.refusal})" if mirror.refusal else verb
        yield f"{word}: {mirror.record.source} → {mirror.record.target}"
        for partition in mirror.partitions:
            yield f"  {partition.partition}: {partition.describe()}"


def as_json(mirrors: Iterable[MirrorVerdict]) -> list[dict[str, Any]]:
    """As the command line answers them."""
    return [
        {
            "source": mirror.record.source,
            "target": mirror.record.target,
            "refused": mirror.refusal,
            "partitions": [partition.to_json() for partition in mirror.partitions],
        }
        for mirror in mirrors
    ]
