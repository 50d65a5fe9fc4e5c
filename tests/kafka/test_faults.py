"""Faults of the network and of single brokers: load before, during, after; verified each time."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.faults import Stage, Trial, stage_of
from support.links import wait_for
from support.proxy import FETCH, PRODUCE, FaultProxy, Where

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.core]

CUT_WITHIN_S = 90.0
LINK_CLIENTS = "heliostat-east-to-west"
"""Client ids of the lanes' connections begin so."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    with stage_of(tmp_path_factory.mktemp("faults"), spark, proxied=True) as made:
        yield made


def proxies_of(stage: Stage) -> tuple[FaultProxy, FaultProxy]:
    """Give those at the source and at the target."""
    assert stage.at_source is not None
    assert stage.at_target is not None
    return stage.at_source, stage.at_target


def test_connection_cut_at_every_byte_of_request_and_answer(stage: Stage) -> None:
    """Given fetches and appends / when cut at each kind of byte / then each record once."""
    at_source, at_target = proxies_of(stage)
    with Trial(stage) as trial:
        sides = (
            (at_source, FETCH, trial.names_at_source),
            (at_target, PRODUCE, trial.names_at_target),
        )
        for where in Where:
            for proxy, api_key, about in sides:
                cut = proxy.cut_next(api_key, where, *about)
                assert cut.done.wait(CUT_WITHIN_S), f"no connection was cut {where.value}"
                trial.wait_copied(20)


def test_slow_refused_and_stalled_connections(stage: Stage) -> None:
    """Given 100 ms and 2 MB/s on both sides / when copied / then it continues, and recovers;

    given a side that refuses, then stalls / when it serves again / then nothing is missing.
    """
    with Trial(stage) as trial:
        for proxy in proxies_of(stage):
            proxy.latency_s, proxy.bytes_per_s = 0.1, 2e6
        trial.wait_copied(600)
        for proxy in proxies_of(stage):
            proxy.heal()
        for proxy in proxies_of(stage):
            trial.wait_normal()
            proxy.refuse()
            trial.wait_tried(proxy, 3)
            proxy.accept()
            trial.wait_normal()
            proxy.hold(LINK_CLIENTS)
            trial.wait_sent(600)
            proxy.release()


@pytest.mark.parametrize("how", [pytest.param("restart", marks=pytest.mark.thorough), "kill"])
def test_source_broker_restarted(stage: Stage, how: str) -> None:
    """Given a link under load / when the source's broker goes and comes back / then exact."""
    broker = stage.source.brokers[0]
    with Trial(stage) as trial:
        trial.wait_copied(100)
        if how == "restart":
            broker.restart()
        else:
            broker.kill()
            broker.start()
        trial.wait_copied(100)


@pytest.mark.thorough
def test_target_disk_full_for_a_while(stage: Stage) -> None:
    """Given no room for one more batch / when there is room again / then exact.

    A limit on the size of the broker's files replaces a full disk: writing fails as well (EFBIG
    instead of ENOSPC), and no rights are needed. A broker whose only log folder fails halts.
    """
    broker = stage.target.brokers[0]
    with Trial(stage) as trial:
        logs = broker.log_folder.glob(f"{trial.topic}-*/*.log")
        room = max(log.stat().st_size for log in logs) + 1
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (room, hard))
        wait_for("the broker to halt", lambda: not broker.is_alive())
        trial.wait_sent(300)
        broker.start()
        trial.wait_copied(300)
