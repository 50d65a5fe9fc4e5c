"""Faults in an order drawn from a printed seed, over mirrors with a pipeline, one broker a side.

Pipelines of rows and those done in place, of numbered records and of Avro, are hit at once. Again
with a seed that failed, as `test_random_faults`::

    HELIOSTAT_FAULTS_SEED=12345 scripts/test -n 0 -s tests/kafka/test_piped_faults.py
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from soak_audit import Seen, compare, read
from soak_load import Load, Writers
from support.avro_clients import AvroWriter
from support.avro_piped import CUT, FIRST, SECOND, AvroTopic, row
from support.clusters import ClusterPair, create_topic, until
from support.command import heliostat, said
from support.faults import DAY_MS, Stage, names_of, stage_of
from support.links import Link, ends, kill
from support.proxy import PRODUCE, Where
from support.records import GZIP
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer
from support.thinned import IN_PLACE, PIPELINE, is_piped, marked, thinned

from heliostat.names import TopicName
from heliostat_sandbox.registry import SandboxRegistry

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.thorough,
    # The load's producers, kafka-python's, time out in outages, also as they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEED = "HELIOSTAT_FAULTS_SEED"
PARTITIONS = 3
RECORDS_S, TURN_S = 30, 0.2
"""Records a second of each load, and how often they are written."""
WITHIN_S = 300.0
"""For any wait: lanes that begin anew after a fault, or a whole link, on a full machine."""
LOADS = (
    Load("m.piped"),
    Load("m.piped-transactions", is_transactional=True),
    Load("m.piped-old", age_ms=3 * DAY_MS),
    Load("m.marked"),
    Load("m.marked-transactions", is_transactional=True),
)
AVRO_CUT, AVRO_ROWS = "m.avro-cut", "m.avro-rows"
AVRO_PIPELINES = [
    {"name": "cut", "topics": [AVRO_CUT], "steps": [{"avro_fields": CUT}]},
    {
        "name": "rows",
        "topics": [AVRO_ROWS],
        "steps": [{"avro_fields": {**CUT, "where": "fields.id % 3 != 1"}}],
    },
]
AVRO_RECORDS = 20
"""Of each topic in a turn; half of them before its fault."""
OWN = '{"type": "record", "name": "own", "fields": []}'


@pytest.fixture
def registries() -> Iterator[tuple[str, str]]:
    """Give the addresses of the source's, a double, and of a real one that gives ids of its own."""
    with RegistryServer(RegistryDouble()) as source, SandboxRegistry.start() as target:
        with AvroWriter("", target.url, OWN) as writer:
            writer.encode("own", {})  # has the id that the source's registry gives first
        yield source.url, target.url


@pytest.fixture
def stage(tmp_path: Path, spark: SparkSession, registries: tuple[str, str]) -> Iterator[Stage]:
    forgets = {
        "producer.id.expiration.ms": "1000",
        "producer.id.expiration.check.interval.ms": "300",
    }
    link = {
        "topics": {"include": [r"m\..*"], "refresh_interval_s": 1},
        "pipelines": [PIPELINE, IN_PLACE, *AVRO_PIPELINES],
        "lanes": {"lease_s": 4, "count": 1},
        "schemas": {"strategy": "rewrite", "interval_s": 1},
        "registries": registries,
    }
    with stage_of(
        tmp_path, spark, proxied=True, has_process=True, target=forgets, link=link
    ) as made:
        yield made


