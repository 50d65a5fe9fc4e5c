"""Reports of a lane to its driver: each begins a lease before it is sent (I10)."""

from __future__ import annotations

from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import RoundReport
from heliostat.records.copier.lease import Lease
from heliostat.records.copier.round_reports import RoundReports

NO_HOOKS = Hooks(lambda: False, lambda: False, lambda _: None)


class LaneReports:
    """Publishes them: once a turn, and between two waits of one turn."""

    def __init__(self, lease: Lease, reports: RoundReports) -> None:
        self._lease = lease
        self._reports = reports
        self.hooks = NO_HOOKS

    def publish(self, report: RoundReport) -> None:
        """Publish a report."""
        self._lease.report(report.number)  # before it is sent: that is when the lease begins
        self.hooks.publish(report)

    def on_the_way(self) -> None:
        """Report if that is due: over a long line one turn's waits must end no lease."""
        self._lease.answer(self.hooks.answered())
        if self.hooks.is_report_due() and not self._lease.has_ended:
            self.publish(self._reports.report(""))
