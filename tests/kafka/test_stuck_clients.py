"""Questions about own topics without an answer, on a real broker: nothing is lost or read twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from support.clusters import ClusterPair, fresh_name
from support.links import wait_for

from heliostat.clusters import log_reader
from heliostat.clusters.admin import ClusterAdmin
from heliostat.clusters.byte_topic import ByteRecord, ByteTopic
from heliostat.clusters.keyed_topic import KeyedTopic, ensure_own_topics
from heliostat.clusters.one_partition import OnePartitionTopic
from heliostat.clusters.recent_records import AN_HOUR, RecentRecords
from heliostat.clusters.wire.brokers import BrokerFacts
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.lent import LentClusters
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import LinkName, Offset, TopicName
from heliostat.offsets.store import OffsetMaps
from heliostat.state_topics import offsets_topic

pytestmark = [pytest.mark.kafka, pytest.mark.core]


@pytest.fixture
def bootstrap(cluster_pair: ClusterPair) -> list[str]:
    return cluster_pair.target.bootstrap.split(",")


class Silent:
    """Brokers that answer nothing."""

    def knows(self, _: Any) -> bool:
        return True

    def known(self, *_: Any) -> Any:
        raise ConnectionLost("not answered")

    ask_any = known

    def facts(self) -> BrokerFacts:
        return BrokerFacts()

    def close(self) -> None:
        pass


@contextmanager
def unanswered(topic: OnePartitionTopic, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no broker answer this reader meanwhile."""
    assert topic._log is not None
    clusters = topic._clusters
    silent = LentClusters(clusters.access, DialSettings("test"))
    silent._idle.append(WireCluster(clusters.access, DialSettings("test")))
    silent._idle[0].brokers = Silent()  # type: ignore[assignment]  # a stand-in
    with monkeypatch.context() as patch, closing(silent):
        patch.setattr(log_reader, "PATIENCE_S", 0.3)
        patch.setattr(topic._log._led, "_clusters", silent)
        yield


def test_reading_continues_at_its_position_after_a_question_without_answer(
    bootstrap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given two rows that are read / when one question fails / then the rest, once."""
    with KeyedTopic(bootstrap, fresh_name("state")) as topic, topic.reader() as reader:
        topic.ensure()
        topic.write_many({"a": {"n": 1}, "b": {"n": 2}})
        assert reader.read_all() == {"a": {"n": 1}, "b": {"n": 2}}
        topic.write("c", {"n": 3})
        with unanswered(reader, monkeypatch), pytest.raises(ConnectionLost):
            reader.poll()
        changes = wait_for("the change since", reader.poll)
        assert [(change.key, change.value) for change in changes] == [("c", {"n": 3})]


def test_the_remaining_rows_of_a_byte_topic_are_read(
    bootstrap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a byte topic read in part / when one question fails / then the rest, once."""
    with ByteTopic(bootstrap, TopicName(fresh_name("bytes")), "test") as topic:
        with ClusterAdmin(bootstrap) as admin:
            assert topic.ensure(admin)
        topic.write([ByteRecord(b"k", b"%d" % number) for number in range(3)])
        assert [record.value for record in topic.read_all()] == [b"0", b"1", b"2"]
        topic.write([ByteRecord(b"k", b"3")])
        with unanswered(topic, monkeypatch), pytest.raises(ConnectionLost):
            topic.end()
        assert topic.end() == 4
        assert topic.position() == 3
        found = wait_for("what came since", lambda: topic.poll(0.5))
        assert [record.value for record in found] == [b"3"]
        topic.close()  # after closing it, reading starts over: rows may have been lost
        assert topic.position() == 0
        found = wait_for("all of it", lambda: topic.poll(0.5))
        assert [record.value for record in found] == [b"0", b"1", b"2", b"3"]


def test_the_remaining_recent_reports_are_read(
    bootstrap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given one report read / when the next poll fails / then only later reports are read."""
    recent = RecentRecords(bootstrap, fresh_name("progress"))
    with ClusterAdmin(bootstrap) as admin:
        ensure_own_topics(admin, {recent.topic: AN_HOUR})
    with closing(recent), ByteTopic(bootstrap, recent.topic, "test") as writer:
        writer.write([ByteRecord(b"k", b'{"n": 1}')])
        recent.seek(0)
        assert [each.value for each in recent.read_to(Offset(1))] == [{"n": 1}]
        writer.write([ByteRecord(b"k", b'{"n": 2}')])
        with unanswered(recent, monkeypatch), pytest.raises(ConnectionLost):
            recent.poll(0.1)
        found = wait_for("what came since", lambda: recent.poll(0.5))
        assert [each.value for each in found] == [{"n": 2}]


def test_maps_that_are_deleted_while_they_are_read_are_not_waited_for(
    bootstrap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a driver that has looked where the maps end / when somebody deletes them then / then

    its look ends with an error soon: the driver's next turn finds that they are gone.
    """
    link = LinkName(fresh_name("link"))
    name = TopicName(offsets_topic(link))
    with ByteTopic(bootstrap, name, "test") as rows, ClusterAdmin(bootstrap) as admin:
        rows.ensure(admin)
        rows.write([ByteRecord(b"x", b"no row of ours")])
        with closing(OffsetMaps(bootstrap, link)) as maps:
            maps.refresh()
            rows.write([ByteRecord(b"y", b"nor this")])
            end_of = maps._topic.end

            def end() -> int:
                found = end_of()
                assert admin.delete_topics([name]) == {name: None}
                wait_for("no topic", lambda: admin.describe_topics([name])[name].error)
                return found

            monkeypatch.setattr(maps._topic, "end", end)
            with pytest.raises((BrokerError, ConnectionLost)):
                maps.refresh()
