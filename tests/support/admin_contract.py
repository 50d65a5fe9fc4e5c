"""What a cluster answers to `ClusterAdmin`, call by call, as observed of a broker of Kafka 4.3.

Each function of `SCRIPTS` takes a side and asserts. `tests/sim/test_admin_contract.py` runs them on
the stand-in, `tests/kafka/test_admin_contract.py` on a real broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from support.clusters import fresh_name, until
from support.simulated_settings import BROKER_SETTINGS

from heliostat.clusters.admin import (
    EARLIEST,
    LATEST,
    ClusterAdmin,
    CommittedOffset,
    ConfigSource,
    EpochEnd,
    ListedOffset,
    NewTopic,
)
from heliostat.errors import BrokerError
from heliostat.names import (
    GroupId,
    LeaderEpoch,
    Offset,
    PartitionId,
    ProducerId,
    TopicName,
    TopicPartition,
)
from heliostat.records.batches.encode import NewRecord, encode_batch

NOW_MS = 1_750_000_000_000
OF_BROKERS = {"retention.ms": "-1"}
"""Set in the brokers' configuration file, see `cluster_pair`."""


class Side(Protocol):
    """A cluster, and what needs more than an admin client."""

    @property
    def admin(self) -> ClusterAdmin: ...

    def append(self, topic: TopicName, timestamps: Sequence[int]) -> None:
        """Append one batch to partition 0."""
        ...

    def transaction(self, topic: TopicName, name: str) -> AbstractContextManager[object]:
        """Append a record of `NOW_MS` to partition 0, in a transaction open during the block."""
        ...

    def member(self, group: GroupId, topic: TopicName) -> AbstractContextManager[object]:
        """Keep a member with the client id `mine` in the group during the block."""
        ...


def code(answer: object) -> object:
    """Replace errors by their codes, at any depth."""
    if isinstance(answer, BrokerError):
        return answer.kafka_code
    if isinstance(answer, Mapping):
        return {key: code(value) for key, value in answer.items()}
    return answer


def at(topic: TopicName, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, PartitionId(number))


def made(side: Side, partitions: int = 1, **configs: str) -> TopicName:
    """Create a topic and wait until its leaders answer."""
    name = fresh_name("asked")
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    answers = side.admin.create_topics([NewTopic(name, partitions, 1, settings)])
    assert not isinstance(answers[name], BrokerError)
    ends = [at(name, number) for number in range(partitions)]
    until(lambda: set(side.admin.list_log_ends(ends).values()) == {0}, "its leaders")
    return name


def commit(side: Side, group: GroupId, offsets: Mapping[TopicPartition, int]) -> object:
    """Commit without being a member; retries while the coordinator is loading."""
    rows = {partition: CommittedOffset(Offset(offset)) for partition, offset in offsets.items()}
    until(lambda: not isinstance(side.admin.committed_offsets([group])[group], BrokerError), "it")
    return code(side.admin.commit_offsets({group: rows})[group])


