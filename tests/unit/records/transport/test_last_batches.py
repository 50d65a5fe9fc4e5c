"""Who wrote a log's last record, by the broker's producer state or by the last batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from support.batches import changed
from support.records import Sample, encode

from heliostat.clusters.leader_epochs import LeaderEpochs
from heliostat.clusters.wire import fetch
from heliostat.errors import ConnectionLost
from heliostat.names import BrokerId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.records.copier.lane import PartitionSpec
from heliostat.records.copier.network import LastBatch, LogRange
from heliostat.records.transport.last_batches import read_last_batches

VERSION = max(v for v in fetch.VERSIONS if v < fetch.BY_ID_FROM)
TOPIC = TopicName("t")
PRODUCER = 4242
LARGE = bytes(40_000)


@dataclass
class Log:
    """The last batch of one partition that ends at 100, and what the broker knows beside it."""

    batch: bytes
    error: int = 0
    high_watermark: int = 100
    sequences: Mapping[int, int] = field(default_factory=dict)
    """By producer id, as far as remembered."""


class Target:
    """A broker that gives the first batch whole, and no other one above its partition's limit."""

    def __init__(self, *logs: Log) -> None:
        self.logs = logs
        self.asked: list[list[int]] = []
        self.settings = SimpleNamespace(client_id="test", request_timeout_s=1.0)
        self.epochs = LeaderEpochs()

    def open_data(self, _: BrokerId) -> Target:
        return self

    def fetch_version(self, _: BrokerId) -> int:
        return VERSION

    def last_sequences(
        self, _: BrokerId, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Mapping[int, int]]:
        return {each: self.logs[each.partition].sequences for each in partitions}

    def next_correlation_id(self) -> int:
        return 1

    def send(self, parts: list[Any]) -> None:
        self._request = FetchRequest.decode(memoryview(parts[1]), version=VERSION)

    def close(self) -> None:
        """Nothing is open."""

    def receive(self, *_: float) -> Any:
        kind = FetchResponse.FetchableTopicResponse
        wanted = self._request.topics[0].partitions
        self.asked.append([each.partition for each in wanted])
        rows: list[Any] = []
        left = self._request.max_bytes
        is_first = True
        for each in wanted:
            log = self.logs[each.partition]
            batch = b"" if log.error else log.batch
            if not is_first and len(batch) > min(each.partition_max_bytes, left):
                batch = b""  # KIP-74
            is_first = is_first and not batch
            left -= len(batch)
            rows.append(
                kind.PartitionData(
                    partition_index=each.partition,
                    error_code=log.error,
                    high_watermark=log.high_watermark,
                    last_stable_offset=0,
                    log_start_offset=0,
                    aborted_transactions=[],
                    preferred_read_replica=-1,
                    records=batch,
                )
            )
        body = FetchResponse(
            throttle_time_ms=0,
            error_code=0,
            session_id=0,
            responses=[kind(topic="t", partitions=rows)],
        )
        data = b"\0\0\0\1\0" + bytes(body.encode(version=VERSION))
        return SimpleNamespace(buffer=memoryview(bytearray(data)))


def stored(count: int = 5, base: int = 95, value: bytes = b"v", **fields: int) -> bytes:
    """Offsets 95 to 99 by default, in our sequence."""
    batch = encode([Sample(b"k", value, 1)] * count)
    named = {"producer_id": PRODUCER, "base_sequence": base, **fields}
    return changed(batch, base_offset=base, **named)


FOREIGN = stored(producer_id=-1, base_sequence=-1)


def tails(target: Any, *, start: int = 0, end: int = 100) -> dict[int, LastBatch | None]:
    """By partition number."""
    numbers = range(len(getattr(target, "logs", [None])))
    parts = {number: TopicPartition(TOPIC, PartitionId(number)) for number in numbers}
    specs = {
        number: PartitionSpec(p, p, None, None, Offset(0), 1 << 20, is_compacted=False)
        for number, p in parts.items()
    }
    ranges = dict.fromkeys(parts, LogRange(Offset(start), Offset(end)))
    return read_last_batches(target, BrokerId(1), specs, ranges, PRODUCER)


def test_the_last_record_of_the_last_batch_is_returned() -> None:
    assert tails(Target(Log(stored()))) == {0: LastBatch(PRODUCER, 99)}
    assert tails(Target(Log(stored(count=1, base=99)))) == {0: LastBatch(PRODUCER, 99)}
    assert tails(Target(Log(FOREIGN)))[0] == LastBatch(-1, 3)


def test_a_sequence_that_wrapped_within_the_batch_is_returned() -> None:
    assert tails(Target(Log(stored(base_sequence=2**31 - 2)))) == {0: LastBatch(PRODUCER, 2)}


@pytest.mark.parametrize(
    "log",
    [
        Log(stored(count=6)),
        Log(stored()[:60], high_watermark=99),
        Log(b"", high_watermark=99),
        Log(stored(), error=6),
    ],
    ids=["goes on behind", "cut", "not committed", "refused"],
)
def test_unreadable_logs_are_left_out(log: Log) -> None:
    """Given a log that has moved on, or can't be read yet / then it is missing, asked again."""
    assert tails(Target(log)) == {}


def test_all_logs_are_read_though_one_answer_holds_only_the_first() -> None:
    """Given batches larger than first requested / when read / then all, in two requests."""
    large = [Log(stored(value=LARGE)) for _ in range(8)]
    target = Target(*large[:3], Log(FOREIGN), *large[3:])
    assert tails(target) == {
        number: LastBatch(-1, 3) if number == 3 else LastBatch(PRODUCER, 99) for number in range(9)
    }
    assert len(target.asked) == 2


def test_a_cleaned_last_batch_gives_none() -> None:
    """Given logs whose last batch was cleaned away / then None, and the others are returned."""
    target = Target(Log(b""), Log(stored(value=LARGE)), Log(b""))
    assert tails(target) == {0: None, 1: LastBatch(PRODUCER, 99), 2: None}


def test_an_empty_log_is_not_read() -> None:
    target = Target(Log(b""))
    assert tails(target, start=100) == {0: None}
    assert target.asked == []


def test_the_brokers_producer_state_is_enough() -> None:
    """Given a broker that remembers our last record there / then nothing is read."""
    target = Target(Log(FOREIGN, sequences={PRODUCER: 99, 5: 3}))
    assert tails(target) == {0: LastBatch(PRODUCER, 99)}
    assert target.asked == []


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (Log(FOREIGN, sequences={PRODUCER: 94}), LastBatch(-1, 3)),
        (Log(stored(), sequences={PRODUCER: 94}), LastBatch(PRODUCER, 99)),
        (Log(b"", sequences={PRODUCER: 94}), LastBatch(PRODUCER, 94)),
        (Log(FOREIGN, sequences={7: 99}), LastBatch(-1, 3)),
    ],
    ids=["foreign behind ours", "moved on meanwhile", "gone, and not ours", "another's place"],
)
def test_other_producer_state_makes_the_log_be_read(log: Log, expected: LastBatch) -> None:
    assert tails(Target(log)) == {0: expected}


def test_an_old_format_without_producers_is_foreign() -> None:
    old = bytearray(stored())
    old[16] = 1
    assert tails(Target(Log(bytes(old)))) == {0: LastBatch(-1, -1)}


def test_an_unreachable_broker_gives_nothing() -> None:
    def lost(*_: Any) -> Any:
        raise ConnectionLost("away")

    assert tails(SimpleNamespace(last_sequences=lost)) == {}
