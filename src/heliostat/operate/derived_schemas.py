"""What pipelines make of Avro schemas, and whether it is at the target: for `heliostat schemas`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heliostat.config import LinkConfig
from heliostat.errors import RegistryError
from heliostat.link.avro_part import SourceSchemas, made_by
from heliostat.link.pipeline_rules import pipelines_of, topics_of_pipelines
from heliostat.names import TopicName
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.schemas.content import RegistryContent
from heliostat.schemas.naming import SubjectNaming
from heliostat.schemas.observe import Registry
from heliostat.schemas.registry import calls, error_codes
from heliostat.schemas.registry.values import Schema, SchemaId, Subject


@dataclass(frozen=True, slots=True)
class DerivedSchema:
    """What a pipeline makes of a schema of the source.

    Parameters
    ----------
    pipeline
        Its name.
    schema_id
        Id at the source.
    subjects
        Subjects at the target, in the default context.
    target_id
        Id there; None if it is not registered.
    reason
        Why records of this schema can't go through the pipeline; empty: they can.
    """

    pipeline: str
    schema_id: SchemaId
    subjects: tuple[Subject, ...]
    target_id: SchemaId | None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "pipeline": self.pipeline,
            "id": self.schema_id,
            "target_subjects": list(self.subjects),
            "target_id": self.target_id,
            "reason": self.reason,
        }


NOT_THERE = SchemaId(-1)
"""As `AvroSchema` says it."""


class Looked:
    """Looks for what a step makes of a schema; registers nothing.

    Parameters
    ----------
    target
        The target's registry.
    naming
        Names of subjects.
    """

    def __init__(self, target: Registry, naming: SubjectNaming) -> None:
        self._target = target
        self._naming = naming
        self.subjects: dict[int, tuple[Subject, ...]] = {}

    def __call__(
        self, step: AvroFields, schema: AvroSchema, subjects: Sequence[Subject]
    ) -> SchemaId:
        """Return its id at the target, or `NOT_THERE`; see `avro_part.Registered`."""
        text, names = made_by(step, schema, subjects, self._naming)
        self.subjects[schema.schema_id] = names
        try:
            ids = [self._target.ask(calls.look_up(name, Schema(text))).schema_id for name in names]
        except RegistryError as error:
            if error.registry_code not in error_codes.NOT_FOUND:
                raise
            return NOT_THERE
        return ids[0]


def derived_schemas(
    link: LinkConfig,
    mirrors: Mapping[TopicName, TopicName],
    content: RegistryContent,
    target: Registry,
) -> tuple[DerivedSchema, ...]:
    """Return what the link's pipelines make of schemas; changes nothing.

    Of subjects that are named after topics: which others records have is only known to a link that
    runs.

    Raises
    ------
    RegistryError, RegistryUnreachable, RegistryAnswerInvalid
        The target's registry does not answer, or refuses.
    """
    naming = SubjectNaming(dict(mirrors), keeps_original=link.schemas.keep_names)
    source, derived = SourceSchemas(content, naming), list[DerivedSchema]()
    topics = topics_of_pipelines(link, mirrors)
    for name, pipeline in pipelines_of(link).items():
        for step in pipeline.avro_steps:
            if step.rewrites:
                derived += _of_step(name, step, topics[name], source, Looked(target, naming))
    return tuple(derived)


def _of_step(
    pipeline: str,
    step: AvroFields,
    topics: frozenset[TopicName],
    source: SourceSchemas,
    looked: Looked,
) -> list[DerivedSchema]:
    schemas, refused = source.of_step(step, topics, frozenset(), looked)
    if refused:
        raise RegistryError(refused[0])
    return [
        DerivedSchema(
            pipeline,
            SchemaId(schema.schema_id),
            looked.subjects.get(schema.schema_id, ()),
            None if schema.target_id == NOT_THERE else SchemaId(schema.target_id),
            schema.problem,
        )
        for schema in schemas
    ]
