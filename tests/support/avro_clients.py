"""What users read and write Avro records with: Confluent's, which ask a registry for ids."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from support.clusters import fresh_name, until

POLL_S = 0.1
FLUSH_WITHIN_S = 30.0
Record = dict[str, Any]
Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True)
class Seen:
    """A record as a consumer sees it: decoded, and what it was before."""

    record: Record
    key: bytes | None
    value: bytes
    timestamp: tuple[int, int]
    """Its type and milliseconds."""
    headers: list[Any]

    @property
    def schema_id(self) -> int:
        """The id in its value."""
        return int.from_bytes(self.value[1:5], "big")


def open_registry(url: str) -> SchemaRegistryClient:
    """Open a client that asks once: repeated requests would hide a schema that comes too late."""
    return SchemaRegistryClient({"url": url, "max.retries": 0})


class AvroReader:
    """A consumer that is there before its topic, and decodes each record as soon as it sees it.

    Parameters
    ----------
    bootstrap
        Its cluster.
    registry
        Address of the registry, with a context where the client has one (`.../contexts/.summit`).
    topic
        What it reads, from the beginning.
    """

    def __init__(self, bootstrap: str, registry: str, topic: str) -> None:
        self.seen: dict[Place, Seen] = {}
        self.failures: list[str] = []
        """Records that could not be decoded at once, and the client's own errors."""
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": fresh_name("avro"),
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 200,
                "log_level": 2,  # twenty lines a second while a broker is away
            }
        )
        self._registry = open_registry(registry)
        self._decode = AvroDeserializer(self._registry)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def ids(self) -> set[int]:
        """Ids of schemas in the values that it has seen."""
        return {each.schema_id for each in self.seen.values()}

    def records(self, partition: int = 0) -> list[Record]:
        """Return what was decoded of a partition, in order."""
        places = sorted(place for place in self.seen.copy() if place[0] == partition)
        return [self.seen[place].record for place in places]

    def wait(self, *partitions: list[Record]) -> None:
        """Wait until it has seen these records of each partition; fail if any was undecodable."""
        wanted = [*partitions]

        def found() -> list[list[Record]]:
            return [self.records(number) for number in range(len(wanted))]

        until(
            lambda: self.failures or found() == wanted,
            lambda: f"{wanted} of {self._topic}, there is {found()}",
        )
        assert self.failures == []
        assert len(self.seen) == sum(map(len, wanted))

    def _run(self) -> None:
        with contextlib.closing(self._consumer), self._registry:
            self._consumer.subscribe([self._topic])
            while not self._ended.is_set():
                message = self._consumer.poll(POLL_S)
                if message is not None:
                    self._take(message)

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                self.failures.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        if value is None:
            return  # nothing to decode
        place = partition, offset
        headers: Any = list(message.headers() or ())
        context = SerializationContext(self._topic, MessageField.VALUE, headers)
        try:
            record = self._decode(value, context)
        except Exception as failure:  # noqa: BLE001  # whatever it is, a user would have it too
            self.failures.append(f"{place}: {failure!r}")
            return
        self.seen[place] = Seen(record, message.key(), value, message.timestamp(), headers)


class AvroWriter:
    """A producer of records of one schema; a subject gets it with the first record.

    Parameters
    ----------
    bootstrap
        Its cluster.
    registry
        Address of the registry.
    schema
        Text of the Avro schema.
    put_id
        Puts a schema's id into a record (`schema.id.serializer`), instead of in front of its value.
    """

    def __init__(
        self, bootstrap: str, registry: str, schema: str, put_id: Callable[..., bytes] | None = None
    ) -> None:
        self._registry = open_registry(registry)
        settings = {} if put_id is None else {"schema.id.serializer": put_id}
        self._encode = AvroSerializer(self._registry, schema, conf=settings)
        self._bootstrap = bootstrap

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._registry.close()

    def encode(self, topic: str, *records: Record) -> list[bytes]:
        """Return values for a topic; the first registers the schema."""
        context = SerializationContext(topic, MessageField.VALUE)
        return [self._encode(record, context) for record in records]

    def send(self, topic: str, values: list[bytes], partition: int = 0) -> None:
        """Write values in order, each with a key and a header."""
        # A new producer knows a partition that has just been added.
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for number, value in enumerate(values):
            key = b"%d" % number
            headers: list[tuple[str, str | bytes | None]] = [("written", b"\x00" + key)]
            producer.produce(topic, value, key, partition, headers=headers)
        left = producer.flush(FLUSH_WITHIN_S)
        assert left == 0, f"{left} records were not acknowledged"

    def write_with_headers(self, topic: str, record: Record) -> dict[str, Any]:
        """Write a record with the headers that `put_id` adds; return these."""
        headers: list[tuple[str, str | bytes | None]] = []
        value = self._encode(record, SerializationContext(topic, MessageField.VALUE, headers))
        producer = Producer({"bootstrap.servers": self._bootstrap})
        producer.produce(topic, value, headers=headers, partition=0)
        assert producer.flush(FLUSH_WITHIN_S) == 0
        return dict(headers)

    def write(self, topic: str, *records: Record, partition: int = 0) -> None:
        """Encode and write records."""
        self.send(topic, self.encode(topic, *records), partition)
