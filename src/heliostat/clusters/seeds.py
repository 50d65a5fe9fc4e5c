"""Which addresses of a cluster a client of kafka-python may begin with.

It takes one of them by chance, and where that broker hangs it waits for it as long as it may try at
all, 30 s, with others beside that are well (3.0.12, `KafkaConnectionManager._do_bootstrap`).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from heliostat.access import ClusterAccess
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings

CLIENT_ID = "heliostat-seeds"
WITHIN_S = 2.0
"""Where none answers within this time the client is left to find out which does, and tells why."""


def with_seeds_that_answer(access: ClusterAccess) -> ClusterAccess:
    """The same access by those of its addresses that answer now, or by all where none does."""
    if len(access.bootstrap) < 2:
        return access
    settings = DialSettings(CLIENT_ID, connect_timeout_s=WITHIN_S, request_timeout_s=WITHIN_S)
    with contextlib.closing(WireCluster(access, settings)) as cluster:
        answer = set(cluster.seeds_that_answer(WITHIN_S))
    addresses = zip(access.bootstrap, access.endpoints, strict=True)
    found = tuple(address for address, endpoint in addresses if endpoint in answer)
    return replace(access, bootstrap=found or access.bootstrap)
