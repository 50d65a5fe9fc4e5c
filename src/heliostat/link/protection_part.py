"""Protection of a running link's mirrors: connections, rules kept in step, changes told.

Failures here are logged and retried; they never halt the copying.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack, closing

from heliostat.access import ClusterAccess
from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.config import LinkConfig
from heliostat.errors import HeliostatError, Verdict
from heliostat.fencing.cannot import Cannot, Why
from heliostat.fencing.cluster_rules import ClusterRules
from heliostat.fencing.deny_rules import Writer
from heliostat.fencing.fence import Fence
from heliostat.fencing.protection import Protection, ProtectionKeeper
from heliostat.fencing.rule_book import Purpose, RuleBook
from heliostat.fencing.who_writes import WHO, who_writes
from heliostat.names import LinkName, TopicName
from heliostat.ops.events import Events
from heliostat.topics.naming import TOPIC, naming_of

CLIENT_ID = "heliostat-protection"


class ProtectionPart:
    """Protection of one link's mirrors, while it runs.

    Parameters
    ----------
    link
        Its configuration: without `topics.protect` rules of an earlier one are lifted.
    target_access
        How to reach the target.
    principal
        Who the link takes itself for at the target.
    mirrors
        Returns the mirrors to protect, as they are now.
    foreign
        Told of records that others wrote into the link's topics.
    clock, events
        Time, and where changes are logged.

    Raises
    ------
    ConnectionLost
        The target does not answer.
    """

    def __init__(
        self,
        link: LinkConfig,
        *,
        target_access: ClusterAccess,
        principal: str | None,
        mirrors: Callable[[], Collection[TopicName]],
        foreign: ForeignRecords,
        clock: Clock,
        events: Events,
    ) -> None:
        self._link = link
        self._mirrors = mirrors
        self._clock, self._events = clock, events
        with ExitStack() as opened:
            admin = opened.enter_context(ClusterAdmin(target_access, CLIENT_ID))
            book = self._book = opened.enter_context(
                closing(
                    RuleBook(
                        target_access, LinkName(link.name), link.state.replication_factor, foreign
                    )
                )
            )
            self._open = opened.pop_all()
        cluster, cluster_id = ClusterRules(admin), admin.cluster_id()

        def who() -> Writer | None:
            book.ensure()
            fence = Fence(cluster, book, Purpose(cluster_id, WHO), clock)
            return who_writes(fence, book.topic, principal, cluster.may_write)

        prefix = naming_of(link).rule.partition(TOPIC)[0]
        self._keeper = ProtectionKeeper(
            *(cluster, cluster_id, book, who, (prefix,) if prefix else (), clock)
        )
        self._is_read = False
        self._told: frozenset[str] = frozenset()
        self._report: dict[str, object] = {}

    def turn(self) -> None:
        """Bring the rules in step once.

        Raises
        ------
        ConnectionLost, BrokerError
            The target does not answer, or refuses; the next call starts over.
        """
        if not self._is_read:
            self._book.read()
            self._is_read = True
        if not self._link.topics.protect:
            self._lift()
            return
        mirrors = self._mirrors()
        try:
            found = self._keeper.step(mirrors)
        except HeliostatError as error:
            if error.verdict is Verdict.RETRY:
                raise
            found = Protection(len(mirrors), cannot=(Cannot(Why.REFUSED, error.text),))
        self._tell(found)
        self._report = found.report(self._clock.wall_ms())

    def _lift(self) -> None:
        standing = self._keeper.lift_all()
        if standing.brokers or standing.missing:
            self._events.info(f"mirrors are not protected any more: {standing.text()}")

    def _tell(self, found: Protection) -> None:
        for line in found.laid:
            self._events.info(f"mirrors protected: {line}")
        if found.lifted:
            self._events.info(f"{found.lifted} rules that protected mirrors were lifted")
        lines = frozenset(each.text() for each in found.cannot)
        for line in sorted(lines - self._told):
            self._events.warn(f"mirrors can't be protected: {line}")
        self._told = lines

    def report(self) -> dict[str, object]:
        """Return this part's fields of the driver's report."""
        return self._report

    def close(self) -> None:
        """Close the connections; call it when the loop has ended."""
        self._open.close()
