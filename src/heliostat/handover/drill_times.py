"""What a real switch would take, from what a drill took: bounds, and how they were computed; pure.

A step's requests grow by partitions, or by groups. How much of it grows so is not known from one
measurement, so there are two bounds: nothing grows (or as much as between the two sizes that were
measured), and all of it does, in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.handover.drill_report import Measured, ScaledStep, Size

_BY_GROUPS = frozenset({"groups"})
_BY_LAG = frozenset({"lag"})
_LEFT_OUT = frozenset({"comparison", "contents"})
"""Comparing contents takes as long as there is data."""


@dataclass(frozen=True, slots=True)
class Waits:
    """What a switch waits whatever its size, by step."""

    still: float
    watch: float

    def of(self, step: str) -> float:
        """Return what of a step is such a wait."""
        return {"still": self.still, "watch": self.watch}.get(step, 0.0)


def scaled_steps(
    whole: Measured, part: Measured | None, real: Size, drilled: Waits, usual: Waits
) -> tuple[ScaledStep, ...]:
    """Return what each step of a real switch would take.

    Parameters
    ----------
    whole, part
        A switch of all topics of the drill; of some of them, if there was one.
    drilled, usual
        What was waited there; what a switch waits.
    """
    return tuple(
        _scaled(name, whole, part, real, drilled.of(name), usual.of(name))
        for name in whole.steps
        if name not in _LEFT_OUT
    )


def _scaled(  # noqa: PLR0917 - a step, what was measured, and what is waited
    name: str, whole: Measured, part: Measured | None, real: Size, drilled: float, usual: float
) -> ScaledStep:
    took = whole.steps[name]
    if name in _BY_LAG:
        how = f"it waits for what is missing then; now {real.missing:,} records"
        return ScaledStep(name, took, took, took, how)
    of = "groups" if name in _BY_GROUPS else "partitions"
    here, there = getattr(whole, of), getattr(real, of)
    working = max(0.0, took - drilled)
    most = usual + working * max(1.0, there / max(1, here))
    least = usual + working
    how = f"{working:.1f} s for {here:,} {of}, times {there:,}/{here:,} at most"
    if usual:
        how += f"; {usual:g} s are waited"
    before = None if part is None else part.steps.get(name)
    if part is not None and before is not None and getattr(part, of) < here:
        smaller = getattr(part, of)
        grows = max(0.0, working - max(0.0, before - drilled)) / (here - smaller)
        least = min(most, least + grows * max(0, there - here))
        how += f"; at least as it grew from {smaller:,} to {here:,}"
    return ScaledStep(name, took, least, most, how)
