"""Groups of real brokers, published turn by turn; consumers that move read exactly the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from kafka.admin import KafkaAdminClient
from support.clusters import ClusterPair, fresh_name, until
from support.group_sides import Reader, Sides, write_values
from support.mirror_jvm import MirrorJvm
from support.records import write_transaction
from support.streams_member import CLIENT_ID, StreamsMember

from heliostat.clock import SystemClock
from heliostat.clusters.admin import CommittedOffset
from heliostat.errors import BrokerError, GroupsFailed, LinkTakenOver
from heliostat.groups.naming import GroupNaming
from heliostat.groups.progress import ProgressGroup
from heliostat.groups.values import Reason
from heliostat.invariants import group_offset_may_be_published
from heliostat.names import GroupId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.landed import Landed
from heliostat.offsets.offset_map import Break
from heliostat.operate import groups as group_operations

pytestmark = [pytest.mark.kafka, pytest.mark.core]

VALUES = [b"%03d" % number for number in range(100)]


@pytest.fixture
def sides(cluster_pair: ClusterPair) -> Iterator[Sides]:
    """A topic of a hundred records at both sides."""
    with Sides(cluster_pair) as made:
        write_values(made.source_bootstrap, made.topic, VALUES)
        write_values(made.target_bootstrap, made.mirror, VALUES)
        yield made


def only(group: str) -> dict[str, object]:
    return {"include": [group]}


def test_a_consumer_that_moves_reads_the_next_record(sides: Sides) -> None:
    """Given a consumer stopped at the source / when started at the target / then it continues."""
    group = fresh_name("group")
    with Reader(sides.source_bootstrap, sides.topic, group) as reader:
        assert reader.read(37) == VALUES[:37]
        reader.commit(37)
    sides.sync(**only(group)).run()
    assert (sides.row(group).reason, sides.row(group).reread_records) == (Reason.SYNCED, 0)
    with Reader(sides.target_bootstrap, sides.mirror, group) as reader:
        assert reader.read(63) == VALUES[37:]


@pytest.mark.thorough
def test_a_renamed_group_goes_on_beside_one_of_the_old_name(sides: Sides) -> None:
    """Given `groups.naming` and a group of the same name at the target / when a consumer moves to

    the new name / then it reads the next record, and the target's own group stays where it was.
    """
    sides.naming = GroupNaming("east.${group}")
    group = fresh_name("group")
    renamed = f"east.{group}"
    sides.commit(group, 77, at_target=True)
    sides.commit(group, 37, "mine")
    sides.sync(**only(group)).run()
    assert (sides.row(group).reason, sides.row(group).reread_records) == (Reason.SYNCED, 0)
    assert sides.at_target(renamed) == CommittedOffset(Offset(37), "mine")
    with Reader(sides.target_bootstrap, sides.mirror, renamed) as reader:
        assert reader.read(63) == VALUES[37:]
    sides.commit(group, 20)
    sides.sync(**only(group)).run()
    assert sides.at_target(renamed) == CommittedOffset(Offset(20)), "a reset, by a new driver"
    assert sides.at_target(group) == CommittedOffset(Offset(77))


def test_a_transactional_topic_is_translated(cluster_pair: ClusterPair) -> None:
    """Given markers and aborted records at the source / when moved / then the next record."""
    with Sides(cluster_pair) as sides:
        # 0..9 plain; 10..14 committed, 15 its marker; 16..19 aborted, 20 its marker; 21..30 plain
        write_values(sides.source_bootstrap, sides.topic, VALUES[:10])
        write_transaction(sides.source_bootstrap, sides.topic, 5, commit=True)
        write_transaction(sides.source_bootstrap, sides.topic, 4, commit=False)
        write_values(sides.source_bootstrap, sides.topic, VALUES[10:20])
        committed = [b"tx%d" % number for number in range(5)]
        all_values = [*VALUES[:10], *committed, *VALUES[10:20]]
        write_values(sides.target_bootstrap, sides.mirror, all_values)
        sides.breaks = [Break(15, 21)]
        for stop, goes_on_at in ((12, 12), (15, 15), (18, 18)):
            group = fresh_name("group")
            with Reader(sides.source_bootstrap, sides.topic, group) as reader:
                assert reader.read(stop) == all_values[:stop]
                reader.commit(stop)
            sides.sync(**only(group)).run()
            assert sides.at_target(group) == CommittedOffset(Offset(goes_on_at))
            with Reader(sides.target_bootstrap, sides.mirror, group) as reader:
                assert reader.read(25 - stop) == all_values[stop:]


def test_no_offset_beyond_the_mirrors_end_is_published(sides: Sides) -> None:
    """Given a mirror that lags / when the group is ahead / then its end, which follows later."""
    group = fresh_name("group")
    write_values(sides.source_bootstrap, sides.topic, VALUES[:20])
    sides.commit(group, 110)
    sync = sides.sync(**only(group))
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(100))
    assert group_offset_may_be_published(100, 100, has_members=False)
    assert (sides.row(group).reason, sides.row(group).reread_records) == (Reason.NOT_LANDED, 10)
    write_values(sides.target_bootstrap, sides.mirror, VALUES[:5])
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(105))
    write_values(sides.target_bootstrap, sides.mirror, VALUES[5:20])
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(110))
    assert sides.row(group).reason is Reason.SYNCED


def test_progress_is_committed_at_the_source_while_its_group_has_no_members(sides: Sides) -> None:
    """Given a link that has copied / then its group says so, unless somebody consumes by it."""
    group, foreign = GroupId(fresh_name("group")), GroupId(fresh_name("group"))
    place = TopicPartition(TopicName(sides.topic), PartitionId(0))
    landed = {place: Landed(60), TopicPartition(TopicName("gone"), PartitionId(0)): Landed(1)}

    def progress(name: GroupId) -> ProgressGroup:
        return ProgressGroup(
            name,
            LinkName("l"),
            sides.source,
            landed=lambda: landed,
            mirrored=lambda: [place],
            clock=SystemClock(),
            guard=lambda: None,
        )

    of_link = progress(group)
    of_link.turn()
    row = CommittedOffset(Offset(60), "heliostat link l")
    assert sides.source.committed_offsets([group])[group] == {place: row}
    assert not sides.source.list_groups().groups[group].has_members
    with Reader(sides.source_bootstrap, sides.topic, group) as reader:
        reader.join()
        landed[place] = Landed(90)
        with pytest.raises(GroupsFailed, match="has members"):
            of_link.turn()
    sides.commit(foreign, 5)
    with pytest.raises(GroupsFailed, match="not written over"):
        progress(foreign).turn()


def test_a_group_with_members_at_the_target_is_held_back_until_empty(sides: Sides) -> None:
    group = fresh_name("group")
    sides.commit(group, 10)
    sync = sides.sync(**only(group))
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(10))
    with Reader(sides.target_bootstrap, sides.mirror, group) as reader:
        reader.join()
        sides.commit(group, 60)
        for _ in range(2):
            sync.run()
            assert sides.row(group).reason is Reason.ACTIVE_AT_TARGET
            assert sides.at_target(group) == CommittedOffset(Offset(10))
        seen = len(reader.read(3))
        assert reader.seen == VALUES[10 : 10 + seen], "nobody moved it"
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(60))


@pytest.mark.thorough
def test_a_broker_refuses_a_commit_for_a_group_that_was_joined_meanwhile(sides: Sides) -> None:
    """Given a group listed as empty / when a member has joined / then the broker refuses."""
    group = fresh_name("group")
    sides.commit(group, 10)
    with Reader(sides.target_bootstrap, sides.mirror, group) as late:

        def somebody_joins() -> None:
            if not late.seen:
                late.join()

        sides.sync(somebody_joins, **only(group)).run()
        assert sides.row(group).reason is Reason.ACTIVE_AT_TARGET
        assert "just joined" in sides.row(group).why
        assert sides.at_target(group) is None


def test_a_commit_in_between_is_not_overwritten(sides: Sides) -> None:
    """Given a plan / when a consumer at the target commits before it is applied / then kept."""
    group = fresh_name("group")
    sides.commit(group, 10)
    sync = sides.sync(lambda: sides.commit(group, 90, at_target=True), **only(group))
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(90))
    assert "has just moved" in sides.row(group).why
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(90))
    assert sides.row(group).reason is Reason.MOVED_AT_TARGET


@pytest.mark.thorough
def test_a_reset_is_followed_also_by_a_restarted_driver(sides: Sides) -> None:
    group = fresh_name("group")
    sides.commit(group, 80, "first")
    sides.sync(**only(group)).run()
    sides.commit(group, 20, "back")
    sides.sync(**only(group)).run()
    assert sides.at_target(group) == CommittedOffset(Offset(20), "back")
    assert sides.row(group).reason is Reason.SYNCED


@pytest.mark.thorough
def test_progress_of_a_consumer_at_the_target_is_not_reset(sides: Sides) -> None:
    """Given published offsets / when a consumer there moved on / then a reset leaves them alone."""
    group = fresh_name("group")
    sides.commit(group, 30)
    sides.sync(**only(group)).run()
    with Reader(sides.target_bootstrap, sides.mirror, group) as reader:
        reader.read(20)
        reader.commit(20)
    sides.commit(group, 5)
    sync = sides.sync(**only(group))
    sync.run()
    assert sides.at_target(group).offset == 50  # type: ignore[union-attr] # it read so far
    assert sides.row(group).reason is Reason.MOVED_AT_TARGET
    sides.commit(group, 70)
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(70)), "the source is further on"


@pytest.mark.thorough
def test_an_offset_reset_at_the_target_stays(sides: Sides) -> None:
    group = fresh_name("group")
    sides.commit(group, 30)
    sync = sides.sync(**only(group))
    sync.run()
    sides.commit(group, 3, at_target=True)
    sides.commit(group, 40)
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(3))
    assert sides.row(group).reason is Reason.REWOUND_AT_TARGET


def test_a_fenced_link_publishes_nothing(sides: Sides) -> None:
    group = fresh_name("group")
    sides.commit(group, 30)

    def refuse() -> None:
        raise LinkTakenOver("another one owns it")

    with pytest.raises(LinkTakenOver):
        sides.sync(refuse, **only(group)).run()
    assert sides.at_target(group) is None


@pytest.mark.thorough
def test_deleted_and_recreated_topics_are_left_out(sides: Sides) -> None:
    group = fresh_name("group")
    sides.commit(group, 30)
    kept = sides.record
    for change, words in (
        ({"source_id": sides.record.target_id}, "source topic was deleted and recreated"),
        ({"target_id": sides.record.source_id}, "target topic was deleted and recreated"),
        ({"target": fresh_name()}, "target topic is gone"),
    ):
        sides.record = replace(kept, **change)
        sides.sync(**only(group)).run()
        assert sides.row(group).reason is Reason.NOT_MIRRORED
        assert words in sides.row(group).why
    sides.record = kept
    assert sides.at_target(group) is None


@pytest.mark.thorough
def test_rows_of_groups_deleted_at_both_sides_are_removed(sides: Sides) -> None:
    """Given a published group / when deleted at both sides / then its row goes, not before."""
    group = GroupId(fresh_name("group"))
    sides.commit(group, 30)
    sides.sync(**only(group)).run()
    delete(sides.source_bootstrap, group)
    again = sides.sync(**only(group))
    again.run()
    assert sides.at_target(group) == CommittedOffset(Offset(30)), "published offsets stay"
    assert group in again._memory.rows
    delete(sides.target_bootstrap, group)
    again.run()
    assert group not in again._memory.rows
    after = sides.sync(**only(group))
    after.run()
    assert group not in after._memory.rows


def delete(bootstrap: str, group: GroupId) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        assert admin.delete_groups([group]) == {group: "OK"}


@pytest.mark.thorough
def test_idle_groups_are_polled_rarely(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    group = fresh_name("group")
    sides.commit(group, 30)
    monkeypatch.setattr("heliostat.groups.followed.IDLE_AFTER_S", 0.0)
    sync = sides.sync(**only(group))
    sync.run()
    assert sync.report()["looked_at"] == 1
    sync.run()  # what was published is seen once more, or not at all
    sync.run()
    assert sync.report()["looked_at"] == 0
    assert sync.report()["reasons"] == {"SYNCED": 1}
    sides.commit(group, 31)
    monkeypatch.setattr("heliostat.groups.followed.IDLE_LOOK_S", 0.0)
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(31))


@pytest.mark.thorough
def test_empty_groups_are_followed_only_where_wanted(sides: Sides) -> None:
    group = fresh_name("group")
    sides.commit(group, 30)
    sync = sides.sync(states=["active"], **only(group))
    sync.run()
    assert sides.at_target(group) is None
    with Reader(sides.source_bootstrap, sides.topic, group) as reader:
        reader.join()
        sync.run()
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(30)), "it was active just now"


@pytest.mark.thorough
def test_groups_of_the_new_protocol(sides: Sides) -> None:
    """Given Java consumers of KIP-848 / when moved / then the next record, never while active."""
    group = fresh_name("group")
    with MirrorJvm() as java:
        reader = JavaReader(java, sides.source_bootstrap, sides.topic, group)
        assert reader.read(25)[:25] == VALUES[:25]
        reader.close(25)
        assert sides.source.list_groups().groups[GroupId(group)].kind == "consumer"
        sync = sides.sync(**only(group))
        sync.run()
        assert sides.row(group).reason is Reason.SYNCED
        reader = JavaReader(java, sides.target_bootstrap, sides.mirror, group)
        assert reader.read(10)[:10] == VALUES[25:35]
        sides.commit(group, 60)
        sync.run()
        assert sides.row(group).reason is Reason.ACTIVE_AT_TARGET
        here = sides.target.list_groups()
        (member,) = group_operations._members(sides.target, here, [GroupId(group)])[GroupId(group)]
        assert member.client_id.startswith(f"consumer-{group}")
        assert member.host == "/127.0.0.1"
        wrong = sides.target.describe_members([GroupId(group)])[GroupId(group)]
        assert isinstance(wrong, BrokerError)  # so it is asked by its kind
        reader.close(35)
        assert sides.at_target(group).offset == 35  # type: ignore[union-attr] # it committed
        sync.run()
        assert sides.at_target(group) == CommittedOffset(Offset(60))
        listed = sides.target.list_groups().groups[GroupId(group)]
        assert (listed.kind, listed.has_members) == ("consumer", False)


@pytest.mark.thorough
def test_groups_of_kafka_streams(sides: Sides) -> None:
    """Given an application of KIP-1071 / when it moves / then it goes on where it had committed."""
    group = GroupId(fresh_name("app"))
    with StreamsMember(sides.source_bootstrap, sides.topic, group) as application:
        assert application.committed() is None
        application.commit(CommittedOffset(Offset(40), "partition time"))
        listed = sides.source.list_groups().groups[group]
        assert (listed.kind, listed.protocol, listed.has_members) == ("streams", "streams", True)
        sync = sides.sync(**only(group))
        sync.run()
    assert sides.row(group).reason is Reason.SYNCED
    assert sides.at_target(group) == CommittedOffset(Offset(40), "partition time")
    with StreamsMember(sides.target_bootstrap, sides.mirror, group) as application:
        assert application.committed() == 40
        sides.commit(group, 60)
        sync.run()
        assert sides.row(group).reason is Reason.ACTIVE_AT_TARGET
        here = sides.target.list_groups()
        (member,) = group_operations._members(sides.target, here, [group])[group]
        assert (member.client_id, member.host) == (CLIENT_ID, "/127.0.0.1")
        application.commit(CommittedOffset(Offset(45)))
    sync.run()
    assert sides.at_target(group) == CommittedOffset(Offset(60)), "a streams group without members"


class JavaReader:
    """Java's own consumer, with `group.protocol=consumer`."""

    def __init__(self, java: MirrorJvm, bootstrap: str, topic: str, group: str) -> None:
        self._jvm = java.jvm
        strings = "org.apache.kafka.common.serialization.StringDeserializer"
        settings = java.jvm.java.util.Properties()
        for key, value in {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "max.poll.records": "5",
            "key.deserializer": strings,
            "value.deserializer": strings,
        }.items():
            settings.put(key, value)
        self._topic = topic
        self._consumer = java.jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        self._consumer.subscribe(java.jvm.java.util.List.of(topic))
        self.seen: list[bytes] = []

    def read(self, count: int) -> list[bytes]:
        until(self._enough(count), lambda: f"{count} records, there are {len(self.seen)}")
        return self.seen

    def _enough(self, count: int):
        def poll() -> bool:
            found = self._consumer.poll(self._jvm.java.time.Duration.ofMillis(200))
            self.seen += [record.value().encode() for record in found.iterator()]
            return len(self.seen) >= count

        return poll

    def close(self, offset: int) -> None:
        """Commit an offset and leave."""
        partition = self._jvm.org.apache.kafka.common.TopicPartition(self._topic, 0)
        commit = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(offset)
        self._consumer.commitSync(self._jvm.java.util.Map.of(partition, commit))
        self._consumer.close()
