"""Writes of own topics: nothing is lost or written twice, whatever the broker answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kafka.record import MemoryRecords

from heliostat.access import access_of
from heliostat.clusters import led_partition
from heliostat.clusters.log_writer import LogWriter, NewRecord
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.leaders import Leader, TopicLeaders
from heliostat.clusters.wire.lent import LentClusters
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import BrokerId, PartitionId, TopicName, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = TopicName("own")
PLACE = TopicPartition(TOPIC, PartitionId(0))
TOO_LARGE, OUT_OF_ORDER, NOT_LEADER, REFUSED = 10, 45, 6, 29


class Log:
    """One broker's log of one partition, with what an idempotent producer needs of it (KIP-98)."""

    def __init__(self, batch_bytes_max: int = 1 << 20) -> None:
        self.values: list[bytes | None] = []
        self.next: dict[int, int] = {}
        self.bases: dict[tuple[int, int], int] = {}
        self.ids = 100
        self.batch_bytes_max = batch_bytes_max
        self.codes: list[int] = []
        """To answer next, without appending."""
        self.lost_answers = 0
        """So many answers get lost, after appending."""

    # what of a `WireCluster` is used

    @property
    def brokers(self) -> Log:
        return self

    def knows(self, _: BrokerId) -> bool:
        return True

    def known(self, _: BrokerId) -> Log:
        return self

    def facts(self) -> None:
        return None

    def close(self) -> None:
        pass

    def metadata(self, names: Sequence[TopicName]) -> dict[TopicName, TopicLeaders]:
        there = TopicLeaders(None, 0, {PartitionId(0): Leader(BrokerId(1), 0, 0)})
        return dict.fromkeys(names, there)

    def ask_any(self, *_: object) -> Any:
        self.ids += 1
        return SimpleNamespace(error_code=0, producer_id=self.ids)

    def exchange_once(self, requests: Sequence[Any], *_: object) -> list[Any]:
        data = requests[0].topic_data[0].partition_data[0].records
        code, base = self._append(bytes(data))
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionLost("the answer was lost")
        row = SimpleNamespace(error_code=code, base_offset=base)
        return [SimpleNamespace(responses=[SimpleNamespace(partition_responses=[row])])]

    def _append(self, data: bytes) -> tuple[int, int]:
        if self.codes:
            return self.codes.pop(0), -1
        if len(data) > self.batch_bytes_max:
            return TOO_LARGE, -1
        (batch,) = MemoryRecords(data)
        first = (batch.producer_id, batch.base_sequence)
        if first in self.bases:
            return 0, self.bases[first]
        if self.next.get(first[0], 0) != first[1]:
            return OUT_OF_ORDER, -1
        base = self.bases[first] = len(self.values)
        self.values += [record.value for record in batch]
        self.next[first[0]] = first[1] + len(self.values) - base
        return 0, base


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(led_partition, "PAUSE_S", 0.0)


def writer_to(log: Log, within_s: float = 5.0) -> LogWriter:
    clusters = LentClusters(access_of("127.0.0.1:1"), DialSettings("test"))

    @contextmanager
    def lent() -> Iterator[Log]:
        yield log

    clusters.lent = lent  # type: ignore[method-assign,assignment]  # a stand-in
    clusters.leaders[PLACE] = BrokerId(1)
    return LogWriter(clusters, TOPIC, within_s=within_s, request_s=1.0)


def rows(*values: bytes) -> list[NewRecord]:
    return [NewRecord(b"k", value) for value in values]


def test_a_batch_whose_answer_was_lost_is_written_once() -> None:
    log = Log()
    writer = writer_to(log)
    assert writer.write(rows(b"1", b"2")) == [0, 1]
    log.lost_answers = 2
    assert writer.write(rows(b"3")) == [2]
    assert writer.write(rows(b"4")) == [3]
    assert log.values == [b"1", b"2", b"3", b"4"]
    assert log.ids == 101, "one id serves all"


@pytest.mark.parametrize("code", [3, 6, 19, 7])
def test_an_error_that_passes_is_waited_for(code: int) -> None:
    log = Log()
    log.codes = [code, code]
    assert writer_to(log).write(rows(b"1")) == [0]


def test_a_leader_that_does_not_come_back_is_not_waited_for_forever() -> None:
    log = Log()
    log.codes = [NOT_LEADER] * 1_000_000
    began_s = time.monotonic()
    with pytest.raises(ConnectionLost, match="in time"):
        writer_to(log, within_s=0.1).write(rows(b"1"))
    assert time.monotonic() < began_s + 2.0


def test_after_a_refusal_the_next_write_begins_with_another_id() -> None:
    """Nobody knows what the broker has of the last one's sequences."""
    log = Log()
    writer = writer_to(log)
    writer.write(rows(b"1"))
    log.codes = [REFUSED]
    with pytest.raises(BrokerError):
        writer.write(rows(b"2"))
    assert writer.write(rows(b"3")) == [1]
    assert (log.values, log.ids) == ([b"1", b"3"], 102)


def test_a_log_that_was_made_again_is_written_on() -> None:
    log = Log()
    writer = writer_to(log)
    writer.write(rows(b"1"))
    log.values, log.next, log.bases = [], {}, {}
    assert writer.write(rows(b"2")) == [0]


def test_batches_fit_a_broker_that_takes_little() -> None:
    log = Log(batch_bytes_max=4_000)
    values = [b"%05d" % number * 100 for number in range(40)]
    assert writer_to(log).write(rows(*values)) == list(range(40))
    assert log.values == values
    with pytest.raises(BrokerError, match="cannot write"):
        writer_to(log).write(rows(b"x" * 5_000))
