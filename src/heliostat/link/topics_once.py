"""A link's topics brought up to date once, without lanes: what `heliostat apply` does of them.

The steps are those of a reconciliation (`flow`) up to where partitions begin. That is decided when
the link runs, as nothing is copied before.

I10 Only the link's owner does this: it checks that before each step that changes something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.link.compacted_later import CompactedLater
from heliostat.link.known import Known
from heliostat.link.mirror_memory import MirrorMemory
from heliostat.link.planning import Planner
from heliostat.topics.apply import ApplyReport, apply_plan
from heliostat.topics.changes import without_deletions


@dataclass(frozen=True, slots=True)
class TopicsOnce:
    """Topics of a link, for its owner.

    Parameters
    ----------
    target
        The target cluster.
    planner
        Looks at both clusters and plans.
    mirrors
        Which mirrors are the link's.
    compacted_later
        Delays a mirror's compaction; here until the link runs.
    guard
        Raises unless the link is still ours.
    clock
        Time.
    """

    target: ClusterAdmin
    planner: Planner
    mirrors: MirrorMemory
    compacted_later: CompactedLater
    guard: Callable[[], None]
    clock: Clock = field(default_factory=SystemClock)

    def run(self, known: Known, *, allow_delete: bool) -> ApplyReport:
        """Plan, and do what is planned; what deletes only if that is allowed.

        Raises
        ------
        ConnectionLost, BrokerError
            A cluster does not answer or refuses; what was done remains, and the next call goes on.
        LinkTakenOver
            Another instance owns the link.
        """
        source, plan = self.planner.plan(known)
        self.guard()
        if allow_delete:
            self.mirrors.forget(known, plan.let_go)
        else:
            plan = without_deletions(plan, known.mirrors)
        plan, _ = self.compacted_later.hold(plan, ())
        self.mirrors.announce(known, plan)
        self.guard()
        applied = apply_plan(plan, self.target, self.clock)
        self.guard()
        new = self.mirrors.remember(known, plan, applied)
        applied = self.mirrors.let_go(known, applied, new)
        applied, _ = self.mirrors.leave_circles(known, source, applied)
        return applied
