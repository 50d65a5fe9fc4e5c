"""Reports of a lane to its driver: each begins a lease before it is sent (I10)."""

from __future__ import annotations

from heliostat.clock import Clock
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import RoundReport
from heliostat.records.copier.lease import Lease
from heliostat.records.copier.round_reports import RoundReports

PLAN_AFTER_S = 0.2
"""Between two reports of changes of the plan, each of which names all partitions."""
NO_HOOKS = Hooks(lambda: False, lambda: False, lambda _: None)


class LaneReports:
    """Publishes them: once a turn, and between two waits of one turn."""

    def __init__(self, lease: Lease, reports: RoundReports, clock: Clock) -> None:
        self._lease = lease
        self._reports = reports
        self._clock = clock
        self._published_s = 0.0
        self.hooks = NO_HOOKS

    def is_due(self) -> bool:
        """Return whether a second is over, or somebody waits for a change of the plan."""
        if self.hooks.is_report_due():
            return True
        is_rested = self._clock.monotonic_s() >= self._published_s + PLAN_AFTER_S
        return is_rested and self._reports.is_plan_new

    def publish(self, report: RoundReport) -> None:
        """Publish a report."""
        self._published_s = self._clock.monotonic_s()
        self._lease.report(report.number)  # before it is sent: that is when the lease begins
        self.hooks.publish(report)

    def on_the_way(self) -> None:
        """Report if that is due: over a long line one turn's waits must end no lease."""
        self._lease.answer(self.hooks.answered())
        if self.hooks.is_report_due() and not self._lease.has_ended:
            self.publish(self._reports.report(""))
