"""The step of a pipeline that changes fields of JSON keys and values, which it decodes."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, cast

from heliostat.errors import PipelineRefused
from heliostat.records.copier.field_changes import FieldChanges
from heliostat.records.copier.pipeline_steps import JsonFields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

IS_MARK = "(partition < 0)"
"""Rows that are no records, see `heliostat.records.rows.layout`."""
FIELDS = "fields"
"""The column with the decoded object."""
_STRICT = {
    "mode": "FAILFAST",  # the default makes null of what is not of the schema
    "allowNonNumericNumbers": "false",
}
"""What is no object fails before (`json_cutting.checked`): Spark takes an empty text for null, the
first of two objects for all, and names in other quotes and bytes that are no UTF-8 as well."""
_KEEP_NULLS = {"ignoreNullFields": "false"}


def kept(frame: DataFrame, condition: str) -> DataFrame:
    """Return the rows for which a condition is true, and all marks.

    Raises
    ------
    PipelineRefused
        It is no condition. Spark would cast a text, and fail at each record.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType

    kind = frame.select(f.expr(condition)).schema[0].dataType
    if not isinstance(kind, BooleanType):
        raise PipelineRefused(f"{condition} is of type {kind.simpleString()}, not boolean")
    return frame.where(f"{IS_MARK} OR ({condition})")


def with_json_fields(frame: DataFrame, step: JsonFields) -> DataFrame:
    """Return a frame with changed fields in the objects of one column.

    Raises
    ------
    pyspark.errors.PySparkException
        Spark refuses the schema or an expression.
    """
    from pyspark.sql import functions as f

    # Only here: most pipelines need no Arrow at the driver.
    from heliostat.records.spark.json_cutting import checked

    text = checked(f.col(step.column)).cast("string")
    frame = frame.withColumn(FIELDS, f.from_json(text, step.schema, _STRICT))
    frame = _with_numbers(frame)
    if step.where:
        frame = kept(frame, f"{FIELDS} IS NULL OR ({step.where})")
    frame = with_key(changed(computed(frame, step), step), step)
    return frame.withColumn(step.column, f.to_json(f.col(FIELDS), _KEEP_NULLS).cast("binary")).drop(
        FIELDS
    )


def _with_numbers(frame: DataFrame) -> DataFrame:
    """Return a frame that fails where a number is too large for its field: it is infinite."""
    from pyspark.sql import functions as f

    infinite = _infinite(f.col(FIELDS), _fields_of(frame))
    if infinite is None:
        return frame
    fails = f.raise_error(f.lit("a number is too large for its field"))
    return frame.withColumn(FIELDS, f.when(infinite, fails).otherwise(f.col(FIELDS)))


def _infinite(at: Column, kind: DataType) -> Column | None:
    """Return whether there is an infinite number; None: there can be none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

    found: Column | None = None
    match kind:
        case DoubleType() | FloatType():
            found = f.abs(at) == float("inf")
        case StructType():
            parts = [_infinite(at[field.name], field.dataType) for field in kind]
            there = [each for each in parts if each is not None]
            found = functools.reduce(operator.or_, there) if there else None
        case ArrayType():
            found = _any_infinite(at, kind.elementType)
        case MapType():
            found = _any_infinite(f.map_values(at), kind.valueType)
        case _:
            pass
    return None if found is None else f.coalesce(found, f.lit(False))


def _any_infinite(at: Column, kind: DataType) -> Column | None:
    from pyspark.sql import functions as f

    if _infinite(f.lit(None), kind) is None:
        return None
    return f.exists(at, lambda each: cast("Column", _infinite(each, kind)))


def computed(frame: DataFrame, step: FieldChanges) -> DataFrame:
    """Return a frame with the fields that a step sets or casts."""
    from pyspark.sql import functions as f

    for name, expression in step.columns:
        frame = with_field(frame, name, f.expr(expression))
    for name, kind in step.casts:
        frame = with_field(frame, name, f.col(FIELDS)[name].cast(kind))
    return frame


def changed(frame: DataFrame, step: FieldChanges) -> DataFrame:
    """Return a frame with fields masked, renamed, dropped and flattened."""
    from pyspark.sql import functions as f

    for name, text_instead in step.masks:
        frame = with_field(frame, name, _mask(_fields_of(frame)[name].dataType, text_instead))
    for name, new in step.renames:
        frame = with_field(frame, new, f.col(FIELDS)[name])
        frame = frame.withColumn(FIELDS, f.col(FIELDS).dropFields(f"`{name}`"))
    if step.drops:
        dropped = f.col(FIELDS).dropFields(*(f"`{name}`" for name in step.drops))
        frame = frame.withColumn(FIELDS, dropped)
    if step.flattens:
        parts = _flat(f.col(FIELDS), _fields_of(frame), "", step.flattens)
        flat = f.struct(*(each.alias(name) for name, each in parts))
        frame = frame.withColumn(FIELDS, f.when(f.col(FIELDS).isNotNull(), flat))
    return frame


def with_key(frame: DataFrame, step: FieldChanges) -> DataFrame:
    """Return a frame whose key is a JSON object of some fields, where there are any."""
    from pyspark.sql import functions as f

    if not step.key_fields:
        return frame
    key = f.struct(*(f.col(FIELDS)[name].alias(name) for name in step.key_fields))
    found = f.when(f.col(FIELDS).isNotNull(), f.to_json(key, _KEEP_NULLS).cast("binary"))
    return frame.withColumn("key", f.coalesce(found, f.col("key")))


def with_field(frame: DataFrame, name: str, content: Column) -> DataFrame:
    """Return a frame with one field of the decoded object set; null stays null."""
    from pyspark.sql import functions as f

    return frame.withColumn(FIELDS, f.col(FIELDS).withField(f"`{name}`", content))


def _fields_of(frame: DataFrame) -> StructType:
    from pyspark.sql.types import StructType as Struct

    kind = frame.schema[FIELDS].dataType
    assert isinstance(kind, Struct), "from_json was given the DDL of a struct"
    return kind


def _mask(kind: DataType, instead: str | None) -> Column:
    """Return what hides a field: the given text, else what Connect's MaskField puts there."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType, NumericType, StringType

    if instead is not None:
        return f.lit(instead).cast(kind)
    if isinstance(kind, StringType):
        return f.lit("")
    if isinstance(kind, NumericType):
        return f.lit(0).cast(kind)
    if isinstance(kind, BooleanType):
        return f.lit(False)
    return f.lit(None).cast(kind)


def _flat(at: Column, kind: StructType, prefix: str, joint: str) -> list[tuple[str, Column]]:
    from pyspark.sql.types import StructType as Struct

    found: list[tuple[str, Column]] = []
    for field in kind:
        if isinstance(field.dataType, Struct):
            inner = f"{prefix}{field.name}{joint}"
            found += _flat(at[field.name], field.dataType, inner, joint)
        else:
            found.append((prefix + field.name, at[field.name]))
    return found
