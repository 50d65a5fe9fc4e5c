"""Settings of a link's pipelines: what records go through on their way."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, Strict, model_validator

from heliostat.config.frozen import Frozen
from heliostat.config.patterns import Patterns
from heliostat.date_patterns import DatePattern

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_NO_TEXTS: dict[str, str] = {}
_NO_MASKS: dict[str, str | None] = {}


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("must be 1 to 64 of a-z A-Z 0-9 _ -")
    return name


def _check_function(path: str) -> str:
    if not _FUNCTION.fullmatch(path):
        raise ValueError("must be module:function, such as mypackage.steps:only_valid")
    return path


def _check_pattern(pattern: str) -> str:
    DatePattern(pattern)
    return pattern


Names = Annotated[tuple[str, ...], Strict(strict=False)]


class HeaderMatch(Frozen):
    """Which headers a step looks for."""

    name: Annotated[str, Field(title="Header")]
    """Name of the header."""
    matches: Annotated[str | None, Field(title="Matches")] = None
    """A regular expression of Java that the whole value must match as text; null = any value."""


JSON_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string")
_WITHOUT_SCHEMA = (*("insert", "insert_origin", "times", "to_headers", "only", "extract", "hoist"),)
TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]


class TimeStep(Frozen):
    """How times are written anew."""

    to: Annotated[Literal["text", "number"], Field(title="To")]
    """What they become; what they are is seen by their JSON."""
    format: Annotated[
        Annotated[str, AfterValidator(_check_pattern)] | None, Field(title="Format")
    ] = None
    """Of times that are text, by Java's letters, such as `yyyy-MM-dd HH:mm:ss.SSS`, in UTC."""
    unit: Annotated[TimeUnit, Field(title="Unit")] = "ms"
    """What times that are numbers count since the epoch."""

    @model_validator(mode="after")
    def _has_a_format(self) -> Self:
        if self.to == "text" and not self.format:
            raise ValueError("a time becomes text by a format")
        return self


_NO_TIMES: dict[str, TimeStep] = {}
_NO_ORIGINS: dict[Literal["topic", "partition", "offset", "timestamp"], str] = {}


