"""A real broker accepts what `convert` and `padding` make, and returns it unchanged."""

from __future__ import annotations

import os

import pytest
from support import batches as ref
from support.clusters import ClusterPair, create_topic

from heliostat.clusters.wire import fetch, produce
from heliostat.clusters.wire.cluster import WireCluster
from heliostat.clusters.wire.connection import DialSettings
from heliostat.clusters.wire.primitives import request_header
from heliostat.names import PartitionId
from heliostat.records.batches.batch import Codec, read_header
from heliostat.records.batches.convert import convert
from heliostat.records.batches.converted import BatchPlace, ConvertedBatch, ConvertSettings
from heliostat.records.batches.padding import PADDING_RECORDS_MAX, padding_batches

pytestmark = [pytest.mark.kafka, pytest.mark.core]

NOW_MS = 1_750_000_000_000
PRODUCER = 2**40 + 1
LIMIT = 1024 * 1024 + 12


class OnePartition:
    """A fresh topic with one partition, and a way to its log."""

    def __init__(self, pair: ClusterPair) -> None:
        self.topic = create_topic(pair.target)
        self.wire = WireCluster(pair.target.bootstrap, DialSettings())
        self.leaders = self.wire.metadata([self.topic])[self.topic]
        self.broker = self.leaders.partitions[PartitionId(0)].broker
        self.connection = self.wire.open_data(self.broker)

    def close(self) -> None:
        self.connection.close()
        self.wire.close()

    def exchange(self, api_key: int, version: int, body) -> bytearray:
        number = self.connection.next_correlation_id()
        header = request_header(api_key, version, number, "carried", flexible=True)
        self.connection.send([header, *body])
        return self.connection.receive(30).buffer

    def append(self, batch: ConvertedBatch) -> tuple[int, int]:
        version = self.wire.produce_version(self.broker)
        item = produce.ProducePartition(
            self.topic, self.leaders.topic_id, 0, batch.parts, batch.size
        )
        body = produce.encode_produce(version, [item], timeout_ms=20_000)
        answers, _ = produce.decode_produce(version, self.exchange(0, version, body), 4)
        return answers[0].error, answers[0].base_offset

    def fetch(self, offset: int) -> bytes:
        version = self.wire.fetch_version(self.broker)
        want = fetch.FetchPartition(
            self.topic, self.leaders.topic_id, PartitionId(0), offset, 2**23
        )
        body = fetch.encode_fetch(
            version, [want], max_wait_ms=0, min_bytes=0, max_bytes=2**23, read_committed=True
        )
        buffer = self.exchange(fetch.API_KEY, version, [body])
        (got,) = fetch.decode_fetch(version, buffer, 4).partitions
        assert not got.error
        return bytes(buffer[got.start : got.end])


@pytest.fixture
def log(cluster_pair: ClusterPair):
    made = OnePartition(cluster_pair)
    yield made
    made.close()


def source_batches() -> list[ref.StoredBatch]:
    """Every codec with either timestamp type, alone and among small plain ones."""
    stored: list[ref.StoredBatch] = []
    base = 0
    for codec in range(5):
        for append_time in (None, NOW_MS + 9):
            for size in (1, 1, 3, 400):
                records = tuple(
                    ref.Record(NOW_MS - n, b"k%d" % n, os.urandom(9) * 9, (("h", None),))
                    for n in range(size)
                )
                stored.append(ref.StoredBatch(base, records, codec, append_time))
                base += size
    return stored


@pytest.mark.parametrize("compression", [None, *Codec])
@pytest.mark.parametrize("position", [0, 5, 100])
def test_a_broker_accepts_converted_batches(log, compression, position):
    stored = source_batches()
    answer = ref.encode_all(stored)
    settings = ConvertSettings(PRODUCER, LIMIT, join_below_bytes=2**15, compression=compression)
    outcome = convert(answer, 0, len(answer), BatchPlace.same(position), settings)
    assert outcome.stop is None
    for batch in outcome.batches:
        assert log.append(batch) == (0, batch.base_offset - position)

    got = log.fetch(0)
    at = 0
    seen = []
    while (header := read_header(got, at, len(got))) is not None:
        seen += ref.read(got[at : at + header.size], header.base_offset + position)
        at += header.size
    assert seen == [pair for item in stored for pair in item.seen if pair[0] >= position]


@pytest.mark.parametrize("null_key", [False, True])
def test_a_broker_accepts_padding(log, null_key):
    count = PADDING_RECORDS_MAX + 10_000
    for batch in padding_batches(PRODUCER, 0, count, NOW_MS, LIMIT, null_key=null_key):
        assert log.append(batch) == (0, batch.base_offset)
    tail = read_header(got := log.fetch(count - 1), 0, len(got))
    assert tail is not None
    assert tail.next_offset == count
