"""A cluster that does not answer is told once, by its alias, and is why a link is not in sync."""

from __future__ import annotations

from contextlib import closing

from heliostat.access import ClusterAccess
from heliostat.clock import SystemClock
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.errors import ConnectionLost
from heliostat.names import LinkName
from heliostat.ops.events import Events
from heliostat.status.board import StatusBoard, blame_source
from heliostat.status.cluster_watch import SETTINGS, ClusterWatch
from heliostat_sandbox.ports import free_ports

LOST = ConnectionLost("no broker of summit answers", hint="see whether it runs")


def test_a_dead_cluster_is_told_once() -> None:
    (port,) = free_ports(1)
    access = ClusterAccess((f"127.0.0.1:{port}",), alias="summit")
    events = Events(lambda: 0, None)
    watch = ClusterWatch(access, SystemClock(), events)
    with closing(WireCluster(access, SETTINGS)) as cluster:
        for _ in range(2):
            watch._ask(cluster)
    (line,) = events.recent(9)
    assert "WARN summit does not answer: [CONNECTION_LOST] no broker of summit" in line
    assert watch.reach().lost is not None


def test_a_dead_source_is_named_once_and_only_where_something_is_missing() -> None:
    status = StatusBoard(LinkName("l")).status(0)
    status.state = "running"
    blame_source(status, LOST)
    assert not status.troubles, "lanes may reach a source that we don't"
    status.unknown = 3
    for _ in range(2):
        blame_source(status, LOST)
    assert status.why_not_in_sync() == [str(LOST), "the lag of 3 partitions is unknown"]
