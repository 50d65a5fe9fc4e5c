"""The function that Spark sends to the workers of a lane, by its name.

The driver imports this module too, to name the function, but never runs it. So the copying code is
imported by the first call: with it, and with Numba below it, a driver took 90 MB more and 1.2 s
longer to start (2026-11-25).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heliostat.records.copier.lane import LaneSpec, RoundReport


def copy_rounds(lanes: Iterable[LaneSpec]) -> Iterator[RoundReport]:
    """Body of the Spark task."""
    from heliostat.records.spark.copy_round import copy_round

    for lane in lanes:
        # The driver learns about partitions from the progress topic. Sending thousands of rows
        # through Spark would take processor time from the next round, which begins just now.
        yield replace(copy_round(lane), partitions=[])


def load_code(rows: Iterable[object]) -> Iterator[object]:
    """Body of a task that only loads the copying code, and so gets it compiled."""
    import heliostat.records.spark.copy_round  # noqa: F401 - loading it is all that is wanted

    return iter(rows)
