"""The Avro schemas that a link's pipelines need: found at the source, made known to the lanes.

Only the driver asks registries (docs/adr/0022). So a round is told the schemas that are known when
it begins; records with other ids wait before its pipeline, are reported, and when their schemas are
found a new round takes its place.

A step that changes fields makes a new schema of each one. It is registered before any round may use
it, so that no record with its id is visible before its schema (I8).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from heliostat.config import LinkConfig
from heliostat.errors import RegistryError
from heliostat.link.pipeline_rules import pipeline_of, topics_of_pipelines
from heliostat.names import TopicName
from heliostat.ops.events import Events
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.records.copier.lane import PartitionCode, RoundReport
from heliostat.records.copier.pipeline_steps import Pipeline
from heliostat.schemas.content import RegistryContent
from heliostat.schemas.naming import SubjectNaming
from heliostat.schemas.observe import Registry
from heliostat.schemas.registry import calls, error_codes
from heliostat.schemas.registry.values import (
    AVRO,
    DEFAULT_CONTEXT,
    Schema,
    SchemaId,
    Subject,
    SubjectVersion,
    split_subject,
)

if TYPE_CHECKING:
    from heliostat.records.avro.schema_text import Avro

KEY = "-key"
_UNREADABLE = PartitionCode.SCHEMA_UNREADABLE
AGAIN_EVERY = 10
"""In one of so many turns schemas that were registered before are registered again: a registry that
was restored from a backup may have lost them."""
Refused = Callable[[Mapping[str, Pipeline]], dict[str, str]]
Learnt = Callable[[Mapping[str, Pipeline], Mapping[str, str]], None]
Registered = Callable[[AvroFields, AvroSchema, Sequence[Subject]], SchemaId]
"""Returns the target's id of what a step makes of a schema of these subjects of the source.

