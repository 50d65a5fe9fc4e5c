"""One round of a lane over real connections: what a worker does, and the driver never imports."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from heliostat.clock import Clock, SystemClock
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.errors import TransformFailed
from heliostat.records.copier.copier import Copier
from heliostat.records.copier.hooks import Hooks
from heliostat.records.copier.lane import LaneSpec, RoundReport
from heliostat.records.copier.late_sends import KilledWhenLate
from heliostat.records.spark.warm_up import warm_up
from heliostat.records.transport.control_channel import StateChannel
from heliostat.records.transport.kafka_network import WireNetwork
from heliostat.records.transport.offset_map_topic import MapChannel
from heliostat.records.transport.piped_network import Exchange, PipedNetwork

if TYPE_CHECKING:
    from heliostat.records.transport.row_exchange import RowExchange

STATE_TIMEOUT_S = 8.0
"""For requests about state topics: a lane that gets no answer for 20 s ends its round."""
WRITTEN_LOOK_S = 0.001
SWITCH_INTERVAL_S = 0.0005
"""While the other thread writes a report, copying waits at most this long for the interpreter, not
Python's 5 ms."""


def network_of(
    lane: LaneSpec, clock: Clock, dial: DialSettings, exchange: Exchange | None = None
) -> WireNetwork:
    """Return both clusters of a lane, not connected yet; the caller closes it."""
    target = WireCluster(lane.target_access, dial)
    kind: Callable[..., WireNetwork]
    if lane.merged is None:
        kind = WireNetwork if exchange is None else partial(PipedNetwork, exchange)
        kind = partial(kind, lane.partitions)
    else:
        # Only here: other lanes need neither its compiled code nor its readers.
        from heliostat.records.transport.merged_network import MergedNetwork, PipedMergedNetwork

        kind = MergedNetwork if exchange is None else partial(PipedMergedNetwork, exchange)
        kind = partial(kind, lane, lane.merged)
    return kind(
        WireCluster(lane.source_access, dial),
        target,
        lane.settings,
        clock.monotonic_s,
        maps=MapChannel(lane, target, clock.monotonic_s, clock.wall_ms),
        producer_id=lane.producer_id,
    )


def _exchange(lane: LaneSpec) -> Exchange | None:
    """Return the lane's pipeline, if it is done on batches' bytes."""
    if lane.pipeline is None:
        return None
    # Only here: its compiled loops and Arrow take half a second of processor time to load.
    from heliostat.records.spark.piped_in_place import exchange_of

    return exchange_of(lane, lane.pipeline)


def copy_round(lane: LaneSpec, rows: RowExchange | None = None) -> RoundReport:
    """Run one round over real connections, in this process.

    Parameters
    ----------
    lane
        The round.
    rows
        Leads through the lane's pipeline, if its records are rows of Spark there; the caller
        closes it.
    """
    warm_up()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    clock = SystemClock()
    late_sends = KilledWhenLate()
    dial = DialSettings(client_id=f"heliostat-{lane.link}-{lane.lane}")
    exchange = _exchange(lane) if rows is None else rows
    network = network_of(lane, clock, dial, exchange)
    state_dial = replace(dial, request_timeout_s=STATE_TIMEOUT_S)
    state = StateChannel(
        lane, WireCluster(lane.target_access, state_dial), clock.monotonic_s, clock.wall_ms
    )
    try:
        copier = Copier(lane, network, clock, exchange)
        # The objects of thousands of partitions live as long as the round: the collector need not
        # scan them again and again while it copies.
        gc.freeze()
        parent = os.getppid()

        def is_superseded() -> bool:
            # Without the daemon that started it, this process no longer belongs to an executor:
            # the lane's next round runs elsewhere.
            return os.getppid() != parent or state.is_superseded()

        hooks = Hooks(
            is_superseded,
            state.due,
            state.publish,
            state.running,
            state.answered,
            state.changes,
            late_sends,
            state.schema_ids,
            state.limits,
        )

        def tell(report: RoundReport) -> None:
            copier.lease.report(report.number)
            state.publish(report)
            while not state.is_written(report.number):
                time.sleep(WRITTEN_LOOK_S)

        if rows is not None:
            rows.suspect = lambda records: tell(copier.reports.suspected(records))
        try:
            report = copier.run(hooks)
        except TransformFailed as error:
            tell(copier.reports.hung(error.text))
            raise
        state.publish(report)
        return report
    finally:
        if "SPARK_REUSE_WORKER" in os.environ:  # as PySpark's daemon reads it
            # In a process for this round alone, thawing would only make the collector write to, and
            # so copy, all the pages that it shares with the daemon.
            gc.unfreeze()
        late_sends.close()
        state.close()
        network.close()
