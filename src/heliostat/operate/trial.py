"""Shows what a pipeline makes of a topic's last records; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from heliostat.config import Config, LinkConfig
from heliostat.errors import Refused
from heliostat.link.pipeline_rules import pipeline_of, pipelines_of
from heliostat.names import PartitionId, TopicName, TopicPartition
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.spark.frames import on_lane
from heliostat.records.spark.row_workers import LaneRows
from heliostat.records.spark.trial import TriedRecord, trial_session, tried
from heliostat.schemas.registry.values import SchemaId
from heliostat.verify.read_requests import Isolation
from heliostat.verify.reader import LogReader

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Trial:
    """A pipeline, and what it makes of the records tried."""

    topic: TopicName
    pipeline: str
    records: list[TriedRecord]

    @property
    def failed(self) -> list[TriedRecord]:
        """Those at which it fails."""
        return [each for each in self.records if each.error]


def try_pipeline(config: Config, link: LinkConfig, topic: TopicName, last: int) -> Trial:
    """Put the last records of each partition of a source topic through its pipeline.

    Parameters
    ----------
    config, link
        The configuration, and a link of it.
    topic
        Topic of the source.
    last
        How many offsets before the end of each partition.

    Raises
    ------
    Refused
        The topic has no pipeline, or is not at the source.
    PipelineRefused
        Spark can't run the pipeline.
    SparkUnavailable
        Spark can't be started.
    ConnectionLost, BrokerError
        The source does not answer or refuses.
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The same of its registry, if the pipeline needs schemas.
    """
    name = pipeline_of(link, topic)
    if not name:
        raise Refused(f"no pipeline of link {link.name} has topic {topic}")
    import pyarrow as pa

    tables = [pa.Table.from_batches([each]) for each in _rows(config, link, topic, last)]
    pipeline = pipelines_of(link)[name]
    if pipeline.avro_steps:
        pipeline = _with_schemas(config, link, topic, pipeline, tables)
    found: list[TriedRecord] = []
    with trial_session(config.spark.conf) as session:
        on_lane(session, LaneRows(), pipeline)  # refused, also if there is no record
        for table in tables:
            if table.num_rows:
                found += tried(session, pipeline, table)
    return Trial(topic, name, list(_readable(pipeline, found)))


def _with_schemas(
    config: Config, link: LinkConfig, topic: TopicName, pipeline: Pipeline, tables: list[pa.Table]
) -> Pipeline:
    """Return a pipeline with the schemas of these records; what it makes keeps the source's ids.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The source's registry does not answer, or refuses.
    """
    from heliostat.link.avro_part import SourceSchemas
    from heliostat.records.avro.frames import ids_in
    from heliostat.schemas import HttpRegistry, SubjectNaming, observe_registry

    access = config.clusters[link.source].registry_access()
    assert access is not None, "the configuration was checked"
    with HttpRegistry(access) as registry:
        source = SourceSchemas(observe_registry(registry), SubjectNaming({topic: topic}))
    found = {}
    for step in pipeline.avro_steps:
        wanted = frozenset(each for table in tables for each in ids_in(table[step.column]))
        found[step.column], _ = source.of_step(
            step, frozenset({topic}), wanted, lambda _, schema, __: SchemaId(schema.schema_id)
        )
    return pipeline.with_schemas(found)


def _readable(pipeline: Pipeline, records: list[TriedRecord]) -> Iterator[TriedRecord]:
    """Yield records with what Avro steps have decoded in place of its bytes."""
    if not pipeline.avro_steps:
        yield from records
        return
    from heliostat.records.avro.shown import Shown

    shown = {step.column: Shown(step) for step in pipeline.avro_steps}
    for each in records:
        before, after = dict(each.before), None if each.after is None else dict(each.after)
        for column, views in shown.items():
            if before[column] is not None:
                before[column] = views.before(before[column])
            if after is not None and after[column] is not None:
                after[column] = views.after(after[column])
        yield replace(each, before=before, after=after)


def _rows(
    config: Config, link: LinkConfig, topic: TopicName, last: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each partition's last records."""
    from heliostat.records.batches.batch import next_offset
    from heliostat.records.rows.to_rows import Chunk, rows_of, whole_batches

    access = config.clusters[link.source].access()
    with LogReader(access, Isolation.READ_COMMITTED) as reader:
        view = reader.topics([topic]).get(topic)
        if view is None:
            raise Refused(f"topic {topic} is not at {link.source}, or can't be described there")
        partitions = [TopicPartition(topic, PartitionId(each)) for each in sorted(view.leaders)]
        for one, bounds in reader.bounds(partitions).items():
            position = max(bounds.start, bounds.end - last)
            while position < bounds.end:
                data = reader.fetch({one: position})[one].data
                end, error = whole_batches(memoryview(data), 0, len(data))
                if error is not None or not end:
                    text = "its batches can't be read" if error is None else error.text
                    raise Refused(f"{one} at offset {position}: {text}")
                rows = rows_of(Chunk(0, one, memoryview(data)[:end], position, bounds.end))
                yield rows
                position = next_offset(data, 0, end) or bounds.end
