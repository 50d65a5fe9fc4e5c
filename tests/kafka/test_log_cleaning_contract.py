"""The model's transactions, cleaning, deletion and recreation, compared with a real broker."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from sim.log_batches import COMMIT, control_kind, fields_of
from sim.partition_log import PartitionLog
from support.cleaning import COMPACTED, hurry_cleaner, read_committed, wait_cleaned
from support.clusters import ClusterPair, fresh_name, until
from support.planted import Planter, Record, batch_bytes

from heliostat.access import access_of
from heliostat.clusters.kafka_codes import OFFSET_OUT_OF_RANGE
from heliostat.errors import BrokerError
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader

pytestmark = [pytest.mark.kafka, pytest.mark.core]

NOW_MS = 1_750_000_000_000
STEP_MS = 10
PRODUCERS = 2
TRANSACTIONS = 10


@pytest.fixture(scope="module")
def planter(cluster_pair: ClusterPair) -> Iterator[Planter]:
    hurry_cleaner(cluster_pair.source.bootstrap)
    with Planter(cluster_pair.source.bootstrap) as made:
        yield made


def partition(topic: str) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionId(0))


def frames(data: bytes) -> list[bytes]:
    """Whole batches of an answer."""
    found: list[bytes] = []
    at = 0
    while at + 12 <= len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        if at + size > len(data):
            break
        found.append(data[at : at + size])
        at += size
    return found


def shape(data: bytes) -> list[tuple[int, int, int, bool, bool, int]]:
    """Of each batch: first and last offset, records, transactional, control, producer."""
    found: list[tuple[int, int, int, bool, bool, int]] = []
    for each in frames(data):
        fields, base = fields_of(each), struct.unpack_from(">q", each, 0)[0]
        last = base + fields.last_delta
        flags = fields.is_transactional, fields.is_control
        found.append((base, last, fields.count, *flags, fields.producer_id))
    return found


def seen_of(log: PartitionLog) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(at, each.timestamp, each.key, each.value) for at, each in log.committed()]


def without_aborted(data: bytes, aborted: list[tuple[int, int]]) -> list[int]:
    """First offsets of the batches that a reader of committed records takes (KIP-98)."""
    starts = sorted(aborted, key=lambda pair: pair[1])
    ignored: set[int] = set()
    taken: list[int] = []
    for each in frames(data):
        fields, base = fields_of(each), struct.unpack_from(">q", each, 0)[0]
        while starts and starts[0][1] <= base + fields.last_delta:
            ignored.add(starts.pop(0)[0])
        if fields.is_control:
            ignored.discard(fields.producer_id)
        elif not (fields.is_transactional and fields.producer_id in ignored):
            taken.append(base)
    return taken


def test_transactions_hold_the_stable_offset_like_a_real_broker(
    planter: Planter, cluster_pair: ClusterPair
) -> None:
    """Given producers whose transactions interleave / when each ends / then equal logs and ends."""
    bootstrap = cluster_pair.source.bootstrap
    topic = fresh_name("contract")
    planter.topic(topic)
    rng = random.Random(11)
    producers = [
        KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-{n}", linger_ms=50)
        for n in range(PRODUCERS)
    ]
    model = PartitionLog()
    one = partition(topic)
    try:
        for producer in producers:
            producer.init_transactions()
        is_open = [False] * PRODUCERS
        ended = 0
        with reader_of(bootstrap, Isolation.READ_UNCOMMITTED) as reader:
            while ended < TRANSACTIONS or any(is_open):
                number = rng.randrange(PRODUCERS)
                producer = producers[number]
                before = model.end
                if is_open[number] and (rng.random() < 0.5 or ended >= TRANSACTIONS):
                    commits = rng.random() < 0.5
                    end = producer.commit_transaction if commits else producer.abort_transaction
                    end()
                    is_open[number], ended = False, ended + 1
                else:
                    if not is_open[number]:
                        producer.begin_transaction()
                        is_open[number] = True
                    for place in range(rng.choice([1, 2, 5])):
                        producer.send(topic, b"%d" % place, key=b"k", partition=0)
                    producer.flush()
                follow(model, reader, one, before)
                check_reading(model, bootstrap, one, rng)
    finally:
        for producer in producers:
            producer.close()
    assert len(model.aborted) >= 2
    committed = [row[0] for row in read_committed(bootstrap, topic)]
    assert committed == [offset for offset, _ in model.committed()]


def reader_of(bootstrap: str, isolation: Isolation) -> LogReader:
    return LogReader(access_of(bootstrap.split(",")), isolation)


def follow(model: PartitionLog, reader: LogReader, one: TopicPartition, before: int) -> None:
    """Let the model take what the broker has appended meanwhile, and hold both logs together."""
    until(lambda: reader.bounds([one])[one].end > before, "what was just appended")
    data = reader.fetch({one: before})[one].data
    for each in frames(data):
        fields, base = fields_of(each), struct.unpack_from(">q", each, 0)[0]
        assert base == model.end
        if fields.is_control:
            commits = control_kind(each) == COMMIT
            model.end_transaction(
                fields.producer_id, fields.epoch, fields.max_timestamp, commit=commits
            )
        else:
            assert model.append(bytes(8) + each[8:]) == (0, base)
    assert shape(model.read(before, 10**9)) == shape(data)


def check_reading(
    model: PartitionLog, bootstrap: str, one: TopicPartition, rng: random.Random
) -> None:
    """The same stable end, and from anywhere the same batches for readers of committed ones."""
    with reader_of(bootstrap, Isolation.READ_COMMITTED) as reader:
        until(
            lambda: reader.bounds([one])[one].end == model.last_stable_offset,
            lambda: f"stable end {model.last_stable_offset}, not {reader.bounds([one])[one].end}",
        )
        if not model.last_stable_offset:
            return
        at = rng.randrange(model.last_stable_offset)
        fetched = reader.fetch({one: at})[one]
        expected = model.read(at, 10**9, committed=True)
        assert shape(fetched.data) == shape(expected)
        told = model.aborted_from(at, model.last_stable_offset)
        assert without_aborted(fetched.data, list(fetched.aborted)) == without_aborted(
            expected, told
        )


def history(rng: random.Random, count: int) -> list[Record]:
    return [
        (
            NOW_MS + n * STEP_MS,
            b"k%d" % rng.randrange(12),
            None if rng.random() < 0.15 else b"v%d" % n,
            [],
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_cleaner_leaves_the_same_records_as_the_model(
    planter: Planter, cluster_pair: ClusterPair, seed: int
) -> None:
    """Given batches that overwrite keys / when closed segments are cleaned / then equal logs."""
    rng = random.Random(seed)
    topic = fresh_name("contract")
    planter.topic(topic, configs={**COMPACTED, "delete.retention.ms": "86400000000"})
    model = PartitionLog()
    rows = history(rng, 120)
    at = 0
    while at < len(rows):
        size = rng.choice([1, 3, 10])
        data = batch_bytes(rows[at : at + size], rng.choice(["none", "gzip"]))
        at += size
        assert model.append(data) == (0, planter.append(topic, 0, data))
    closing = batch_bytes([(NOW_MS + 10_000_000, b"closing", b"", [])])
    assert model.append(closing) == (0, planter.append(topic, 0, closing))
    model.clean(model.end - 1)
    expected = seen_of(model)
    seen = wait_cleaned(
        cluster_pair.source.bootstrap, topic, lambda left: len(left) <= len(expected)
    )
    assert [row[:4] for row in seen] == expected
    with reader_of(planter.bootstrap, Isolation.READ_UNCOMMITTED) as reader:
        one = partition(topic)
        left: list[tuple[int, int, int, bool, bool, int]] = []
        position = 0
        while position < model.end:  # an answer ends with its segment
            found = shape(reader.fetch({one: position})[one].data)
            left += found
            position = found[-1][1] + 1
    assert [each for each in left if each[2]] == shape(model.read(0, 10**9))


def test_deleted_offsets_are_out_of_range_and_a_recreated_topic_is_another(
    planter: Planter, cluster_pair: ClusterPair
) -> None:
    """Given a log / when its head, then the topic is deleted / then both answer alike."""
    topic = fresh_name("contract")
    planter.topic(topic)
    model = PartitionLog()
    for _ in range(4):
        data = batch_bytes([(NOW_MS, b"k", b"v", [])] * 5)
        assert model.append(data) == (0, planter.append(topic, 0, data))
    planter.delete_before(topic, 0, 7)
    model.delete_before(7)
    one = partition(topic)
    with reader_of(planter.bootstrap, Isolation.READ_UNCOMMITTED) as reader:
        bounds = reader.bounds([one])[one]
        assert (bounds.start, bounds.end) == (model.start, model.end)
        assert shape(reader.fetch({one: 7})[one].data) == shape(model.read(7, 10**9))
        with pytest.raises(BrokerError) as refused:
            reader.fetch({one: 6})
        assert refused.value.kafka_code == OFFSET_OUT_OF_RANGE
        first = reader.topics([topic])[topic].topic_id
        planter.delete_topic(topic)
        planter.topic(topic)
        until(lambda: topic in reader.topics([topic]), "the new topic")
        assert reader.topics([topic])[topic].topic_id != first
        until(lambda: reader.bounds([one])[one].end == 0, "an empty log")
