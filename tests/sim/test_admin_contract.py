"""The `ClusterAdmin` stand-in: same signatures as the real one, same answers as brokers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import get_type_hints

import pytest
from support.admin_contract import NOW_MS, OF_BROKERS, SCRIPTS, Side, at
from support.group_contract import GROUP_SCRIPTS
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.clusters.admin import LATEST, ClusterAdmin, ListedOffset
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import GroupId, TopicName

T, U = TopicName("t"), TopicName("u")
METHODS = [
    name
    for name, item in vars(ClusterAdmin).items()
    if not (name.startswith("_") or isinstance(item, property))
]


class Simulated:
    """See `support.admin_contract.Side`."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(inherited=OF_BROKERS)
        self.admin = SimulatedAdmin(self.cluster)

    def append(self, topic: TopicName, timestamps: Sequence[int]) -> None:
        self.cluster.append(topic, timestamps)

    @contextmanager
    def transaction(self, topic: TopicName, name: str) -> Iterator[object]:
        pid = 900 + len(self.cluster.transactional_ids)
        self.cluster.transactional_ids[pid] = name
        log = self.cluster.append_open(topic, pid, NOW_MS)
        yield log
        log.end_transaction(pid, 0, NOW_MS, commit=True)

    @contextmanager
    def member(self, group: GroupId, topic: TopicName) -> Iterator[object]:
        yield self.cluster.join(group, "mine", topic)
        self.cluster.leave(group)


@pytest.mark.parametrize("script", [*SCRIPTS, *GROUP_SCRIPTS], ids=lambda script: script.__name__)
def test_the_stand_in_answers_like_a_broker(script: Callable[[Side], None]) -> None:
    script(Simulated())


@pytest.mark.parametrize("method", METHODS)
def test_the_stand_in_has_the_signatures_of_the_real_one(method: str) -> None:
    real, simulated = getattr(ClusterAdmin, method), getattr(SimulatedAdmin, method)
    assert simulated is not real, "it would ask a network"
    own, theirs = inspect.signature(simulated).parameters, inspect.signature(real).parameters
    assert [(p.name, p.kind, p.default) for p in own.values()] == [
        (p.name, p.kind, p.default) for p in theirs.values()
    ]
    assert get_type_hints(simulated) == get_type_hints(real)


def simulated() -> tuple[SimulatedCluster, SimulatedAdmin]:
    cluster = SimulatedCluster()
    cluster.create(T, 2)
    cluster.create(U)
    return cluster, SimulatedAdmin(cluster)


def test_a_planted_failure_affects_its_items_and_count() -> None:
    cluster, admin = simulated()
    cluster.fail("list_offsets", 6, at(T, 1), times=2)
    cluster.fail("list_offsets", 29, U)
    asked = dict.fromkeys([at(T), at(T, 1), at(U)], LATEST)
    admin.list_offsets({at(T): LATEST})  # does not count: it is not concerned
    for _ in range(2):
        codes = [getattr(row, "kafka_code", 0) for row in admin.list_offsets(asked).values()]
        assert codes == [0, 6, 29]
    assert isinstance(admin.list_offsets(asked)[at(T, 1)], ListedOffset)
    cluster.heal()
    assert isinstance(admin.list_offsets(asked)[at(U)], ListedOffset)


def test_a_partition_whose_description_fails_is_without_a_leader() -> None:
    cluster, admin = simulated()
    cluster.fail("describe_topics", 5, at(T, 1))
    [first, second] = admin.describe_topics([T])[T].partitions
    assert (first.leader, first.error) == (1, None)
    assert second.leader is None
    assert isinstance(second.error, BrokerError)
    cluster.fail("describe_topics", 3, T)
    assert admin.describe_topics([T])[T].partitions == ()


def test_calls_without_items_fail_as_a_whole() -> None:
    cluster, admin = simulated()
    cluster.fail("init_producer_id", 14, times=1)
    with pytest.raises(BrokerError):
        admin.init_producer_id()
    assert admin.init_producer_id() >= 0
    cluster.fail("check_markers", 31)
    assert isinstance(admin.check_markers(), BrokerError)


def test_hidden_topics_are_not_listed_and_refused_by_name() -> None:
    cluster, admin = simulated()
    cluster.hidden = {U, TopicName("never was")}
    assert admin.describe_topics().keys() == {T}
    for name in cluster.hidden:
        error = admin.describe_topics([name])[name].error
        assert isinstance(error, BrokerError)
        assert error.kafka_name == "TOPIC_AUTHORIZATION_FAILED"
        assert isinstance(admin.list_log_ends([at(name)])[at(name)], BrokerError)


def test_nothing_is_answered_while_no_broker_answers() -> None:
    cluster, admin = simulated()
    cluster.is_down = True
    with pytest.raises(ConnectionLost):
        admin.brokers()
    with pytest.raises(ConnectionLost):
        admin.list_groups()
    cluster.heal()
    assert [call.method for call in cluster.calls] == ["brokers", "list_groups"]
