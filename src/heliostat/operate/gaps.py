"""`heliostat gaps`: lost records, and what waits for a decision; works on any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from heliostat.config import Config, LinkConfig
from heliostat.gaps.choices import CAUSE_OF_CODE
from heliostat.gaps.ledger import GapDecision, GapLedger, GapRow
from heliostat.names import LinkName, Offset, PartitionId, TopicName
from heliostat.operate.each_link import AT_ONCE
from heliostat.operate.links import links_of
from heliostat.operate.plan import plan_link
from heliostat.operate.reach import require_answer
from heliostat.operate.status import link_statuses
from heliostat.ops.asked import PendingAnswer, asked_at_once, each_answer
from heliostat.status.values import LinkStatus
from heliostat.topics.topic_plan import TopicPlan

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PendingDecision:
    """A partition, or a whole topic, that waits for a decision.

    Parameters
    ----------
    partition
        The partition; None for the whole topic.
    state
        `gap`, `diverged`, `blocked` or `refused`.
    code, reason
        Why it is stopped.
    since_ms
        When it stopped, in ms since the epoch; None for refused topics.
    decision
        Decision not carried out yet, or to wait; None before any.
    """

    topic: TopicName
    partition: PartitionId | None
    state: str
    code: str
    reason: str
    since_ms: int | None
    decision: GapDecision | None
    position: Offset | None = None
    """Source offset that the lane would copy next; None for refused topics."""

    def to_json(self) -> dict[str, Any]:
        """Return the row for `--json`."""
        fields = asdict(self)
        fields["decision"] = None if self.decision is None else self.decision.to_json()
        return fields


@dataclass(frozen=True, slots=True)
class GapReport:
    """What one link has lost so far, and what waits for a decision."""

    link: LinkName
    policy: str
    rows: tuple[GapRow, ...]
    stopped: tuple[PendingDecision, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the answer for `--json`."""
        return {
            "link": self.link,
            "policy": self.policy,
            "rows": [row.to_json() for row in self.rows],
            "stopped": [item.to_json() for item in self.stopped],
        }


def gap_reports(config: Config, link_name: str | None = None) -> list[GapReport]:
    """Return the ledgers and stops of links.

    Raises
    ------
    ConnectionLost
        A cluster does not answer.
    """
    links = links_of(config, link_name)
    names = {name for link in links for name in (link.source, link.target)}
    reached = PendingAnswer(
        partial(require_answer, *(config.clusters[name] for name in sorted(names))), "reach"
    )
    reports = PendingAnswer(partial(_reports, config, links), "gaps")
    reached.answer()
    return reports.answer()


def _reports(config: Config, links: Iterable[LinkConfig]) -> list[GapReport]:
    asks = {link.name: partial(_report, config, link) for link in links}
    reports: list[GapReport] = []
    for report in each_answer(asks, AT_ONCE).values():
        if isinstance(report, BaseException):
            raise report
        reports.append(report)
    return reports


def _report(config: Config, link: LinkConfig) -> GapReport:
    with closing(ledger_of(config, link)) as ledger:
        asks: dict[str, Callable[[], Any]] = {
            "ledger": ledger.read,
            "status": partial(link_statuses, config, link.name),
            "plan": partial(plan_link, config, link),
        }
        answers = asked_at_once(asks)
        rows = tuple(ledger.rows.values())
        [status], plan = answers["status"], answers["plan"]
        stopped = tuple(_decisions_pending(ledger, status, plan))
    return GapReport(LinkName(link.name), link.gaps.policy, rows, stopped)


def ledger_of(config: Config, link: LinkConfig) -> GapLedger:
    """Return the link's ledger, not read yet."""
    return GapLedger(LinkName(link.name), config.clusters[link.target].access())


def pending_decisions(
    config: Config, link: LinkConfig, ledger: GapLedger
) -> Iterable[PendingDecision]:
    """Return what waits for a decision, by the lanes' last reports and by a new plan.

    Raises
    ------
    ConnectionLost
        A cluster does not answer.
    """
    asks: dict[str, Callable[[], Any]] = {
        "status": partial(link_statuses, config, link.name),
        "plan": partial(plan_link, config, link),
    }
    [status], plan = asked_at_once(asks).values()
    return _decisions_pending(ledger, status, plan)


def _decisions_pending(
    ledger: GapLedger, status: LinkStatus, plan: TopicPlan
) -> Iterator[PendingDecision]:
    for problem in status.problems:
        if problem.is_stopped and problem.code in CAUSE_OF_CODE:
            topic, partition = TopicName(problem.source), PartitionId(problem.partition)
            decision = ledger.decision_for(topic, partition, problem.code)
            yield PendingDecision(
                topic,
                partition,
                problem.state,
                problem.code,
                problem.reason,
                problem.since_ms,
                decision,
                Offset(problem.position),
            )
    for topic, refusal in plan.refuse.items():
        if refusal.code in CAUSE_OF_CODE:
            decision = ledger.decision_for(topic, None, refusal.code)
            yield PendingDecision(
                topic, None, REFUSED, refusal.code, refusal.reason, None, decision
            )
