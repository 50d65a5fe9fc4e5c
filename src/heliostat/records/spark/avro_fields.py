"""The step of a pipeline that knows fields of framed Avro records.

    where alone    value ─ decode ─ fields ─ filter                the value itself is not touched
    set, cast      value ─ decode ─ fields ─ expressions ─ made ┐
    all changes    value ───────────────────────────────────────┴ rewrite ─ value

Decoding and rewriting are Python functions on Arrow columns: beside them Spark's own expressions
work, in the same stage. Fields that nothing changes are not decoded for it (`avro.rewriting`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.errors import PipelineRefused, TransformFailed
from heliostat.ops.pyspark_private import constant_of
from heliostat.records.avro.columns import ColumnType, columns_of
from heliostat.records.avro.cuts import check_names, check_usable
from heliostat.records.avro.schema_text import AvroUnusable
from heliostat.records.copier.avro_step import AvroFields, AvroSchema
from heliostat.records.spark.arrow_functions import on_columns
from heliostat.records.spark.in_place_sql import literal
from heliostat.records.spark.json_fields import (
    FIELDS,
    changed,
    computed,
    kept,
    with_field,
    with_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

_NEW = "rewritten"
_NO_SCHEMA = "it is no Avro record, or no schema of its topic is known"


def with_avro_fields(frame: DataFrame, step: AvroFields) -> DataFrame:
    """Return a frame with changed fields in the records of one column.

    Raises
    ------
    pyspark.errors.PySparkException
        Spark refuses an expression.
    PipelineRefused
        A field has two types, or no schema has a field that the step names.
    """
    from pyspark.sql import functions as f

    usable = [each for each in step.schemas if not each.problem]
    if not usable:
        # Records with an id wait before the pipeline (`SchemaGate`): what is here has none.
        why = step.schemas[0].problem if step.schemas else _NO_SCHEMA
        return kept(frame, f"{step.column} IS NULL OR raise_error({literal(why)})")
    check_names(step)
    columns = _columns(usable)
    made: list[str] = []
    if step.decodes and columns is not None:
        decode = on_columns(_decoding(step.schemas), columns.ddl)
        frame = frame.withColumn(FIELDS, decode(f.col(step.column)))
        if step.where:
            frame = kept(frame, f"{FIELDS} IS NULL OR ({step.where})")
        frame, made = _computed(frame, step), _made(step)
        frame = _with_headers(frame, step)
    if step.rewrites:
        struct = f.struct(*(f.col(FIELDS)[name].alias(name) for name in made))
        rewrite = on_columns(_rewriting(step, has_made=bool(made)), "binary")
        frame = frame.withColumn(_NEW, rewrite(f.col(step.column), *([struct] if made else [])))
    if step.key_fields:
        frame = with_key(changed(frame, _on_columns_of(frame, step)), step)
    if step.rewrites:
        frame = frame.withColumn(step.column, f.col(_NEW))
    return frame.drop(FIELDS, _NEW)


def check_avro(session: SparkSession, step: AvroFields) -> None:
    """Check what would be wrong with a step's records whatever is in them.

    Raises
    ------
    PipelineRefused
        It can change no record of its schemas, or sets a field to what none of them takes.
    pyspark.errors.PySparkException
        A constant can't be cast to its field's type.
    """
    check_usable(step)
    usable = [each for each in step.schemas if not each.problem]
    columns = _columns(usable) if usable and step.decodes else None
    if columns is None:
        return
    from pyspark.sql.types import StructType

    struct = StructType.fromDDL(columns.ddl)
    assert isinstance(struct, StructType), "the DDL is of columns"
    kinds = {field.name: field.dataType for field in struct}
    for name, text in step.columns:
        kind = dict(step.casts).get(name, kinds.get(name))
        if kind is not None:
            _check_constant(session, step, usable, name, (text, kind))


def _check_constant(
    session: SparkSession,
    step: AvroFields,
    schemas: Sequence[AvroSchema],
    name: str,
    expression: tuple[str, DataType | str],
) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    # Only here: most Avro pipelines set no field, and the rewriter's compiled loops are not needed.
    from heliostat.records.avro.rewriter import check_fits

    text, kind = expression
    try:
        frame = session.range(1).select(f.expr(text).cast(kind))
    except AnalysisException:
        return  # it is of the record
    is_constant, content = constant_of(frame)
    if not is_constant:
        return
    why = ""
    for each in schemas:
        try:
            check_fits(step, each, name, content)
        except TransformFailed as error:
            why = error.text
        else:
            return
    raise PipelineRefused(why)


def _columns(schemas: Sequence[AvroSchema]) -> ColumnType | None:
    try:
        return columns_of(schemas)
    except AvroUnusable as error:
        raise PipelineRefused(str(error)) from None


def _made(step: AvroFields) -> list[str]:
    """Return the fields that are computed for records which are written anew."""
    masked = {name for name, _ in step.masks}
    names = dict.fromkeys(name for name, _ in (*step.columns, *step.casts))
    return [name for name in names if name not in masked]


def _computed(frame: DataFrame, step: AvroFields) -> DataFrame:
    """Return a frame with computed fields; one that was there before keeps its type."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    before = frame.schema[FIELDS].dataType
    assert isinstance(before, StructType), "decoded records are structs"
    frame = computed(frame, step)
    cast = {name for name, _ in step.casts}
    for name in dict.fromkeys(name for name, _ in step.columns):
        if name in before.names and name not in cast:
            frame = with_field(frame, name, f.col(FIELDS)[name].cast(before[name].dataType))
    return frame


