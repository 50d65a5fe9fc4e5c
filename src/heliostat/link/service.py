"""A link that runs: becomes its owner, refreshes topics, keeps lanes going, tells how it fares.

I10 One owner: nothing is given out before the link is claimed (see `ownership`), and what changes
    anything first looks whether the claim still holds.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import ClusterConfig, Config, LinkConfig, check_distinct_clusters
from heliostat.errors import BrokerError, ConnectionLost, LinkTakenOver
from heliostat.gaps.keeper import GapKeeper
from heliostat.gaps.ledger import GapLedger
from heliostat.invariants import first_generation
from heliostat.link.beginnings import Beginnings
from heliostat.link.compacted_later import CompactedLater
from heliostat.link.flow import Known, Lanes, Reconciler
from heliostat.link.group_part import GroupPart
from heliostat.link.lane_set import LaneSet, Runner
from heliostat.link.loops import Loop
from heliostat.mm2.emitters import Interchange
from heliostat.names import LaneId, LinkName, ProducerId
from heliostat.offsets.keeper import MapKeeper
from heliostat.ops.events import Events
from heliostat.other_links.at_source import Upstream
from heliostat.other_links.at_target import OtherLinks
from heliostat.other_links.claims import NeighbourClaims
from heliostat.records.copier.lane import CopySettings, LaneSpec, PartitionReport, RoundReport
from heliostat.state.link_state import LinkState, Stored, control_topic, progress_topic
from heliostat.state.ownership import Ownership
from heliostat.state_topics import offsets_topic
from heliostat.status.board import StatusBoard
from heliostat.status.open_transactions import LOOK_EVERY_S, OpenTransactions
from heliostat.topics.producer_age import producer_expiration_ms

TELL_EVERY_S = 1.0
OWN_EVERY_S = 2.0
STOPS_EVERY_S = 2.0
BEGIN_EVERY_S = 1.0
LOOK_S = 0.1
CONNECT_WITHIN_S = 2.0
"""A cluster that is away is told soon, and looked for again all the while."""
OWN_LASTS_S = 6.0
"""A link without rounds has an owner all the same: renewed in time, believed for so long."""
BEGIN_STOP_S = 60.0
"""A stop while the link begins waits so long for what it is asking the clusters."""
LOOP_STOP_S = 20.0


class LinkService:
    """One link, driven by this process.

    Parameters
    ----------
    config, link
        What is wanted.
    runner
        Runs rounds on Spark.
    lane_count
        Lanes at most, now.
    clock, events
        Time, and where changes are told.
    board
        The link's status, which the lanes' reports feed.
    claimed
        Target topics that other links of the file write, and which.
    """

    def __init__(
        self,
        config: Config,
        link: LinkConfig,
        runner: Runner,
        lane_count: Lanes,
        *,
        clock: Clock,
        events: Events,
        board: StatusBoard,
        claimed: NeighbourClaims,
    ) -> None:
        self.link = link
        self._claimed = claimed
        self.board = board
        self.failure: BaseException | None = None
        """Why the link had to halt, if it had to."""
        self._source_config = config.clusters[link.source]
        self._target_config = config.clusters[link.target]
        self._runner = runner
        self._lane_count = lane_count
        self._clock = clock
        self._events = events
        self._state = LinkState(link, self._target_config)
        self._stopping = threading.Event()
        self._beginning = threading.Lock()
        self.waits = threading.Event()
        """Set while another instance drives the link."""
        self._ownership = Ownership(
            LinkName(link.name),
            self._state,
            clock=clock,
            events=events,
            must_stop=self._stopping.is_set,
            on_wait=self.waits.set,
        )
        self._lanes: LaneSet | None = None
        self._loops: list[Loop] = []
        self._admins: list[ClusterAdmin] = []
        self._source: ClusterAdmin | None = None
        self._begun = threading.Event()
        self._interchange: Interchange | None = None
        self._groups: GroupPart | None = None
        self._gaps: GapKeeper | None = None
        self._held: OpenTransactions | None = None
        self._known = Known({}, {})

    def start(self) -> bool:
        """Become the owner and begin; returns when the loops run.

        Waits while another instance drives the link, until that one is gone or `stop` is called;
        and, as the owner, which tells of it in the status, until the source answers.

        Returns
        -------
        Whether the link runs: not if it was stopped before.

        Raises
        ------
        HeliostatError
            The target can't be reached or refuses, or both clusters are one and the same.
        """
        with self._beginning:
            return not self._stopping.is_set() and self._begin()

    def _begin(self) -> bool:
        target = self._opened(self._target_config)
        with contextlib.suppress(ConnectionLost, BrokerError):  # the owner looks again, and tells
            self._open_source(target)
        self._state.ensure()
        if not self._ownership.claim():
            return False
        self.waits.clear()
        self._state.claim = self._ownership.claim_number
        begin = self._loop(
            "source", BEGIN_EVERY_S, lambda: self._as_owner(lambda: self._begin_copying(target))
        )
        self._loops = [
            self._loop("ownership", OWN_EVERY_S, self._keep_owning),
            self._loop(
                "report",
                TELL_EVERY_S,
                lambda: self._as_owner(lambda: self._state.put_driver(self._report())),
            ),
            begin,
        ]
        for loop in tuple(self._loops):
            loop.start()
        while not self._begun.wait(LOOK_S):
            if self.failure is not None:
                raise self.failure
            if self._stopping.is_set():
                return False
        begin.stop(LOOP_STOP_S)
        self._loops.remove(begin)
        return True

    def _opened(self, cluster: ClusterConfig) -> ClusterAdmin:
        admin = ClusterAdmin(cluster.access(), connect_timeout_s=CONNECT_WITHIN_S)
        self._admins.append(admin)
        return admin

    def _open_source(self, target: ClusterAdmin) -> ClusterAdmin:
        if self._source is None:
            source = self._opened(self._source_config)
            check_distinct_clusters(self.link, source.cluster_id(), target.cluster_id())
            self._source = source
        return self._source

    def _begin_copying(self, target: ClusterAdmin) -> None:
        """What needs the source: tried again until it is there, while the owner tells of it."""
        if self._begun.is_set():
            return
        source = self._open_source(target)
        stored = self._state.read()
        producer_id = stored.producer_id
        if producer_id is None:
            producer_id = target.init_producer_id()
            self._state.put_producer(producer_id)
        self._known = _known(stored, producer_id)
        self._state.stops.begin(stored.stops)
        self.board.know_stops(self._state.stops.known)
        lanes = self._lanes = LaneSet(
            self._template(producer_id, producer_expiration_ms(target) / 1000),
            self._runner,
            announce=lambda plan: self._as_owner(lambda: self._state.announce(plan)),
            announce_deadline=self._announce_deadline,
            clock=self._clock,
            events=self._events,
            first_generation=first_generation(self._ownership.claim_number),
            maps=self._state.offsets.tails,
            copied=lambda specs: () if self._gaps is None else self._gaps.copied(specs),
            rates=self.board.rates,
            ended=self._round_ended,
        )
        gaps = self._begin_gaps(source, target)
        turn = Reconciler(
            link=self.link,
            source=source,
            target=target,
            state=self._state,
            lanes=lanes,
            lane_count=self._lane_count,
            events=self._events,
            claimed=self._claimed,
            other_links=OtherLinks(self.link, self._target_config, target).claims,
            upstream=Upstream(
                self.link, self._source_config, source, target.cluster_id(), self._clock
            ),
            beginnings=Beginnings(source, self._events.warn),
            gaps=gaps,
            maps=self._begin_maps(gaps, target),
            compacted_later=CompactedLater(source),
            reports=lambda: self.board.reports_of(lanes.generations),
        )
        others = [
            self._loop(
                "refresh",
                self.link.topics.refresh_interval_s,
                lambda: self._as_owner(lambda: turn.run(self._known, self.board.load())),
            ),
        ]
        others += self._interchange_loops(source, target)
        others.append(self._loop("stops", STOPS_EVERY_S, self._keep_what_stops))
        held = self._held = OpenTransactions(source, self.board.held, self._clock.wall_ms)
        others.append(self._loop("transactions", LOOK_EVERY_S, held.look))
        others += self._group_loops()
        self._loops += others
        for loop in others:
            loop.start()
        self._begun.set()

    def stop(self) -> None:
        """End loops and rounds, resign, close; safe to call more than once."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        began = self._beginning.acquire(timeout=BEGIN_STOP_S)
        try:
            self._end()
        finally:  # also where the target is away: clients left open try on for ever
            self._close()
            if began:
                self._beginning.release()

    def _end(self) -> None:
        for loop in self._loops:
            loop.stop(LOOP_STOP_S)
        said = self._said()
        if self._lanes is not None:
            with contextlib.suppress(LinkTakenOver):  # nothing of ours is left to tell anybody
                self._lanes.stop()
        if self._ownership.is_ours:
            with contextlib.suppress(LinkTakenOver):
                self._as_owner(lambda: self._keep_stops(said))
                self._as_owner(
                    lambda: self._state.put_driver({**self._report(), "state": "stopped"})
                )
                self._ownership.resign()

    def _close(self) -> None:
        self._state.close()
        if self._interchange is not None:
            self._interchange.close()
        if self._groups is not None:
            self._groups.close()
        if self._gaps is not None:
            self._gaps.close()
        for admin in self._admins:
            admin.close()

    def _begin_gaps(self, source: ClusterAdmin, target: ClusterAdmin) -> GapKeeper:
        if self._gaps is not None:
            self._gaps.close()  # of a beginning that failed
        ledger = GapLedger(LinkName(self.link.name), self._target_config)
        self._gaps = GapKeeper(
            self.link,
            source,
            target,
            ledger,
            maps=self._state.offsets.fresh,
            clock=self._clock,
            events=self._events,
        )
        self._gaps.begin()
        return self._gaps

    def _begin_maps(self, gaps: GapKeeper, target: ClusterAdmin) -> MapKeeper:
        keeper = MapKeeper(
            self._state.offsets,
            self._state.marks,
            source=self._source_config.access(),
            target_access=self._target_config.access(),
            target=target,
            copied=gaps.copied_to,
            events=self._events,
        )
        keeper.begin()
        return keeper

    def _interchange_loops(self, source: ClusterAdmin, target: ClusterAdmin) -> list[Loop]:
        """Loops of what is written for MirrorMaker 2's clients."""
        self._interchange = Interchange(
            self.link,
            source,
            target,
            source_access=self._source_config.access(),
            target_access=self._target_config.access(),
            mirrors=lambda: self._known.mirrors,
            maps=self._state.offsets.fresh,
            clock=self._clock,
        )
        return [
            self._loop(part.name, part.interval_s, functools.partial(self._as_owner, part.turn))
            for part in self._interchange.parts()
        ]

    def _group_loops(self) -> list[Loop]:
        """The loop that publishes offsets of consumer groups, where that is wanted."""
        assert self._interchange is not None
        groups = self.link.groups
        if not groups.sync and not self._interchange.wants_groups:
            return []
        self._groups = GroupPart(
            self.link,
            source_access=self._source_config.access(),
            target_access=self._target_config.access(),
            mirrors=lambda: dict(self._known.mirrors),
            maps=self._state.offsets.fresh,
            positions=self.board.positions,
            interchange=self._interchange,
            clock=self._clock,
            events=self._events,
            guard=functools.partial(self._as_owner, lambda: None),
        )
        turn = functools.partial(self._as_owner, self._groups.turn)
        return [self._loop("groups", groups.interval_s, turn)]

    def _as_owner(self, act: Callable[[], None]) -> None:
        """Do it while the link is ours; a process that was stopped for long learns here first.

        Raises
        ------
        LinkTakenOver
            It is another's now; the link halts.
        """
        try:
            self._ownership.hold(OWN_LASTS_S)
        except LinkTakenOver as error:
            self._halt(error)
            raise
        act()

    def _said(self) -> list[PartitionReport]:
        """What the lanes that there are said last."""
        return [] if self._lanes is None else self.board.reports_of(self._lanes.generations)

    def _keep_what_stops(self) -> None:
        said = self._said()
        self._as_owner(lambda: self._keep_stops(said))

    def _keep_stops(self, said: list[PartitionReport]) -> None:
        """What stands stopped is durable soon, and told by whoever looks before a lane does."""
        self._state.stops.keep(said, self._known.mirrored())
        self.board.know_stops(self._state.stops.known)

    def _round_ended(self, spec: LaneSpec, report: RoundReport) -> None:
        if self._gaps is not None:
            self._gaps.round_ended(spec, report)

    def _keep_owning(self) -> None:
        ahead_s = 0.0 if self._lanes is None else self._lanes.announced_for_s()
        self._ownership.keep(max(OWN_LASTS_S, ahead_s))
        if self._lanes is not None:
            self._lanes.renew(0.0)  # what it would announce was announced just now

    def _announce_deadline(self, deadline_ms: int) -> None:
        try:
            self._ownership.announce(deadline_ms)
        except LinkTakenOver as error:
            self._halt(error)
            raise

    def _template(self, producer_id: ProducerId, expiration_s: float) -> LaneSpec:
        records = self.link.records
        return LaneSpec(
            link=LinkName(self.link.name),
            lane=LaneId(-1),
            generation=0,
            round_number=0,
            round_s=self.link.lanes.round_s,
            expires_at_ms=0,
            source_access=self._source_config.access(),
            target_access=self._target_config.access(),
            producer_id=producer_id,
            partitions=(),
            control_topic=control_topic(LinkName(self.link.name)),
            progress_topic=progress_topic(LinkName(self.link.name)),
            offsets_topic=offsets_topic(LinkName(self.link.name)),
            settings=CopySettings(
                fetch_bytes_max=records.fetch_bytes_max,
                partition_fetch_bytes_max=records.partition_fetch_bytes_max,
                requests_in_flight_max=records.in_flight_max,
                join_below_bytes=records.join_below_bytes,
                join_bytes_max=records.join_bytes_max,
                backlog_connections=records.connections,
                compression=None if records.compression == "keep" else records.compression,
                producer_expiration_s=expiration_s,
            ),
        )

    def _report(self) -> dict[str, object]:
        now_ms = self._clock.wall_ms()
        lanes = self._lanes
        return {
            "at_ms": now_ms,
            "state": "running",
            "instance": self._ownership.instance,
            "claim": self._ownership.claim_number,
            **self._known.report(),
            "groups": self._groups.report() if self._groups else {},
            "gaps": self._gaps.report() if self._gaps else {},
            "held_back": self._held.report() if self._held else [],
            "interchange": self._interchange.report() if self._interchange else {},
            "generations": {str(k): v for k, v in (lanes.generations if lanes else {}).items()},
            "loops": [
                {
                    "name": loop.health.name,
                    "last_good_s_ago": round((now_ms - loop.health.last_good_ms) / 1000, 1),
                    "failures_in_a_row": loop.health.failures_in_a_row,
                    "last_error": loop.health.last_error,
                    "is_stale": loop.health.is_stale(now_ms),
                }
                for loop in self._loops
            ],
            "rounds": [
                {
                    "lane": health.lane,
                    "rounds": health.rounds,
                    "failures_in_a_row": health.failures_in_a_row,
                    "last_error": health.last_error,
                }
                for health in (lanes.health.values() if lanes else ())
            ],
        }

    def _loop(self, name: str, interval_s: float, turn: Callable[[], None]) -> Loop:
        return Loop(
            f"{self.link.name} {name}",
            interval_s,
            turn,
            on_halt=self._halt,
            wall_ms=self._clock.wall_ms,
            events=self._events,
        )

    def _halt(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error


def _known(stored: Stored, producer_id: ProducerId) -> Known:
    """What the link begins with."""
    return Known(
        stored.mirrors,
        stored.starts,
        making=stored.making,
        producer_id=producer_id,
        at_beginning=stored.at_beginning,
    )
