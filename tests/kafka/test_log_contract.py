"""The simulation's model of a partition log against a real broker: same appends, same answers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from sim.partition_log import PartitionLog
from support.clusters import ClusterPair, create_topic, until
from support.log_contract import NOW_MS as SENT_MS
from support.log_contract import OUT_OF_ORDER, OUT_OF_RANGE, SCRIPTS, Make, bases
from support.log_contract import batch as plain_batch
from support.log_sides import BrokerSide, ModelSide, Place

from heliostat.clusters.kafka_codes import TRANSACTION_COORDINATOR_FENCED
from heliostat.clusters.wire import markers, produce
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import Connection, DialSettings
from heliostat.clusters.wire.primitives import request_header
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.markers import filler_of
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.core]

SEEDS = 12
STEPS = 40
NOW_MS = 1_750_000_000_000


def batch(rng: random.Random, pid: int, epoch: int, sequence: int, count: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, pid, epoch, sequence, 1 << 20)
    for delta in range(count):
        builder.append(delta, NOW_MS, None, b"%d" % rng.randrange(1000), [])
    return bytes(builder.build())


def script(rng: random.Random) -> list[bytes]:
    """Appends of two producers: mostly in sequence, with repeats, holes, rewinds and wraps."""
    following = {7001: rng.choice([0, 12345, 2**31 - 5]), 7002: 0}
    sent: list[bytes] = []
    for _ in range(STEPS):
        pid = rng.choice([7001, 7001, 7002, -1])
        count = rng.choice([1, 1, 2, 7])
        if sent and rng.random() < 0.25:
            sent.append(rng.choice(sent[-8:]))
            continue
        if pid < 0:
            sent.append(batch(rng, -1, -1, -1, count))
            continue
        sequence = following[pid]
        if rng.random() < 0.2:
            sequence = (sequence + rng.choice([-9, -3, -1, 1, 5])) % 2**31
        else:
            following[pid] = (sequence + count) % 2**31
        sent.append(batch(rng, pid, 0, sequence, count))
    return sent


def append(connection: Connection, version: int, topic: TopicName, topic_id, data: bytes):
    body = produce.encode_produce(
        version,
        [produce.ProducePartition(topic, topic_id, 0, [data], len(data))],
        timeout_ms=10_000,
    )
    number = connection.next_correlation_id()
    header = request_header(produce.API_KEY, version, number, "contract", flexible=True)
    connection.send([header, *body])
    answers, _ = produce.decode_produce(version, connection.receive(20).buffer, 4)
    return answers[0].error, answers[0].base_offset


def test_model_answers_like_a_real_broker(cluster_pair: ClusterPair) -> None:
    """Given seeded scripts of appends / when model and broker take them / then equal answers."""
    wire = WireCluster(cluster_pair.target.bootstrap, DialSettings())
    seen_errors: set[int] = set()
    for seed in range(SEEDS):
        rng = random.Random(seed)
        topic = create_topic(cluster_pair.target)
        leaders = wire.metadata([topic])[topic]
        broker = leaders.partitions[PartitionId(0)].broker
        version = wire.produce_version(broker)
        connection = wire.open_data(broker)
        model = PartitionLog()
        for step, data in enumerate(script(rng)):
            expected = model.append(data)
            answered = append(connection, version, topic, leaders.topic_id, data)
            assert answered == expected, f"seed {seed} step {step}"
            seen_errors.add(answered[0])
        connection.close()
    wire.close()
    assert seen_errors >= {0, 45}


def mark(connection: Connection, topic: TopicName, pid: int, count: int, epoch: int) -> int:
    number = connection.next_correlation_id()
    header = request_header(markers.API_KEY, 1, number, "contract", flexible=True)
    body = markers.encode_markers(pid, [markers.Markers(topic, 0, count, epoch)])
    connection.send([header, body])
    return markers.decode_markers(connection.receive(20).buffer, 4)[topic, 0]


def test_markers_take_offsets_and_no_sequence_like_a_real_broker(
    cluster_pair: ClusterPair,
) -> None:
    """Given appends and markers of another producer / when epochs decrease / then equal answers."""
    wire = WireCluster(cluster_pair.target.bootstrap, DialSettings())
    topic = create_topic(cluster_pair.target)
    leaders = wire.metadata([topic])[topic]
    broker = leaders.partitions[PartitionId(0)].broker
    connection = wire.open_data(broker)
    version = wire.produce_version(broker)
    rng, model = random.Random(5), PartitionLog()
    sequence, epoch = 0, 10
    errors: set[int] = set()
    for _ in range(STEPS):
        if rng.random() < 0.5:
            data = batch(rng, 7001, 0, sequence, 2)
            answered = append(connection, version, topic, leaders.topic_id, data)
            assert answered == model.append(data)
            assert answered == (0, model.end - 2)
            sequence += 2
            continue
        count, epoch = rng.choice([1, 3, 50]), max(5, epoch + rng.choice([-1, 0, 1, 1]))
        expected = {
            model.end_transaction(filler_of(7001), 0, NOW_MS, commit=True, coordinator_epoch=epoch)
            for _ in range(count)
        }
        assert {mark(connection, topic, filler_of(7001), count, epoch)} == expected
        errors |= expected
    assert errors == {0, TRANSACTION_COORDINATOR_FENCED}
    last = wire.list_ranges(broker, [TopicPartition(topic, PartitionId(0))], replica_id=-2)[1]
    assert last == {TopicPartition(topic, PartitionId(0)): model.end}
    connection.close()
    wire.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_broker_answers_like_the_model(
    cluster_pair: ClusterPair, script: Callable[[Make], None]
) -> None:
    """Given the questions of `tests/sim/test_log_contract.py` / then a broker answers the same."""
    opened: list[BrokerSide] = []

    def make(partitions: int) -> BrokerSide:
        opened.append(BrokerSide(cluster_pair.target, partitions))
        return opened[-1]

    try:
        script(make)
    finally:
        for side in opened:
            side.close()


def test_a_forgotten_producer_and_a_new_leader_behave_like_the_model(
    start_cluster: Callable[..., Cluster],
) -> None:
    """Given records older than producers are kept / when the broker restarts / then alike."""
    cluster = start_cluster(
        settings={
            "log.retention.ms": "-1",
            "producer.id.expiration.ms": "1000",
            "producer.id.expiration.check.interval.ms": "100",
        }
    )
    model, broker = ModelSide(), BrokerSide(cluster)
    both = (model, broker)
    assert [side.append(plain_batch(7, 0, 4)) for side in both] == [(0, 0)] * 2
    until(lambda: broker.append(plain_batch(7, 50)) == (0, 4), "the producer to be forgotten")
    assert model.append(plain_batch(7, 50)) == (OUT_OF_ORDER, -1)
    model.logs[0].expire_producers(SENT_MS + 1000, 1000)
    assert model.append(plain_batch(7, 50)) == (0, 4), "by the time of its records, not of the day"
    broker.close()
    cluster.brokers[0].restart()
    until(lambda: broker.redial() > 0, "a leader of a new epoch")
    model.logs[0].lead(broker.epoch)
    for side in both:
        assert side.append(plain_batch(count=3)) == (0, 5)
    last = broker.epoch
    for offset, epoch in ((5, 0), (6, 0), (8, last), (6, last), (5, last + 1), (5, 1), (2, last)):
        told = [side.fetch([Place(0, offset, last_epoch=epoch)]) for side in both]
        assert told[0] == told[1], f"at {offset} after epoch {epoch}"
    [diverging_epoch], [beyond] = (
        broker.fetch([Place(0, 6, last_epoch=0)]),
        broker.fetch([Place(0, 5, last_epoch=last + 1)]),
    )
    assert (diverging_epoch.diverging_epoch, bases(diverging_epoch.data), beyond.error) == (
        (0, 5),
        [],
        OUT_OF_RANGE,
    )
    broker.close()
