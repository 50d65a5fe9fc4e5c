"""The fence without rights: logs whose ends stand still for a while.

Ends are asked of the leaders that hold the newest epochs, and what looks moved once more of those
that every broker names: a deposed leader's log proves nothing. Time is what passes between two
looks by a clock that never jumps. An end counts as the log's end, not as the last stable offset: a
transaction that is open has written, and its commit passes every fence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from heliostat.clock import Clock
from heliostat.clusters.admin import ActiveProducer
from heliostat.errors import BrokerError
from heliostat.names import Offset, ProducerId, TopicPartition

STILL_S = 10.0
LOOK_EVERY_S = 1.0

Ends = Mapping[TopicPartition, Offset | BrokerError]
Producers = Mapping[TopicPartition, "tuple[ActiveProducer, ...] | BrokerError"]


class Logs(Protocol):
    """What is asked of a cluster."""

    def list_log_ends(
        self, partitions: Iterable[TopicPartition], *, confirmed: bool = False
    ) -> Ends:
        """Return log end offsets, of replicas that lead."""

    def active_producers(self, partitions: Iterable[TopicPartition]) -> Producers:
        """Return producers that leaders remember."""

    def transactional_ids(self, producers: Iterable[ProducerId]) -> Mapping[ProducerId, str]:
        """Return names of producers, of those that have some."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A partition whose end moved while it should have stood still."""

    partition: TopicPartition
    records: int
    """How many came; less than 0: the log lost so many."""
    producers: tuple[str, ...] = ()
    """Who wrote them, as far as the leader tells: those without idempotence are not known to it."""

    def text(self) -> str:
        """Return a line about it."""
        by = f", by {', '.join(self.producers)}" if self.producers else ""
        if self.records < 0:
            return f"{self.partition}: its log lost {-self.records} records"
        return f"{self.partition}: {self.records} records came{by}"


@dataclass(frozen=True, slots=True)
class Stillness:
    """What was seen of the ends of some logs over a while."""

    seconds: float
    """How long between the first look and the last one."""
    ends: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    """The last ends."""
    moved: tuple[Moved, ...] = ()
    unseen: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions whose end was not told, at the first look or at the last one, and why."""

    @property
    def is_still(self) -> bool:
        """Whether all of them are known to have stood still."""
        return not self.moved and not self.unseen

    def lines(self) -> list[str]:
        """Return a line for each that did not."""
        unseen = (f"{where}: its end is not known: {why}" for where, why in self.unseen.items())
        return [*(moved_end.text() for moved_end in self.moved), *unseen]


class StillEnds:
    """Watches logs that nobody should write any more. For one thread.

    Raises `ConnectionLost` from `watch` if no broker answers.

    Parameters
    ----------
    logs
        Requests to the cluster.
    partitions
        Whose ends are watched.
    clock
        Measures the time between looks.
    """

    def __init__(self, logs: Logs, partitions: Collection[TopicPartition], clock: Clock) -> None:
        self._logs = logs
        self._partitions = tuple(sorted(set(partitions)))
        self._clock = clock
        self._producers: Producers = {}

    def watch(self, still_s: float = STILL_S, *, until_first: bool = False) -> Stillness:
        """Look at the ends for so long; return what has moved.

        Parameters
        ----------
        until_first
            Whether to return as soon as one has moved.
        """
        self._producers = self._logs.active_producers(self._partitions)
        first = self._logs.list_log_ends(self._partitions, confirmed=True)
        began_s = self._clock.monotonic_s()
        until_s = began_s + still_s
        while (now_s := self._clock.monotonic_s()) < until_s:
            if until_first and self._moved(first):
                break
            self._clock.sleep(min(LOOK_EVERY_S, until_s - now_s))
        looked_s = self._clock.monotonic_s()
        last = self._logs.list_log_ends(self._partitions, confirmed=True)
        unseen = {
            partition: answer.text
            for partition in self._partitions
            for answer in (_end(first, partition), _end(last, partition))
            if isinstance(answer, BrokerError)
        }
        moved = _differences(first, last)
        return Stillness(
            looked_s - began_s,
            {p: end for p, end in last.items() if not isinstance(end, BrokerError)},
            self._named(moved),
            unseen,
        )

    def _moved(self, first: Ends) -> bool:
        """Return whether an end has moved so far, by the word of leaders that all brokers name."""
        suspects = _differences(first, self._logs.list_log_ends(self._partitions))
        if not suspects:
            return False
        return bool(_differences(first, self._logs.list_log_ends(suspects, confirmed=True)))

    def _named(self, moved: Mapping[TopicPartition, int]) -> tuple[Moved, ...]:
        """Return what has moved, with who wrote there."""
        if not moved:
            return ()
        now = self._logs.active_producers(moved)
        wrote = {
            partition: [
                producer.producer_id
                for producer in _producers(now, partition)
                if producer not in _producers(self._producers, partition)
            ]
            for partition in moved
        }
        names = self._logs.transactional_ids(
            {producer_id for some in wrote.values() for producer_id in some}
        )
        return tuple(
            Moved(
                partition,
                records,
                tuple(_called(producer_id, names) for producer_id in wrote[partition]),
            )
            for partition, records in moved.items()
        )


def _called(producer: ProducerId, names: Mapping[ProducerId, str]) -> str:
    name = names.get(producer)
    return f"producer {producer} ({name})" if name else f"producer {producer}"


def _producers(producers: Producers, partition: TopicPartition) -> tuple[ActiveProducer, ...]:
    answer = producers.get(partition, ())
    return () if isinstance(answer, BrokerError) else answer


def _end(ends: Ends, partition: TopicPartition) -> Offset | BrokerError:
    return ends.get(partition, BrokerError("no broker answered for it"))


def _differences(first: Ends, last: Ends) -> dict[TopicPartition, int]:
    """Return by how much ends differ that both looks know."""
    return {
        partition: end - begin
        for partition, end in last.items()
        if not isinstance(end, BrokerError)
        and not isinstance(begin := first.get(partition, end), BrokerError)
        and end != begin
    }
