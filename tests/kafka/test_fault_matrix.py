"""Each kind of fault on three brokers a side: exact, mapped, filled and piped mirrors side by side.

The tests of this file build on each other: load continues through all of them, and at the end
every record is compared. It needs both cores for itself (`scripts/test --long`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest
import soak_faults
from kafka import KafkaProducer
from soak_audit import read
from soak_load import Load
from support.clusters import create_topic, fresh_name
from support.command import said
from support.matrix import DAYS_MS, FILLED, LOADS, MAPPED, Matrix, running_matrix
from support.records import Sample, encode, write_batches
from support.steering_operator import Operator
from support.thinned import is_piped
from support.unclean import (
    UNCLEAN,
    elect_uncleanly,
    first_leads,
    leader_alone,
    put_on_replicas,
    replicated_topic,
)

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import LinkName, TopicName
from heliostat.state_topics import offsets_topic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.long,
    # The load's producers, kafka-python's, time out in outages, also as they are collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HOUR_S = 3600.0
CUTS, CUT_EVERY_S = 10, 0.5
STRANGERS = b"stranger"
FOREIGN = {"FOREIGN_TAIL", "APPENDED_ELSEWHERE"}
KINDS = (
    Load("m.s-fresh", is_exact=True),
    Load("m.s-old", is_exact=True, age_ms=DAYS_MS),
    Load("m.s-transactions", is_transactional=True),
    Load("m.s-old-transactions", is_transactional=True, age_ms=DAYS_MS),
    Load("f.s-fresh", is_transactional=True, is_exact=True),
    Load("f.s-old", is_transactional=True, is_exact=True, age_ms=DAYS_MS),
    Load("m.s-piped"),
    Load("f.s-piped", is_transactional=True, is_exact=True),
)
"""One mirror of each kind, of one partition, for what stops it."""


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    with running_matrix(tmp_path_factory.mktemp("matrix")) as made:
        yield made


def cut(matrix: Matrix, side: str) -> None:
    """Cut all connections, again and again: clients' and those between brokers."""
    for _ in range(CUTS):
        for proxy in matrix.proxies[side]:
            proxy.cut_all()
        time.sleep(CUT_EVERY_S)


def lose_power(matrix: Matrix, side: str) -> None:
    """All brokers of a side at once, and back after a while."""
    brokers = matrix.cluster(side).brokers
    for broker in brokers:
        broker.kill()
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        broker.wait_ready()


def lose_state_topics(matrix: Matrix, _side: str) -> None:
    """What the links keep at the target is deleted under them, but for the offset maps."""
    with ClusterAdmin(matrix.target.bootstrap.split(",")) as admin:
        names = [name for name in admin.describe_topics() if name.startswith("heliostat.")]
    lost = [name for name in names if not name.endswith(".offsets")]
    assert len(lost) > 2
    matrix.delete(*lost)


def step_clock(matrix: Matrix, _side: str) -> None:
    """The wall clock of the links' machine, an hour forth, then back."""
    for step_s in (HOUR_S, 0.0):
        matrix.clock.step(step_s)
        time.sleep(10)


def steer(matrix: Matrix, _side: str) -> None:
    """An operator pauses, limits, prefers, restarts, stops and changes both links, and workers and

    driver are killed while they carry it out.
    """
    topics = {MAPPED: ("m.fresh", "m.transactions"), FILLED: ("f.fresh", "f.old")}
    operator = Operator(matrix.config, matrix.driver.text, topics)
    operator.burden()
    soak_faults.kill_workers(matrix.site("target"))
    operator.stop_and_start()
    operator.change()
    operator.burden()
    soak_faults.kill_driver(matrix.site("target"))
    operator.relieve()


def of_soak(fault: Callable[[soak_faults.Site], None]) -> Callable[[Matrix, str], None]:
    return lambda matrix, side: fault(matrix.site(side))


GOES_ON: dict[str, tuple[Callable[[Matrix, str], None], tuple[str, ...]]] = {
    "kill": (of_soak(soak_faults.kill_broker), ("source", "target")),
    "pause": (of_soak(soak_faults.pause_broker), ("source", "target")),
    "deposed": (of_soak(soak_faults.depose_broker), ("source", "target")),
    "cut": (cut, ("source", "target")),
    "leaders": (of_soak(soak_faults.move_leaders), ("source", "target")),
    "majority": (of_soak(soak_faults.lose_majority), ("source", "target")),
    "power": (lose_power, ("source", "target")),
    "workers": (of_soak(soak_faults.kill_workers), ("link",)),
    "frozen": (of_soak(soak_faults.freeze_workers), ("link",)),
    "driver": (of_soak(soak_faults.kill_driver), ("link",)),
    "clock": (step_clock, ("link",)),
    "steered": (steer, ("link",)),
    "state": (lose_state_topics, ("link",)),
}


