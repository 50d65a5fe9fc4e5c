"""Requests to a broker that hangs, refuses, or is slow."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from support.scripted_broker import METADATA, VERSIONS, Script, ScriptedBroker

from heliostat.access import ClusterAccess
from heliostat.clusters import seeds
from heliostat.clusters.wire import control_connection
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.control_connection import ControlConnection
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId, Endpoint
from heliostat_sandbox.ports import LOOPBACK, free_ports

SETTINGS = DialSettings(request_timeout_s=0.6, connect_timeout_s=1.0)
SEEDS_WITHIN_S = 1.0
RETURNS_S = 0.3
"""At once, on a machine that is full."""


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(Script()) as one:
        yield one


@pytest.fixture
def line(broker: ScriptedBroker) -> Iterator[ControlConnection]:
    with contextlib.closing(ControlConnection(broker.endpoint, SETTINGS, "west")) as one:
        yield one


def spent_s(ask: Any) -> float:
    """Return the seconds until a missing answer is reported."""
    began_s = time.monotonic()
    with pytest.raises(ConnectionLost):
        ask()
    return time.monotonic() - began_s


def metadata(line: ControlConnection) -> None:
    line.exchange([MetadataRequest(topics=[])], MetadataResponse, 3)


def wait_until_it_answers(line: ControlConnection) -> None:
    deadline_s = time.monotonic() + 10
    while not line.is_answering(0.05):
        assert time.monotonic() < deadline_s


def test_a_hung_broker_costs_one_timeout_and_answers_again_later(
    broker: ScriptedBroker, line: ControlConnection
) -> None:
    """Given a hung broker / when asked / then one timeout; asked again once it is back."""
    assert set(line.versions()) == {METADATA, VERSIONS}
    broker.script.hangs.set()
    assert spent_s(lambda: metadata(line)) >= SETTINGS.request_timeout_s
    for _ in range(3):
        assert spent_s(lambda: metadata(line)) < RETURNS_S
    time.sleep(0.2)
    assert line.silence(0.2) is not None
    assert line.silence(60.0) is None
    with pytest.raises(ConnectionLost, match=f"does not answer.*{broker.endpoint}.*west"):
        line.look()
    broker.script.hangs.clear()
    wait_until_it_answers(line)
    line.look()
    assert line.silence() is None
    assert set(line.versions()) == {METADATA, VERSIONS}


def test_the_fastest_answer_is_that_to_a_request_not_its_sending(
    broker: ScriptedBroker, line: ControlConnection
) -> None:
    """Given an answer that takes long / when others are asked meanwhile / then its whole time."""
    versions = line.versions()
    assert line.patience.fastest_s < 0.1
    broker.script.hangs.set()
    with contextlib.closing(
        ControlConnection(broker.endpoint, SETTINGS, versions=versions)
    ) as other:
        other.connect()
        asked = other.begin([ApiVersionsRequest()], 3)
        threading.Timer(0.1, broker.script.hangs.clear).start()
        time.sleep(0.05)
        other.end(asked, ApiVersionsResponse)
        assert other.patience.fastest_s >= 0.1


def test_a_broker_that_is_down_is_asked_each_time() -> None:
    """Given a closed port / when asked / then refused at once, and no probe continues."""
    (port,) = free_ports(1)
    with contextlib.closing(ControlConnection(Endpoint(LOOPBACK, port), SETTINGS)) as line:
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="can't be reached"):
                line.versions()
            assert line.is_answering()
        line.begin_probe()
        wait_until_it_answers(line)
        with pytest.raises(ConnectionLost, match="can't be reached"):
            line.versions()


def test_the_timeout_grows_after_a_timeout(
    broker: ScriptedBroker, line: ControlConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a request that timed out / when asked again / then at most twice the timeout."""
    monkeypatch.setattr(control_connection, "QUESTION_S", 0.2)
    monkeypatch.setattr(control_connection, "QUICK_S", 0.1)
    with contextlib.closing(ControlConnection(broker.endpoint, SETTINGS)) as slow:
        slow.versions()
        waits: list[float] = []
        for _ in range(3):
            broker.script.hangs.set()
            spent_s(lambda: metadata(slow))
            waits.append(slow.patience.wait_s)
            broker.script.hangs.clear()
            wait_until_it_answers(slow)
    assert waits == [0.4, SETTINGS.request_timeout_s, SETTINGS.request_timeout_s]


def cluster_of(*brokers: ScriptedBroker) -> WireCluster:
    """They are known, as from metadata."""
    cluster = WireCluster(",".join(str(each.endpoint) for each in brokers), SETTINGS)
    for number, each in enumerate(brokers):
        cluster.brokers.learn(BrokerId(number), each.endpoint)
    return cluster


