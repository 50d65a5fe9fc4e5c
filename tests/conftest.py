"""Clusters for all suites; started at first use, stopped at the end whatever happens."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from support.clusters import HEAP_MB, ClusterPair
from support.examples import count
from support.leaks import (  # noqa: F401  # pytest finds them here by their names
    no_client_left_open,
    no_process_left_behind,
)
from support.links import no_client_kept  # noqa: F401  # as above
from support.provoked import provoked, pytest_pyfunc_call  # noqa: F401  # as above
from support.runs import (  # noqa: F401  # as above
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
)
from support.spark import spark  # noqa: F401  # as above

from heliostat_sandbox import Cluster, ClusterSpec, start_many

settings.register_profile(  # a busy machine is no failure
    "steady", deadline=None, max_examples=count(100)
)
settings.load_profile("steady")


SHARED = {
    "log.retention.ms": "-1",  # tests write old records
    "broker.session.timeout.ms": "86400000",  # a frozen broker stays registered
}


@pytest.fixture(scope="session")
def lasting_pair() -> Iterator[ClusterPair]:
    """Give the clusters of `cluster_pair`; they run as long as the session."""
    source, target = start_many(
        [ClusterSpec(name, settings=SHARED, heap_mb=HEAP_MB) for name in ("source", "target")]
    )
    with source, target:
        yield ClusterPair(source, target)


@pytest.fixture(scope="module")
def cluster_pair(lasting_pair: ClusterPair) -> Iterator[ClusterPair]:
    """Give two one-broker clusters that run as long as the session; use fresh topics.

    They are frozen while files run that don't use them: idle they take 7 % of a core.
    """
    brokers = [*lasting_pair.source.brokers, *lasting_pair.target.brokers]
    for broker in brokers:
        broker.resume()
    yield lasting_pair
    for broker in brokers:
        broker.pause()


@pytest.fixture
def start_cluster() -> Iterator[Callable[..., Cluster]]:
    """`Cluster.start` for tests that stop, kill or configure brokers; all are stopped after."""
    started: list[Cluster] = []

    def start(name: str = "own", **options: object) -> Cluster:
        cluster = Cluster.start(name, **{"heap_mb": HEAP_MB, **options})
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        cluster.stop()
