"""Faults drawn from a printed seed, over mirrors with a pipeline, on one broker a side.

Again with a seed that failed, as `test_random_faults`::

    HELIOSTAT_FAULTS_SEED=12345 scripts/test -n 0 -s tests/kafka/test_piped_faults.py
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from soak_audit import Finding, compare, read
from soak_load import Load, Writers
from support.clusters import create_topic, until
from support.faults import DAY_MS, Stage, names_of, stage_of
from support.links import ends
from support.proxy import PRODUCE, Where
from support.thinned import IN_PLACE, PIPELINE, is_piped, marked, thinned

from heliostat.names import TopicName

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.thorough,
    # The load's producers, kafka-python's, time out in outages, also as they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEED = "HELIOSTAT_FAULTS_SEED"
FAULTS = 8
PARTITIONS = 3
RECORDS_S = 60
LEVEL_WITHIN_S = 150.0
LOADS = (
    Load("m.piped"),
    Load("m.piped-transactions", is_transactional=True),
    Load("m.piped-old", age_ms=3 * DAY_MS),
    Load("m.marked"),
    Load("m.marked-transactions", is_transactional=True),
)


@pytest.fixture
def stage(tmp_path: Path, spark: SparkSession) -> Iterator[Stage]:
    forgets = {
        "producer.id.expiration.ms": "1000",
        "producer.id.expiration.check.interval.ms": "300",
    }
    link = {
        "topics": {"include": [r"m\..*"], "refresh_interval_s": 1},
        "pipelines": [PIPELINE, IN_PLACE],
        "lanes": {"lease_s": 4},
    }
    with stage_of(
        tmp_path, spark, proxied=True, has_process=True, target=forgets, link=link
    ) as made:
        yield made


class Faults:
    """What is drawn from; each is over when it returns."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        assert stage.at_source is not None
        assert stage.at_target is not None
        self._stage, self._chance = stage, chance
        self._proxies = stage.at_source, stage.at_target
        self.all: tuple[Callable[[], None], ...] = (
            *(self.kill_workers, self.kill_workers, self.cut_produce, self.cut_produce),
            *(self.cut_all, self.kill_driver, self.kill_target),
        )

    def kill_workers(self) -> None:
        """One of those of the pipeline, or all."""
        workers = self._stage.process.workers()
        for worker in workers if self._chance.random() < 0.5 else workers[-1:]:
            worker.send_signal(signal.SIGKILL)

    def cut_produce(self) -> None:
        names = names_of(self._stage.target.bootstrap, [TopicName(load.topic) for load in LOADS])
        self._proxies[1].cut_next(PRODUCE, self._chance.choice(list(Where)), *names)

    def cut_all(self) -> None:
        self._chance.choice(self._proxies).cut_all()

    def kill_driver(self) -> None:
        self._stage.process.kill_driver()
        self._stage.start_link()

    def kill_target(self) -> None:
        broker = self._stage.target.brokers[0]
        broker.kill()
        broker.start()


def audited(stage: Stage) -> list[Finding]:
    """Compare all that is there with what the pipeline makes of the source."""
    found = []
    for load in LOADS:
        for partition in range(PARTITIONS):
            made = thinned if is_piped(load.topic) else marked
            here = made(read(stage.source.bootstrap, load.topic, partition))
            there = read(stage.target.bootstrap, load.topic, partition)
            found.append(compare(load, partition, here, there))
    return found


def test_random_faults_lose_double_and_reorder_nothing_of_a_pipeline(stage: Stage) -> None:
    """Given load through a pipeline that filters and changes / when faults are drawn / then the

    target has what it makes of each record, once and in order, and none that went around it.
    """
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(10**6))
    print(f"\n{SEED}={seed}")
    chance = random.Random(seed)
    topics = {load.topic: PARTITIONS for load in LOADS}
    for load in LOADS:
        create_topic(stage.source, TopicName(load.topic), partitions=PARTITIONS)
    writers = Writers(stage.source.bootstrap, seed, LOADS, records_s=RECORDS_S)
    writers.start()
    try:
        until(
            lambda: all(row[0] > 0 for row in ends(stage.target.bootstrap, topics).values()),
            lambda: f"first records\n{stage.text()}",
            timeout_s=LEVEL_WITHIN_S,
        )
        faults = Faults(stage, chance)
        for number in range(FAULTS):
            fault = chance.choice(faults.all)
            print(f"{number}: {fault.__name__}", flush=True)
            fault()
            time.sleep(chance.uniform(0.5, 6.0))
    finally:
        writers.stop()
    unclean: list[Finding] = []

    def is_clean() -> bool:
        unclean[:] = [each for each in audited(stage) if not each.is_clean]
        return not unclean

    until(is_clean, lambda: f"{unclean}\n{stage.text()}", timeout_s=LEVEL_WITHIN_S)
    assert min(writers.sent.values()) > 10 * FAULTS
    assert not stage.process.has_ended
