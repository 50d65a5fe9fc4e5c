"""The reports of a lane's round while it copies, and at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest

from heliostat.names import TopicName
from heliostat.ops.latency import Counts, LiveLatency
from heliostat.records.copier.lane import LaneSpec, RoundReport, Suspect
from heliostat.records.copier.lane_limits import LimitUse
from heliostat.records.copier.lane_plan import LanePlan
from heliostat.records.copier.network import Network
from heliostat.records.copier.partition_copy import PartitionCopy
from heliostat.records.copier.partition_report import at_rest, copied_in, lost_since, report_of
from heliostat.records.copier.partition_standing import Phase
from heliostat.records.copier.schema_gate import SchemaGate

LATENCY_TOPICS_MAX = 200
"""Topics whose latencies one report tells; the others wait for a later one."""


class RoundReports:
    """The reports of one round.

    Parameters
    ----------
    lane
        Specification of the round.
    partitions
        All partitions that the lane has had in this round.
    plan
        The plan of the round.
    gate
        Knows which schemas partitions wait for.
    network
        Tells how the lines to both sides were used.
    limits
        Returns what was used of the lane's limits.
    """

    def __init__(
        self,
        lane: LaneSpec,
        partitions: Sequence[PartitionCopy],
        plan: LanePlan,
        gate: SchemaGate,
        network: Network,
        *,
        limits: Callable[[], list[LimitUse]] = list,
    ) -> None:
        self._lane = lane
        self._partitions = partitions
        self._plan = plan
        self.latency = LiveLatency()
        self._gate = gate
        self._network = network
        self._pending_latency: dict[TopicName, dict[int, int]] = {}
        """Latencies by topic and bucket that were not reported yet."""
        self._limits = limits
        self._number = 0
        self._suspect: Suspect | None = None
        """What is alone in the pipeline now."""
        self._reported_all = -1
        """The generation of the plan whose partitions were all reported; -1: none yet."""

    def hello(self) -> RoundReport:
        """Return a report without partitions: the driver's answer to it is the first lease."""
        return self._report("", [], is_whole=False)

    @property
    def is_plan_new(self) -> bool:
        """Whether a change of the plan was carried out that no report has told yet."""
        return 0 <= self._reported_all < self._plan.generation

    def report(self, ended_by: str) -> RoundReport:
        """Report partitions that changed; all at first, after a change of the plan, at the end."""
        items = [item for item in self._partitions if item.phase is not Phase.GIVEN_UP]
        news = [item for item in items if item.progress.has_news(item.standing)]
        plan = self._plan.generation
        is_whole = plan != self._reported_all or bool(ended_by)
        self._reported_all = plan
        return self._report(ended_by, items if is_whole else news, is_whole=is_whole)

    def last(self, ended_by: str, now_s: float) -> RoundReport:
        """Return the report at the end, after which nothing is sent."""
        report = self.report(ended_by)
        report.closed = at_rest(self._partitions, self._network, now_s)
        return report

    def suspected(self, suspect: Suspect | None) -> RoundReport:
        """Report what is alone in the pipeline from now on; None: nothing is."""
        self._suspect = suspect
        return self.report("")

    def hung(self, why: str) -> RoundReport:
        """Report that the pipeline hangs: the driver cancels the job."""
        report = self.report("")
        report.hangs = why
        return report

    def _report(
        self, ended_by: str, reported: Sequence[PartitionCopy], *, is_whole: bool
    ) -> RoundReport:
        lane, everything = self._lane, self._partitions
        self._number += 1
        return RoundReport(
            lane.lane,
            lane.generation,
            lane.round_number,
            sum(item.progress.records for item in everything),
            sum(item.progress.bytes for item in everything),
            ended_by,
            [report_of(item, self._network.own_note(item.index)) for item in reported],
            self.latency.compact(),
            copied_in(reported) if ended_by else [],
            lost_since(everything),
            self._number,
            self._plan.generation,
            self._gate.missed(everything),
            self._plan.size,
            is_whole,
            self._suspect,
            "",
            *self._network.lines(),
            self._network.moved(),
            topic_latency=self._topic_latency(),
            requests=self._network.requests(),
            limits=self._limits(),
        )

    def _topic_latency(self) -> list[tuple[TopicName, Counts]]:
        """Return the latencies of the topics with most records since they were last reported."""
        pending = self._pending_latency
        for index, counts in self.latency.by_partition.items():
            own = pending.setdefault(self._partitions[index].spec.source.topic, {})
            for bucket, count in counts.items():
                own[bucket] = own.get(bucket, 0) + count
        self.latency.by_partition.clear()
        chosen: Iterable[TopicName] = list(pending)
        if len(pending) > LATENCY_TOPICS_MAX:
            chosen = nlargest(LATENCY_TOPICS_MAX, pending, lambda name: sum(pending[name].values()))
        return [(name, tuple(sorted(pending.pop(name).items()))) for name in chosen]
