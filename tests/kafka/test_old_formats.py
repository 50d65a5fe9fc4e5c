"""Messages of formats v0 and v1 as a real broker 2.8.2 stores them, copied to a current one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as ClientPartition
from support.clusters import HEAP_MB, ClusterPair, create_topic, fresh_name, until
from support.command import heliostat
from support.links import RunningLink, wait_level, write_config
from support.records import GZIP, LZ4, NONE, SNAPPY, Sample, encode, odd_records, write_batches

from heliostat.clusters.admin import ClusterAdmin
from heliostat.names import TopicName
from heliostat_sandbox import KAFKA_2_8, Cluster, ClusterSpec, start_many

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.thorough]

FORMATS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
"""`message.format.version` by the format that it stands for."""
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4}
FORMAT = "message.format.version"
BATCHES, RECORDS = 12, 15
READ_WITHIN_S = 30.0
MAGIC_AT, V2_ATTRIBUTES_AT, OLD_ATTRIBUTES_AT = 16, 22, 17
V2, WRAPPED = 2, 7


@pytest.fixture(scope="module")
def pair() -> Iterator[ClusterPair]:
    keep = {"log.retention.ms": "-1"}  # some records are of long ago, others have no time at all
    specs = [
        ClusterSpec("old", settings=keep, heap_mb=HEAP_MB, version=KAFKA_2_8),
        ClusterSpec("new", settings=keep, heap_mb=HEAP_MB),
    ]
    source, target = start_many(specs)
    with source, target:
        yield ClusterPair(source, target)


@dataclass(frozen=True)
class OldTopic:
    """A topic of the old broker, which converts what we send, and what its readers see."""

    pair: ClusterPair
    name: TopicName
    samples: list[Sample]

    @classmethod
    def make(cls, pair: ClusterPair, magic: int, **configs: str) -> OldTopic:
        settings = {FORMAT: FORMATS[magic], **configs}
        name = create_topic(pair.source, fresh_name(f"old-v{magic}"), configs=settings)
        return cls(pair, name, [])

    def write(self, magic: int, codec: int, rng: random.Random) -> None:
        """Batches of many records and of one, without headers: these formats have none."""
        for size in [RECORDS, 1] * (BATCHES // 2):
            some = [replace(each, headers=()) for each in odd_records(rng, size)]
            write_batches(self.pair.source.bootstrap, self.name, [encode(some, codec)])
            seen = some if magic else [replace(each, timestamp_ms=-1) for each in some]
            self.samples.extend(seen)

    def wait_taken(self, magic: int) -> None:
        """Write records without a time until the broker goes by its new format."""

        def is_taken() -> bool:
            sample = Sample(b"is it taken", None, -1)
            write_batches(self.pair.source.bootstrap, self.name, [encode([sample])])
            self.samples.append(sample)
            return any(found == magic for found, _ in self.stored())

        until(is_taken, "the format to be raised")

    def stored(self) -> set[tuple[int, int]]:
        """Formats and codecs in the broker's own files."""
        folder = self.pair.source.brokers[0].log_folder / f"{self.name}-0"
        found = set()
        for file in folder.glob("*.log"):
            data, at = file.read_bytes(), 0
            while at + OLD_ATTRIBUTES_AT < len(data):
                magic = data[at + MAGIC_AT]
                bits = data[at + (V2_ATTRIBUTES_AT if magic == V2 else OLD_ATTRIBUTES_AT)]
                found.add((magic, bits & WRAPPED))
                at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        return found

    def read(self, cluster: Cluster) -> list[Sample]:
        """All records, by aiokafka's consumer, which has every codec."""
        return asyncio.run(_read(cluster.bootstrap, self.name))


async def _read(bootstrap: str, topic: TopicName) -> list[Sample]:
    one = ClientPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([one])
        end = (await consumer.end_offsets([one]))[one]
        found: list[Sample] = []
        while len(found) < end:
            row = await asyncio.wait_for(consumer.getone(), READ_WITHIN_S)
            found.append(Sample(row.key, row.value, row.timestamp, tuple(row.headers)))
        return found
    finally:
        await consumer.stop()


def copy(pair: ClusterPair, folder: Path, topics: Mapping[TopicName, int]) -> None:
    """Copy them and let `heliostat verify` compare both sides."""
    config = write_config(
        folder,
        pair.source.bootstrap,
        pair.target.bootstrap,
        name=fresh_name("link"),
        topics={"include": list(topics)},
    )
    with RunningLink(config) as link:
        wait_level(link, pair.source.bootstrap, pair.target.bootstrap, dict.fromkeys(topics, 1))
        assert link.stop() == 0, link.text()[-2000:]
    done = heliostat(config, "verify", "--complete", "--json")
    assert done.returncode == 0, done.said
    answer = done.json
    assert answer["offsets_equal"] is True
    assert answer["records"] == sum(topics.values()) > 0


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_copied_in_any_codec(
    pair: ClusterPair, tmp_path: Path, magic: int
) -> None:
    """Given topics of an old format, one for each codec / when copied / then read as before."""
    rng = random.Random(31 + magic)
    topics: list[OldTopic] = []
    for codec in CODECS.values():
        topic = OldTopic.make(pair, magic)
        topic.write(magic, codec, rng)
        assert topic.stored() == {(magic, codec)}
        topics.append(topic)
    copy(pair, tmp_path, {topic.name: len(topic.samples) for topic in topics})
    for topic in topics:
        assert topic.read(pair.target) == topic.samples


def test_a_topic_whose_format_was_raised_is_copied_whole(pair: ClusterPair, tmp_path: Path) -> None:
    """Given messages v0, then v1, then batches v2 in one log / when copied / then all of them."""
    rng = random.Random(37)
    topic = OldTopic.make(pair, 0)
    for magic, version in FORMATS.items():
        with ClusterAdmin(pair.source.bootstrap) as admin:
            assert admin.alter_configs({topic.name: {FORMAT: version}}) == {topic.name: None}
        topic.wait_taken(magic)
        for codec in CODECS.values():
            topic.write(magic, codec, rng)
    assert topic.stored() == {(magic, codec) for magic in FORMATS for codec in CODECS.values()}
    copy(pair, tmp_path, {topic.name: len(topic.samples)})
    assert topic.read(pair.target) == topic.samples


def test_log_append_time_of_old_messages_is_kept(pair: ClusterPair, tmp_path: Path) -> None:
    """Given v1 with LogAppendTime / when copied / then readers see the source's append time."""
    topic = OldTopic.make(pair, 1, **{"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS.values():
        topic.write(1, codec, random.Random(41))
    copy(pair, tmp_path, {topic.name: len(topic.samples)})
    there = [each.timestamp_ms for each in topic.read(pair.source)]
    got = topic.read(pair.target)
    assert [each.timestamp_ms for each in got] == there
    assert [(each.key, each.value) for each in got] == [(s.key, s.value) for s in topic.samples]
