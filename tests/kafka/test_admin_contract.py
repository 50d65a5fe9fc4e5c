"""The contract of the `ClusterAdmin` stand-in, run against a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import pytest
from support.admin_contract import NOW_MS, OF_BROKERS, SCRIPTS, Side, made
from support.clusters import ClusterPair
from support.group_contract import GROUP_SCRIPTS
from support.group_sides import Reader, wait_for_coordinators
from support.planted import Planter, batch_bytes
from support.records import open_transaction
from support.simulated_settings import in_effect

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import GroupId, TopicName

pytestmark = [pytest.mark.kafka, pytest.mark.core]


class Real:
    """See `support.admin_contract.Side`."""

    def __init__(self, bootstrap: str, admin: ClusterAdmin, planter: Planter) -> None:
        self.admin = admin
        self._bootstrap = bootstrap
        self._planter = planter

    def append(self, topic: TopicName, timestamps: Sequence[int]) -> None:
        data = batch_bytes([(each, b"k", b"v", []) for each in timestamps])
        self._planter.append(topic, 0, data)

    def transaction(self, topic: TopicName, name: str) -> AbstractContextManager[object]:
        return open_transaction(self._bootstrap, topic, name, timestamp_ms=NOW_MS)

    def member(self, group: GroupId, topic: TopicName) -> AbstractContextManager[object]:
        @contextmanager
        def joined() -> Iterator[object]:
            with Reader(self._bootstrap, topic, group, client_id="mine") as reader:
                reader.join()
                yield reader

        return joined()


@pytest.fixture(scope="module")
def side(cluster_pair: ClusterPair) -> Iterator[Real]:
    bootstrap = cluster_pair.source.bootstrap
    wait_for_coordinators(bootstrap)
    with ClusterAdmin(bootstrap.split(",")) as admin, Planter(bootstrap) as planter:
        yield Real(bootstrap, admin, planter)


@pytest.mark.parametrize("script", [*SCRIPTS, *GROUP_SCRIPTS], ids=lambda script: script.__name__)
def test_a_broker_answers_like_the_stand_in(side: Real, script: Callable[[Side], None]) -> None:
    script(side)


def test_the_stand_in_knows_all_settings_and_where_they_come_from(side: Real) -> None:
    name = made(side, retention_ms="77")
    assert side.admin.describe_configs([name])[name] == in_effect(
        {"retention.ms": "77"}, OF_BROKERS
    )