class Orders:
    """Avro records for both ways of cutting them; those of later turns have another schema."""

    def __init__(self, pair: ClusterPair, registries: tuple[str, str]) -> None:
        self.topics = [AvroTopic(pair, registries, name) for name in (AVRO_CUT, AVRO_ROWS)]
        self._turns = 0
        self._left: list[list[bytes]] = []

    def begin_turn(self) -> None:
        """Write a first half of records."""
        numbers = range(self._turns * AVRO_RECORDS, (self._turns + 1) * AVRO_RECORDS)
        is_later = self._turns >= 2
        rows = [row(number, **({"more": "m"} if is_later else {})) for number in numbers]
        self._turns += 1
        values = [each.encode(SECOND if is_later else FIRST, *rows) for each in self.topics]
        for topic, own in zip(self.topics, values, strict=True):
            topic.write(*own[: AVRO_RECORDS // 2])
        self._left = [own[AVRO_RECORDS // 2 :] for own in values]

    def end_turn(self) -> None:
        """Write the other half."""
        for topic, own in zip(self.topics, self._left, strict=True):
            topic.write(*own, codec=GZIP)

    def wait_read(self) -> None:
        """Wait until consumers have seen some of each mirror."""
        until(
            lambda: all(each.reader.seen for each in self.topics),
            lambda: f"{[(each.reader.seen, each.reader.failures) for each in self.topics]}",
            timeout_s=WITHIN_S,
        )

    def assert_read(self) -> set[int]:
        """Each record was decoded at once, once, in order, without the dropped field.

        Return the schema ids that they have.
        """
        for topic in self.topics:
            self._assert_read(topic)
        return {each.schema_id for topic in self.topics for each in topic.reader.seen.values()}

    def _assert_read(self, topic: AvroTopic) -> None:
        numbers = range(self._turns * AVRO_RECORDS)
        kept = [number for number in numbers if topic.name == AVRO_CUT or number % 3 != 1]
        reader = topic.reader
        until(
            lambda: len(reader.seen) >= len(kept),
            lambda: f"{len(kept)} of {topic.name}, {reader.seen}, {reader.failures}",
            timeout_s=WITHIN_S,
        )
        assert reader.failures == []
        records = reader.records()
        assert [each["id"] for each in records] == kept
        assert all("price" not in each and each["others"] == "x" for each in records)
        assert {each["secret"] for each in records} == {""}
        later = [number >= 2 * AVRO_RECORDS for number in kept]
        assert ["more" in each for each in records] == later


class Faults:
    """All faults, in an order that is drawn; each is over when it returns."""

    def __init__(self, stage: Stage, orders: Orders, chance: random.Random) -> None:
        assert stage.at_source is not None
        assert stage.at_target is not None
        self._stage, self._orders, self._chance = stage, orders, chance
        self._proxies = stage.at_source, stage.at_target
        self._topics = {load.topic: PARTITIONS for load in LOADS} | {
            each.name: 1 for each in orders.topics
        }
        self._cuts = chance.sample(list(Where), 2)
        self.all: list[Callable[[], None]] = [
            *(self.kill_all_workers, self.kill_worker, self.kill_worker),
            *(self.cut_produce, self.cut_produce, self.cut_all),
            *(self.kill_driver, self.kill_target),
        ]
        chance.shuffle(self.all)

    def run(self) -> None:
        """Do all in turn, each once some mirrors, or all, have moved since the one before."""
        self.wait_moved(all, dict.fromkeys(self._topics, 0))
        for number, fault in enumerate(self.all):
            print(f"{number}: {fault.__name__}", flush=True)
            self._orders.begin_turn()
            fault()
            until(lambda: min(self.copied().values()) >= 0, "ends of the mirrors")
            before = self.copied()
            self._orders.end_turn()
            is_last = number + 1 == len(self.all)
            needs_all = is_last or self.kill_all_workers in (fault, self.all[number + 1])
            self.wait_moved(all if needs_all else self._chance.choice((any, all)), before)

    @property
    def _link(self) -> Link:
        assert self._stage.link is not None
        return self._stage.link

    def copied(self) -> dict[str, int]:
        """Return how many records each mirror has; -1: a broker that began just now can't say."""
        found = ends(self._stage.target.bootstrap, self._topics)
        return {topic: -1 if -1 in row else sum(row) for topic, row in found.items()}

    def wait_moved(self, enough: Callable[[Iterable[bool]], bool], before: dict[str, int]) -> None:
        """Wait until any or all mirrors have more records than before."""

        def have_moved() -> bool:
            now = self.copied()
            return enough(now[topic] > count for topic, count in before.items())

        until(
            have_moved,
            lambda: f"mirrors to move from {before}, now {self.copied()}\n{self._stage.text()}",
            timeout_s=WITHIN_S,
        )

    def kill_all_workers(self) -> None:
        """Kill those of all pipelines at once."""
        until(lambda: kill(self._link.workers()), self._stage.text)

    def kill_worker(self) -> None:
        """Kill any one."""

        def kill_one() -> int:
            workers = self._link.workers()
            return kill(self._chance.sample(workers, min(1, len(workers))))

        until(kill_one, self._stage.text, timeout_s=WITHIN_S)

    def cut_produce(self) -> None:
        """Cut an append."""
        names = names_of(self._stage.target.bootstrap, [TopicName(each) for each in self._topics])
        where = self._cuts.pop()
        cut = self._proxies[1].cut_next(PRODUCE, where, *names)
        assert cut.done.wait(WITHIN_S), f"no connection was cut {where.value}"

    def cut_all(self) -> None:
        """Cut all connections of a side."""
        self._chance.choice(self._proxies).cut_all()

    def kill_driver(self) -> None:
        """Kill the driver's process; the next one, in this process, starts at once."""
        self._stage.process.kill_driver()
        self._stage.has_process = False
        self._stage.start_link()

    def kill_target(self) -> None:
        """Kill the target's broker, which comes back."""
        broker = self._stage.target.brokers[0]
        broker.kill()
        broker.start()


def audit(stage: Stage) -> None:
    """Compare all that is there with what the pipelines make of the source."""
    expected: dict[str, list[list[Seen]]] = {}
    for load in LOADS:
        made = thinned if is_piped(load.topic) else marked
        expected[load.topic] = [
            made(read(stage.source.bootstrap, load.topic, number)) for number in range(PARTITIONS)
        ]
    wanted = {topic: [len(rows) for rows in parts] for topic, parts in expected.items()}
    topics = dict.fromkeys(wanted, PARTITIONS)

    def are_level() -> bool:
        now = ends(stage.target.bootstrap, topics)
        return all(
            have >= want
            for topic, row in wanted.items()
            for have, want in zip(now[topic], row, strict=True)
        )

    until(
        are_level,
        lambda: f"{wanted}, now {ends(stage.target.bootstrap, topics)}\n{stage.text()}",
        timeout_s=WITHIN_S,
    )
    findings = [
        compare(load, number, rows, read(stage.target.bootstrap, load.topic, number))
        for load in LOADS
        for number, rows in enumerate(expected[load.topic])
    ]
    unclean = [each for each in findings if not each.is_clean]
    assert not unclean, unclean


def test_faults_lose_double_and_reorder_nothing_of_a_pipeline(
    stage: Stage, registries: tuple[str, str]
) -> None:
    """Given load through pipelines that filter and change, as rows and in place / when workers,

    driver and broker are killed and connections cut / then the target has what they make of each
    record, once and in order, none went around them, and each Avro record is decoded at once.
    """
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(10**6))
    print(f"\n{SEED}={seed}")
    for load in LOADS:
        create_topic(stage.source, TopicName(load.topic), partitions=PARTITIONS)
    orders = Orders(ClusterPair(stage.source, stage.target), registries)
    faults = Faults(stage, orders, random.Random(seed))
    writers = Writers(stage.source.bootstrap, seed, LOADS, records_s=RECORDS_S, turn_s=TURN_S)
    with ExitStack() as stack:
        for topic in orders.topics:
            stack.enter_context(topic.reader)
        orders.begin_turn()
        orders.end_turn()
        orders.wait_read()  # a backlog would be all that lanes which begin can do
        writers.start()
        try:
            faults.run()
        finally:
            writers.stop()
        assert stage.link is not None
        assert not stage.link.has_ended
        audit(stage)
        ids = orders.assert_read()
    plan = heliostat(stage.config, "plan").stdout
    assert f"1 topic ({AVRO_CUT}), on the bytes of batches" in plan
    assert f"1 topic ({AVRO_ROWS}), as rows of Spark" in plan
    (told,) = said(stage.config, "schemas", "status")
    assert told["in_sync"]
    assert {each["target_id"] for each in told["derived"]} == ids
    verified = heliostat(stage.config, "verify", "--json")
    assert verified.returncode == 0, verified.said
    assert min(writers.sent.values()) > 10 * len(faults.all)
