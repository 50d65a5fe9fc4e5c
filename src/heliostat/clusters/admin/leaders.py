"""Leaders of partitions, which alone answer about offsets; a deposed one is not believed (KIP-320).

A broker's metadata may be out of date, and name a leader that has been deposed and does not know it
yet. So an epoch below the newest one is not believed, and requests carry the newest: who has been
deposed refuses them. A conclusion that would stop something takes a second look, which asks every
broker who leads, and believes the highest epoch.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from heliostat.clusters.admin import topic_calls
from heliostat.clusters.admin.caller import Caller
from heliostat.clusters.admin.values import PartitionInfo, TopicInfo
from heliostat.clusters.kafka_codes import LEADER_NOT_AVAILABLE
from heliostat.clusters.leader_epochs import LeaderEpochs, agreeing
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, LeaderEpoch, TopicName, TopicPartition, id_text
from heliostat.ops.asked import NoAnswerYet, PendingAnswer, asked_at_once

LEADER_LOOKUPS = 2  # the second after metadata that was stale
LOOK_S = 4.0
"""How long to wait for what brokers say about leaders; one that hangs is left out."""

_Answer = TypeVar("_Answer")
Answers = dict[TopicPartition, _Answer | BrokerError]


class Led(NamedTuple):
    """A partition's leader, and since which epoch it leads."""

    broker: BrokerId
    epoch: LeaderEpoch


class OffsetLeaders:
    """Leaders of partitions, as last seen.

    Parameters
    ----------
    caller
        Connection to the cluster.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._leaders: dict[TopicPartition, Led] = {}
        self.epochs = LeaderEpochs()
        """The newest that any answer has named."""
        self._learned: dict[TopicName, TopicInfo] = {}

    def learn(self, topics: Iterable[TopicInfo]) -> None:
        """Take the leaders that a broker's metadata names, unless newer ones are known."""
        for topic in topics:
            if self._learned.get(topic.name) is not topic:  # else its answer was the same bytes
                self._learned[topic.name] = topic
                for info in topic.partitions:
                    self._take(topic, info)

    def _take(self, topic: TopicInfo, info: PartitionInfo) -> bool:
        """Take a partition's leader; return False if a newer one is known."""
        partition = TopicPartition(topic.name, info.partition)
        if not self.epochs.take(partition, id_text(topic.topic_id), info.leader_epoch):
            return False
        if info.leader is not None:
            self._leaders[partition] = Led(info.leader, info.leader_epoch)
        elif partition in self._leaders and self._leaders[partition].epoch < info.leader_epoch:
            del self._leaders[partition]
        return True

    def ask_each(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[BrokerId, list[TopicPartition]], Answers[_Answer]],
        *,
        confirmed: bool = False,
    ) -> Answers[_Answer]:
        """Ask every leader once, and once more if leadership had moved meanwhile.

        The answer is an error if a partition has no leader, or its leader cannot be reached.

        Parameters
        ----------
        confirmed
            Whether every broker is asked who leads, at first: for conclusions.
        """
        pending = sorted(set(partitions))
        answers: Answers[_Answer] = {}
        if confirmed:
            for partition in pending:
                self._leaders.pop(partition, None)
            self.look_everywhere({partition.topic for partition in pending})
        for _ in range(LEADER_LOOKUPS):
            self._look_up([p for p in pending if p not in self._leaders], answers)
            led: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
            for partition in pending:
                if partition in self._leaders:
                    led[self._leaders[partition].broker].append(partition)
            asks = {leader: partial(_asked, ask, leader, those) for leader, those in led.items()}
            for those_answers in asked_at_once(asks).values():
                answers.update(those_answers)
            pending = [p for p in pending if _is_stale(answers.get(p))]
            for partition in pending:
                self._leaders.pop(partition, None)
            if not pending:
                break
        return answers

    def _look_up(self, partitions: list[TopicPartition], answers: Answers[_Answer]) -> None:
        if not partitions:
            return
        names = {partition.topic for partition in partitions}
        topics = topic_calls.describe(self._caller, names)
        is_current = [self._take(t, info) for t in topics.values() for info in t.partitions]
        if not all(is_current):
            topics = self.look_everywhere(names)
        for partition in partitions:
            if partition not in self._leaders:
                topic = topics.get(partition.topic)
                error = None if topic is None else topic.error
                answers[partition] = error or BrokerError(
                    f"{partition} has no leader", kafka_code=LEADER_NOT_AVAILABLE
                )

    def look_everywhere(self, names: Iterable[TopicName]) -> dict[TopicName, TopicInfo]:
        """Ask every broker for these topics, and return what most of those that answer say.

        Raises
        ------
        ConnectionLost
            No broker answers.
        """
        views = defaultdict[TopicName, list[TopicInfo]](list)
        for topics in self._each_view(set(names)):
            for name, topic in topics.items():
                views[name].append(topic)
        agreed: dict[TopicName, TopicInfo] = {}
        for name, some in views.items():
            alike = agreeing(some)
            for topic in alike:
                for info in topic.partitions:
                    self._take(topic, info)
            agreed[name] = max(alike, key=_epochs_of, default=some[0])
        return agreed

    def _each_view(self, names: set[TopicName]) -> Iterator[Mapping[TopicName, TopicInfo]]:
        brokers = sorted(BrokerId(row.node_id) for row in self._caller.metadata([]).brokers)
        views = [
            PendingAnswer(
                partial(topic_calls.describe, self._caller, names, broker),
                f"asking broker {broker} who leads",
            )
            for broker in brokers
        ]
        until_s = time.monotonic() + LOOK_S
        lost = ConnectionLost("the cluster's metadata names no broker")
        is_answered = False
        for broker, view in zip(brokers, views, strict=True):
            try:
                yield view.answer(max(0.0, until_s - time.monotonic()))
                is_answered = True
            except NoAnswerYet:
                lost = ConnectionLost("no broker says who leads", silent=broker)
            except ConnectionLost as error:
                lost = error
        if not is_answered:
            raise lost


def _epochs_of(topic: TopicInfo) -> int:
    return sum(partition.leader_epoch for partition in topic.partitions)


def _asked(
    ask: Callable[[BrokerId, list[TopicPartition]], Answers[_Answer]],
    leader: BrokerId,
    partitions: list[TopicPartition],
) -> Answers[_Answer]:
    try:
        return ask(leader, partitions)
    except ConnectionLost as lost:
        text = f"leader {leader} does not answer: {lost.text}"
        error = BrokerError(text, kafka_code=LEADER_NOT_AVAILABLE)
        return dict.fromkeys(partitions, error)


def _is_stale(answer: object) -> bool:
    return isinstance(answer, BrokerError) and answer.kafka.stale_metadata