@pytest.mark.parametrize("hung", range(3))
def test_of_several_brokers_only_the_hung_one_is_left_out(hung: int) -> None:
    """Given three brokers, one hung / when connected / then the others, without its timeout."""
    others = sorted({0, 1, 2} - {hung})
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(ScriptedBroker(Script())) for _ in range(3)]
        cluster = stack.enter_context(contextlib.closing(cluster_of(*brokers)))
        brokers[hung].script.hangs.set()
        began_s = time.monotonic()
        cluster.reach([BrokerId(each) for each in range(3)])
        assert time.monotonic() - began_s < SETTINGS.connect_timeout_s
        for number in others:
            assert cluster.silence_of(BrokerId(number), 0.0) is None
            cluster.open_data(BrokerId(number)).close()
        silence = cluster.silence_of(BrokerId(hung), 0.0)
        assert silence is not None
        assert silence.context["broker"] == str(brokers[hung].endpoint)
        assert spent_s(lambda: cluster.open_data(BrokerId(hung))) < RETURNS_S
        brokers[hung].script.hangs.clear()
        wait_until_it_answers(cluster.brokers.known(BrokerId(hung)))
        cluster.open_data(BrokerId(hung)).close()


def test_a_hung_seed_does_not_hide_the_next() -> None:
    """Given two seeds, the first hung / when any broker is asked / then the second, soon."""
    with ScriptedBroker(Script()) as first, ScriptedBroker(Script()) as second:
        first.script.hangs.set()
        seeds = f"{first.endpoint},{second.endpoint}"
        with contextlib.closing(WireCluster(seeds, SETTINGS)) as cluster:
            began_s = time.monotonic()
            seeds_in_turn = cluster.brokers._answering_seeds()
            found = next(each for each in seeds_in_turn if each.is_answering())
            assert found.endpoint == second.endpoint
            assert time.monotonic() - began_s < 2.0


@pytest.mark.parametrize("hang", [{0}, {1}, set(), {0, 1}])
def test_a_client_starts_with_seeds_that_answer(
    hang: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given two seeds / when some hang / then they are left out, or none if no seed answers."""
    monkeypatch.setattr(seeds, "WITHIN_S", SEEDS_WITHIN_S)
    with ScriptedBroker(Script()) as first, ScriptedBroker(Script()) as second:
        both = (str(first.endpoint), str(second.endpoint))
        for number in hang:
            (first, second)[number].script.hangs.set()
        found = seeds.with_seeds_that_answer(ClusterAccess(both, alias="west"))
        wanted = tuple(both[number] for number in sorted({0, 1} - hang))
        assert (found.bootstrap, found.alias) == (wanted or both, "west")


def test_a_single_seed_is_not_probed() -> None:
    """Given one address / then it is not probed: there is no other to start with."""
    with ScriptedBroker(Script()) as broker:
        broker.script.hangs.set()
        access = ClusterAccess((str(broker.endpoint),))
        began_s = time.monotonic()
        assert seeds.with_seeds_that_answer(access) is access
        assert time.monotonic() - began_s < RETURNS_S


def test_brokers_are_asked_in_parallel_and_the_slow_one_is_doubted() -> None:
    """Given three brokers, one hung / when all are asked / then two answers soon."""
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(ScriptedBroker(Script())) for _ in range(3)]
        lines = {
            BrokerId(number): stack.enter_context(
                contextlib.closing(ControlConnection(each.endpoint, SETTINGS))
            )
            for number, each in enumerate(brokers)
        }
        for line in lines.values():
            line.versions()
        brokers[1].script.hangs.set()
        request = ApiVersionsRequest(client_software_name="test", client_software_version="0")
        asked = {broker: (line, [request]) for broker, line in lines.items()}
        began_s = time.monotonic()
        found = control_connection.ask_side_by_side(asked, ApiVersionsResponse, 3)
        assert time.monotonic() - began_s < control_connection.QUESTION_S
        assert isinstance(found[BrokerId(1)], ConnectionLost)
        assert [isinstance(found[BrokerId(each)], list) for each in (0, 2)] == [True, True]
        assert [line.is_answering() for line in lines.values()] == [True, False, True]


def test_a_connection_closed_while_idle_is_reopened(
    broker: ScriptedBroker, line: ControlConnection
) -> None:
    """Given a connection closed by the broker / when asked in parallel / then over a new one."""
    line.versions()
    for sock in broker._sockets:
        sock.shutdown(socket.SHUT_RDWR)
    request = ApiVersionsRequest(client_software_name="test", client_software_version="0")
    asked = {BrokerId(0): (line, [request])}
    found = control_connection.ask_side_by_side(asked, ApiVersionsResponse, 3)
    assert isinstance(found[BrokerId(0)], list)
