"""`ClusterAdmin` and `KeyedTopic` against a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from support.clusters import ClusterPair, until

from heliostat.clusters.admin import (
    EARLIEST,
    LATEST,
    NO_OFFSET,
    ClusterAdmin,
    ConfigSource,
    ListedOffset,
    NewTopic,
)
from heliostat.clusters.keyed_topic import Change, KeyedTopic
from heliostat.errors import BrokerError, ConnectionLost, ProtocolError, Refused
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat_sandbox import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.core]


@pytest.fixture(scope="module")
def summit(cluster_pair: ClusterPair) -> Cluster:
    return cluster_pair.source


@pytest.fixture(scope="module")
def admin(summit: Cluster) -> Iterator[ClusterAdmin]:
    with ClusterAdmin(summit.bootstrap.split(",")) as found:
        yield found


def part(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionId(number))


def create(admin: ClusterAdmin, name: str, partitions: int = 1, **configs: str) -> TopicName:
    found = {key.replace("__", "."): value for key, value in configs.items()}
    topic = TopicName(name)
    answer = admin.create_topics([NewTopic(topic, partitions, 1, found)])[topic]
    assert not isinstance(answer, BrokerError), answer
    wanted = [part(name, number) for number in range(partitions)]
    until(
        lambda: not any(isinstance(a, BrokerError) for a in admin.list_log_ends(wanted).values()),
        "the new topic's leaders",
    )
    return topic


def produce(cluster: Cluster, topic: str, *records: tuple[int, bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","))
    for timestamp_ms, value in records:
        producer.send(topic, value=value, partition=0, timestamp_ms=timestamp_ms)
    producer.flush(20)
    producer.close()


def test_a_cluster_describes_its_id_and_brokers(admin, summit):
    assert admin.cluster_id() == summit.cluster_id
    assert [f"{b.host}:{b.port}" for b in admin.brokers()] == summit.bootstrap.split(",")


@pytest.mark.provokes("INVALID_TOPIC_EXCEPTION", "INVALID_CONFIG", "UNKNOWN_TOPIC_OR_PARTITION")
def test_one_topic_that_fails_does_not_fail_the_others(admin, provoked):
    good, bad, worse = (TopicName(name) for name in ("admin.good", "admin/bad", "admin.worse"))
    answers = admin.create_topics(
        [
            NewTopic(good, 3, 1, {"retention.ms": "5000000"}),
            NewTopic(bad, 1, 1),
            NewTopic(worse, 1, 1, {"no.such.setting": "1"}),
        ]
    )
    provoked("INVALID_TOPIC_EXCEPTION", answers[bad])
    provoked("INVALID_CONFIG", answers[worse])
    until(lambda: admin.describe_topics([good])[good].error is None, "word of the new topic")
    info = admin.describe_topics([good, worse])
    assert info[good].topic_id == answers[good]
    assert [p.partition for p in info[good].partitions] == [0, 1, 2]
    assert info[good].replication_factor == 1
    provoked("UNKNOWN_TOPIC_OR_PARTITION", info[worse].error)
    again = admin.create_topics([NewTopic(good, 1, 1)])[good]
    assert again.kafka_name == "TOPIC_ALREADY_EXISTS"


def test_validating_creates_nothing(admin):
    name = TopicName("admin.only.validated")
    answer = admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name]
    assert not isinstance(answer, BrokerError)
    assert name not in admin.describe_topics()


def test_settings_are_set_and_unset_with_their_origin(admin):
    topic = create(admin, "admin.settings", retention__ms="5000000")
    missing = TopicName("admin.missing")
    answers = admin.alter_configs(
        {topic: {"retention.ms": None, "flush.ms": "77"}, missing: {"flush.ms": "1"}}
    )
    assert answers[topic] is None
    assert answers[missing].kafka_name == "UNKNOWN_TOPIC_OR_PARTITION"
    # The controller has it when it answers, a broker when it has read it.
    until(lambda: admin.describe_configs([topic])[topic]["flush.ms"].value == "77", "flush.ms")
    configs = admin.describe_configs([topic, missing])
    assert configs[topic]["flush.ms"].is_own
    assert configs[topic]["retention.ms"].source is not ConfigSource.TOPIC
    assert configs[missing].kafka_name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert list(admin.describe_configs([topic], ["flush.ms"])[topic]) == ["flush.ms"]


def test_defaults_of_a_new_topic_are_read_without_creating_it(admin):
    inherited = admin.inherited_configs()
    topic = create(admin, "admin.inherits")
    configs = admin.describe_configs([topic])[topic]
    assert {key: entry.value for key, entry in configs.items()} == inherited
    assert "heliostat.probe" not in admin.describe_topics()


def test_broker_settings(admin):
    entry = admin.describe_broker_configs()["node.id"]
    assert entry.is_read_only
    assert entry.value == str(admin.brokers()[0].broker_id)


def test_one_topic_that_cannot_grow_does_not_fail_the_others(admin):
    topic, missing = create(admin, "admin.grows"), TopicName("admin.missing")
    answers = admin.grow_partitions({topic: 3, missing: 3})
    assert answers[topic] is None
    assert answers[missing].kafka_name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert admin.grow_partitions({topic: 1})[topic].kafka_name == "INVALID_PARTITIONS"


def test_offsets_by_end_start_and_time(admin, summit):
    topic = create(admin, "admin.offsets", retention__ms="-1")  # the records are of 1970
    produce(summit, topic, (1000, b"a"), (2000, b"b"), (3000, b"c"))
    only, missing = part(topic), part("admin.missing")

    def listed(spec: int) -> Offset:
        answer = admin.list_offsets({only: spec})[only]
        assert isinstance(answer, ListedOffset)
        return answer.offset

    assert [listed(spec) for spec in (EARLIEST, 1500, 3000, LATEST, 3001)] == [0, 1, 2, 3, -1]
    assert listed(9_999_999) == NO_OFFSET
    ends = admin.list_log_ends([only, missing, part(topic, 7)])
    assert ends[only] == 3
    assert ends[missing].kafka_name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert isinstance(ends[part(topic, 7)], BrokerError)
    assert admin.delete_records({only: Offset(2)}) == {only: 2}
    assert (listed(EARLIEST), listed(LATEST)) == (2, 3)
    assert admin.delete_records({only: Offset(9)})[only].kafka_name == "OFFSET_OUT_OF_RANGE"


def test_deleting_topics(admin):
    topic, missing = create(admin, "admin.goes"), TopicName("admin.missing")
    answers = admin.delete_topics([topic, missing])
    assert answers[topic] is None
    assert answers[missing].kafka_name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_producer_ids_are_never_allocated_twice(admin):
    ids = [admin.init_producer_id() for _ in range(3)]
    assert len(set(ids)) == 3
    assert min(ids) >= 0


def test_a_cluster_that_is_not_reachable():
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
        ClusterAdmin(["127.0.0.1:1"], connect_timeout_s=0.5)


def test_state_is_read_to_its_end_and_followed_from_there(summit):
    with (
        KeyedTopic(summit.bootstrap.split(","), "heliostat.test.state") as writer,
        writer.reader() as reader,
    ):
        assert reader.read_all() == {}
        writer.ensure()
        writer.ensure()  # again is fine
        for number in range(6):
            writer.write(f"key{number % 3}", {"number": number})
        writer.write("key1", None)
        assert reader.read_all() == {"key0": {"number": 3}, "key2": {"number": 5}}
        offset = writer.write("key1", {"back": True})
        (change,) = reader.poll(20)
        assert change == Change("key1", {"back": True}, offset, change.timestamp_ms)
        assert reader.poll(0) == []
        offsets = writer.write_many({f"many{n}": {"n": n} for n in range(100)})
        assert list(offsets.values()) == list(range(offset + 1, offset + 101))
        assert len(reader.read_all()) == 103
        assert list(reader.tail(0.1)) == []


@pytest.mark.provokes("REFUSED")
def test_a_topic_that_is_no_state_topic_is_refused(admin, summit, provoked):
    topic = create(admin, "admin.no.state")
    with KeyedTopic(summit.bootstrap.split(","), topic) as state:
        with pytest.raises(Refused) as refused:
            state.ensure()
        provoked("REFUSED", refused.value)


@pytest.mark.provokes("PROTOCOL", how="another producer writes into a topic of ours")
def test_a_foreign_record_in_a_state_topic_is_no_state(admin, summit, provoked):
    topic = create(admin, "admin.foreign", cleanup__policy="compact")
    with KeyedTopic(summit.bootstrap.split(","), topic) as state:
        state.write("key", {"a": 1})
        producer = KafkaProducer(bootstrap_servers=summit.bootstrap.split(","))
        producer.send(topic, key=b"k", value=b"no json").get(20)
        producer.close()
        with pytest.raises(ProtocolError, match="not ours") as caught:
            state.read_all()
        provoked("PROTOCOL", caught.value)