class JsonStep(Frozen):
    """Changes fields of a JSON object that is a record's value or key; in this order.

    Without `schema_ddl` all that is not named keeps its bytes, and no rows of Spark are needed;
    with `mask`, `rename` and `drop` alone it is fastest. With it the object is decoded by Spark:
    for `where` and `set`.
    """

    column: Annotated[Literal["value", "key"], Field(title="Column")] = "value"
    """Where the object is. A record without one there (null) stays as it is; what is no such object
    is an error."""
    schema_ddl: Annotated[str | None, Field(title="Schema", min_length=1)] = None
    """The object's fields as Spark's DDL, such as `id bigint, name string, at struct<x: double>`.
    Fields that are not named are dropped. Null = they stay what they are."""
    where: Annotated[str | None, Field(title="Where")] = None
    """Keeps records for which this is true, an expression of Spark SQL such as `fields.id > 3`, and
    those without an object."""
    set: Annotated[dict[str, str], Field(title="Set")] = _NO_TEXTS
    """Expression of Spark SQL by field, which may be new, such as `{total: fields.price * 2}`."""
    insert: Annotated[dict[str, str], Field(title="Insert")] = _NO_TEXTS
    """Text by field, which may be new."""
    insert_origin: Annotated[
        dict[Literal["topic", "partition", "offset", "timestamp"], str],
        Field(title="Insert origin"),
    ] = _NO_ORIGINS
    """Field that gets it by what of the record's place: the source's topic, partition and offset,
    and the timestamp in milliseconds since the epoch."""
    cast: Annotated[dict[str, str], Field(title="Cast")] = _NO_TEXTS
    """Type by field; without `schema_ddl` one of boolean, tinyint, smallint, int, bigint, float,
    double, string, and an empty name is the whole content."""
    times: Annotated[dict[str, TimeStep], Field(title="Times")] = _NO_TIMES
    """How times are written, by field; an empty name is the whole content."""
    to_headers: Annotated[dict[str, str], Field(title="To headers")] = _NO_TEXTS
    """Header by field: it is added behind the others with the field's content, text without its
    quotes, anything else as JSON, and null where the field is not there."""
    mask: Annotated[dict[str, str | None], Field(title="Mask")] = _NO_MASKS
    """What is put into a field instead; null = an empty string, 0 or false, else null."""
    rename: Annotated[dict[str, str], Field(title="Rename")] = _NO_TEXTS
    """New name by field."""
    drop: Annotated[Names, Field(title="Drop")] = ()
    """Fields that are left out."""
    only: Annotated[Names, Field(title="Only")] = ()
    """Fields that are kept; none given = all."""
    flatten: Annotated[str | None, Field(title="Flatten")] = None
    """What joins the names of nested fields to one, such as `_`; null = they stay nested."""
    to_key: Annotated[Names, Field(title="To key")] = ()
    """Fields of the value that become the record's key, as a JSON object; one that is not there is
    null."""
    extract: Annotated[Names, Field(title="Extract")] = ()
    """Path to the field that becomes the whole content, such as `[address, city]`; one that is not
    there, or null, leaves none: a tombstone, or no key."""
    hoist: Annotated[str | None, Field(title="Hoist", min_length=1)] = None
    """Field of a new object that the content becomes, whatever JSON it is."""

    @property
    def is_cut(self) -> bool:
        """Whether fields are only cut out of an object's bytes."""
        given = {name for name in self.model_fields_set if getattr(self, name)}
        return given <= {"column", "mask", "rename", "drop"}

    @model_validator(mode="after")
    def _decodes_with_a_schema(self) -> Self:
        decoding, plain = ("where", "set"), _WITHOUT_SCHEMA
        given = {name for name in self.model_fields_set if getattr(self, name)}
        names = plain if self.schema_ddl is not None else decoding
        wrong = next((name for name in names if name in given), None)
        if wrong:
            what = "not with schema_ddl" if self.schema_ddl is not None else "needs schema_ddl"
            raise ValueError(f"{wrong}: {what}" if wrong in plain else f"{wrong} {what}")
        if not given - {"column"}:
            raise ValueError("a step for JSON fields needs a change of fields")
        if self.column == "key" and self.to_key:
            raise ValueError("to_key only with column value")
        if self.schema_ddl is None:
            self._check_types()
        return self

    def _check_types(self) -> None:
        kinds = ", ".join(JSON_TYPES)
        wrong = next((kind for kind in self.cast.values() if kind not in JSON_TYPES), None)
        if wrong is not None:
            raise ValueError(f"cast without schema_ddl: {wrong} is none of {kinds}")
        fields = (*self.cast, *self.times)
        if "" in fields and any((*fields, self.insert, self.insert_origin, self.to_headers)):
            raise ValueError("the whole content is cast in a step of its own")


