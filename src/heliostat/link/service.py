"""A link that runs: becomes its owner, refreshes topics, keeps lanes going, tells how it fares.

I10 One owner: a driver that finds an unresigned predecessor waits until the last deadline that
    this one announced has passed; only then may it give out rounds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from heliostat.clock import Clock
from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import Config, LinkConfig, check_distinct_clusters
from heliostat.errors import BrokerError
from heliostat.link.flow import Claims, Known, Turn
from heliostat.link.lane_set import LaneSet, Runner
from heliostat.link.loops import Loop
from heliostat.link.state import LinkState, Owner, Stored, control_topic, progress_topic
from heliostat.link.status import StatusBoard
from heliostat.names import LaneId, LinkName, ProducerId
from heliostat.ops.events import Events
from heliostat.records.lane import CopySettings, LaneSpec

TELL_EVERY_S = 1.0
OWN_EVERY_S = 2.0
OWN_LASTS_S = 6.0
"""A link without rounds has an owner all the same: renewed in time, believed for so long."""
WAIT_STEP_S = 0.2
LOOP_STOP_S = 20.0
EXPIRATION_KEY = "producer.id.expiration.ms"
EXPIRATION_DEFAULT_MS = 86_400_000


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
    claimed
        Target topics that other links of the file write, and which.
    """

    def __init__(
        self,
        config: Config,
        link: LinkConfig,
        runner: Runner,
        lane_count: Callable[[], int],
        *,
        clock: Clock,
        events: Events,
        claimed: Claims,
    ) -> None:
        self.link = link
        self._claimed = claimed
        self.board = StatusBoard(LinkName(link.name))
        """The running link's status, fed by the lanes' reports."""
        self.failure: BaseException | None = None
        """Why the link had to halt, if it had to."""
        self._source_config = config.clusters[link.source]
        self._target_config = config.clusters[link.target]
        self._runner = runner
        self._lane_count = lane_count
        self._clock = clock
        self._events = events
        self._instance = Owner.new_instance()
        self._state = LinkState(link, self._target_config)
        self._stopping = threading.Event()
        self._lanes: LaneSet | None = None
        self._loops: list[Loop] = []
        self._admins: list[ClusterAdmin] = []
        self._known = Known({}, {})

    def start(self) -> None:
        """Become the owner and begin; returns when the loops run.

        Raises
        ------
        HeliostatError
            A cluster can't be reached or refuses, or both clusters are one and the same.
        """
        source = ClusterAdmin(self._source_config.access())
        self._admins.append(source)
        target = ClusterAdmin(self._target_config.access())
        self._admins.append(target)
        check_distinct_clusters(self.link, source.cluster_id(), target.cluster_id())
        self._state.ensure()
        stored = self._own()
        producer_id = stored.producer_id
        if producer_id is None:
            producer_id = target.init_producer_id()
            self._state.put_producer(producer_id)
        generations = self._state.read_generations()
        self._known = Known(stored.mirrors, stored.starts)
        lanes = self._lanes = LaneSet(
            self._template(producer_id, _expiration_s(target)),
            self._runner,
            announce=self._state.announce,
            announce_deadline=self._announce_deadline,
            clock=self._clock,
            events=self._events,
            first_generation=max(generations.values(), default=0),
        )
        turn = Turn(
            link=self.link,
            source=source,
            target=target,
            state=self._state,
            lanes=lanes,
            lane_count=self._lane_count,
            events=self._events,
            claimed=self._claimed,
        )
        self._loops = [
            self._loop(
                "refresh",
                self.link.topics.refresh_interval_s,
                lambda: turn.run(self._known, self.board.load()),
            ),
            self._loop("ownership", OWN_EVERY_S, lambda: lanes.renew(OWN_LASTS_S)),
            self._loop("report", TELL_EVERY_S, lambda: self._state.put_driver(self._report())),
        ]
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """End loops and rounds, resign, close; safe to call more than once."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        for loop in self._loops:
            loop.stop(LOOP_STOP_S)
        if self._lanes is not None:
            self._lanes.stop()
            self._state.put_driver({**self._report(), "state": "stopped"})
            self._state.put_owner(Owner.here(self._clock.wall_ms(), self._instance, resigned=True))
        self._state.close()
        for admin in self._admins:
            admin.close()

    def _own(self) -> Stored:
        """Wait for a predecessor's last deadline, then take over."""
        stored = self._state.read()
        told = False
        while stored.owner is not None and not stored.owner.resigned:
            left_s = (stored.owner.deadline_ms - self._clock.wall_ms()) / 1000
            if left_s <= 0 or self._stopping.is_set():
                break
            if not told:
                told = True
                self._events.info(
                    f"waiting up to {left_s:.0f} s for the last round of the predecessor on "
                    f"{stored.owner.host} (pid {stored.owner.pid}), which has not resigned"
                )
            self._clock.sleep(min(left_s, WAIT_STEP_S))
            stored = self._state.read()
        self._state.put_owner(Owner.here(self._clock.wall_ms(), self._instance))
        return stored

    def _announce_deadline(self, deadline_ms: int) -> None:
        self._state.put_owner(Owner.here(deadline_ms, self._instance))

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
            settings=CopySettings(
                fetch_bytes_max=records.fetch_bytes_max,
                partition_fetch_bytes_max=records.partition_fetch_bytes_max,
                requests_in_flight_max=records.in_flight_max,
                join_below_bytes=records.join_below_bytes,
                join_bytes_max=records.join_bytes_max,
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
            "instance": self._instance,
            "refused": dict(self._known.refused),
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
        self.failure = error


def _expiration_s(target: ClusterAdmin) -> float:
    """How long the target's brokers remember a producer (I4); the default where it is hidden."""
    try:
        entry = target.describe_broker_configs().get(EXPIRATION_KEY)
    except BrokerError:
        entry = None
    value = entry.value if entry is not None else None
    return int(value or EXPIRATION_DEFAULT_MS) / 1000