@pytest.mark.parametrize(
    ("what", "side"), [(what, side) for what, (_, sides) in GOES_ON.items() for side in sides]
)
def test_links_recover_by_themselves(matrix: Matrix, what: str, side: str) -> None:
    """Given load on all kinds of mirrors / when a fault comes and goes / then in sync again."""
    GOES_ON[what][0](matrix, "target" if side == "link" else side)
    matrix.wait_calm()


class Some:
    """An idle mirror of each kind, for foreign writes and unclean elections."""

    def __init__(self, matrix: Matrix, create: Callable[[TopicName], object]) -> None:
        self.matrix = matrix
        suffix = fresh_name("of")
        self.loads = [load._replace(topic=f"{load.topic}-{suffix}") for load in KINDS]
        self.topics = [TopicName(load.topic) for load in self.loads]
        self._count = 0
        for topic in self.topics:
            create(topic)
        self.write(20)
        matrix.wait_level(self.topics, partitions=1)

    def write(self, count: int) -> float:
        """So many records more of each at the source; when the last was there."""
        numbers = range(self._count, self._count + count)
        self._count += count
        for load in self.loads:
            _produce(self.matrix.source.bootstrap, load, numbers)
        return time.monotonic()

    def write_foreign(self) -> None:
        """Write three foreign records into each mirror."""
        at_ms = int(time.time() * 1000)
        for load in self.loads:
            batch = encode([Sample(b"k", STRANGERS, at_ms - load.age_ms)] * 3)
            write_batches(self.matrix.target.bootstrap.split(","), load.topic, [batch])

    def mirrors(self) -> dict[str, list[bytes | None]]:
        """Values in each mirror, all of them."""
        bootstrap = self.matrix.target.bootstrap
        return {each: [seen.value for seen in read(bootstrap, each, 0)] for each in self.topics}

    def last(self, expected: dict[str, set[str]]) -> None:
        """They stay stopped over more rounds and a restart; nothing more is copied."""
        stand = self.mirrors()
        self.write(5)
        self.matrix.begin_new_rounds()
        codes = self.matrix.stops(*self.topics)
        assert codes.keys() == expected.keys(), codes
        self.matrix.driver.stop()
        self.matrix.start_driver()
        self.matrix.wait_told(expected, time.monotonic())
        assert self.matrix.stops(*self.topics) == codes
        assert self.mirrors() == stand

    def decide(self, choice: str) -> None:
        """What a person decides, for each."""
        for topic in self.topics:
            link = MAPPED if topic.startswith("m.") else FILLED
            words = ("resolve", topic, "--choose", choice, "--by", "ops", "--yes", "--link", link)
            said(self.matrix.config, *words)


def _produce(bootstrap: str, load: Load, numbers: range) -> None:
    """Numbered records of partition 0; of a transactional load in two transactions, one aborted."""
    at_ms = int(time.time() * 1000) - load.age_ms
    own = {"transactional_id": load.topic} if load.is_transactional else {}
    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", **own)
    with contextlib.closing(producer):
        if not load.is_transactional:
            for number in numbers:
                producer.send(load.topic, b"%d own" % number, partition=0, timestamp_ms=at_ms)
            producer.flush()
            return
        producer.init_transactions()
        for is_kept in (False, True):
            producer.begin_transaction()
            for number in numbers:
                producer.send(load.topic, b"%d own" % number, partition=0, timestamp_ms=at_ms)
            producer.flush()
            (producer.commit_transaction if is_kept else producer.abort_transaction)()


