"""Which topics go through which pipeline, and what its steps are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from heliostat.config import LinkConfig, PipelineConfig, compile_pattern
from heliostat.config.pipelines import AvroStep, HeaderMatch, JsonStep, StepConfig
from heliostat.names import ClusterId, TopicName
from heliostat.records.copier.avro_step import AvroFields
from heliostat.records.copier.lane import NO_FRAMES, SchemaFrames
from heliostat.records.copier.pipeline_steps import (
    CallFunction,
    JsonFields,
    Pipeline,
    SetColumns,
    Step,
    Where,
)
from heliostat.records.rows.header_steps import (
    DropHeaders,
    HasHeader,
    HasValue,
    InsertHeaders,
    InsertOrigin,
    Origin,
    RenameHeaders,
)
from heliostat.records.rows.json_changes import TimeChange
from heliostat.records.spark.in_place_sql import literal

_UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
NAMED_MAX = 3
"""Topics that a note names."""


def pipelines_of(link: LinkConfig) -> dict[str, Pipeline]:
    """Return a link's pipelines by their names; they do not know the source's id yet."""
    return {
        each.name: Pipeline(
            each.name, tuple(_step(step) for step in each.steps), timeout_s=each.timeout_s
        )
        for each in link.pipelines
    }


def pipelines_from(link: LinkConfig, cluster_id: Callable[[], ClusterId]) -> dict[str, Pipeline]:
    """Return a link's pipelines by their names, for records of a cluster, asked for its id.

    It is asked only if a step says it.
    """
    found = pipelines_of(link)
    if not any(each.needs_cluster for each in found.values()):
        return found
    cluster = cluster_id()
    return {name: each.from_cluster(cluster) for name, each in found.items()}


def pipeline_of(link: LinkConfig, topic: TopicName) -> str:
    """Return the name of the pipeline that a source topic goes through; empty: none."""
    found = _config_of(link, topic)
    return "" if found is None else found.name


def topics_of_pipelines(
    link: LinkConfig, topics: Iterable[TopicName]
) -> dict[str, frozenset[TopicName]]:
    """Return which of these source topics go through each pipeline, by its name."""
    found: dict[str, set[TopicName]] = {each.name: set() for each in link.pipelines}
    for topic in topics:
        if name := pipeline_of(link, topic):
            found[name].add(topic)
    return {name: frozenset(each) for name, each in found.items()}


def pipeline_notes(link: LinkConfig, topics: Iterable[TopicName]) -> tuple[str, ...]:
    """Return what `plan` says of a link's pipelines: how many of these source topics each changes.

    A pipeline without any topic is most often one whose names are misspelt.
    """
    by_name = topics_of_pipelines(link, topics)
    return tuple(
        _pipeline_note(each, sorted(by_name[each.name])) for each in pipelines_of(link).values()
    )


def _pipeline_note(pipeline: Pipeline, topics: Sequence[TopicName]) -> str:
    if not topics:
        return f"pipeline {pipeline.name}: no topic of the link goes through it"
    way = "on the bytes of batches" if pipeline.is_in_place else "as rows of Spark"
    plural = "" if len(topics) == 1 else "s"
    return f"pipeline {pipeline.name}: {len(topics)} topic{plural} ({named(topics)}), {way}"


def named(topics: Sequence[TopicName]) -> str:
    """Return the first of these topics' names."""
    return ", ".join(topics[:NAMED_MAX]) + (", ..." if len(topics) > NAMED_MAX else "")


def decoded_of(link: LinkConfig, topic: TopicName) -> SchemaFrames:
    """Return what of a topic's records has a schema id, because its pipeline decodes it."""
    pipeline = _config_of(link, topic)
    return _columns(() if pipeline is None else (step.column for step in pipeline.avro_steps))


def changed_schemas_of(link: LinkConfig, topic: TopicName) -> SchemaFrames:
    """Return what of a topic's records comes out of its pipeline with another schema's id."""
    if not (name := pipeline_of(link, topic)):
        return NO_FRAMES
    return _columns(each.column for each in pipelines_of(link)[name].avro_steps if each.rewrites)


