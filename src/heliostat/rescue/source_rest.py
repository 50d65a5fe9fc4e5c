"""A returned source must rest before its tail is read: nobody writes, no transaction is open.

Where rules may deny writes at the source they fence it; else its log ends must stand still for a
while. A commit passes any fence, so open transactions are named, and must have ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from heliostat.clock import Clock
from heliostat.clusters.admin.values import OpenTransaction
from heliostat.errors import BrokerError, ConnectionLost, Refused
from heliostat.fencing.still_ends import Logs, StillEnds
from heliostat.names import Offset, ProducerId, TopicPartition

STANDS_STILL_S = 10.0
NAMED_MAX = 10


class RestingSource(Logs, Protocol):
    """What is asked of the source; `ClusterAdmin` has it."""

    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[OpenTransaction, ...] | BrokerError]:
        """Return the transactions that have not ended."""
        ...


class Named(Protocol):
    """Who knows producers' names; `ClusterAdmin` does."""

    def transactional_ids(self, producers: Iterable[ProducerId]) -> Mapping[ProducerId, str]:
        """Return names of producers, of those that have some."""
        ...


Answers = Mapping[TopicPartition, tuple[OpenTransaction, ...] | BrokerError]


class OpenProducer(NamedTuple):
    """A transaction at the source that has not ended."""

    partition: TopicPartition
    producer_id: ProducerId
    transactional_id: str
    """Empty: brokers don't show it."""
    first: Offset
    last_ms: int

    @property
    def _producer(self) -> str:
        name = f" ({self.transactional_id})" if self.transactional_id else ""
        return f"producer {self.producer_id}{name}"

    def words(self) -> str:
        """Return it for people."""
        return f"{self.partition} from offset {self.first} by {self._producer}"

    def line(self) -> str:
        """Return it as a sentence, without its partition."""
        return f"a transaction of {self._producer} is open since offset {self.first}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "producer_id": self.producer_id,
            "transactional_id": self.transactional_id,
            "first": self.first,
            "last_ms": self.last_ms,
        }


def open_producers(
    source: RestingSource, partitions: Collection[TopicPartition]
) -> list[OpenProducer]:
    """Return the transactions that are open in these partitions of the source.

    Raises
    ------
    ConnectionLost, BrokerError
        The source does not answer, or refuses; brokers before 2.8 can't say.
    """
    answers = source.open_transactions(partitions)
    for partition in sorted(answers):
        _sound(answers[partition])
    return named_producers(source, answers)


def named_producers(source: Named, answers: Answers) -> list[OpenProducer]:
    """Return the transactions in these answers with their names; what was refused is passed over.

    Raises
    ------
    ConnectionLost, BrokerError
        The source does not answer, or refuses.
    """
    rows = [
        (partition, row)
        for partition, answer in sorted(answers.items())
        if not isinstance(answer, BrokerError)
        for row in answer
    ]
    names = source.transactional_ids({row.producer_id for _, row in rows})
    return [
        OpenProducer(
            *(partition, row.producer_id, names.get(row.producer_id, "")),
            *(row.first, row.last_timestamp_ms),
        )
        for partition, row in rows
    ]


def require_rest(
    source: RestingSource,
    partitions: Collection[TopicPartition],
    clock: Clock,
    *,
    is_fenced: bool = False,
) -> None:
    """See that nobody writes these partitions of the source, and no transaction is open.

    Parameters
    ----------
    is_fenced
        Whether rules keep everybody out, by the word of every broker: else ends must stand still.

    Raises
    ------
    Refused
        Somebody writes still, or transactions are open; all of them are named.
    ConnectionLost, BrokerError
        The source does not answer, or refuses.
    """
    if not is_fenced:
        seen = StillEnds(source, partitions, clock).watch(STANDS_STILL_S)
        if seen.moved:
            raise Refused(
                f"the source is still written, within {STANDS_STILL_S:g} s: "
                + listed([each.text() for each in seen.moved]),
                hint="stop its producers, or deny them to write there, and ask again",
            )
        if seen.unseen:
            raise ConnectionLost("whether the source rests: " + listed(seen.lines()))
    producers = open_producers(source, partitions)
    if producers:
        raise Refused(
            "transactions are open at the source: "
            + listed([producer.words() for producer in producers]),
            hint="a commit passes any fence: wait for their timeout, or end them with "
            "kafka-transactions.sh abort",
        )


def _sound(answer: Any) -> Any:
    if isinstance(answer, BrokerError):
        raise answer
    return answer


def listed(names: list[str]) -> str:
    """Return the first of them, and how many more there are."""
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f", and {more} more" if more > 0 else "")
