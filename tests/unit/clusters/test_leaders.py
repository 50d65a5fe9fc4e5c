"""Who leads is not concluded from one broker's word; a deposed leader is not believed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from heliostat.clusters.admin import PartitionInfo, TopicInfo, leaders, topic_calls
from heliostat.clusters.admin.leaders import Answers, OffsetLeaders
from heliostat.clusters.kafka_codes import LEADER_NOT_AVAILABLE
from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.leaders import Leader, TopicLeaders, agreed_leaders, current_leaders
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, LeaderEpoch, Offset, PartitionId, TopicName, TopicPartition

T = TopicPartition(TopicName("t"), PartitionId(0))
OLD, NEW, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
UNKNOWN_LEADER_EPOCH = 75


def topic(leader: int | None, epoch: int, topic_id: int = 7) -> TopicInfo:
    info = PartitionInfo(
        PartitionId(0), None if leader is None else BrokerId(leader), LeaderEpoch(epoch), (), ()
    )
    return TopicInfo(T.topic, UUID(int=topic_id), (info,), False)


@dataclass
class Brokers:
    """What each broker says of the leader, and where its own log ends as it believes to lead.

    Any broker's metadata are those of the first. One that hangs answers once `released` is set.
    """

    views: dict[BrokerId, TopicInfo]
    ends: dict[BrokerId, tuple[int, int]]
    """Epoch and log end."""
    hang: set[BrokerId] = field(default_factory=set)
    dead: set[BrokerId] = field(default_factory=set)
    released: threading.Event = field(default_factory=threading.Event)
    asked: list[BrokerId] = field(default_factory=list)
    """Brokers asked for offsets."""

    def metadata(self, _: object) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=broker) for broker in self.views])

    def describe(
        self, _: object, names: Iterable[TopicName], broker: BrokerId | None = None
    ) -> dict[TopicName, TopicInfo]:
        assert set(names) == {T.topic}
        if broker in self.hang:
            self.released.wait(30.0)
        if broker in self.dead:
            raise ConnectionLost("it is dead")
        return {T.topic: self.views[broker or OLD]}

    def end(
        self, table: OffsetLeaders, broker: BrokerId, partitions: list[TopicPartition]
    ) -> Answers[Offset]:
        """Answer as a broker does that compares epochs (KIP-320)."""
        self.asked.append(broker)
        epoch, end = self.ends[broker]
        if table.epochs.of(T) > epoch:
            refused = BrokerError("it leads no longer", kafka_code=UNKNOWN_LEADER_EPOCH)
            return dict.fromkeys(partitions, refused)
        return dict.fromkeys(partitions, Offset(end))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Given a deposed leader that goes on answering / its successor has taken more."""
    cluster = Brokers(
        {OLD: topic(OLD, 4), NEW: topic(NEW, 5), THIRD: topic(NEW, 5)},
        {OLD: (4, 413), NEW: (5, 422)},
    )
    monkeypatch.setattr(topic_calls, "describe", cluster.describe)
    yield cluster
    cluster.released.set()


def ask(cluster: Brokers, table: OffsetLeaders, *, confirmed: bool = False) -> Any:
    answers = table.ask_each([T], lambda b, some: cluster.end(table, b, some), confirmed=confirmed)
    return answers[T]


def leaders_of(cluster: Any) -> OffsetLeaders:
    return OffsetLeaders(cluster)


def test_a_first_look_believes_a_deposed_leader_and_a_second_does_not(brokers: Brokers) -> None:
    table = leaders_of(brokers)
    assert ask(brokers, table) == 413
    assert ask(brokers, table, confirmed=True) == 422
    assert ask(brokers, table) == 422, "the newer leader is remembered"


def test_a_broker_that_hangs_or_is_dead_is_left_out(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders, "LOOK_S", 0.1)
    brokers.hang, brokers.dead = {OLD}, {THIRD}
    assert ask(brokers, leaders_of(brokers), confirmed=True) == 422
    brokers.dead = {NEW, THIRD}
    with pytest.raises(ConnectionLost):
        ask(brokers, leaders_of(brokers), confirmed=True)


def test_who_knows_a_newer_epoch_is_refused_by_the_deposed_leader_and_finds_the_other(
    brokers: Brokers,
) -> None:
    table = leaders_of(brokers)
    table.epochs.take(T, str(UUID(int=7)), 5)
    assert ask(brokers, table) == 422
    assert brokers.asked == [NEW], "metadata of an older epoch are not believed either"


