"""What pipelines make of the source's records now, for `heliostat verify`; nothing is written."""

from __future__ import annotations

import gc
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from heliostat.config import Config, LinkConfig
from heliostat.errors import (
    HeliostatError,
    RegistryAnswerInvalid,
    RegistryError,
    RegistryUnreachable,
)
from heliostat.link.pipeline_rules import pipeline_of, pipelines_from, topics_of_pipelines
from heliostat.names import ClusterId, Offset, TopicName, TopicPartition
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.rows.layout import HEADERS, SCHEMA, TIMESTAMP
from heliostat.records.rows.to_rows import US_PER_MS
from heliostat.records.spark.trial import Maker, Spark, maker_in
from heliostat.schemas.registry.values import SchemaId, Subject
from heliostat.verify.piped import Pipe
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader
from heliostat.verify.stream_values import ConsumedRecord

if TYPE_CHECKING:
    from heliostat.link.avro_part import SourceSchemas

WithSchemas = Callable[[str, pa.Table], Pipeline]
"""Returns a pipeline that knows the schemas of these rows."""


@contextmanager
def open_pipes(
    config: Config,
    link: LinkConfig,
    mirrors: Mapping[TopicName, TopicName],
    context: Spark,
) -> Iterator[PipesOfLink]:
    """Yield the pipelines of a link, to be run in a Spark.

    Parameters
    ----------
    config, link
        The configuration, and a link of it.
    mirrors
        Target topics by source topic.
    context
        Spark.

    Raises
    ------
    ConnectionLost
        The source does not answer, if a pipeline says its id.

    Notes
    -----
    What a registry that does not answer, or refuses, says is raised where schemas are needed: other
    topics can be compared without.
    """
    pipelines = pipelines_from(link, partial(_cluster_id, config, link))
    with ExitStack() as stack:
        with_schemas: WithSchemas = lambda name, _: pipelines[name]  # noqa: E731 - or the other
        if any(pipeline.avro_steps for pipeline in pipelines.values()):
            try:
                with_schemas = stack.enter_context(_schemas(config, link, pipelines, mirrors))
            except (RegistryError, RegistryUnreachable, RegistryAnswerInvalid) as error:
                with_schemas = partial(_without_schemas, pipelines, error)
        names = {topic: pipeline_of(link, topic) for topic in mirrors}
        names = {topic: name for topic, name in names.items() if name}
        yield PipesOfLink(frozenset(names), names, maker_in(context), with_schemas)


def _without_schemas(
    pipelines: Mapping[str, Pipeline], error: HeliostatError, name: str, _rows: pa.Table
) -> Pipeline:
    if pipelines[name].avro_steps:
        raise error
    return pipelines[name]


def _cluster_id(config: Config, link: LinkConfig) -> ClusterId:
    with LogReader(config.clusters[link.source].access(), Isolation.READ_COMMITTED) as reader:
        reader.topics([])
        return ClusterId(reader.cluster_id)


@contextmanager
def _schemas(
    config: Config,
    link: LinkConfig,
    pipelines: Mapping[str, Pipeline],
    mirrors: Mapping[TopicName, TopicName],
) -> Iterator[WithSchemas]:
    from heliostat.link.avro_part import SourceSchemas
    from heliostat.operate.derived_schemas import NOT_THERE, Looked
    from heliostat.operate.schemas import registries_of
    from heliostat.schemas import SubjectNaming, observe_registry

    naming = SubjectNaming(dict(mirrors), keeps_original=link.schemas.keep_names)
    with registries_of(config, link) as (source, target):
        looked = Looked(target, naming)

        def at_target(
            step: AvroFields, schema: AvroSchema, subjects: Sequence[Subject]
        ) -> SchemaId:
            schema_id = looked(step, schema, subjects)
            if schema_id == NOT_THERE:
                raise RegistryError("it is not at the target")
            return schema_id

        schemas = SourceSchemas(observe_registry(source), naming)
        yield _Known(pipelines, topics_of_pipelines(link, mirrors), schemas, at_target)


