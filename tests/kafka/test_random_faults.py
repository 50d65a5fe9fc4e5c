"""A run of faults drawn from a printed seed, under constant load.

Short by default. By hand, longer or again with a seed that failed::

    HELIOSTAT_FAULTS_MINUTES=60 scripts/test -n 0 -s tests/kafka/test_random_faults.py
    HELIOSTAT_FAULTS_SEED=12345 scripts/test -n 0 -s tests/kafka/test_random_faults.py
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.clusters import fresh_name
from support.faults import DAY_MS, Stage, Trial, small_load, stage_of
from support.links import kill, wait_for
from support.proxy import FETCH, PRODUCE, FaultProxy, Where

from heliostat_sandbox.shapes import GenericShape, Timestamps

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

SEED = "HELIOSTAT_FAULTS_SEED"
MINUTES = "HELIOSTAT_FAULTS_MINUTES"
MINUTES_DEFAULT = 0.75
CALM_EVERY = 5
"""After so many faults the lag must become normal, so that they don't only pile up."""
KEEP = {"retention.ms": "-1"}


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(10**6))
    print(f"\n{SEED}={seed}")
    return random.Random(seed)


@pytest.fixture
def stage(tmp_path: Path, spark: SparkSession, chance: random.Random) -> Iterator[Stage]:
    """Give a stage: fresh records or forgotten producers, large or small fetches, by the seed."""
    forgets = {
        "producer.id.expiration.ms": "1000",
        "producer.id.expiration.check.interval.ms": "300",
    }
    target = chance.choice([{}, forgets])
    small = {"fetch_bytes_max": 200_000, "partition_fetch_bytes_max": 50_000}
    records = chance.choice([{}, small])
    print(f"target settings {target}, records {records}")
    link = {"records": records, "lanes": {"lease_s": chance.choice([4, 8, 20])}}
    with stage_of(
        tmp_path, spark, proxied=True, has_process=True, target=target, link=link
    ) as made:
        yield made


class Faults:
    """All faults there are to draw; each returns when it is over."""

    def __init__(self, stage: Stage, trial: Trial, chance: random.Random) -> None:
        assert stage.at_source is not None
        assert stage.at_target is not None
        self._stage, self._trial, self._chance = stage, trial, chance
        self._source, self._target = stage.at_source, stage.at_target
        self.all: tuple[tuple[int, Callable[[], None]], ...] = (
            (4, self.cut_fetch),
            (6, self.cut_produce),
            (2, self.backlog),
            (2, self.cut_all),
            (2, self.refuse),
            (2, self.hold),
            (1, self.slow),
            (2, self.kill_workers),
            (1, self.kill_driver),
            (1, self.restart_driver),
            (1, self.kill_source),
            (2, self.kill_target),
            (1, self.restart_target),
            (1, self.pause_target),
        )

    def draw(self) -> Callable[[], None]:
        """The next fault."""
        weights = [weight for weight, _ in self.all]
        return self._chance.choices([fault for _, fault in self.all], weights)[0]

    def _side(self) -> FaultProxy:
        return self._chance.choice([self._source, self._target])

    def _load_on(self) -> None:
        self._trial.wait_sent(self._chance.randrange(30, 600))

    def cut_fetch(self) -> None:
        self._source.cut_next(FETCH, self._chance.choice(list(Where)), *self._trial.names_at_source)
        self._load_on()

    def cut_produce(self) -> None:
        where = self._chance.choice(list(Where))
        self._target.cut_next(PRODUCE, where, *self._trial.names_at_target)
        self._load_on()

    def backlog(self) -> None:
        self._trial.fill(self._chance.randrange(5_000, 40_000))

    def cut_all(self) -> None:
        self._side().cut_all()

    def refuse(self) -> None:
        proxy = self._side()
        proxy.refuse()
        self._trial.wait_tried(proxy, self._chance.randrange(1, 6))
        proxy.accept()

    def hold(self) -> None:
        proxy = self._side()
        proxy.hold("heliostat-east-to-west")
        self._load_on()
        proxy.release()

    def slow(self) -> None:
        proxy = self._side()
        proxy.latency_s, proxy.bytes_per_s = 0.1, 2e6
        self._load_on()
        proxy.heal()

    def kill_workers(self) -> None:
        kill(self._stage.process.workers())

    def kill_driver(self) -> None:
        self._stage.process.kill_driver()
        self._stage.start_link()

    def restart_driver(self) -> None:
        link = self._stage.link
        assert link is not None
        wait_for("a link that has begun", link.text)  # before, a signal just ends the interpreter
        assert link.stop(within_s=60) == 0
        self._stage.start_link()

    def kill_source(self) -> None:
        broker = self._stage.source.brokers[0]
        broker.kill()
        broker.start()

    def kill_target(self) -> None:
        broker = self._stage.target.brokers[0]
        broker.kill()
        self._chance.choice([lambda: None, self._load_on])()
        broker.start()

    def restart_target(self) -> None:
        self._stage.target.brokers[0].restart()

    def pause_target(self) -> None:
        broker = self._stage.target.brokers[0]
        broker.pause()
        self._load_on()
        broker.resume()


def test_random_faults_lose_duplicate_and_reorder_nothing(
    stage: Stage, chance: random.Random
) -> None:
    """Given load of fresh and of old records / when faults are drawn / then a verified copy."""
    old = GenericShape(value_bytes=200, timestamps=Timestamps.RANDOM, age_ms=3 * DAY_MS)
    loads = [
        small_load(fresh_name("fault-fresh"), rate_hz=150.0),
        small_load(fresh_name("fault-old"), rate_hz=150.0, shape=old, configs=KEEP),
    ]
    chance.shuffle(loads)
    minutes = float(os.environ.get(MINUTES) or MINUTES_DEFAULT)
    drawn: Counter[str] = Counter()
    with Trial(stage, *loads) as trial:
        faults = Faults(stage, trial, chance)
        until_s = time.monotonic() + 60 * minutes
        while time.monotonic() < until_s:
            fault = faults.draw()
            drawn[fault.__name__] += 1
            print(f"{drawn.total()}: {fault.__name__}", flush=True)
            fault()
            if drawn.total() % CALM_EVERY == 0:
                trial.wait_normal(within_s=120)
        for proxy in (stage.at_source, stage.at_target):
            assert proxy is not None
            print(dict(proxy.counts))
            proxy.heal()
    assert drawn.total() > 0