def test_a_leader_deposed_since_is_refused_once_metadata_name_another(brokers: Brokers) -> None:
    table = leaders_of(brokers)
    assert ask(brokers, table) == 413
    table.learn([topic(NEW, 5)])
    assert ask(brokers, table) == 422
    table.learn([topic(OLD, 4)])
    assert ask(brokers, table) == 422, "older metadata change nothing"


def test_no_leader_in_the_newest_epoch_is_no_answer_of_the_one_before(brokers: Brokers) -> None:
    brokers.views |= {NEW: topic(None, 6), THIRD: topic(None, 6)}
    answer = ask(brokers, leaders_of(brokers), confirmed=True)
    assert isinstance(answer, BrokerError)
    assert answer.kafka_code in {LEADER_NOT_AVAILABLE, UNKNOWN_LEADER_EPOCH}


def test_an_epoch_goes_down_only_with_another_topic() -> None:
    epochs = LeaderEpochs()
    assert epochs.of(T) == -1
    assert epochs.take(T, "a", 3)
    assert not epochs.take(T, "a", 2)
    assert epochs.take(T, "a", -1), "brokers without epochs say nothing"
    assert not epochs.take(T, "", 2), "an unknown id proves no other topic"
    assert epochs.of(T) == 3
    assert epochs.take(T, "b", 0)
    assert epochs.of(T) == 0


# -- as a lane's task sees them ----------------------------------------------------------------


def lane_view(broker: int, epoch: int, topic_id: int = 7, error: int = 0) -> Any:
    leader = Leader(BrokerId(broker), epoch, 0)
    return {T.topic: TopicLeaders(UUID(int=topic_id), error, {PartitionId(0): leader})}


def test_of_several_brokers_views_the_newest_leader_of_the_topic_that_most_know_counts() -> None:
    views = [
        lane_view(1, 9, topic_id=6),
        lane_view(2, 4),
        lane_view(3, 5),
        lane_view(3, 0, error=3),
    ]
    agreed = agreed_leaders(views)[T.topic]
    assert (agreed.topic_id, agreed.partitions[PartitionId(0)].broker) == (UUID(int=7), 3)
    gone = agreed_leaders([lane_view(1, 0, error=3), lane_view(2, 0, error=3)])[T.topic]
    assert gone.error == 3


def test_a_leader_of_an_epoch_that_has_ended_is_none() -> None:
    epochs = LeaderEpochs()
    newer, older = lane_view(2, 5)[T.topic], lane_view(1, 4)[T.topic]
    assert current_leaders(T.topic, newer, epochs) is newer
    deposed = current_leaders(T.topic, older, epochs).partitions[PartitionId(0)]
    assert (deposed.broker, deposed.error) == (-1, LEADER_NOT_AVAILABLE)
    assert current_leaders(T.topic, newer, epochs) is newer


class Control:
    """Stands for `Brokers`: each broker's metadata, of which the first is asked."""

    def __init__(self, *views: tuple[int, int]) -> None:
        self.views = views
        self.asked_all = 0

    def learn(self, *_: object) -> None: ...

    def ask_any(self, *_: object) -> Any:
        return metadata(*self.views[0])

    def ask_all(self, *_: object) -> Any:
        self.asked_all += 1
        return [metadata(*view) for view in self.views]


def metadata(broker: int, epoch: int) -> Any:
    row = SimpleNamespace(
        partition_index=0,
        leader_id=broker,
        leader_epoch=epoch,
        error_code=0,
        replica_nodes=[broker],
        offline_replicas=[],
    )
    one = SimpleNamespace(name=T.topic, topic_id=UUID(int=7), error_code=0, partitions=[row])
    return SimpleNamespace(brokers=[], topics=[one])


def test_metadata_that_name_an_older_leader_are_asked_of_all_brokers() -> None:
    cluster = WireCluster("127.0.0.1:1", DialSettings())
    brokers = Control((2, 5), (1, 4))
    cluster.brokers = brokers  # type: ignore[assignment]  # a stand-in

    def leader() -> int:
        return cluster.metadata([T.topic])[T.topic].partitions[PartitionId(0)].broker

    assert (leader(), brokers.asked_all) == (2, 0)
    brokers.views = ((1, 4), (2, 5))
    assert (leader(), brokers.asked_all) == (2, 1)
    brokers.views = ((1, 4), (1, 4))
    assert leader() == -1, "none that is left knows who leads now"
    brokers.views = ((3, 6), (1, 4))
    assert (leader(), brokers.asked_all) == (3, 2)