def create(side: Side, name: str, partitions: int, replicas: int, **configs: str) -> object:
    """Create one topic; return `id` or an error code."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(TopicName(name), partitions, replicas, settings)
    answers = side.admin.create_topics([topic])
    [answer] = answers.values()
    assert answers.keys() == {name}
    return code(answer) if isinstance(answer, BrokerError) else "id"


def topics_are_made_or_refused(side: Side) -> None:
    name = made(side, 2)
    other = fresh_name("asked")
    for bad in ("", ".", "..", "a/b", "x" * 250, "ä"):
        assert create(side, bad, 1, 1) == 17, bad
    assert create(side, name, 1, 1) == 36
    assert create(side, name, 0, 3) == 36
    assert create(side, name.replace("-", "."), 1, 1) == "id"
    assert create(side, name.replace("-", "_"), 1, 1) == 17
    assert [create(side, other, 1, n) for n in (3, 0, -2)] == [38] * 3
    assert [create(side, other, n, 1) for n in (0, -2)] == [37] * 2
    assert create(side, other, 0, 3) == 37
    assert create(side, other, 0, 0) == 38
    assert create(side, other, 0, 3, no_such="1") == 40
    assert create(side, other, 1, 1, retention_ms="x") == 40
    assert create(side, other, -1, -1) == "id"
    until(lambda: len(side.admin.describe_topics([other])[other].partitions) == 1, "one partition")


def a_name_twice_in_a_request_is_refused_and_its_neighbour_made(side: Side) -> None:
    twice, once = fresh_name("asked"), fresh_name("asked")
    topics = [NewTopic(twice, 1, 1), NewTopic(twice, 2, 1), NewTopic(once, 1, 1)]
    answers = side.admin.create_topics(topics)
    assert code(answers[twice]) == 42
    assert not isinstance(answers[once], BrokerError)
    assert side.admin.create_topics([]) == {}


def what_is_only_validated_is_not_made(side: Side) -> None:
    name = fresh_name("asked")
    answers = side.admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)
    assert not isinstance(answers[name], BrokerError)
    assert answers[name] is not None
    found = side.admin.describe_topics([name])[name]
    assert code(found.error) == 3
    assert create(side, name, 1, 1) == "id"
    again = side.admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)
    assert code(again[name]) == 36


def topics_are_described(side: Side) -> None:
    name, missing = made(side, 3), fresh_name("missing")
    found = side.admin.describe_topics([name, missing, TopicName("a/b"), name])
    assert found.keys() == {name, missing, "a/b"}
    assert (found[name].error, found[name].is_internal) == (None, False)
    assert found[name].topic_id is not None
    rows = [(p.partition, p.leader, p.leader_epoch, p.isr, p.error) for p in found[name].partitions]
    assert rows == [(number, 1, 0, (1,), None) for number in range(3)]
    assert found[name].replication_factor == 1
    for absent, error in ((missing, 3), (TopicName("a/b"), 17)):
        row = found[absent]
        assert (row.topic_id, row.partitions, code(row.error)) == (None, (), error)
    assert side.admin.describe_topics([]) == {}
    listed = side.admin.describe_topics()
    assert listed[name] == found[name]
    assert missing not in listed


def partitions_only_grow(side: Side) -> None:
    name, missing = made(side, 2), fresh_name("missing")
    before = side.admin.describe_topics([name])[name].topic_id
    for count in (1, 2, 0, -1):
        assert code(side.admin.grow_partitions({name: count})) == {name: 37}
    answers = side.admin.grow_partitions({name: 4, missing: 3, TopicName("a/b"): 3})
    assert code(answers) == {name: None, missing: 3, "a/b": 3}
    new = [at(name, 2), at(name, 3)]
    until(lambda: set(side.admin.list_log_ends(new).values()) == {0}, "the new partitions")
    assert side.admin.describe_topics([name])[name].topic_id == before
    assert side.admin.grow_partitions({}) == {}


def a_topic_made_again_is_another(side: Side) -> None:
    name = made(side, 2)
    group = GroupId(fresh_name("group"))
    side.append(name, [NOW_MS] * 3)
    first = side.admin.describe_topics([name])[name].topic_id
    commit(side, group, {at(name): 2})
    missing = fresh_name("missing")
    answers = side.admin.delete_topics([name, missing, TopicName("a/b"), TopicName("")])
    assert code(answers) == {name: None, missing: 3, "a/b": 3, "": 3}
    until(lambda: side.admin.describe_topics([name])[name].error is not None, "it is gone")
    # A broker forgets the topic in its metadata before it closes the replicas.
    no_partition, where = {at(name): 3}, "no such partition"
    until(lambda: code(side.admin.list_offsets({at(name): LATEST})) == no_partition, where)
    until(lambda: code(side.admin.delete_records({at(name): Offset(0)})) == no_partition, where)
    until(lambda: code(side.admin.list_log_ends([at(name)])) == no_partition, where)
    until(lambda: side.admin.committed_offsets([group])[group] == {}, "no offsets")
    assert group in side.admin.list_groups().groups, "the group itself is still there"
    assert code(side.admin.delete_topics([name])) == {name: 3}
    assert create(side, name, 1, 1) == "id"
    until(lambda: side.admin.list_log_ends([at(name)])[at(name)] == 0, "an empty log")
    assert side.admin.describe_topics([name])[name].topic_id not in {first, None}
    assert code(side.admin.list_log_ends([at(name, 1)])) == {at(name, 1): 5}
    assert side.admin.delete_topics([]) == {}


def settings_are_described_with_where_they_come_from(side: Side) -> None:
    name, missing = made(side, retention_ms="77"), fresh_name("missing")
    answers = side.admin.describe_configs([name, missing, TopicName("a/b"), TopicName("")])
    assert code({key: answers[key] for key in (missing, TopicName("a/b"), TopicName(""))}) == {
        missing: 3,
        "a/b": 17,
        "": 17,
    }
    own = answers[name]
    assert not isinstance(own, BrokerError)
    assert (own["retention.ms"].value, own["retention.ms"].source) == ("77", ConfigSource.TOPIC)
    told = side.admin.inherited_configs()
    assert not isinstance(told, BrokerError)
    assert told == {key: "-1" if entry.is_own else entry.value for key, entry in own.items()}, (
        "what a new topic would have"
    )
    some = side.admin.describe_configs([name], ["retention.ms", "no.such"])[name]
    assert some == {"retention.ms": own["retention.ms"]}
    assert side.admin.describe_configs([name], [])[name] == own
    assert side.admin.describe_configs([]) == {}


def equal_settings_are_one_mapping(side: Side) -> None:
    names = [made(side), made(side), made(side, retention_ms="5")]
    answers = side.admin.describe_configs(names)
    assert answers[names[0]] is answers[names[1]]
    assert answers[names[0]] != answers[names[2]]


def settings_are_changed_one_by_one(side: Side) -> None:
    name, missing = made(side, retention_ms="77"), fresh_name("missing")

    def change(values: dict[str, str | None], *, validate_only: bool = False) -> object:
        answers = side.admin.alter_configs({name: values}, validate_only=validate_only)
        return code(answers[name])

    assert change({"segment.ms": "500"}, validate_only=True) is None
    assert change({"segment.ms": "x"}, validate_only=True) == 40
    assert change({"no.such": "1"}) == 40
    assert change({"segment.ms": "500", "no.such": "1"}) == 40, "all of it or nothing"
    assert change({"no.such": None}) is None
    assert own(side, name) == {"retention.ms": "77"}
    assert change({"segment.ms": "500", "cleanup.policy": "compact,delete"}) is None
    until(lambda: own(side, name).get("segment.ms") == "500", "the change")
    assert own(side, name).keys() == {"retention.ms", "segment.ms", "cleanup.policy"}
    assert change({"segment.ms": None, "retention.ms": None}) is None
    until(lambda: own(side, name) == {"cleanup.policy": "compact,delete"}, "the change")
    others = {missing: 3, TopicName("a/b"): 17, TopicName(""): 42}
    answers = side.admin.alter_configs(
        {**{other: {"retention.ms": "5"} for other in others}, name: {}}
    )
    assert code(answers) == others
    assert side.admin.alter_configs({}) == {}


def own(side: Side, name: TopicName) -> dict[str, str | None]:
    """Return the settings of the topic itself."""
    found = side.admin.describe_configs([name])[name]
    assert not isinstance(found, BrokerError)
    return {key: entry.value for key, entry in found.items() if entry.is_own}


VALUES: dict[str, dict[str, int | None]] = {
    "min.cleanable.dirty.ratio": {"2": 40, "0": None, "x": 40},
    "segment.bytes": {"5": 40, "1048576": None, "99999999999": 40},
    "message.timestamp.type": {"foo": 40, "LogAppendTime": None, "logappendtime": 40},
    "preallocate": {"maybe": 40, "TRUE": None},
    "compression.gzip.level": {"77": 40, "0": 40, "-1": None, "9": None},
    "compression.lz4.level": {"18": 40, "1": None},
    "compression.zstd.level": {"30": 40, "-5": None},
    "compression.type": {"zip": 40, "uncompressed": None, "none": 40},
    "cleanup.policy": {"delete,": 40, "compact,compact": None, "bad": 40},
    "retention.bytes": {"-7": None, "1.5": 40},
    "retention.ms": {" 5 ": None, "-1": None, "-2": 40, "": 40, "x": 40},
    "delete.retention.ms": {"-1": 40, "0": None},
    "max.compaction.lag.ms": {"0": 40},
    "min.compaction.lag.ms": {"-1": 40, "99": None},
    "max.message.bytes": {"-5": 40, "0": None},
    "message.timestamp.before.max.ms": {"-1": 40, "0": None},
    "local.retention.ms": {"-3": 40},
    "local.retention.bytes": {"-3": 40},
    "leader.replication.throttled.replicas": {"abc": 40, "*": None, "0:1,1:1": None, "": None},
    "flush.messages": {"0": 40, "1": None},
    "flush.ms": {"-1": 40},
    "file.delete.delay.ms": {"-1": 40},
    "index.interval.bytes": {"-1": 40},
    "segment.index.bytes": {"3": 40, "4": None},
    "segment.jitter.ms": {"-1": 40},
    "segment.ms": {"0": 40, "1": None},
    "min.insync.replicas": {"0": 40, "2": None},
    "unclean.leader.election.enable": {"TRUE": None, "yes": 40},
}


def values_of_settings_are_taken_or_refused(side: Side) -> None:
    name = made(side)
    for key, values in VALUES.items():
        for value, error in values.items():
            answers = side.admin.alter_configs({name: {key: value}}, validate_only=True)
            assert code(answers[name]) == error, f"{key}={value!r}"


def brokers_are_told(side: Side) -> None:
    assert side.admin.cluster_id() == side.admin.cluster_id() != ""
    [broker] = side.admin.brokers()
    assert (broker.broker_id, broker.host, broker.rack) == (1, "127.0.0.1", None)
    found = side.admin.describe_broker_configs()
    assert side.admin.describe_broker_configs(broker.broker_id) == found
    assert {key: found[key].value for key in BROKER_SETTINGS} == BROKER_SETTINGS
    assert {found[key].source for key in BROKER_SETTINGS} == {ConfigSource.DEFAULT}


def offsets_are_listed(side: Side) -> None:
    name, missing = made(side, 2), fresh_name("missing")

    def listed(spec: int, number: int = 0) -> tuple[int, int, int]:
        row = side.admin.list_offsets({at(name, number): spec})[at(name, number)]
        assert isinstance(row, ListedOffset)
        return row.offset, row.timestamp_ms, row.leader_epoch

    nothing = (-1, -1, -1)
    assert [listed(spec) for spec in (EARLIEST, LATEST)] == [(0, -1, 0)] * 2
    assert [listed(spec) for spec in (0, NOW_MS)] == [nothing] * 2
    for batch in ([0, 10, 20], [15, 5], [40, 30]):
        side.append(name, [NOW_MS + each for each in batch])
    assert [listed(spec) for spec in (EARLIEST, LATEST)] == [(0, -1, 0), (7, -1, 0)]
    places = {0: 0, 5: 1, 12: 2, 20: 2, 21: 5, 30: 5, 40: 5}
    times = {0: 0, 1: 10, 2: 20, 5: 40}
    for since, offset in places.items():
        assert listed(NOW_MS + since) == (offset, NOW_MS + times[offset], 0), since
    assert listed(0) == (0, NOW_MS, 0)
    assert listed(NOW_MS + 41) == nothing
    assert listed(LATEST, 1) == (0, -1, 0)
    wrong = {at(name, 7): 5, at(missing): 3, at(TopicName("a/b")): 17}
    answers = side.admin.list_offsets(dict.fromkeys([*wrong, at(name)], LATEST))
    assert {p: code(answers[p]) for p in wrong} == wrong
    assert answers[at(name)] == ListedOffset(Offset(7), -1, LeaderEpoch(0))
    assert code(side.admin.list_offsets({at(name): -7})) == {at(name): 35}
    ends = side.admin.list_log_ends([at(name), at(name, 1), *wrong])
    assert code(ends) == {at(name): 7, at(name, 1): 0, **wrong}
    assert side.admin.list_offsets({}) == {}


def records_are_deleted_up_to_the_end_and_no_further(side: Side) -> None:
    name, missing = made(side, 2), fresh_name("missing")
    for _ in range(2):
        side.append(name, [NOW_MS, NOW_MS + 1, NOW_MS + 2])

    def delete(before: int) -> object:
        return code(side.admin.delete_records({at(name): Offset(before)})[at(name)])

    def bounds() -> list[int]:
        answers = [side.admin.list_offsets({at(name): s})[at(name)] for s in (EARLIEST, LATEST)]
        return [row.offset for row in answers if isinstance(row, ListedOffset)]

    assert [delete(7), delete(-2)] == [1, 1]
    assert (delete(4), delete(2), bounds()) == (4, 4, [4, 6])
    first = side.admin.list_offsets({at(name): 0})[at(name)]
    assert first == ListedOffset(Offset(4), NOW_MS + 1, LeaderEpoch(0))
    assert (delete(-1), bounds()) == (6, [6, 6])
    assert side.admin.list_offsets({at(name): 0})[at(name)] == ListedOffset(
        Offset(-1), -1, LeaderEpoch(-1)
    )
    side.append(name, [NOW_MS])
    assert bounds() == [6, 7]
    wrong = {at(name, 7): 5, at(missing): 3}
    answers = side.admin.delete_records({**dict.fromkeys(wrong, Offset(0)), at(name, 1): Offset(0)})
    assert code(answers) == {**wrong, at(name, 1): 0}
    compacted = made(side, cleanup_policy="compact")
    assert code(side.admin.delete_records({at(compacted): Offset(0)})) == {at(compacted): 44}
    both = made(side, cleanup_policy="compact,delete")
    assert code(side.admin.delete_records({at(both): Offset(0)})) == {at(both): 0}


def batches_are_appended_as_they_are(side: Side) -> None:
    name, missing = made(side, 2), fresh_name("missing")
    one = encode_batch([NewRecord(None, None, NOW_MS, (("a", None),))])
    two = encode_batch([(b"k", b"v", NOW_MS)] * 2)
    assert side.admin.append({at(name): two, at(name, 1): one}) == {at(name): 0, at(name, 1): 0}
    assert side.admin.append({at(name): one}) == {at(name): 2}
    there = listed(side, [at(name), at(name, 1)]).items()
    ends = {partition: each.offset for partition, each in there}
    assert ends == {at(name): 3, at(name, 1): 1}
    damaged = bytearray(two)
    damaged[-1] ^= 1
    wrong = {at(name): bytes(damaged), at(name, 7): one, at(missing): one}
    assert code(side.admin.append(wrong)) == {at(name): 2, at(name, 7): 5, at(missing): 3}


def listed(side: Side, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ListedOffset]:
    answers = side.admin.list_offsets(dict.fromkeys(partitions, LATEST))
    return {one: row for one, row in answers.items() if isinstance(row, ListedOffset)}


def ends_of_leader_epochs_are_told(side: Side) -> None:
    name, missing = made(side), fresh_name("missing")

    def end(epoch: int) -> object:
        return side.admin.epoch_ends({at(name): epoch})[at(name)]

    unknown = EpochEnd(LeaderEpoch(-1), Offset(-1))
    assert end(0) == EpochEnd(LeaderEpoch(0), Offset(0))
    side.append(name, [NOW_MS] * 4)
    assert end(0) == EpochEnd(LeaderEpoch(0), Offset(4))
    assert [end(epoch) for epoch in (1, 5, -1)] == [unknown] * 3
    assert end(-2) == EpochEnd(LeaderEpoch(-2), Offset(0))
    side.admin.delete_records({at(name): Offset(3)})
    assert (end(0), end(1)) == (EpochEnd(LeaderEpoch(0), Offset(4)), unknown)
    wrong = {at(name, 7): 5, at(missing): 3}
    assert code(side.admin.epoch_ends(dict.fromkeys(wrong, 0))) == wrong


def transactions_that_are_open_are_told(side: Side) -> None:
    name, missing = made(side, 2), fresh_name("missing")
    side.append(name, [NOW_MS])
    assert side.admin.open_transactions([at(name)]) == {at(name): ()}
    with side.transaction(name, f"writer of {name}"):
        until(lambda: side.admin.open_transactions([at(name)])[at(name)] != (), "it is open")
        answers = side.admin.open_transactions([at(name), at(name, 1)])
        found = answers[at(name)]
        assert not isinstance(found, BrokerError)
        [one] = found
        assert (one.first, one.last_timestamp_ms) == (1, NOW_MS)
        assert answers[at(name, 1)] == ()
        stranger = ProducerId(one.producer_id + 10**6)
        asked = [one.producer_id, stranger]
        assert side.admin.transactional_ids(asked) == {one.producer_id: f"writer of {name}"}
    until(lambda: side.admin.open_transactions([at(name)]) == {at(name): ()}, "it has ended")
    wrong = {at(name, 7): 5, at(missing): 3}
    assert code(side.admin.open_transactions(wrong)) == wrong
    assert side.admin.transactional_ids([]) == {}


def producers_get_ids_of_their_own(side: Side) -> None:
    found = [side.admin.init_producer_id() for _ in range(3)]
    assert len(set(found)) == 3
    assert min(found) >= 0
    assert side.admin.check_markers() is None


SCRIPTS: Sequence[Callable[[Side], None]] = (
    topics_are_made_or_refused,
    a_name_twice_in_a_request_is_refused_and_its_neighbour_made,
    what_is_only_validated_is_not_made,
    topics_are_described,
    partitions_only_grow,
    a_topic_made_again_is_another,
    settings_are_described_with_where_they_come_from,
    equal_settings_are_one_mapping,
    settings_are_changed_one_by_one,
    values_of_settings_are_taken_or_refused,
    brokers_are_told,
    offsets_are_listed,
    records_are_deleted_up_to_the_end_and_no_further,
    batches_are_appended_as_they_are,
    ends_of_leader_epochs_are_told,
    transactions_that_are_open_are_told,
    producers_get_ids_of_their_own,
)
