"""What a lane's records go through on their way: a pipeline and its steps.

`heliostat.records.spark.frames` makes frames of them, unless all are done on batches' bytes
(`rows.in_place`); fields of Avro records are in `avro_step`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from heliostat.names import ClusterId
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.records.copier.field_changes import FieldChanges
from heliostat.records.rows.header_steps import (
    DropHeaders,
    HasHeader,
    HasValue,
    InPlaceStep,
    InsertHeaders,
    InsertOrigin,
    Origin,
    RenameHeaders,
)
from heliostat.records.rows.json_changes import JsonChanges, ObjectChanges, TimeChange
from heliostat.records.rows.row_names import CHANGEABLE


@dataclass(frozen=True, slots=True)
class Where:
    """A step of a pipeline: keeps records for which an expression of Spark SQL is true."""

    condition: str


@dataclass(frozen=True, slots=True)
class SetColumns:
    """A step of a pipeline: sets columns, all of them from the record before the step."""

    columns: tuple[tuple[str, str], ...]
    """(Column, expression of Spark SQL)."""


@dataclass(frozen=True, slots=True)
class CallFunction:
    """A step of a pipeline: a function from `DataFrame` to `DataFrame`."""

    path: str
    """`package.module:function`."""


@dataclass(frozen=True, slots=True)
class JsonFields(FieldChanges):
    """A step of a pipeline: changes fields of a JSON object that is a record's key or value."""

    schema: str = ""
    """The struct as Spark's DDL, such as `id bigint, name string`; other fields are dropped. Empty:
    nothing that is not named is decoded (`rows.json_cuts`, `rows.json_objects`)."""
    inserts: tuple[tuple[str, str], ...] = ()
    """(Field, text); without a schema, as the following."""
    places: tuple[tuple[str, Origin], ...] = ()
    """(Field, what of the record's place it gets)."""
    times: tuple[TimeChange, ...] = ()
    only: tuple[str, ...] = ()
    """The fields that are kept; empty: all."""

    @property
    def is_cut(self) -> bool:
        """Whether fields are only cut out of its bytes, see `cut`."""
        return not self.schema and self.object_changes == ObjectChanges(self.column, cut=self.cut)

    @property
    def cut(self) -> JsonChanges:
        """What is done to whole fields without a schema."""
        return JsonChanges(self.masks, self.renames, self.drops)

    @property
    def object_changes(self) -> ObjectChanges:
        """All that is done without a schema."""
        return ObjectChanges(
            column=self.column,
            inserts=self.inserts,
            places=self.places,
            casts=self.casts,
            times=self.times,
            headers=self.header_fields,
            cut=self.cut,
            only=self.only,
            flattens=self.flattens,
            key_fields=self.key_fields,
            extracts=self.extracts,
            hoists=self.hoists,
        )


