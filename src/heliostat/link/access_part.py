"""ACLs and client quotas of a running link: own connections, one comparison each interval.

Failures here are logged and retried; they never halt the copying.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from typing import Any

from heliostat.access import ClusterAccess
from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.config import ClusterConfig, LinkConfig
from heliostat.config.passwords import load_passwords
from heliostat.errors import ConfigError, HeliostatError, LinkTakenOver, Verdict
from heliostat.fencing.rule_book import RuleBook
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events
from heliostat.security.ledger import AccessTopic, Ledger
from heliostat.security.rules import acl_rules_of, looked
from heliostat.security.scram_users import ScramPlan, ScramRequests, look_at_users, make_users
from heliostat.security.sync import AccessPlan, AccessSync, Done

CLIENT_ID = "heliostat-rights"
REPORTED_MAX = 20
"""Rules named in the driver's report, which is written each second."""


class AccessPart:
    """Rights of one link, while it runs.

    Parameters
    ----------
    link
        Its configuration.
    source, target
        How both clusters are configured.
    topics
        Returns all topics of the source; None: not looked yet.
    mirrored
        Returns source topics that have mirrors.
    promoted
        Returns source topics whose mirrors are promoted: nothing is synced about them.
    foreign
        Told of records that others wrote into the link's topics.
    clock, events
        Time, and where changes are logged.
    guard
        Raises if the link is not ours any more (I10).

    Raises
    ------
    ConnectionLost
        A cluster does not answer.
    """

    def __init__(
        self,
        link: LinkConfig,
        source: ClusterConfig,
        target: ClusterConfig,
        *,
        topics: Callable[[], Collection[TopicName] | None],
        mirrored: Callable[[], Collection[TopicName]],
        promoted: Callable[[], Collection[TopicName]],
        foreign: ForeignRecords,
        clock: Clock,
        events: Events,
        guard: Callable[[], None],
    ) -> None:
        self._link = link
        self._topics = topics
        self._mirrored = mirrored
        self._promoted = promoted
        self._clock = clock
        self._guard = guard
        self._events = events
        self._report: dict[str, Any] = {}
        self._counts = {"made": 0, "removed": 0}
        self._troubles: frozenset[str] = frozenset()
        target_access: ClusterAccess = target.access()
        with ExitStack() as opened:
            at_source = opened.enter_context(ClusterAdmin(source.access(), CLIENT_ID))
            at_target = opened.enter_context(ClusterAdmin(target_access, CLIENT_ID))
            topic = AccessTopic(
                target_access,
                LinkName(link.name),
                at_target,
                replication_factor=link.state.replication_factor,
                foreign=foreign,
            )
            opened.enter_context(closing(topic))
            fences = RuleBook(target_access, LinkName(link.name), foreign=foreign)
            opened.enter_context(closing(fences))
            self._open = opened.pop_all()
        self._users: tuple[ScramRequests, ScramRequests] = (at_source.security, at_target.security)
        self._sync = AccessSync(
            link.access,
            acl_rules_of(link, target),
            source=at_source.security,
            target=at_target.security,
            source_id=at_source.cluster_id,
            ledger=Ledger(topic, foreign),
            fences=lambda: fences.now_at(at_source.cluster_id()),
            guard=guard,
        )

    def turn(self) -> None:
        """Compare both clusters once, and bring the target in step.

        Raises
        ------
        ConnectionLost, BrokerError
            It failed, and nothing was concluded; the next call starts over.
        LinkTakenOver
            Another instance owns the link.
        """
        try:
            self._compared()
        except LinkTakenOver:
            raise
        except HeliostatError as error:
            if error.verdict is Verdict.RETRY:
                raise
            self._refused(error)

    def _refused(self, error: HeliostatError) -> None:
        """Report what time alone does not cure; copying goes on, and it is tried again."""
        text = f"rights do not follow: {error}"
        if self._troubles != {text}:
            self._events.warn(text)
        self._troubles = frozenset({text})
        self._report = {**self._report, "error": str(error)}

    def _compared(self) -> None:
        topics = self._topics()
        if topics is None:
            return  # the first reconciliation looks
        mirrored, promoted = self._mirrored(), self._promoted()
        plan = looked(self._link, self._sync, topics, mirrored, promoted)
        done = self._sync.carry_out(plan)
        users = ScramPlan() if plan.is_over else self._made_users()
        plan.notes += users.notes
        in_step = len(plan.acls.settled) + len(plan.limits.settled) + done.made
        done.made += users.made
        self._tell(plan, done)
        self._counts["made"] += done.made
        self._counts["removed"] += done.removed
        self._report = {
            **plan.report(REPORTED_MAX),
            **self._counts,
            "in_step": in_step,
            "failed": dict(list(done.failed.items())[:REPORTED_MAX]),
            "failed_count": len(done.failed),
            "at_ms": self._clock.wall_ms(),
        }

    def _made_users(self) -> ScramPlan:
        """Make SCRAM users that are missing; the file of references is read each time."""
        wanted = self._link.access
        if wanted.users_file is None:
            return ScramPlan()
        try:
            passwords = load_passwords(wanted.users_file)
        except ConfigError as error:
            return ScramPlan(notes=[str(error)])
        source, target = self._users
        plan = look_at_users(source, target, wanted.principals, passwords)
        self._guard()
        return make_users(plan, target, passwords)

    def _tell(self, plan: AccessPlan, done: Done) -> None:
        """Log what was done, and what has newly failed."""
        if done.made or done.removed or done.kept:
            self._events.info(
                f"rights: {done.made} made, {done.removed} removed, {done.kept} more kept ready"
            )
        troubles = frozenset(plan.troubles(done.failed))
        for each in sorted(troubles - self._troubles)[:REPORTED_MAX]:
            self._events.warn(each)
        self._troubles = troubles

    def report(self) -> Mapping[str, object]:
        """Return the rights' part of the driver's report."""
        return self._report

    def close(self) -> None:
        """Close the connections; call it when the loop has ended."""
        self._open.close()
