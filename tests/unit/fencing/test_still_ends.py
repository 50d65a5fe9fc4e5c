"""Ends that should stand still: who moves is named, and what is not known is no stillness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sim.sim_clock import SimClock

from heliostat.clusters.admin import ActiveProducer
from heliostat.errors import BrokerError
from heliostat.fencing.still_ends import StillEnds
from heliostat.names import Offset, PartitionId, ProducerId, TopicName, TopicPartition

A, B = (TopicPartition(TopicName("t"), PartitionId(number)) for number in (0, 1))


@dataclass
class Logs:
    """Logs whose ends are functions of time."""

    clock: SimClock
    written: dict[TopicPartition, list[float]]
    """When each record comes."""
    deposed: bool = False
    """Whether the leader that answers without confirmation has an old log."""
    gone_s: tuple[float, float] = (1e9, 1e9)
    looks: list[bool] = field(default_factory=list)

    def _count(self, partition: TopicPartition) -> int:
        return sum(at_s <= self.clock.monotonic_s() for at_s in self.written[partition])

    def list_log_ends(
        self, partitions: Iterable[TopicPartition], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        self.looks.append(confirmed)
        first, last = self.gone_s
        if first <= self.clock.monotonic_s() < last:
            return {p: BrokerError("has no leader", kafka_code=5) for p in partitions}
        behind = 1 if self.deposed and not confirmed else 0
        return {p: Offset(100 + self._count(p) - behind) for p in partitions}

    def active_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ActiveProducer, ...] | BrokerError]:
        return {
            p: (
                ActiveProducer(ProducerId(7), 0, self._count(p), 0),
                ActiveProducer(ProducerId(8), 0, 5, 0),
            )
            for p in partitions
        }

    def transactional_ids(self, producers: Iterable[ProducerId]) -> Mapping[ProducerId, str]:
        return dict.fromkeys(producers, "payments")


def test_ends_that_stand_still() -> None:
    clock = SimClock(0)
    logs = Logs(clock, {A: [], B: []})
    began_s = clock.monotonic_s()
    found = StillEnds(logs, [A, B], clock).watch(10.0)
    assert found.is_still
    assert found.seconds >= 10.0
    assert clock.monotonic_s() - began_s < 11.0
    assert found.ends == {A: 100, B: 100}
    assert not found.lines()


def test_one_that_moves_is_named_with_its_producer() -> None:
    clock = SimClock(0)
    now_s = clock.monotonic_s()
    logs = Logs(clock, {A: [], B: [now_s + 9.9, now_s + 9.95]})
    found = StillEnds(logs, [A, B], clock).watch(10.0)
    assert not found.is_still
    assert found.lines() == ["t-1: 2 records came, by producer 7 (payments)"]
    assert found.ends[B] == 102


def test_it_ends_at_the_first_if_asked_to() -> None:
    clock = SimClock(0)
    began_s = clock.monotonic_s()
    logs = Logs(clock, {A: [began_s + 2.5], B: []})
    found = StillEnds(logs, [A, B], clock).watch(10.0, until_first=True)
    assert [each.partition for each in found.moved] == [A]
    assert clock.monotonic_s() - began_s < 4.0


def test_the_word_of_a_deposed_leader_counts_for_nothing() -> None:
    """Given a leader with an old log / when asked / then only what all brokers confirm counts."""
    clock = SimClock(0)
    logs = Logs(clock, {A: [], B: []}, deposed=True)
    found = StillEnds(logs, [A], clock).watch(3.0, until_first=True)
    assert found.is_still
    assert logs.looks[0]
    assert logs.looks[-1]


def test_a_partition_without_a_leader_is_not_known_to_stand_still() -> None:
    clock = SimClock(0)
    now_s = clock.monotonic_s()
    logs = Logs(clock, {A: [], B: []}, gone_s=(now_s + 5, now_s + 20))
    found = StillEnds(logs, [A], clock).watch(10.0)
    assert not found.is_still
    assert found.lines() == ["t-0: its end is not known: has no leader"]
    again = StillEnds(logs, [A], clock)
    clock.sleep(20)
    assert again.watch(10.0).is_still
