"""Topics of Avro records that go through pipelines, with Confluent's clients at both ends."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

from support.avro_clients import AvroReader, AvroWriter
from support.clusters import ClusterPair, create_topic, fresh_name
from support.command import said
from support.links import ends, write_config
from support.records import NONE, Headers, Sample, encode, write_batches
from support.registry_double import RegistryDouble
from support.registry_server import RegistryServer

AT_MS = int(time.time() * 1000)
PARTITIONS = 2
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
CUT: dict[str, Any] = {"mask": {"secret": None}, "drop": ["price"], "rename": {"other": "others"}}
"""Of `avro_fields`: it needs no rows."""


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


class AvroTopic:
    """A topic of the source, and a consumer of its mirror that is there before it.

    Parameters
    ----------
    pair
        Both clusters.
    registries
        Addresses of the source's and the target's registry.
    name
        Its name.
    """

    def __init__(self, pair: ClusterPair, registries: tuple[str, str], name: str) -> None:
        self.pair = pair
        self._registry = registries[0]
        self.name = create_topic(pair.source, name, partitions=PARTITIONS)
        self.reader = AvroReader(pair.target.bootstrap, registries[1], name)

    def writer(self, schema: dict[str, Any]) -> AvroWriter:
        return AvroWriter(self.pair.source.bootstrap, self._registry, json.dumps(schema))

    def encode(self, schema: dict[str, Any], *rows: dict[str, Any]) -> list[bytes]:
        """Return values; the schema is registered with them."""
        with self.writer(schema) as writer:
            return writer.encode(self.name, *rows)

    def write(
        self,
        *values: bytes | None,
        partition: int = 0,
        codec: int = NONE,
        headers: Headers = (),
    ) -> None:
        """Write one batch."""
        batch = encode([Sample(b"k", value, AT_MS, headers) for value in values], codec)
        cluster = self.pair.source.bootstrap.split(",")
        write_batches(cluster, self.name, [batch], partition=partition)

    def ends(self) -> list[int]:
        """Return where its mirror ends."""
        return ends(self.pair.target.bootstrap, {self.name: PARTITIONS})[self.name]


class AvroLink:
    """A link of topics that it makes, and a registry at each side: doubles with Confluent's rules.

    Parameters
    ----------
    pair, folder
        Its clusters, and where its configuration is.
    strategy
        What it does with schemas.
    pipelines
        The steps of each pipeline, by its name.
    link
        More keys of its configuration.
    """

    def __init__(
        self,
        pair: ClusterPair,
        folder: Path,
        strategy: str,
        pipelines: dict[str, Sequence[dict[str, Any]]],
        **link: Any,
    ) -> None:
        self.pair = pair
        self._open = ExitStack()
        self.source = self._open.enter_context(RegistryServer(RegistryDouble()))
        self.target = self._open.enter_context(RegistryServer(RegistryDouble()))
        self.name = fresh_name("link")
        self.config = write_config(
            folder,
            pair.source.bootstrap,
            pair.target.bootstrap,
            name=self.name,
            topics={"include": [rf".*\.{self.name}"], "refresh_interval_s": 0.5},
            schemas={"strategy": strategy, "interval_s": 1},
            pipelines=[
                {"name": name, "topics": [rf"{name}\..*"], "steps": list(steps)}
                for name, steps in pipelines.items()
            ],
            registries=(self.source.url, self.target.url),
            **link,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def topic(self, pipeline: str, case: str = "case") -> AvroTopic:
        """Create a topic that goes through a pipeline, and begin to read its mirror."""
        name = f"{pipeline}.{case}.{self.name}"
        made = AvroTopic(self.pair, (self.source.url, self.target.url), name)
        self._open.enter_context(made.reader)
        return made

    def problems(self, topic: AvroTopic) -> list[Any]:
        """Return the partitions of a topic that are not copied as they should be, in order."""
        (status,) = said(self.config, "status")
        rows = [each for each in status["problems"] if each["source"] == topic.name]
        return sorted(rows, key=lambda each: int(each["partition"]))

    def told(self, topic: AvroTopic) -> str:
        """What is known of a topic, for a wait that fails."""
        return f"{topic.reader.seen}, {topic.reader.failures}, {self.problems(topic)}"
