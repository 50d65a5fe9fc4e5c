"""Which topics go through which pipeline, and what its steps are for Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from heliostat.config import LinkConfig, load_config
from heliostat.errors import ConfigError
from heliostat.link.pipeline_rules import pipeline_of, pipelines_of
from heliostat.names import TopicName
from heliostat.records.copier.lane import CallFunction, JsonFields, SetColumns, Step, Where


def link_with(folder: Path, *pipelines: dict[str, Any]) -> LinkConfig:
    path = folder / "heliostat.yaml"
    clusters = {name: {"bootstrap": [f"{name}:9092"]} for name in ("east", "west")}
    link = {"name": "l", "source": "east", "target": "west", "pipelines": list(pipelines)}
    path.write_text(yaml.safe_dump({"clusters": clusters, "links": [link]}))
    return load_config(path).links[0]


def step_of(folder: Path, step: dict[str, Any]) -> Step:
    link = link_with(folder, {"name": "p", "topics": "t", "steps": [step]})
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


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"where": "offset > 3"}, Where("offset > 3")),
        ({"set": {"key": "value"}}, SetColumns((("key", "value"),))),
        ({"function": "a.b:c"}, CallFunction("a.b:c")),
        ({"drop_tombstones": True}, Where("value IS NOT NULL")),
        (
            {"keep_with_header": {"name": "it's"}},
            Where(r"exists(headers, h -> coalesce(h.key = 'it\'s', false))"),
        ),
        (
            {"drop_with_header": {"name": "a", "matches": r"\d+"}},
            Where(
                "NOT exists(headers, h -> coalesce(h.key = 'a' AND "
                r"decode(h.value, 'UTF-8') RLIKE '^(?:\\d+)$', false))"
            ),
        ),
        (
            {"drop_headers": ["a", "b"]},
            SetColumns((("headers", "filter(headers, h -> h.key NOT IN ('a', 'b'))"),)),
        ),
        (
            {"json_fields": {"schema_ddl": "a int, b int", "drop": ["b"], "to_key": ["a"]}},
            JsonFields("value", "a int, b int", drops=("b",), key_fields=("a",)),
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
    ],
)
def test_a_pipeline_that_makes_no_sense_is_refused(
    tmp_path: Path, pipelines: list[dict[str, Any]], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        link_with(tmp_path, *pipelines)