def plain_topic(matrix: Matrix) -> Callable[[TopicName], object]:
    return lambda topic: create_topic(matrix.source, topic, replicas=3)


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_foreign_records_stop_their_mirrors(matrix: Matrix, is_running: bool) -> None:
    """Given a mirror of each kind / when others write into it / then it stops and stays stopped.

    Whether the link runs or not, and whether brokers remember producers or not. Then a person
    decides.
    """
    some = Some(matrix, plain_topic(matrix))
    if not is_running:
        matrix.driver.stop()
    some.write_foreign()
    since_s = some.write(5)
    expected = dict.fromkeys(some.topics, FOREIGN)
    if not is_running:
        matrix.start_driver()
        # Lanes with pipelines start later: Spark's SQL has to.
        plain = {topic: FOREIGN for topic in some.topics if not is_piped(topic)}
        matrix.wait_told(plain, matrix.wait_moving("fresh"))
        since_s = matrix.wait_moving("piped")
    matrix.wait_told(expected, since_s)
    some.last(expected)
    assert not matrix.stops(*(load.topic for load in LOADS))
    some.decide("restart")
    matrix.wait_level(some.topics, partitions=1)
    matrix.audit(some.loads, partitions=1)


def test_an_unclean_election_at_the_source(matrix: Matrix) -> None:
    """Given copied records / when a stale replica leads, and takes others / then all stop."""
    some = Some(matrix, lambda topic: replicated_topic(matrix.source, topic))
    first_leads(matrix.source, some.topics)
    leader, old = leader_alone(matrix.source, some.topics[0])
    some.write(5)
    matrix.wait_level(some.topics, partitions=1)
    elect_uncleanly(matrix.source, leader, old, *some.topics)
    expected = {topic: {"SOURCE_TRUNCATED"} for topic in some.topics}
    matrix.wait_told(expected, time.monotonic())
    leader.start()
    some.last(expected)
    some.decide("restart")
    matrix.wait_level(some.topics, partitions=1)
    # Filled ones were deleted and recreated; others were emptied, and continue at later offsets.
    loads = [each._replace(is_exact=each.topic.startswith("f.")) for each in some.loads]
    matrix.audit(loads, partitions=1)


def test_an_unclean_election_at_the_target(matrix: Matrix) -> None:
    """Given mirrors / when a stale replica leads / then what it lacks is copied again."""
    some = Some(matrix, plain_topic(matrix))
    with ClusterAdmin(matrix.target.bootstrap.split(",")) as admin:
        answers = admin.alter_configs(dict.fromkeys(some.topics, UNCLEAN))
    assert set(answers.values()) == {None}
    for topic in some.topics:
        put_on_replicas(matrix.target, topic)
    first_leads(matrix.target, some.topics)
    leader, old = leader_alone(matrix.target, some.topics[0])
    some.write(5)
    matrix.wait_level(some.topics, partitions=1)
    leader.kill()
    old.start()
    matrix.wait_level(some.topics, partitions=1)
    leader.start()
    some.write(5)
    matrix.wait_level(some.topics, partitions=1)
    matrix.wait_calm()
    matrix.audit(some.loads, partitions=1)


def test_lost_offset_maps_stop_mapped_mirrors_only(matrix: Matrix) -> None:
    """Given all kinds / when offset maps are deleted / then mapped mirrors stop until rebuilt.

    Those with a pipeline as well: the source is seen through it.
    """
    mapped = [load.topic for load in LOADS if not load.is_exact]
    matrix.delete(offsets_topic(LinkName(MAPPED)))
    since_s = matrix.wait_says("heliostat.mapped.offsets was gone at the target")
    expected = {topic: {"OFFSET_MAP_LOST"} for topic in mapped}
    matrix.wait_told(expected, since_s)
    matrix.begin_new_rounds()
    matrix.driver.stop()
    matrix.start_driver()
    matrix.wait_told(expected, time.monotonic())
    matrix.wait_level([load.topic for load in LOADS if load.is_exact])
    rebuilt = said(matrix.config, "offsets", "rebuild", "--link", MAPPED)
    of_load = [row for row in rebuilt if row["source"]["topic"] in mapped]
    assert {row["source"]["topic"] for row in of_load} == set(mapped)
    assert not [row for row in of_load if row["why_not"]]
    matrix.wait_calm()


def test_every_record_was_copied_once(matrix: Matrix) -> None:
    """Given the faults above / when the load ends / then nothing lost, duplicated, reordered."""
    matrix.writers.stop()
    matrix.wait_calm()
    matrix.driver.stop()
    assert matrix.driver.ended_badly == []
    assert min(matrix.writers.sent.values()) > 500
    matrix.audit()


def test_stops_were_told_in_time(matrix: Matrix) -> None:
    """Given the stops above / then each was in the log within seconds.

    A test of its own, so that a slow machine hides no record that is lost.
    """
    assert matrix.late == []
