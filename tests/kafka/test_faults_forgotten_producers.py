"""Faults at a target that has forgotten the link's producer: only our own order of steps protects.

A broker drops a producer by the age of its records (`producer.id.expiration.ms`, one day unless
set) at each sweep. Then its sequence check accepts anything (I4), so nothing may be resent before
the log's real end was read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.clusters import fresh_name
from support.faults import DAY_MS, Stage, Trial, small_load, stage_of
from support.proxy import PRODUCE, Where

from heliostat_sandbox.shapes import GenericShape, Timestamps

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

CUT_WITHIN_S = 90.0
BACKLOG_RECORDS = 30_000
SWEPT = {"producer.id.expiration.check.interval.ms": "300"}
EXPIRED = {**SWEPT, "producer.id.expiration.ms": "1000"}
"""Every producer is forgotten a second after the timestamp of its last record."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("forgetful")
    small = {"fetch_bytes_max": 200_000, "partition_fetch_bytes_max": 50_000}
    with stage_of(folder, spark, proxied=True, target=EXPIRED, link={"records": small}) as made:
        yield made


@pytest.mark.parametrize("age_ms", [0, 2 * DAY_MS])
def test_answers_lost_and_broker_killed_in_mid_copy(stage: Stage, age_ms: int) -> None:
    """Given a producer forgotten at once / when answers are lost / then each append lands once."""
    proxy = stage.at_target
    assert proxy is not None
    shape = GenericShape(value_bytes=200, timestamps=Timestamps.AGED, age_ms=age_ms)
    keep = {"retention.ms": "-1"}
    topic = fresh_name("fault")
    with Trial(stage, small_load(topic, shape=shape, configs=keep)) as trial:
        broker = stage.target.brokers[0]
        trial.fill(BACKLOG_RECORDS)
        for where in (Where.ANSWER_LOST, Where.REQUEST_SENT, Where.ANSWER_BODY) * 2:
            cut = proxy.cut_next(PRODUCE, where, *trial.names_at_target)
            assert cut.done.wait(CUT_WITHIN_S), f"no connection was cut {where.value}"
            trial.wait_copied(20)
        trial.fill(BACKLOG_RECORDS)
        trial.wait_copied(1)
        broker.kill()
        broker.start()
        trial.wait_copied(100)