class _Known:
    """Pipelines with the schemas that the rows so far have needed. Thread-safe."""

    def __init__(
        self,
        pipelines: Mapping[str, Pipeline],
        topics: Mapping[str, frozenset[TopicName]],
        schemas: SourceSchemas,
        at_target: Callable[[AvroFields, AvroSchema, Sequence[Subject]], SchemaId],
    ) -> None:
        self._pipelines, self._topics = pipelines, topics
        self._schemas, self._at_target = schemas, at_target
        self._wanted: dict[str, frozenset[int]] = {}
        self._found: dict[str, Pipeline] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str, rows: pa.Table) -> Pipeline:
        """See `WithSchemas`."""
        from heliostat.records.avro.frames import ids_in

        plain = self._pipelines[name]
        steps = plain.avro_steps
        ids = {number for step in steps for number in ids_in(rows[step.column])}
        with self._lock:
            wanted = self._wanted.get(name)
            if wanted is None or ids - wanted:
                wanted = self._wanted[name] = (wanted or frozenset()) | ids
                schemas = {
                    step.column: self._schemas.of_step(
                        step, self._topics[name], wanted, self._at_target
                    )[0]
                    for step in steps
                }
                self._found[name] = plain.with_schemas(schemas)
            return self._found[name]


@dataclass(slots=True)
class PipesOfLink:
    """A link's pipelines, see `heliostat.verify.piped.Pipes`. Thread-safe."""

    topics: frozenset[TopicName]
    names: Mapping[TopicName, str]
    """Pipelines by topic."""
    maker: Maker
    known: WithSchemas
    failed: dict[TopicPartition, dict[Offset, str]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def of(self, partition: TopicPartition) -> Pipe:
        """Return the pipeline of a partition."""
        return partial(self._made, partition, self.names[partition.topic])

    def _made(
        self,
        partition: TopicPartition,
        name: str,
        rows: Sequence[ConsumedRecord],
        *,
        is_log_append_time: bool,
    ) -> list[ConsumedRecord]:
        table = _table(partition, rows, is_log_append_time=is_log_append_time)
        before = {row[0]: row for row in rows}
        records: list[ConsumedRecord] = []
        for part in self.maker(self.known(name, table), table):
            if part.made is not None:
                records += _changed(before, part.made)
            else:
                self.failed[partition][Offset(part.rows["offset"][0].as_py())] = part.error
        # A frame is in a cycle, and as long as it is there, Spark's JVM keeps all of its rows: 20
        # pieces filled a heap of 768 MiB, as whoever compares rows has the collector paused.
        gc.collect()
        return records


def _changed(before: Mapping[int, ConsumedRecord], made: pa.Table) -> Iterator[ConsumedRecord]:
    """Yield the records of rows that came back; columns that are not there are as they were."""
    columns = {name: _values(name, made[name]) for name in made.column_names}
    for index, offset in enumerate(columns["offset"]):
        _, timestamp, key, value, headers = before[offset]
        yield (
            offset,
            columns["timestamp"][index] if "timestamp" in columns else timestamp,
            columns["key"][index] if "key" in columns else key,
            columns["value"][index] if "value" in columns else value,
            columns["headers"][index] if "headers" in columns else headers,
        )


def _table(
    partition: TopicPartition, rows: Sequence[ConsumedRecord], *, is_log_append_time: bool
) -> pa.Table:
    """Return records as rows of the schema `layout.SCHEMA`."""
    offsets, timestamps, keys, values, headers = zip(*rows, strict=True)
    count = len(rows)
    # As the link does it: a timestamp beyond Spark's wraps, and is as it was if no step sets it.
    times_us = np.array(timestamps, np.int64) * US_PER_MS
    columns = [
        pa.repeat(pa.scalar(str(partition.topic), pa.string()), count),
        pa.repeat(pa.scalar(int(partition.partition), pa.int32()), count),
        pa.array(offsets, pa.int64()),
        pa.array(times_us).cast(TIMESTAMP),
        pa.repeat(pa.scalar(int(is_log_append_time), pa.int32()), count),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([[{"key": n, "value": v} for n, v in some] for some in headers], HEADERS),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _values(name: str, column: pa.ChunkedArray) -> list[Any]:
    """Return a column that came back, as consumers see it."""
    if name == "timestamp":
        times_us = column.cast(pa.int64()).to_pylist()
        return [None if time_us is None else time_us // US_PER_MS for time_us in times_us]
    values: list[Any] = column.to_pylist()
    if name == "headers":
        return [
            None if some is None else [(header["key"], header["value"]) for header in some]
            for some in values
        ]
    return values