class AvroStep(Frozen):
    """Changes fields of Avro records that are values or keys, in Confluent's frame; in this order.

    Without any change, as with `where` alone, records stay byte for byte what they were. Changed
    ones get schemas of their own, which are registered at the target.
    """

    column: Annotated[Literal["value", "key"], Field(title="Column")] = "value"
    """Where the record is. Null stays null; what is no such record is an error."""
    reader_schema: Annotated[str | None, Field(title="Reader's schema")] = None
    """Avro's JSON of a record, whose fields are those that expressions see; its name does not
    matter. Null = the newest version of the subject that a record's schema is in."""
    where: Annotated[str | None, Field(title="Where")] = None
    """Keeps records for which this is true, an expression of Spark SQL such as `fields.id > 3`, and
    nulls."""
    set: Annotated[dict[str, str], Field(title="Set")] = _NO_TEXTS
    """Expression of Spark SQL by field, such as `{total: fields.price * 2}`. A field that was there
    keeps its type; a new one needs a type under `cast`."""
    cast: Annotated[dict[str, str], Field(title="Cast")] = _NO_TEXTS
    """Type of Spark by field: boolean, int, bigint, float, double, string, binary, date, timestamp,
    timestamp_ntz, decimal(p, s). Such a field may be null."""
    to_headers: Annotated[dict[str, str], Field(title="To headers")] = _NO_TEXTS
    """Header by field: it is added behind the others with the field's content as text."""
    mask: Annotated[dict[str, str | None], Field(title="Mask")] = _NO_MASKS
    """What is put into a field instead; null = an empty string, 0, false, or null."""
    rename: Annotated[dict[str, str], Field(title="Rename")] = _NO_TEXTS
    """New name by field."""
    drop: Annotated[Names, Field(title="Drop")] = ()
    """Fields that are left out."""
    flatten: Annotated[str | None, Field(title="Flatten")] = None
    """What joins the names of nested records' fields to one, such as `_`; records that may be null
    stay nested. Null = all do."""
    to_key: Annotated[Names, Field(title="To key")] = ()
    """Fields of the value that become the record's key, as a JSON object."""
    extract: Annotated[Names, Field(title="Extract", max_length=1)] = ()
    """The field that becomes the whole content, with its type as the schema."""
    hoist: Annotated[str | None, Field(title="Hoist", min_length=1)] = None
    """Field of a new record that the content becomes."""

    @property
    def rewrites(self) -> bool:
        """Whether records come out with another schema."""
        changes = (self.set, self.cast, self.mask, self.rename, self.drop, self.flatten)
        return any((*changes, self.extract, self.hoist))

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not (self.rewrites or self.where or self.to_headers or self.to_key):
            raise ValueError("a step for Avro fields needs where, to_key or a change of fields")
        if self.extract and self.hoist:
            raise ValueError("extract and hoist: one of them")
        if self.to_key and self.column == "key":
            raise ValueError("to_key only with column value")
        return self


class ReplaceStep(Frozen):
    """What is replaced with what in values; they must be text in UTF-8."""

    found: Annotated[str, Field(title="Found")]
    """A regular expression of Java."""
    instead: Annotated[str, Field(title="Instead")] = ""
    """What is put there; `$1` is the first group."""


OriginPart: TypeAlias = Literal["cluster", "topic", "partition", "offset", "timestamp"]


class OriginStep(Frozen):
    """Adds headers that say where a record comes from, as text, behind the others."""

    prefix: Annotated[str, Field(title="Prefix")] = "origin."
    """What their names begin with: `origin.cluster`, `origin.topic`, ..."""
    what: Annotated[
        tuple[OriginPart, ...], Strict(strict=False), Field(title="What", min_length=1)
    ] = ("cluster", "topic", "partition", "offset", "timestamp")
    """The source cluster's id; the source's topic, partition and offset; and the timestamp in
    milliseconds since the epoch, as steps before this one leave it."""


