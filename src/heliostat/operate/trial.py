"""Shows what a pipeline makes of a topic's last records, or of made-up ones; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from heliostat.config import Config, LinkConfig
from heliostat.errors import PipelineRefused, Refused
from heliostat.link.pipeline_rules import pipeline_of, pipelines_of
from heliostat.names import TopicName
from heliostat.operate.tried_records import LastRecords, MadeUp, chunks_of
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.records.spark.tried_record import TriedRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.link.avro_part import SourceSchemas
    from heliostat.records.spark.trial import Session


@dataclass(frozen=True, slots=True)
class Trial:
    """A pipeline, and what it makes of the records tried."""

    topic: TopicName
    pipeline: str
    records: list[TriedRecord]

    @property
    def failed(self) -> list[TriedRecord]:
        """Those at which it fails."""
        return [record for record in self.records if record.error]


class Trials:
    """Tries pipelines. Use as a context manager: Spark is started when one needs it, and kept."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._session: Session | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def tried(
        self, config: Config, link: LinkConfig, topic: TopicName, source: LastRecords | MadeUp
    ) -> Trial:
        """Put records through the pipeline of a source topic.

        Parameters
        ----------
        config, link
            The configuration, and a link of it.
        topic
            Topic of the source.
        source
            Which records: of made-up ones no broker is asked.

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

        from heliostat.records.rows.to_rows import rows_of

        cluster, chunks = chunks_of(config, link, topic, source)
        tables = [pa.Table.from_batches([rows_of(chunk)]) for chunk in chunks]
        pipeline = pipelines_of(link)[name].from_cluster(cluster)
        if pipeline.avro_steps:
            source_of = source_schemas(config, link, [topic])
            pipeline = with_source_ids(source_of, pipeline, frozenset({topic}), tables)
        if pipeline.is_in_place:
            from heliostat.records.spark.frames import refused_in_place
            from heliostat.records.spark.piped_in_place import tried_in_place

            for why in refused_in_place([pipeline]).values():
                raise PipelineRefused(why)
            records = [record for chunk in chunks for record in tried_in_place(pipeline, chunk)]
        else:
            records = self._in_spark(config, pipeline, tables)
        return Trial(topic, name, list(_readable(pipeline, records)))

    def _in_spark(
        self, config: Config, pipeline: Pipeline, tables: Sequence[pa.Table]
    ) -> list[TriedRecord]:
        from heliostat.records.spark.frames import check_runs
        from heliostat.records.spark.trial import trial_session, tried

        if self._session is None:
            session = trial_session(config.spark.conf, reads_again=True)
            self._session = self._stack.enter_context(session)
        some = [table for table in tables if table.num_rows]
        if not some:
            check_runs(self._session, pipeline)
        return [record for table in some for record in tried(self._session, pipeline, table)]


def try_pipeline(
    config: Config, link: LinkConfig, topic: TopicName, source: LastRecords | MadeUp
) -> Trial:
    """Put records through a pipeline once, see `Trials`."""
    with Trials() as trials:
        return trials.tried(config, link, topic, source)


def source_schemas(config: Config, link: LinkConfig, topics: Iterable[TopicName]) -> SourceSchemas:
    """Return the schemas of the source's registry, for pipelines of these topics.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The source's registry does not answer, or refuses.
    """
    from heliostat.link.avro_part import SourceSchemas
    from heliostat.schemas import HttpRegistry, SubjectNaming, observe_registry

    access = config.clusters[link.source].registry_access()
    assert access is not None, "the configuration was checked"
    with HttpRegistry(access) as registry:
        return SourceSchemas(observe_registry(registry), SubjectNaming({t: t for t in topics}))


def with_source_ids(
    source: SourceSchemas,
    pipeline: Pipeline,
    topics: frozenset[TopicName],
    tables: Sequence[pa.Table] = (),
) -> Pipeline:
    """Return a pipeline with the schemas of its topics; what it makes keeps the source's ids."""
    from heliostat.records.avro.frames import ids_in
    from heliostat.schemas.registry.values import SchemaId

    schemas = {}
    for step in pipeline.avro_steps:
        wanted = frozenset(
            schema_id for table in tables for schema_id in ids_in(table[step.column])
        )
        schemas[step.column], _ = source.of_step(
            step, topics, wanted, lambda _, schema, __: SchemaId(schema.schema_id)
        )
    return pipeline.with_schemas(schemas)


def _readable(pipeline: Pipeline, records: list[TriedRecord]) -> Iterator[TriedRecord]:
    """Yield records with what Avro steps have decoded in place of its bytes."""
    if not pipeline.avro_steps:
        yield from records
        return
    from heliostat.records.avro.shown import Shown

    shown = {step.column: Shown(step) for step in pipeline.avro_steps}
    for record in records:
        before, after = dict(record.before), None if record.after is None else dict(record.after)
        for column, views in shown.items():
            if before[column] is not None:
                before[column] = views.before(before[column])
            if after is not None and after[column] is not None:
                after[column] = views.after(after[column])
        yield replace(record, before=before, after=after)
