"""A request to any broker does not fail while one of them serves, and none is sent twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from heliostat.access import access_of
from heliostat.clusters.admin.caller import UNSUPPORTED_VERSION, Caller
from heliostat.clusters.wire.brokers import BrokerFacts, Brokers
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.control_connection import ControlConnection
from heliostat.clusters.wire.lent import LentClusters
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, Endpoint
from heliostat.ops.request_times import RequestTimes

REQUEST = CreateTopicsRequest(topics=[], timeout_ms=1, validate_only=False)
SETTINGS = DialSettings("test")


class Line(ControlConnection):
    """A connection to a broker that refuses, or that answers with its number."""

    def __init__(self, broker: int, *, refuses: bool = False, breaks: bool = False) -> None:
        super().__init__(
            Endpoint("127.0.0.1", broker), SETTINGS, versions={19: (2, 7), 9: (1, 6), 3: (0, 12)}
        )
        self.broker = broker
        self.refuses = refuses
        self.breaks = breaks
        self.sent: list[Any] = []

    def begin_probe(self) -> None:
        pass

    def connect(self) -> None:
        if self.refuses:
            raise ConnectionLost("refused", broker=str(self.broker))

    def exchange_once(
        self,
        requests: Sequence[Any],
        response: Any,
        version_max: int,
        within_s: float,
        version_min: int = 0,
    ) -> list[Any]:
        self.sent += requests
        if self.breaks:
            raise ConnectionLost("no answer", broker=str(self.broker))
        return [self.broker for _ in requests]


def caller_of(*lines: Line) -> Caller:
    """Return one whose cluster has these brokers, numbered as their ports are."""
    access = access_of("127.0.0.1:1")
    clusters = LentClusters(access, SETTINGS)
    cluster = WireCluster(access, SETTINGS)
    cluster.brokers._brokers = {BrokerId(line.broker): line for line in lines}
    cluster.brokers._seeds = list(lines[:1])
    clusters._idle.append(cluster)
    made = Caller.__new__(Caller)
    made.access, made.timeout_ms, made._clusters = access, 1000, clusters
    made.times = RequestTimes()
    return made


def test_another_broker_is_asked_where_one_refuses() -> None:
    assert caller_of(Line(1, refuses=True), Line(2)).send(REQUEST) == 2


def test_it_fails_when_all_brokers_refuse() -> None:
    with pytest.raises(ConnectionLost, match="refused"):
        caller_of(Line(1, refuses=True), Line(2, refuses=True)).send(REQUEST)


def test_a_request_that_was_sent_is_not_sent_to_another() -> None:
    first, second = Line(1, breaks=True), Line(2)
    with pytest.raises(ConnectionLost, match="no answer"):
        caller_of(first, second).send(REQUEST)
    assert (len(first.sent), second.sent) == (1, [])


def test_a_named_broker_is_asked_and_no_other() -> None:
    assert caller_of(Line(1), Line(2)).send(REQUEST, BrokerId(2)) == 2
    with pytest.raises(ConnectionLost):
        caller_of(Line(1), Line(2, breaks=True)).send(REQUEST, BrokerId(2))


def test_requests_to_one_broker_fail_each_with_their_reason() -> None:
    answers = caller_of(Line(1, breaks=True)).send_each([REQUEST] * 6, BrokerId(1))
    assert [type(each) for each in answers] == [ConnectionLost] * 6
    assert caller_of(Line(1)).send_each([REQUEST] * 6, BrokerId(1)) == [1] * 6


def test_versions_are_those_of_both_sides_and_of_the_request() -> None:
    caller = caller_of(Line(1))
    assert caller.version_of(OffsetFetchRequest) == 6
    assert caller.version_of(OffsetFetchRequest(group_id="g", topics=None, max_version=3)) == 3
    with pytest.raises(BrokerError) as refused:
        caller.version_of(OffsetFetchRequest(groups=[], min_version=8))
    assert refused.value.kafka_code == UNSUPPORTED_VERSION


def test_what_one_has_learnt_serves_the_next() -> None:
    """Given brokers that were asked / then the next knows them, and asks who was connected."""
    here, there = Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", 2)
    facts = BrokerFacts(
        {BrokerId(1): here, BrokerId(2): there}, {there: {19: (2, 7)}}, frozenset({BrokerId(2)})
    )
    brokers = Brokers(access_of("127.0.0.1:1"), SETTINGS, facts)
    assert brokers.knows(BrokerId(2))
    first = next(iter(brokers._in_order()))
    assert (first.endpoint, first.known_versions) == (there, {19: (2, 7)})
    assert brokers.facts().endpoints == facts.endpoints
    assert brokers.facts().versions == facts.versions
    assert not brokers.facts().connected, "it has none open itself"
