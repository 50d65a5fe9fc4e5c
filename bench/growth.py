"""Whether a series of samples grows: Theil and Sen's slope, what chance explains, and the floor.

The slope is the median of the slopes between each two samples, so that a few high samples (a
garbage collection that is late, a worker that is replaced) do not matter. A series grows if

- its slope is above a limit,
- Sen's lower bound of the slope, which a series without a trend exceeds once in a hundred, is
  above zero, and
- its floor rises: the least of the last third is above the least of the first. What leaks does
  not come back, while a sawtooth that ends with a high tooth has a slope, but an even floor.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

HOUR_S = 3_600.0
ONE_IN_A_HUNDRED = 2.326
"""Standard deviations that a normal variable exceeds once in a hundred."""
FEWEST = 10
"""Samples below which nothing is said: the bound below is an approximation for many."""
SKIPPED_PART = 3
"""A third of the samples, the first ones, is left out: the process still warms up."""
DIGITS = 3


@dataclass(frozen=True, slots=True)
class Limit:
    """What a series may grow by in an hour: a share of its median, and so much on top."""

    share: float
    more: float

    def of(self, median: float) -> float:
        """Return the limit for a series with this median."""
        return self.share * median + self.more


@dataclass(frozen=True, slots=True)
class Trend:
    """How a series develops, in its own unit; slope, its lower bound and limit are by the hour."""

    first: float
    last: float
    median: float
    slope: float
    slope_at_least: float
    floor_rise: float
    limit: float
    grows: bool

    def told(self) -> dict[str, Any]:
        """Return the report's form."""
        found = dataclasses.asdict(self)
        return {n: v if isinstance(v, bool) else round(v, DIGITS) for n, v in found.items()}


def settled(samples: Sequence[Any]) -> Sequence[Any]:
    """Return the last two thirds."""
    return samples[len(samples) // SKIPPED_PART :]


def trend(at_s: Sequence[float], values: Sequence[float], limit: Limit) -> Trend | None:
    """Fit the samples; nothing if there are too few."""
    if len(values) < FEWEST:
        return None
    slopes = slopes_an_hour(at_s, values)
    slope = float(np.median(slopes))
    at_least = lower_bound(slopes, len(values))
    median = float(np.median(values))
    third = len(values) // 3
    rise = min(values[-third:]) - min(values[:third])
    most = limit.of(median)
    grows = slope > most and at_least > 0 and rise > 0
    return Trend(values[0], values[-1], median, slope, at_least, rise, most, grows)


def slopes_an_hour(at_s: Sequence[float], values: Sequence[float]) -> list[float]:
    """Return the slope between each two samples, in ascending order."""
    return sorted(
        (values[j] - values[i]) / (at_s[j] - at_s[i]) * HOUR_S
        for i in range(len(values))
        for j in range(i + 1, len(values))
    )


def lower_bound(slopes: Sequence[float], samples: int) -> float:
    """Return Sen's lower bound of the median, from the variance of Kendall's statistic.

    (P. K. Sen, 1968: Estimates of the regression coefficient based on Kendall's tau.)
    """
    deviation = math.sqrt(samples * (samples - 1) * (2 * samples + 5) / 18)
    rank = (len(slopes) - ONE_IN_A_HUNDRED * deviation) / 2
    return slopes[max(0, math.floor(rank) - 1)]