Step = Where | SetColumns | JsonFields | AvroFields | CallFunction | InPlaceStep


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What a mirror's records go through on their way, see `heliostat.records.spark.frames`."""

    name: str
    steps: tuple[Step, ...]
    timeout_s: float = 60.0
    """How long it may keep records without any coming back."""
    members: tuple[Pipeline, ...] = ()
    """Pipelines that share a lane: each record goes through that of its topic. It then has no steps
    of its own."""

    def part(self, name: str) -> Pipeline | None:
        """Return it, or that of its members, which has this name."""
        return next((each for each in (self, *self.members) if each.name == name), None)

    @property
    def may_share(self) -> bool:
        """Whether it may be one of several in a lane.

        As rows: it filters first, then it changes columns, by Spark's own code; only its last step
        may give a column another type. No Python process stands beside Spark for it, and no schema
        is waited for.
        """
        if self.is_in_place:
            return not self.avro_steps
        changes = list(itertools.dropwhile(_is_filter, self.steps))
        return all(
            isinstance(each, InPlaceStep) or (isinstance(each, SetColumns) and each is changes[-1])
            for each in changes
        ) and not any(map(_is_filter, changes))

    @property
    def is_in_place(self) -> bool:
        """Whether all its steps are done on batches' bytes: no row goes through Spark."""
        return all(each.is_in_place for each in self.members) and all(
            isinstance(each, InPlaceStep)
            or (isinstance(each, AvroFields) and not each.decodes)
            or (isinstance(each, JsonFields) and not each.schema)
            for each in self.steps
        )

    @property
    def in_turn(self) -> tuple[Pipeline | ObjectChanges, ...]:
        """Parts of a pipeline in place, one after the other.

        In each of them steps about headers and tombstones come first, and one step a column cuts
        fields: these don't see what the others do.
        """
        parts: list[Pipeline | ObjectChanges] = []
        taken: list[Step] = []
        for step in self.steps:
            changes, is_cut = None, isinstance(step, AvroFields)
            if isinstance(step, JsonFields):
                changes, is_cut = (None, True) if step.is_cut else (step.object_changes, False)
            cuts = {own.column for own in taken if isinstance(own, FieldChanges)}
            is_next = changes is not None or (
                is_cut and isinstance(step, FieldChanges) and step.column in cuts
            )
            if is_next and taken:
                parts.append(replace(self, steps=tuple(taken)))
                taken = []
            if changes is None:
                taken.append(step)
            else:
                parts.append(changes)
        return (*parts, replace(self, steps=tuple(taken))) if taken else tuple(parts)

    @property
    def header_steps(self) -> tuple[InPlaceStep, ...]:
        """The steps about headers and tombstones."""
        return tuple(each for each in self.steps if isinstance(each, InPlaceStep))

    @property
    def avro_steps(self) -> tuple[AvroFields, ...]:
        """The steps that need schemas."""
        return tuple(each for each in self.steps if isinstance(each, AvroFields))

    @property
    def json_cuts(self) -> Mapping[str, JsonChanges]:
        """What is cut out of JSON objects, by column."""
        return {
            each.column: each.cut
            for each in self.steps
            if isinstance(each, JsonFields) and each.is_cut
        }

    def with_schemas(self, found: Mapping[str, tuple[AvroSchema, ...]]) -> Pipeline:
        """Return it with the schemas that are known now, by the column that a step decodes."""
        steps = tuple(
            replace(each, schemas=found.get(each.column, ()))
            if isinstance(each, AvroFields)
            else each
            for each in self.steps
        )
        return replace(self, steps=steps)

    @property
    def needs_cluster(self) -> bool:
        """Whether a step says which cluster records come from."""
        return any(isinstance(each, InsertOrigin) for each in self.steps)

    def from_cluster(self, cluster: ClusterId) -> Pipeline:
        """Return it for records of this cluster."""
        steps = tuple(
            replace(each, cluster=cluster) if isinstance(each, InsertOrigin) else each
            for each in self.steps
        )
        return replace(self, steps=steps)

    @property
    def kept_by_name(self) -> Mapping[str, tuple[str, ...]]:
        """`kept` of each pipeline of the lane."""
        return {each.name: each.kept for each in self.members or (self,)}

    @property
    def kept(self) -> tuple[str, ...]:
        """Columns that no step changes: the mirror has them as the source."""
        changed = {column for step in self.steps for column in _changed_by(step)}
        return tuple(column for column in CHANGEABLE if column not in changed)


def _is_filter(step: Step) -> bool:
    return isinstance(step, Where | HasHeader | HasValue)


def _changed_by(step: Step) -> Collection[str]:
    match step:
        case SetColumns():
            return [column for column, _ in step.columns]
        case JsonFields() | AvroFields():
            is_written = not isinstance(step, AvroFields) or step.rewrites
            columns = [step.column] if is_written else []
            columns += ["headers"] if step.header_fields else []
            return columns + (["key"] if step.key_fields else [])
        case CallFunction():
            return CHANGEABLE
        case DropHeaders() | RenameHeaders() | InsertHeaders() | InsertOrigin():
            return ["headers"]
        case Where() | HasHeader() | HasValue():
            return ()
