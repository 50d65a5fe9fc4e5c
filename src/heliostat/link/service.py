"""A running link: becomes its owner, copies once the source is reachable, reports its health.

    owner_guard      nothing is changed unless we own the link
    copying_switch   begins what copies, once the source answers, and ends it
    copying          the parts that copy, and their loops
    wish_part        what operators wish
    here             start and stop, and the driver's report

I10 One owner: no round is given out before the link is claimed (see `ownership`), and every change
    first checks that the claim still holds.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping

from heliostat.access import ClusterAccess, Reachable
from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.config import Config
from heliostat.errors import BrokerError, ConnectionLost, LinkTakenOver
from heliostat.gaps.ledger import gaps_topic
from heliostat.link.copying import Resources
from heliostat.link.copying_switch import CopyingSwitch
from heliostat.link.history_part import HistoryPart
from heliostat.link.leases import renew_every_s
from heliostat.link.link_context import LinkContext, WantedLink
from heliostat.link.loops import Loops
from heliostat.link.meters import Meters
from heliostat.link.order_part import OrderPart
from heliostat.link.owner_guard import OWN_LASTS_S, OwnerGuard
from heliostat.link.troubles import Troubles
from heliostat.link.wish_part import WishPart
from heliostat.names import LinkName, TopicName
from heliostat.ops.asked import PendingAnswer
from heliostat.ops.events import Events
from heliostat.ops.loop_spec import LoopSpec, Wake
from heliostat.ops.process_use import ProcessUse
from heliostat.ops.request_times import RequestTimes
from heliostat.ops.scheduler import Scheduler
from heliostat.state.link_state import LinkState
from heliostat.state.ownership import Ownership, owner_lasts_s
from heliostat.state_topics import wishes_topic
from heliostat.status.board import StatusBoard
from heliostat.wishes.restarts import RestartMemory
from heliostat.wishes.wish_book import WishBook

REPORT_EVERY_S = 1.0
LOOK_S = 0.1
CONNECT_WITHIN_S = 2.0
"""An unreachable cluster is reported soon, and retried all the while."""
BEGIN_STOP_S = 60.0
"""How long a stop during the start waits for requests in flight."""


class LinkService:
    """One link, driven by this process.

    Parameters
    ----------
    config, wanted
        The configuration, and the link of it to run.
    resources
        What the process shares out to its links.
    clock, events, troubles
        Time, and where changes and failures are told.
    board
        The link's status, from lanes' reports.
    processes, scheduler
        Returns what the processes of this driver have used; runs loops.
    """

    def __init__(
        self,
        config: Config,
        wanted: WantedLink,
        resources: Resources,
        *,
        clock: Clock,
        events: Events,
        troubles: Troubles,
        board: StatusBoard,
        processes: Callable[[], Mapping[str, ProcessUse]] = dict,
        scheduler: Scheduler,
    ) -> None:
        link = wanted.link
        self._meters = Meters(
            processes, troubles, board, {link.source: "source", link.target: "target"}
        )
        self._stopping = threading.Event()
        self._wake = Wake()
        """Ends a pause of the loop that keeps leases."""
        self._lease_s = link.lanes.lease_s
        self._beginning = threading.Lock()
        source, target = config.clusters[link.source], config.clusters[link.target]
        foreign = ForeignRecords(events.warn)
        state = LinkState(link, target, foreign)
        ownership = Ownership(
            LinkName(link.name),
            state.owner,
            clock=clock,
            events=events,
            must_stop=self._stopping.is_set,
        )
        owner = OwnerGuard(ownership)
        self._wishes = self._wish_part(
            target.access(), owner, foreign, scheduler=scheduler, clock=clock, events=events
        )
        self._copy_loops = Loops(link.name, owner.halt, clock, troubles, scheduler)
        self._context = LinkContext(
            link,
            source,
            target,
            state,
            foreign,
            board,
            owner,
            clock=clock,
            events=events,
            metrics=config.metrics,
            wishes=self._wishes.now,
            wanted=wanted,
            loops=self._copy_loops,
        )
        self._history = HistoryPart(state.history, board, clock, events)
        self._loops = Loops(link.name, owner.halt, clock, troubles, scheduler)
        self._admins: list[ClusterAdmin] = []
        self.switch = CopyingSwitch(
            self._context,
            resources,
            self._copy_loops,
            self._open_source,
            self._wake.set,
        )

    def _wish_part(
        self,
        target: ClusterAccess,
        owner: OwnerGuard,
        foreign: ForeignRecords,
        *,
        scheduler: Scheduler,
        clock: Clock,
        events: Events,
    ) -> WishPart:
        book = WishBook(owner.ownership.link, target, foreign)  # it waits on its own connection
        orders = OrderPart(
            book,
            lambda: self.switch.may_restart,  # it is made later
            lambda order: self.switch.act(order),  # noqa: PLW0108  # as above
            owner.check,
            owner.ownership.instance,
            clock=clock,
            events=events,
        )
        return WishPart(
            book,
            lambda wishes: self.switch.carry_out(wishes),  # noqa: PLW0108  # as above
            lambda: self.switch.is_carried_out(),  # noqa: PLW0108  # as above
            orders,
            events,
            is_crowded=lambda: scheduler.is_crowded,
        )

    @property
    def failure(self) -> BaseException | None:
        """Why the link had to halt, if it had to."""
        return self._context.owner.failure

    @property
    def restarts(self) -> RestartMemory | None:
        """What the target remembers of the link's restarts, read as the link began."""
        return self._wishes.restarts

    # -- beginning -----------------------------------------------------------------------------

    def start(self) -> bool:
        """Become the owner and begin; returns when the loops run.

        Waits while another instance drives the link, until that one is gone or `stop` is called;
        then, as the owner, until the source answers. The status shows that it waits.

        Returns
        -------
        Whether the link runs: not if it was stopped before.

        Raises
        ------
        HeliostatError
            The target can't be reached or refuses, or both aliases lead to one cluster.
        """
        with self._beginning:
            return not self._stopping.is_set() and self._begin()

    def _begin(self) -> bool:
        owner, state = self._context.owner, self._context.state
        opening = PendingAnswer(self._open_source, "opening the source")
        state.prepare()
        target = self.switch.target = self._opened(state.clusters)
        with contextlib.suppress(ConnectionLost, BrokerError):  # a loop retries, and reports it
            self.switch.opened(opening.answer())
        name = LinkName(self._context.link.name)
        state.ensure(target, TopicName(gaps_topic(name)), TopicName(wishes_topic(name)))
        connecting = PendingAnswer(self._wishes.read, "reading wishes")
        if not owner.ownership.claim():
            return False
        state.owner.end_watch()
        state.claim = owner.ownership.claim_number
        report = owner.guarded(lambda: state.put_driver(self._report("running")))
        every_s = renew_every_s(self._lease_s)
        self._loops.start(
            LoopSpec("ownership", every_s, self._keep_owning, self._wake, is_urgent=True),
            LoopSpec("report", REPORT_EVERY_S, report, self._wishes.answered),
        )
        with contextlib.suppress(ConnectionLost, BrokerError):
            connecting.answer()  # they are read again, and reported
        self._wishes.begin()
        self._loops.start(self._wishes.loop(owner.guarded), self._history.loop(owner.guarded))
        while not self.switch.begun.wait(LOOK_S):
            if self.failure is not None:
                raise self.failure
            if self._stopping.is_set():
                return False
        return True

    def _opened(self, cluster: Reachable) -> ClusterAdmin:
        admin = ClusterAdmin(cluster, connect_timeout_s=CONNECT_WITHIN_S)
        self._admins.append(admin)
        if self._stopping.is_set():
            admin.close()
        return admin

    def _open_source(self) -> ClusterAdmin:
        return self._opened(self._context.source.access())

    # -- as the owner --------------------------------------------------------------------------

    def _keep_owning(self) -> None:
        owner, copying = self._context.owner, self.switch.copying
        if copying is None:
            owner.renew(OWN_LASTS_S)
        else:
            copying.lanes.keep(lambda: owner.renew(owner_lasts_s(self._lease_s)))

    def _report(self, state: str) -> dict[str, object]:
        now_ms, ownership = self._context.clock.wall_ms(), self._context.owner.ownership
        source, target = self.switch.source, self.switch.target
        return {
            "at_ms": now_ms,
            "state": state,
            "instance": ownership.instance,
            "claim": ownership.claim_number,
            "owner": ownership.place,
            "lease_s": self._lease_s,
            "principal": self._context.target.security.known_principal,
            **self.switch.report(),
            "wishes": self._wishes.report(),
            "no_progress": self._context.board.no_progress(now_ms),
            "loops": self._loops.report(now_ms) + self._copy_loops.report(now_ms),
            "meters": self._meters.report(
                {"source": _times_of(source), "target": _times_of(target)}
            ),
        }

    # -- ending --------------------------------------------------------------------------------

    def stop(self) -> None:
        """End loops and rounds, resign, close; safe to call more than once."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        began = self._beginning.acquire(timeout=BEGIN_STOP_S)
        try:
            self._end()
        finally:  # even if the target is unreachable: open clients would retry for ever
            self._close()
            if began:
                self._beginning.release()

    def _end(self) -> None:
        self._copy_loops.ask_to_end()
        self._loops.stop()
        self._copy_loops.stop()
        context, copying, owner = self._context, self.switch.copying, self._context.owner
        reports = [] if copying is None else copying.reports()
        if copying is not None:
            with contextlib.suppress(LinkTakenOver):  # the link has another owner: no report
                copying.lanes.stop()
        if owner.ownership.is_ours:
            with contextlib.suppress(LinkTakenOver):
                owner.run(lambda: context.keep_stops(reports, self.switch.known))
                owner.run(lambda: context.state.put_driver(self._report("ended")))
                owner.run(self._history.end)
                self.switch.finish()  # a successor begins at once
                owner.ownership.resign()

    def _close(self) -> None:
        self._wishes.close()
        self._context.state.close()
        if self.switch.copying is not None:
            self.switch.copying.close()
        for admin in self._admins:
            admin.close()


def _times_of(admin: ClusterAdmin | None) -> list[RequestTimes]:
    return [] if admin is None else [admin.times]