Raises RegistryError: it can't be registered now, and its records wait.
"""


class _Found(NamedTuple):
    """A schema of the source that records of a pipeline may have."""

    schema_id: SchemaId
    schema: Schema
    subjects: tuple[Subject, ...]


class SourceSchemas:
    """The schemas of a source's registry, as pipelines need them.

    Parameters
    ----------
    content
        The registry.
    naming
        The mirrors of the link.
    read
        Schemas that were read before, kept from turn to turn; changed in place.
    """

    def __init__(
        self,
        content: RegistryContent,
        naming: SubjectNaming,
        read: dict[tuple[object, ...], AvroSchema] | None = None,
    ) -> None:
        self._content = content
        self._naming = naming
        self._known = {} if read is None else read

    @cached_property
    def _newest(self) -> dict[Subject, SubjectVersion]:
        found: dict[Subject, SubjectVersion] = {}
        for of in sorted(self._content.versions, key=self._age):
            found[of.subject] = of
        return found

    def _age(self, of: SubjectVersion) -> tuple[bool, int]:
        return not self._content.versions[of].is_deleted, of.version

    def of_step(
        self,
        step: AvroFields,
        topics: frozenset[TopicName],
        wanted: frozenset[int],
        registered: Registered,
    ) -> tuple[tuple[AvroSchema, ...], list[str]]:
        """Return the schemas of a step, and why others are not among them yet.

        Parameters
        ----------
        step
            The step.
        topics
            Those of its pipeline.
        wanted
            Ids that records of these topics have: schemas of subjects that are named after no
            topic are found by them.
        registered
            Registers what the step makes of a schema.
        """
        found: list[AvroSchema] = []
        notes: list[str] = []
        for each in self._found(step, topics, wanted):
            schema = self._read(step, each)
            if step.rewrites and not schema.problem:
                try:
                    number = registered(step, schema, each.subjects)
                except RegistryError as error:
                    notes.append(f"schema id {each.schema_id} as changed: {error}")
                    continue
                schema = replace(schema, target_id=number)
            found.append(schema)
        return tuple(found), notes

    def _found(
        self, step: AvroFields, topics: frozenset[TopicName], wanted: frozenset[int]
    ) -> Iterator[_Found]:
        subjects: dict[SchemaId, list[SubjectVersion]] = {}
        for of, each in sorted(self._content.versions.items(), key=lambda item: item[0]):
            if split_subject(of.subject)[0] != DEFAULT_CONTEXT:
                continue
            topic = self._naming.topic_of(of.subject)
            is_key = of.subject.endswith(KEY)
            is_of_it = topic in topics and is_key == (step.column == "key")
            if is_of_it or (topic is None and each.schema_id in wanted):
                subjects.setdefault(each.schema_id, []).append(of)
        for schema_id, places in sorted(subjects.items()):
            schema = self._content.versions[places[0]].schema
            yield _Found(schema_id, schema, tuple(dict.fromkeys(of.subject for of in places)))

    def _read(self, step: AvroFields, each: _Found) -> AvroSchema:
        newest = self._content.versions[self._newest[each.subjects[0]]].schema
        key = (replace(step, schemas=()), each.schema_id, each.schema, newest)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read_anew(step, each, newest)
        return found

    def _read_anew(self, step: AvroFields, each: _Found, newest: Schema) -> AvroSchema:
        from heliostat.records.avro.rewriting import rewriting_of
        from heliostat.records.avro.schema_text import AvroUnusable, write_schema

        made = AvroSchema(each.schema_id)
        try:
            writer = self._avro(each.schema)
            reader = write_schema(self._avro(newest)) if not step.reader else step.reader
            made = replace(made, text=write_schema(writer), reader=reader)
            assert writer.fields is not None  # raises if it is no record
            if step.rewrites:
                rewriting_of(step, made)
        except AvroUnusable as error:
            return replace(made, problem=str(error))
        return made

    def _avro(self, schema: Schema) -> Avro:
        from heliostat.records.avro.schema_text import AvroUnusable, read_schema

        if schema.schema_type != AVRO:
            raise AvroUnusable(f"it is no Avro schema, but {schema.schema_type}")
        return read_schema(schema.text, self._referenced(schema, ()))

    def _referenced(self, schema: Schema, within: tuple[SubjectVersion, ...]) -> Iterator[str]:
        """Yield the texts that a schema refers to, each after those that it refers to itself."""
        from heliostat.records.avro.schema_text import AvroUnusable

        for each in schema.references:
            of = SubjectVersion(each.subject, each.version)
            found = self._content.versions.get(of)
            if found is None or of in within:
                raise AvroUnusable(f"it refers to {of.subject} version {of.version}, which is gone")
            yield from self._referenced(found.schema, (*within, of))
            yield found.schema.text


class AvroPart:
    """Keeps the Avro pipelines of one link up to date, while it runs. Thread-safe.

    Parameters
    ----------
    link
        Its configuration.
    pipelines
        Its pipelines by name.
    refused
        See `Runner.refused`.
    learnt
        Takes pipelines whose schemas have changed, and why Spark refuses some of them now.
    events
        Where refusals are logged.
    """

    def __init__(
        self,
        link: LinkConfig,
        pipelines: Mapping[str, Pipeline],
        refused: Refused,
        learnt: Learnt,
        events: Events,
    ) -> None:
        self._link = link
        self._events = events
        self._refused = refused
        self._learnt = learnt
        self._pipelines = {name: each for name, each in pipelines.items() if each.avro_steps}
        self._lock = threading.Lock()
        self._wanted: dict[str, set[int]] = {name: set() for name in self._pipelines}
        self._read: dict[tuple[object, ...], AvroSchema] = {}
        self._ids: dict[tuple[Subject, str], SchemaId] = {}
        self._turns = 0

    def wants(self, report: RoundReport) -> None:
        """Take the ids that partitions of a lane, which has one pipeline at most, wait for."""
        waiting = (each for each in report.partitions if each.code == _UNREADABLE)
        name = next((pipeline_of(self._link, each.source.topic) for each in waiting), "")
        with self._lock:
            if name in self._wanted:
                self._wanted[name].update(report.schema_ids)

    def turn(
        self,
        content: RegistryContent,
        mirrors: Mapping[TopicName, TopicName],
        target: Registry,
        nodes: Iterable[Registry],
        guard: Callable[[], None],
    ) -> list[str]:
        """Find the pipelines' schemas in the source's registry; return what is not there yet.

        Parameters
        ----------
        content
            The source's registry.
        mirrors
            Target topics by source topic.
        target, nodes
            The target's registry, and its addresses one by one if it has several.
        guard
            Raises if the link is not ours any more.

        Raises
        ------
        RegistryUnreachable, RegistryAnswerInvalid
            The target's registry does not answer; the next call starts over.
        """
        if not self._pipelines:
            return []
        naming = SubjectNaming(dict(mirrors), keeps_original=self._link.schemas.keep_names)
        self._turns += 1
        if self._turns % AGAIN_EVERY == 0:
            self._ids.clear()
        source = SourceSchemas(content, naming, self._read)
        registrar = Registrar(target, tuple(nodes), naming, self._ids, guard)
        changed: dict[str, Pipeline] = {}
        notes: list[str] = []
        topics = topics_of_pipelines(self._link, mirrors)
        for name, pipeline in self._pipelines.items():
            with self._lock:
                wanted = frozenset(self._wanted[name])
            found: dict[str, tuple[AvroSchema, ...]] = {}
            for step in pipeline.avro_steps:
                found[step.column], missing = source.of_step(step, topics[name], wanted, registrar)
                notes += missing
            now = pipeline.with_schemas(found)
            if now != pipeline:
                changed[name] = now
        if changed:
            refused = self._refused(changed)
            for text in refused.values():
                self._events.warn(text)
            self._learnt(changed, refused)
            self._pipelines |= changed
        return notes


def made_by(
    step: AvroFields, schema: AvroSchema, subjects: Sequence[Subject], naming: SubjectNaming
) -> tuple[str, tuple[Subject, ...]]:
    """Return what a step makes of a schema of these subjects, and its subjects at the target."""
    from heliostat.records.avro.rewriting import rewriting_of

    names = dict.fromkeys(name for each in subjects for name in naming.names(each))
    return rewriting_of(step, schema).text, tuple(names)


class Registrar:
    """Registers at the target what steps make of schemas, under the mirrors' subjects.

    In the default context: its ids are the target's own, and no id of the source is mirrored there
    (config.checks).

    Parameters
    ----------
    target, nodes, guard
        See `AvroPart.turn`.
    naming
        Names of subjects.
    ids
        Of what was registered before; changed in place.
    """

    def __init__(
        self,
        target: Registry,
        nodes: Sequence[Registry],
        naming: SubjectNaming,
        ids: dict[tuple[Subject, str], SchemaId],
        guard: Callable[[], None],
    ) -> None:
        self._target = target
        self._nodes = nodes
        self._naming = naming
        self._ids = ids
        self._guard = guard

    def __call__(
        self, step: AvroFields, schema: AvroSchema, subjects: Sequence[Subject]
    ) -> SchemaId:
        """See `Registered`."""
        text, names = made_by(step, schema, subjects, self._naming)
        ids = {name: self._id(name, text) for name in names}
        first = next(iter(ids.values()))
        if set(ids.values()) != {first}:
            raise RegistryError(f"it has several ids at the target: {ids}")
        return first

    def _id(self, name: Subject, text: str) -> SchemaId:
        found = self._ids.get((name, text))
        if found is None:
            self._guard()
            found = self._registered(name, Schema(text))
            for node in self._nodes:
                node.ask(calls.schema_by_id(found))
            self._ids[name, text] = found
        return found

    def _registered(self, name: Subject, schema: Schema) -> SchemaId:
        """Register; a registry that is closed is only asked whether it has it already."""
        try:
            return self._target.ask(calls.register(name, schema))
        except RegistryError as error:
            if error.registry_code != error_codes.OPERATION_NOT_PERMITTED:
                raise
            try:
                return self._target.ask(calls.look_up(name, schema)).schema_id
            except RegistryError:
                raise error from None
