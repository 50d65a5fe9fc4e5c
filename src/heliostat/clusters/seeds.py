"""Which bootstrap addresses a client of kafka-python gets.

It picks one at random, and if that broker hangs, waits for it until its time limit of 30 s,
although others are healthy (3.0.12, `KafkaConnectionManager._do_bootstrap`).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from heliostat.access import ClusterAccess
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings

CLIENT_ID = "heliostat-seeds"
WITHIN_S = 2.0
"""If none answers within this time, the client gets all, and reports what it finds."""


def with_seeds_that_answer(access: ClusterAccess) -> ClusterAccess:
    """The same access with those of its addresses that answer now, or with all if none does."""
    if len(access.bootstrap) < 2:
        return access
    settings = DialSettings(CLIENT_ID, connect_timeout_s=WITHIN_S, request_timeout_s=WITHIN_S)
    with contextlib.closing(WireCluster(access, settings)) as cluster:
        answer = set(cluster.seeds_that_answer(WITHIN_S))
    addresses = zip(access.bootstrap, access.endpoints, strict=True)
    bootstrap = tuple(address for address, endpoint in addresses if endpoint in answer)
    return replace(access, bootstrap=bootstrap or access.bootstrap)
