"""Rounds that report nothing more, and don't end: their jobs are cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from heliostat.clock import Clock
from heliostat.link.lane_plans import LaneRound
from heliostat.link.leases import Leases
from heliostat.ops.events import Events
from heliostat.records.copier.lane import LaneSpec

SILENT_S = 30.0
"""A round that has not reported for so long hangs, if others' reports are read."""
PIPELINE_STARTS_S = 90.0
"""A round with a pipeline reports for the first time within 15 s, or 30 s on a busy machine."""
READ_WITHIN_S = 5.0
"""The driver's own report, one a second, was read within this: so reports are read at all."""


class HungRounds:
    """Finds and cancels rounds that hang. Not thread-safe, except `cancel`.

    Parameters
    ----------
    leases
        Where it is noted when rounds have reported.
    cancel
        Cancels a round's job.
    clock, events
        Time, and where it is told.
    """

    def __init__(
        self, leases: Leases, cancel: Callable[[LaneSpec], None], clock: Clock, events: Events
    ) -> None:
        self._leases = leases
        self._cancel = cancel
        self._clock = clock
        self._events = events
        self._read_at_s = float("-inf")

    def read(self) -> None:
        """Note that some report was read now."""
        self._read_at_s = self._clock.monotonic_s()

    def among(self, rounds: Iterable[LaneRound]) -> list[LaneRound]:
        """Return rounds that say that they hang, or have not reported for `SILENT_S`.

        Those that never reported are still being started, or wait for a free core. With a pipeline
        that ends after `PIPELINE_STARTS_S`: Spark waits for ever if one of both workers is killed
        before they have met (seen 2026-11-25).
        """
        now_s, every = self._clock.monotonic_s(), list(rounds)
        hung = [item for item in every if item.why_hangs]
        if now_s > self._read_at_s + READ_WITHIN_S:
            return hung
        heard = [(item, self._leases.heard_s(item.spec.round_id)) for item in every]
        hung += [item for item, at_s in heard if at_s is not None and now_s > at_s + SILENT_S]
        return hung + [
            item
            for item, at_s in heard
            if at_s is None
            and item.spec.row_pipeline is not None
            and now_s > item.begun_s + PIPELINE_STARTS_S
        ]

    def cancel(self, rounds: Iterable[LaneRound]) -> None:
        """Cancel these rounds' jobs, each once."""
        for item in rounds:
            if not item.is_cancelled:
                item.is_cancelled = True
                lane = item.spec.lane
                self._events.warn(f"lane {lane}: the round does not end; its job is cancelled")
                self._cancel(item.spec)
