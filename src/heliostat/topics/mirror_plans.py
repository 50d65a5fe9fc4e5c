"""Shared by plans that hand mirrors to a link: each with all of its partitions, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from heliostat.names import PartitionId
from heliostat.topics.values import MirrorRecord

REFUSED = "refused"
"""The verdict on a partition that excludes its mirror."""


class PartitionVerdict(Protocol):
    """What was found about one partition."""

    @property
    def partition(self) -> PartitionId:
        """Its number at the source."""
        ...

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that the command line prints."""
        ...

    def describe(self) -> str:
        """One line for people."""
        ...


class MirrorVerdict(Protocol):
    """What was found about one mirror."""

    @property
    def record(self) -> MirrorRecord:
        """The record of it that the link would keep."""
        ...

    @property
    def partitions(self) -> Sequence[PartitionVerdict]:
        """All of its partitions."""
        ...

    @property
    def refusal(self) -> str:
        """Why it does not become the link's; empty if it does."""
        ...


def refused_numbers(partitions: Iterable[PartitionVerdict]) -> str:
    """Numbers of the refused partitions; empty if there are none."""
    return ", ".join(
        str(partition.partition) for partition in partitions if partition.verdict == REFUSED
    )


def lines_of(mirrors: Iterable[MirrorVerdict], verb: str) -> Iterator[str]:
    """Plain lines for people; `verb` is what happens to those that are not refused."""
    for mirror in mirrors:
        word = f"refuse ({mirror.refusal})" if mirror.refusal else verb
        yield f"{word}: {mirror.record.source} → {mirror.record.target}"
        for partition in mirror.partitions:
            yield f"  {partition.partition}: {partition.describe()}"


def as_json(mirrors: Iterable[MirrorVerdict]) -> list[dict[str, Any]]:
    """Return the JSON that the command line prints."""
    return [
        {
            "source": mirror.record.source,
            "target": mirror.record.target,
            "refused": mirror.refusal,
            "partitions": [partition.to_json() for partition in mirror.partitions],
        }
        for mirror in mirrors
    ]
