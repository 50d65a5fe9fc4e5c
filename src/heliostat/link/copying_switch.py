"""Begins and ends what a link copies: once its source answers, and as operators wish.

    CopyingSwitch   opens the source, reads who the link is, starts the copying parts, and ends them

A link that is to stop keeps its owner; when it goes on, the numbers of its rounds go on too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import check_distinct_clusters
from heliostat.link.copying import REPORT_WITHOUT_SOURCE, Copying, Resources
from heliostat.link.given_away import GivenAway
from heliostat.link.identity import known_of, own_identity
from heliostat.link.known import Known
from heliostat.link.lane_template import lane_template
from heliostat.link.link_context import LinkContext
from heliostat.link.loops import Loop, Loops
from heliostat.link.merging import Merging
from heliostat.link.ordered_restarts import Pending
from heliostat.names import LinkName, TopicName
from heliostat.ops.asked import both
from heliostat.ops.loop_spec import LoopSpec
from heliostat.topics.producer_age import producer_expiration_ms
from heliostat.wishes.order import Order, OrderVerb
from heliostat.wishes.wish import Wishes

BEGIN_EVERY_S = 1.0


class CopyingSwitch:
    """The copying parts of one link, as they come and go; one thread at a time changes them.

    Parameters
    ----------
    context, resources
        What all parts share, and what the process shares out.
    loops
        Those of the copying parts.
    open_source
        Opens the source's cluster.
    wake
        Asks for leases to be kept at once.
    """

    def __init__(
        self,
        context: LinkContext,
        resources: Resources,
        loops: Loops,
        open_source: Callable[[], ClusterAdmin],
        wake: Callable[[], None],
    ) -> None:
        self._context = context
        self._resources = resources
        self._loops = loops
        self._open_source = open_source
        self._wake = wake
        self.copying: Copying | None = None
        """None: the source has not answered yet, or the link is to stop."""
        self.begun = threading.Event()
        """Set once it copies, or does nothing as an operator wishes so."""
        self.gives_way = threading.Event()
        """Set once a verb is to write the link's state: this owner ends, and another one begins."""
        self.target: ClusterAdmin | None = None
        """The target's cluster, opened before anything is wished."""
        self.source: ClusterAdmin | None = None
        self.known = Known({}, {})
        self._copies = False
        self._given_away = GivenAway(context.state, context.clock)
        self._beginning: Loop | None = None
        self._last_generation = 0

    def opened(self, source: ClusterAdmin | None = None) -> ClusterAdmin:
        """Return the source's cluster, opened here or by the caller, if it is not the target's.

        Raises
        ------
        HeliostatError
            The source can't be reached or refuses, or both aliases lead to one cluster.
        """
        assert self.target is not None
        if self.source is None:
            source = source or self._open_source()
            check_distinct_clusters(
                self._context.link, source.cluster_id(), self.target.cluster_id()
            )
            self.source = source
        return self.source

    def carry_out(self, wishes: Wishes) -> None:
        """Begin or end copying, give mirrors away, and let partitions rest or go on."""
        if (copying := self.copying) is not None:
            copying.steering.again()
        if new := self._given_away.new_in(wishes.promotions):
            self._promote(wishes, new)
        if wishes.is_stopped():
            self._end_copying()
        elif self._beginning is None:
            begin = self._context.owner.guarded(self._begin_copying)
            [self._beginning] = self._loops.start(LoopSpec("source", BEGIN_EVERY_S, begin))

    def _promote(self, wishes: Wishes, new: Collection[TopicName]) -> None:
        """Make it durable that mirrors are given away; lanes have been told to give them up."""
        copying = self.copying
        copied = () if copying is None else copying.steering.partitions_of(new)
        self._context.owner.check()
        promotions = [wishes.promotions[name] for name in new]
        self.known.promote(self._given_away.record(promotions, copied))
        self.refresh()

    def refresh(self) -> None:
        """Have a reconciliation at once, if it copies."""
        if (copying := self.copying) is not None:
            copying.refresh.set()

    def is_carried_out(self) -> bool:
        """Return whether that has reached all lanes."""
        lanes = None if self.copying is None else self.copying.lanes
        is_settled = lanes is None or lanes.is_settled()
        return is_settled and self._given_away.are_settled(lanes)

    @property
    def may_restart(self) -> bool:
        """Whether it copies, or is not to copy at all."""
        return self._copies or self._beginning is None

    def act(self, order: Order) -> Pending:
        """Begin to do what an operator orders."""
        if order.verb is OrderVerb.GIVE_WAY:
            self.gives_way.set()
            return lambda: "the link gives way to a verb that writes its state"
        copying = self.copying
        if copying is None:
            return lambda: "nothing of it runs: the link is to stop, as an operator wishes"
        restarts = copying.steering.restarts
        if order.verb is OrderVerb.APPLY:
            self._loops.wake("groups", "access")
            return restarts.reconcile()
        return restarts.order(order.place)

    def _begin_copying(self) -> None:
        """Start the parts that need the source; a loop retries this until it has succeeded."""
        if self._copies:
            if self._beginning is not None:
                self._loops.end(self._beginning)
            return
        context, target = self._context.as_wanted(), self.target
        assert target is not None
        source = self.opened()
        name = LinkName(context.link.name)
        expiration_ms, (stored, producer_id) = both(
            lambda: producer_expiration_ms(target),
            lambda: own_identity(context.state, name, target, context.clock),
        )
        self.known = known_of(stored, producer_id)
        self.known.promote(self._given_away.mirrors)
        context.state.stops.begin(stored.stops)
        context.board.know_stops(context.state.stops.known)
        template = lane_template(
            context.link,
            context.source.access(),
            context.target.access(),
            producer_id,
            expiration_ms / 1000,
            former_producers=self.known.former_producers,
        )
        if self.copying is not None:
            self.copying.close()  # of an earlier start that failed
        merging = None
        if context.link.topics.merges:
            merging = Merging(context, source, target)
            try:
                merging.begin({producer_id, *self.known.former_producers})
            except BaseException:
                merging.close()
                raise
        copying = self.copying = Copying(
            context,
            replace(self._resources, merging=merging),
            source,
            target,
            known=self.known,
            template=template,
            wake=self._wake,
            after_generation=self._last_generation,
        )
        self._loops.start(*copying.begin())
        self._copies = True
        self.begun.set()

    def _end_copying(self) -> None:
        """End all but ownership and report; may be called again if it failed."""
        self.begun.set()
        self._loops.stop()
        if (copying := self.copying) is not None:
            context, reports = self._context, copying.reports()
            copying.lanes.stop()
            context.owner.run(lambda: context.keep_stops(reports, self.known))
            self.finish()
            context.board.listener = lambda _: None
            self._last_generation = copying.lanes.last_generation()
            self.copying = None
            copying.close()
        self._copies = False
        self._beginning = None
        self._loops.forget()

    def finish(self) -> None:
        """Wait until no round may send any more, and make durable what only an owner may."""
        if (copying := self.copying) is not None:
            self._context.clock.sleep(copying.lanes.lease_left_s())
            self._context.owner.run(copying.finish)

    def report(self) -> dict[str, object]:
        """Return these parts' fields of the driver's report."""
        copying = self.copying
        parts = REPORT_WITHOUT_SOURCE if copying is None else copying.report()
        known = self.known.report()
        wanted = self._context.wanted
        known["notes"] = [*wanted.not_in_force.lines, *known["notes"]]
        return {**known, **parts, "configuration": wanted.report()}
