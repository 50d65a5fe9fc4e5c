"""Write record batches exactly as given: batch borders, codec, timestamps, nulls, headers.

Uses neither the product's connections nor its batch code.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import kafka.errors
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BATCH_BYTES_MAX = 4 * 1024 * 1024
WAIT_S = 60.0
KEEP = {"retention.ms": "-1"}  # records with old timestamps would be deleted within seconds

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Timestamp (ms), key, value, headers."""


def batch_bytes(records: Sequence[Record], codec: str = "none") -> bytes:
    """Build one v2 batch."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=BATCH_BYTES_MAX,
    )
    for offset, (timestamp, key, value, headers) in enumerate(records):
        added = builder.append(offset, timestamp, key, value, headers)
        assert added is not None, "batch too large"
    return bytes(builder.build())


class Planter:
    """Creates topics and appends batches on one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._net = NetworkSelector()
        self._manager = KafkaConnectionManager(self._net, bootstrap_servers=bootstrap)
        self._manager.bootstrap(timeout_ms=15_000)
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._admin.close()
        self._manager.close()
        self._net.close()

    def topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait until its leaders are known."""
        self._admin.create_topics(
            [NewTopic(name, partitions, 1, topic_configs={**KEEP, **(configs or {})})]
        )
        deadline = time.monotonic() + WAIT_S
        seen: Any = None
        while time.monotonic() < deadline:
            seen = self._metadata(name)
            topic = seen.topics[0]
            if (
                topic.error_code == 0
                and len(topic.partitions) == partitions
                and all(p.error_code == 0 and p.leader_id >= 0 for p in topic.partitions)
            ):
                self._manager.cluster.update_metadata(seen)
                return
        raise AssertionError(f"no leaders for {name}: {seen}")

    def _metadata(self, name: str) -> Any:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name)],
            allow_auto_topic_creation=False,
        )
        return self._net.run(lambda: self._manager.send(request))

    def append(self, topic: str, partition: int, data: bytes) -> int:
        """Append one batch; return its base offset. Retries while leaders are elected."""
        part = ProduceRequest.TopicProduceData.PartitionProduceData
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=topic, partition_data=[part(index=partition, records=data)]
                )
            ],
            max_version=12,
        )
        deadline = time.monotonic() + WAIT_S
        code = -1
        while time.monotonic() < deadline:
            answer = self._net.run(lambda: self._manager.send(request, node_id=self._leader()))
            result = answer.responses[0].partition_responses[0]
            code = result.error_code
            if code == 0:
                return int(result.base_offset)
            assert code in (3, 5, 6), f"append failed: {kafka.errors.for_code(code)} {result}"
        raise AssertionError(f"append failed until the deadline: error {code}")

    def _leader(self) -> int:
        return int(next(iter(self._manager.cluster.brokers())).node_id)

    def write(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        partition: int = 0,
        batch_records: int = 500,
        codec: str = "none",
    ) -> None:
        """Append records in batches of a given size."""
        pending = list(records)
        for begin in range(0, len(pending), batch_records):
            data = batch_bytes(pending[begin : begin + batch_records], codec)
            self.append(topic, partition, data)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        self._admin.delete_topics([name])
        deadline = time.monotonic() + WAIT_S
        while self._metadata(name).topics[0].error_code == 0:
            assert time.monotonic() < deadline, f"{name} is still there"

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Raise the log start."""
        from kafka.structs import TopicPartition  # its name is ours elsewhere

        self._admin.delete_records({TopicPartition(topic, partition): offset})

    def read_timestamps(self, topic: str) -> list[int]:
        """Read timestamps with kafka-python's own consumer."""
        from kafka.structs import TopicPartition  # its name is ours elsewhere
        from support.consumers import open_consumer  # only here

        consumer = open_consumer(self.bootstrap, auto_offset_reset="earliest")
        try:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            end = consumer.end_offsets([partition])[partition]
            seen: list[int] = []
            deadline = time.monotonic() + WAIT_S
            while len(seen) < end and time.monotonic() < deadline:
                for rows in consumer.poll(timeout_ms=500).values():
                    seen += [row.timestamp for row in rows]
            assert len(seen) == end, f"{len(seen)} of {end} records"
            return seen
        finally:
            consumer.close()

    def write_transaction(self, topic: str, records: Iterable[Record], *, commit: bool) -> None:
        """Append one transaction, by kafka-python's own producer, and wait for its marker."""
        from kafka import KafkaProducer  # only here

        rows = list(records)
        before = self._last_stable_offset(topic)

        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=f"planted-{time.monotonic_ns()}"
        )
        try:
            producer.init_transactions()
            producer.begin_transaction()
            for timestamp, key, value, headers in rows:
                producer.send(
                    topic, value, key, headers=headers, partition=0, timestamp_ms=timestamp
                )
            if commit:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()
        finally:
            producer.close()
        deadline = time.monotonic() + WAIT_S
        while (
            self._last_stable_offset(topic) < before + len(rows) + 1
        ):  # the marker is written after the answer
            assert time.monotonic() < deadline, f"no marker in {topic}"

    def _last_stable_offset(self, topic: str) -> int:
        from kafka.structs import TopicPartition  # its name is ours elsewhere
        from support.consumers import open_consumer  # only here

        consumer = open_consumer(self.bootstrap, isolation_level="read_committed")
        try:
            partition = TopicPartition(topic, 0)
            return int(consumer.end_offsets([partition])[partition])
        finally:
            consumer.close()
