"""Figures of the groups that metrics name: how far they are behind, and when published; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from heliostat.config import compile_pattern
from heliostat.errors import BrokerError
from heliostat.groups.followed import Followed
from heliostat.groups.naming import SAME_NAMES, GroupNaming
from heliostat.groups.values import Published
from heliostat.names import GroupId, Offset, TopicPartition

GROUPS_MAX = 100
"""Most groups with figures of their own, the first by name."""


class GroupFigures(NamedTuple):
    """Figures of one group."""

    group: GroupId
    lag_records: int | None
    """Records between its offsets at the source and the ends of its logs; None: not known."""
    published_ms: int | None
    """When an offset of it was last published (ms since the epoch); None: never."""
    reread_records: int | None = None
    """Records that it would read again at the target, as of the last look; None: not known."""


class MeasuredGroups:
    """Measures the groups that are configured.

    Parameters
    ----------
    patterns
        Of their names.
    ends
        Returns the ends of the source's logs, as lanes last saw them.
    """

    def __init__(
        self,
        patterns: tuple[str, ...] = (),
        ends: Callable[[], Mapping[TopicPartition, Offset]] = dict,
    ) -> None:
        self._matches = [compile_pattern(pattern).fullmatch for pattern in patterns]
        self._ends = ends

    def figures(
        self,
        groups: Mapping[GroupId, Followed],
        published: Mapping[GroupId, Published],
        naming: GroupNaming = SAME_NAMES,
    ) -> list[GroupFigures]:
        """Return their figures, of those that the link follows; `published` by names there."""
        if not self._matches:
            return []
        ends = self._ends()
        named = sorted(group for group in groups if any(fits(group) for fits in self._matches))
        return [
            GroupFigures(
                group,
                _lag(groups[group], ends),
                _published_ms(published.get(naming.target_name(group))),
                groups[group].reread.records,
            )
            for group in named[:GROUPS_MAX]
        ]


def _lag(group: Followed, ends: Mapping[TopicPartition, Offset]) -> int | None:
    """Return the sum over partitions that the link mirrors; None: none of them is known."""
    behind = [
        max(0, ends[partition] - committed.offset)
        for partition, committed in (group.offsets or {}).items()
        if partition in ends and not isinstance(committed, BrokerError)
    ]
    return sum(behind) if behind else None


def _published_ms(row: Published | None) -> int | None:
    return row.at_ms if row is not None and row.sent else None
