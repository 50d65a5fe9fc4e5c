"""Which pipelines of a link share a lane, where Spark has too few places for one of each.

Those as rows share one stage of Spark, those on the bytes of batches one Python process. One that
fails at a record goes on in a lane of its own: it must not hold others back again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from heliostat.records.copier.pipeline_steps import Pipeline


class Together(NamedTuple):
    """Names of pipelines that share a lane; none, or at least two."""

    rows: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()


class SharedLanes:
    """The lanes that pipelines of one link share. Not thread-safe.

    Parameters
    ----------
    is_short
        Whether there are too few places for a lane of each pipeline.
    """

    def __init__(self, is_short: Callable[[], bool]) -> None:
        self._is_short = is_short
        self._is_on = False
        """Once it was: places that come and go would end rounds each time."""
        self._alone: set[str] = set()
        self._last = Together()

    def look(self, pipelines: Iterable[Pipeline]) -> Together:
        """Return which of these share lanes from now on."""
        self._is_on = self._is_on or self._is_short()
        some = [each for each in pipelines if each.name not in self._alone] if self._is_on else []
        self._last = together(some)
        return self._last

    def with_others(self, names: Collection[str]) -> frozenset[str]:
        """Return these names, and those of the pipelines that share their lane."""
        groups = (group for group in self._last if any(name in group for name in names))
        return frozenset(names).union(*groups)

    def part_from(self, name: str) -> None:
        """Give this pipeline a lane of its own from the next look on."""
        self._alone.add(name)

    def part(self) -> None:
        """Give each pipeline that shares a lane one of its own from the next look on."""
        self._alone.update(*self._last)


def together(pipelines: Iterable[Pipeline]) -> Together:
    """Return which of these pipelines can share lanes."""
    able = [each for each in pipelines if each.may_share]
    rows = tuple(each.name for each in able if not each.is_in_place)
    in_place = tuple(each.name for each in able if each.is_in_place)
    return Together(rows if len(rows) > 1 else (), in_place if len(in_place) > 1 else ())