class StepConfig(Frozen):
    """One step: exactly one of these."""

    where: Annotated[str | None, Field(title="Where")] = None
    """Keeps records for which this expression of Spark SQL is true. Columns: topic, partition,
    offset, timestamp, timestamp_type, key, value, headers."""
    set: Annotated[
        dict[Literal["key", "value", "timestamp", "headers"], str] | None, Field(title="Set")
    ] = None
    """Expression of Spark SQL by column, all of them from the record as it was before."""
    function: Annotated[
        Annotated[str, AfterValidator(_check_function)] | None, Field(title="Function")
    ] = None
    """`module:function`, a Python function from DataFrame to DataFrame, importable where the driver
    runs. It keeps topic, partition and offset; rows with a partition below 0 are no records and
    look like tombstones."""
    json_fields: Annotated[JsonStep | None, Field(title="JSON fields")] = None
    """Changes fields of JSON keys or values."""
    avro_fields: Annotated[AvroStep | None, Field(title="Avro fields")] = None
    """Filters by fields of Avro keys or values, or changes them."""
    keep_with_header: Annotated[HeaderMatch | None, Field(title="Keep with header")] = None
    """Keeps only records that have such a header."""
    drop_with_header: Annotated[HeaderMatch | None, Field(title="Drop with header")] = None
    """Keeps only records that have no such header."""
    drop_tombstones: Annotated[Literal[True] | None, Field(title="Drop tombstones")] = None
    """Keeps only records that have a value."""
    insert_headers: Annotated[dict[str, str] | None, Field(title="Insert headers")] = None
    """Text by name of headers that are added behind the others."""
    insert_origin: Annotated[OriginStep | None, Field(title="Insert origin")] = None
    """Adds headers that say where a record comes from."""
    rename_headers: Annotated[dict[str, str] | None, Field(title="Rename headers")] = None
    """New name by name."""
    drop_headers: Annotated[Names | None, Field(title="Drop headers")] = None
    """Names of headers that are left out."""
    replace: Annotated[ReplaceStep | None, Field(title="Replace")] = None
    """Replaces parts of values, as text."""

    @property
    def rewritten(self) -> AvroStep | None:
        """The Avro record that comes out with another schema."""
        step = self.avro_fields
        return step if step is not None and step.rewrites else None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = sorted(self.model_fields_set)
        if len(given) != 1 or getattr(self, given[0]) is None:
            raise ValueError(f"a step is exactly one of {', '.join(type(self).model_fields)}")
        return self


class PipelineConfig(Frozen):
    """A pipeline, and the topics whose records go through it."""

    name: Annotated[Annotated[str, AfterValidator(_check_name)], Field(title="Name")]
    """Unique within the link; in status and errors."""
    topics: Annotated[Patterns, Field(title="Topics")]
    """Names or regular expressions of source topics; a topic goes through the first pipeline that
    names it."""
    steps: Annotated[
        tuple[StepConfig, ...], Strict(strict=False), Field(title="Steps", min_length=1)
    ]
    """Steps, in order."""
    timeout_s: Annotated[float, Field(title="Timeout", ge=1, le=3600)] = 60
    """Seconds that records may be in it without any coming back: then it is taken to hang, as
    `TRANSFORM_FAILED`."""

    @property
    def keeps_identity(self) -> bool:
        """Whether timestamps or values stay as they are: with one of them records are told apart.

        Keys and headers alone may be the same in all records.
        """
        changed: set[str] = set()
        for step in self.steps:
            if step.function is not None:
                return False
            changed |= set(step.set or ())
            changed |= {"value"} if step.replace is not None else set()
            changed |= {fields.column for fields in (step.json_fields, step.rewritten) if fields}
        return not {"timestamp", "value"} <= changed

    @property
    def avro_steps(self) -> tuple[AvroStep, ...]:
        """Those for Avro fields."""
        fields = (step.avro_fields for step in self.steps)
        return tuple(avro_step for avro_step in fields if avro_step is not None)

    @model_validator(mode="after")
    def _has_one_step_a_column(self) -> Self:
        columns = [avro_step.column for avro_step in self.avro_steps]
        if len(columns) > len(set(columns)):
            raise ValueError("two steps for Avro fields of one column: join them")
        steps = (step.json_fields for step in self.steps)
        both = set(columns) & {step.column for step in steps if step and step.schema_ddl is None}
        if both:
            raise ValueError(f"two steps for fields of the {both.pop()}, one of JSON, one of Avro")
        return self


def _check_names(pipelines: tuple[PipelineConfig, ...]) -> tuple[PipelineConfig, ...]:
    names = [pipeline.name for pipeline in pipelines]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two pipelines have the name {twice[0]}")
    return pipelines


Pipelines: TypeAlias = Annotated[
    tuple[PipelineConfig, ...], Strict(strict=False), AfterValidator(_check_names)
]
