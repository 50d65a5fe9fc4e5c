"""Which topics go through which pipeline, and what its steps are for Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import LinkConfig, load_config
from heliostat.errors import ConfigError
from heliostat.link.pipeline_rules import (
    decoded_of,
    pipeline_notes,
    pipeline_of,
    pipelines_of,
)
from heliostat.names import TopicName
from heliostat.records.copier.avro_step import AvroFields
from heliostat.records.copier.lane import SchemaFrames
from heliostat.records.copier.pipeline_steps import (
    CallFunction,
    JsonFields,
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


def link_with(folder: Path, *pipelines: dict[str, Any], **more: Any) -> LinkConfig:
    path = folder / "heliostat.yaml"
    clusters = {
        name: {
            "bootstrap": [f"{name}:9092"],
            "schema_registry": {"urls": [f"http://{name}:8081"]},
        }
        for name in ("east", "west")
    }
    link = {"name": "l", "source": "east", "target": "west", "pipelines": list(pipelines), **more}
    path.write_text(yaml.safe_dump({"clusters": clusters, "links": [link]}))
    return load_config(path).links[0]


def json_pipeline(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": "p", "topics": "t", "steps": [{"json_fields": step} for step in steps]}


def json_and_avro() -> dict[str, Any]:
    steps = [{"json_fields": {"drop": ["a"]}}, {"avro_fields": {"drop": ["a"]}}]
    return {"name": "p", "topics": "t", "steps": steps}


def avro_pipeline(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": "p", "topics": "t", "steps": [{"avro_fields": step} for step in steps]}


@pytest.mark.parametrize(
    ("strategy", "step", "why"),
    [
        ("preserve", {"where": "true"}, ""),
        ("preserve", {"to_key": ["a"]}, ""),
        ("preserve", {"drop": ["a"]}, "preserve has no ids for changed schemas"),
        ("isolate", {"drop": ["a"]}, ""),
    ],
)
def test_changed_fields_need_a_strategy_with_ids_of_the_target(
    tmp_path: Path, strategy: str, step: dict[str, Any], why: str
) -> None:
    schemas = {"strategy": strategy}
    if why:
        with pytest.raises(ConfigError, match=why):
            link_with(tmp_path, avro_pipeline(step), schemas=schemas)
    else:
        link = link_with(tmp_path, avro_pipeline(step), schemas=schemas)
        assert decoded_of(link, TopicName("t")) is SchemaFrames.VALUES
        assert not decoded_of(link, TopicName("other"))


def step_of(folder: Path, step: dict[str, Any]) -> Step:
    schemas = {"schemas": {"strategy": "isolate"}} if "avro_fields" in step else {}
    link = link_with(folder, {"name": "p", "topics": "t", "steps": [step]}, **schemas)
    (found,) = pipelines_of(link)["p"].steps
    return found


def test_a_topic_goes_through_the_first_pipeline_that_names_it(tmp_path: Path) -> None:
    step = {"drop_tombstones": True}
    link = link_with(
        tmp_path,
        {"name": "one", "topics": ["orders"], "steps": [step]},
        {"name": "two", "topics": ["ord.*", "x"], "steps": [step, step]},
    )
    found = {name: pipeline_of(link, TopicName(name)) for name in ("orders", "ordeal", "x", "y")}
    assert found == {"orders": "one", "ordeal": "two", "x": "two", "y": ""}
    assert [len(each.steps) for each in pipelines_of(link).values()] == [1, 2]


def test_a_plan_says_which_topics_are_changed_and_which_pipeline_has_none(tmp_path: Path) -> None:
    link = link_with(
        tmp_path,
        {"name": "a", "topics": ["t.*"], "steps": [{"drop_tombstones": True}]},
        {"name": "b", "topics": ["u"], "steps": [{"where": "true"}, {"drop_tombstones": True}]},
        {"name": "c", "topics": ["misspelt"], "steps": [{"drop_headers": ["x"]}]},
    )
    topics = map(TopicName, ("u", "t4", "t1", "t2", "t3", "v"))
    assert pipeline_notes(link, topics) == (
        "pipeline a: 4 topics (t1, t2, t3, ...), on the bytes of batches",
        "pipeline b: 1 topic (u), as rows of Spark",
        "pipeline c: no topic of the link goes through it",
    )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"where": "offset > 3"}, Where("offset > 3")),
        ({"set": {"key": "value"}}, SetColumns((("key", "value"),))),
        ({"function": "a.b:c"}, CallFunction("a.b:c")),
        ({"drop_tombstones": True}, HasValue()),
        ({"keep_with_header": {"name": "it's"}}, HasHeader("it's", is_kept=True)),
        ({"drop_with_header": {"name": "a"}}, HasHeader("a", is_kept=False)),
        (
            {"insert_origin": {"prefix": "from_", "what": ["topic", "offset"]}},
            InsertOrigin((("from_topic", Origin.TOPIC), ("from_offset", Origin.OFFSET))),
        ),
        (
            {"insert_origin": {}},
            InsertOrigin(tuple((f"origin.{each.name.lower()}", each) for each in Origin)),
        ),
        ({"insert_headers": {"a": "b", "c": "d"}}, InsertHeaders((("a", "b"), ("c", "d")))),
        ({"rename_headers": {"a": "b"}}, RenameHeaders((("a", "b"),))),
        (
            {"drop_with_header": {"name": "a", "matches": r"\d+"}},
            Where(
                "NOT exists(headers, h -> coalesce(h.key = 'a' AND "
                r"decode(h.value, 'UTF-8') RLIKE '^(?:\\d+)$', false))"
            ),
        ),
        ({"drop_headers": ["a", "b"]}, DropHeaders(("a", "b"))),
        (
            {
                "avro_fields": {
                    "column": "key",
                    "reader_schema": "{}",
                    "where": "fields.a > 1",
                    "set": {"a": "1"},
                    "cast": {"b": "int"},
                    "mask": {"c": None},
                    "rename": {"d": "e"},
                    "drop": ["f"],
                    "flatten": "_",
                }
            },
            AvroFields(
                "key",
                where="fields.a > 1",
                columns=(("a", "1"),),
                casts=(("b", "int"),),
                masks=(("c", None),),
                renames=(("d", "e"),),
                drops=("f",),
                flattens="_",
                reader="{}",
            ),
        ),
        (
            {"json_fields": {"schema_ddl": "a int, b int", "drop": ["b"], "to_key": ["a"]}},
            JsonFields("value", schema="a int, b int", drops=("b",), key_fields=("a",)),
        ),
        (
            {"json_fields": {"column": "key", "drop": ["b"], "mask": {"a": None}}},
            JsonFields("key", drops=("b",), masks=(("a", None),)),
        ),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_what_a_step_is_for_spark(tmp_path: Path, step: dict[str, Any], expected: Step) -> None:
    assert step_of(tmp_path, step) == expected


@pytest.mark.parametrize(
    ("pipelines", "why"),
    [
        ([{"name": "p", "topics": "t", "steps": []}], "steps"),
        ([{"name": "p", "topics": "t", "steps": [{}]}], "exactly one of"),
        ([{"name": "p", "topics": "t", "steps": [{"where": "a", "set": {}}]}], "exactly one of"),
        ([{"name": "p", "topics": "t", "steps": [{"function": "no colon"}]}], "module:function"),
        ([{"name": "p", "topics": "t", "steps": [{"set": {"offset": "1"}}]}], "offset"),
        ([{"name": "p", "topics": "t", "steps": [{"where": "a"}]}] * 2, "two pipelines"),
        ([{"name": "a b", "topics": "t", "steps": [{"where": "a"}]}], "must be 1 to 64"),
        ([avro_pipeline({})], "needs where, to_key or a change"),
        ([avro_pipeline({"column": "key", "to_key": ["a"]})], "to_key only with column value"),
        ([avro_pipeline({"where": "a"}, {"drop": ["a"]})], "two steps for Avro fields"),
        ([avro_pipeline({"where": "a"})], "only a link that mirrors schemas"),
        ([json_pipeline({})], "needs a change of fields"),
        ([json_pipeline({"schema_ddl": ""})], "schema_ddl"),
        ([json_pipeline({"where": "fields.a"})], "where needs schema_ddl"),
        ([json_pipeline({"schema_ddl": "a int", "only": ["a"]})], "only: not with schema_ddl"),
        ([json_pipeline({"column": "key", "to_key": ["a"]})], "to_key only with column value"),
        ([json_pipeline({"cast": {"a": "decimal"}})], "decimal is none of boolean, tinyint"),
        ([json_pipeline({"cast": {"": "int", "a": "int"}})], "in a step of its own"),
        ([json_pipeline({"times": {"a": {"to": "text"}}})], "becomes text by a format"),
        ([json_pipeline({"times": {"a": {"to": "number", "format": "yy"}}})], "yy is not among"),
        ([json_and_avro()], "one of JSON, one of Avro"),
    ],
)
def test_a_pipeline_that_makes_no_sense_is_refused(
    tmp_path: Path, pipelines: list[dict[str, Any]], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        link_with(tmp_path, *pipelines)
