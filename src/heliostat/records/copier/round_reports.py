"""The reports of a lane's round while it copies, and at its end."""

from __future__ import annotations

from collections.abc import Sequence

from heliostat.ops.latency import LiveLatency
from heliostat.records.copier.lane import LaneSpec, RoundReport
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_report import at_end_of_round, report_of


class RoundReports:
    """The reports of one round.

    Parameters
    ----------
    lane
        Specification of the round.
    partitions
        Partitions of the lane.
    now_ms
        Wall clock time.
    """

    def __init__(self, lane: LaneSpec, partitions: Sequence[PartitionCopy], now_ms: int) -> None:
        self._lane = lane
        self._partitions = partitions
        self.latency = LiveLatency(now_ms)
        self.spare_s: float | None = None
        """See `RoundReport.spare_s`."""
        self._reported_all = False

    def report(self, ended_by: str) -> RoundReport:
        """Report the lane; between the first report and the last only partitions that changed."""
        lane = self._lane
        news = [item for item in self._partitions if item.progress.has_news(item.standing)]
        # After a regular end the next round reports all partitions, and needs the processor.
        is_news = self._reported_all and ended_by != "plan"
        reported, self._reported_all = (news if is_news else self._partitions), True
        return RoundReport(
            lane.lane,
            lane.generation,
            lane.round_number,
            sum(item.progress.records for item in self._partitions),
            sum(item.progress.bytes for item in self._partitions),
            ended_by,
            [report_of(item) for item in reported],
            self.latency.compact(),
            *at_end_of_round(self._partitions, ended_by),
            self.spare_s,
        )