def _columns(names: Iterable[str]) -> SchemaFrames:
    found = NO_FRAMES
    for name in names:
        found |= SchemaFrames.KEYS if name == "key" else SchemaFrames.VALUES
    return found


def _config_of(link: LinkConfig, topic: TopicName) -> PipelineConfig | None:
    return next((each for each in link.pipelines if _is_for(each, topic)), None)


def _is_for(pipeline: PipelineConfig, topic: TopicName) -> bool:
    return any(compile_pattern(entry).fullmatch(topic) for entry in pipeline.topics)


def _step(step: StepConfig) -> Step:
    found = next(_steps(step), None)
    assert found is not None, "the configuration has exactly one"
    return found


def _steps(step: StepConfig) -> Iterator[Step]:
    if step.where is not None:
        yield Where(step.where)
    if step.set is not None:
        yield SetColumns(tuple(step.set.items()))
    if step.function is not None:
        yield CallFunction(step.function)
    yield from _field_steps(step)
    if step.keep_with_header is not None:
        yield _header_step(step.keep_with_header, is_kept=True)
    if step.drop_with_header is not None:
        yield _header_step(step.drop_with_header, is_kept=False)
    if step.drop_tombstones:
        yield HasValue()
    if step.insert_headers is not None:
        yield InsertHeaders(tuple(step.insert_headers.items()))
    if step.insert_origin is not None:
        prefix, what = step.insert_origin.prefix, step.insert_origin.what
        yield InsertOrigin(tuple((prefix + name, Origin[name.upper()]) for name in what))
    if step.rename_headers is not None:
        yield RenameHeaders(tuple(step.rename_headers.items()))
    if step.drop_headers is not None:
        yield DropHeaders(step.drop_headers)
    if step.replace is not None:
        found, instead = literal(step.replace.found), literal(step.replace.instead)
        replaced = f"regexp_replace(decode(value, 'UTF-8'), {found}, {instead})"
        yield SetColumns((("value", f"encode({replaced}, 'UTF-8')"),))


def _field_steps(step: StepConfig) -> Iterator[Step]:
    if step.json_fields is not None:
        yield _json_step(step.json_fields)
    if step.avro_fields is not None:
        reader = step.avro_fields.reader_schema or ""
        yield AvroFields(**_changes(step.avro_fields), reader=reader)


def _json_step(step: JsonStep) -> JsonFields:
    return JsonFields(
        **_changes(step),
        schema=step.schema_ddl or "",
        inserts=tuple(step.insert.items()),
        places=tuple((name, Origin[what.upper()]) for what, name in step.insert_origin.items()),
        times=tuple(
            TimeChange(name, time.format or "", _UNITS_NS[time.unit], is_text=time.to == "text")
            for name, time in step.times.items()
        ),
        only=step.only,
    )


def _changes(step: JsonStep | AvroStep) -> dict[str, Any]:
    """Return the fields of `FieldChanges`."""
    return {
        "column": step.column,
        "where": step.where or "",
        "columns": tuple(step.set.items()),
        "casts": tuple(step.cast.items()),
        "masks": tuple(step.mask.items()),
        "renames": tuple(step.rename.items()),
        "drops": step.drop,
        "flattens": step.flatten or "",
        "header_fields": tuple(step.to_headers.items()),
        "key_fields": step.to_key,
        "extracts": step.extract,
        "hoists": step.hoist or "",
    }


def _header_step(match: HeaderMatch, *, is_kept: bool) -> Step:
    if match.matches is None:
        return HasHeader(match.name, is_kept=is_kept)
    pattern = literal(f"^(?:{match.matches})$")
    found = f"h.key = {literal(match.name)} AND decode(h.value, 'UTF-8') RLIKE {pattern}"
    has = f"exists(headers, h -> coalesce({found}, false))"
    return Where(has if is_kept else f"NOT {has}")