def _with_headers(frame: DataFrame, step: AvroFields) -> DataFrame:
    """Return a frame with fields' contents as headers behind the others, where there are any."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not step.header_fields:
        return frame
    made = []
    for name, header in step.header_fields:
        field = f.col(FIELDS)[name]
        kind = frame.select(field).schema[0].dataType
        is_nested = isinstance(kind, ArrayType | MapType | StructType)
        text = f.to_json(field) if is_nested else field.cast("string")
        made.append(f.struct(f.lit(header).alias("key"), text.cast("binary").alias("value")))
    more = f.concat(f.col("headers"), f.array(*made))
    has_fields = f.col(FIELDS).isNotNull()
    return frame.withColumn("headers", f.when(has_fields, more).otherwise(f.col("headers")))


def _on_columns_of(frame: DataFrame, step: AvroFields) -> AvroFields:
    """Return a step's changes of fields that are columns: for a key nothing else counts."""
    from pyspark.sql.types import StructType

    kind = frame.schema[FIELDS].dataType
    assert isinstance(kind, StructType), "decoded records are structs"
    there = set(kind.names)
    renames = tuple(each for each in step.renames if each[0] in there)
    named = there | {new for _, new in renames}
    return replace(
        step,
        masks=tuple(each for each in step.masks if each[0] in there),
        renames=renames,
        drops=tuple(each for each in step.drops if each in named),
    )


def _decoding(schemas: tuple[AvroSchema, ...]) -> Callable[[pa.Array], pa.Array]:
    def decode(values: pa.Array) -> pa.Array:
        from heliostat.records.avro.columns import decoder_of

        return decoder_of(schemas).decode(values)

    return decode


def _rewriting(step: AvroFields, *, has_made: bool) -> Callable[..., pa.Array]:
    def rewrite(values: pa.Array) -> pa.Array:
        from heliostat.records.avro.rewriter import rewriter_of

        return rewriter_of(step).rewrite(values, None)

    def rewrite_with(values: pa.Array, made: pa.Array) -> pa.Array:
        from heliostat.records.avro.rewriter import rewriter_of

        return rewriter_of(step).rewrite(values, made)

    return rewrite_with if has_made else rewrite
