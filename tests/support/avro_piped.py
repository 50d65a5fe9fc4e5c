"""A topic of Avro records that goes through a pipeline, with Confluent's clients at both ends."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

from support.avro_clients import AvroReader, AvroWriter
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import said
from support.links import ends, write_config
from support.records import NONE, Sample, encode, write_batches
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer

AT_MS = int(time.time() * 1000)
FIRST: dict[str, Any] = {
    "type": "record",
    "name": "lsst.sal.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["REAL", "TEST"]}},
        {"name": "secret", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "Kind"}}},
        {"name": "other", "type": ["null", "int", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "more", "type": "string", "default": "-"}]}


def row(number: int, **others: Any) -> dict[str, Any]:
    return {
        "id": number,
        "kind": "REAL",
        "secret": "hide me",
        "price": Decimal(7),
        "lines": [{"a": "TEST"}, {}],
        "other": "x",
        "at": AT_MS,
        **others,
    }


class AvroPiped:
    """A topic with an Avro pipeline, a link, and a registry at each side.

    Those are doubles with Confluent's rules, but the target's may be another one that is open.
    """

    def __init__(
        self,
        pair: ClusterPair,
        folder: Path,
        strategy: str,
        step: dict[str, Any],
        *,
        target: Any = None,
        **link: Any,
    ) -> None:
        self.pair = pair
        self._open = ExitStack()
        self.source = self._open.enter_context(RegistryServer(RegistryDouble()))
        self.target = target or self._open.enter_context(RegistryServer(RegistryDouble()))
        self.topic = create_topic(pair.source, fresh_name("avro"), partitions=2)
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=fresh_name("link"),
            topics={"include": [self.topic], "refresh_interval_s": 0.5},
            schemas={"strategy": strategy, "interval_s": 1},
            pipelines=[{"name": "p", "topics": [self.topic], "steps": [{"avro_fields": step}]}],
            registries=(self.source.url, self.target.url),
            **link,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def writer(self, schema: dict[str, Any]) -> AvroWriter:
        return AvroWriter(self.pair.source.bootstrap, self.source.url, json.dumps(schema))

    def reader(self) -> AvroReader:
        return AvroReader(self.pair.target.bootstrap, self.target.url, self.topic)

    def write(self, *values: bytes | None, partition: int = 0, codec: int = NONE) -> None:
        """Write one batch."""
        batch = encode([Sample(b"k", value, AT_MS) for value in values], codec)
        cluster = self.pair.source.bootstrap.split(",")
        write_batches(cluster, self.topic, [batch], partition=partition)

    def problems(self) -> list[Any]:
        (status,) = said(self.config, "status")
        return list(status["problems"])

    def told(self, reader: AvroReader) -> str:
        return f"{reader.seen}, {reader.failures}, {self.problems()}"

    def ends(self) -> list[int]:
        return [int(end) for end in ends(self.pair.target.bootstrap, {self.topic: 2})[self.topic]]
