"""Links that are defined elsewhere: merged as the file's are, checked with them, harming none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heliostat.config import ConfigFile, read_config_file
from heliostat.config.defined import WholeConfig, with_definitions
from heliostat.errors import ConfigError
from heliostat.names import LinkName

CLUSTERS = """
clusters:
  summit: {bootstrap: ["127.0.0.1:9092"]}
  usdf: {bootstrap: ["127.0.0.1:9192"]}
  far: {bootstrap: ["127.0.0.1:9292"]}
"""
ONE = "links: [{name: one, source: summit, target: usdf, topics: {include: [a]}}]\n"
ENDS = {"source": "summit", "target": "usdf"}


def config_file(folder: Path, text: str) -> ConfigFile:
    path = folder / "heliostat.yaml"
    path.write_text(CLUSTERS + text)
    return read_config_file(path, {"SECRET": "s3cret"})


def merged(folder: Path, text: str = ONE, /, **definitions: Any) -> WholeConfig:
    named = {LinkName(name.replace("_", "-")): value for name, value in definitions.items()}
    return with_definitions(config_file(folder, text), named)


def names(found: WholeConfig) -> list[str]:
    return [link.name for link in found.config.links]


def test_a_definition_has_the_files_defaults(tmp_path: Path) -> None:
    text = ONE + 'defaults: {topics: {naming: {prefix: "x."}}, records: {in_flight_max: 2}}\n'
    found = merged(tmp_path, text, two={**ENDS, "topics": {"include": ["b"]}})
    assert (names(found), found.waits) == (["one", "two"], {})
    two = found.config.link("two")
    assert (two.topics.name_format(), two.records.in_flight_max) == ("x.${topic}", 2)
    assert found.config.link("one") == config_file(tmp_path, text).config.link("one")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"source": "summit"}, "target: must be given"),
        ({**ENDS, "target": "moon"}, "target: no such cluster, there are summit, usdf, far"),
        ({**ENDS, "topics": {"includ": ["b"]}}, "topics.includ: unknown key, did you mean include"),
        ({**ENDS, "topics": {"include": ["a"]}}, "topics.include: links[0] (one) already writes"),
        ({**ENDS, "name": "other"}, "name: the definition is of link bad"),
        ({**ENDS, "topics": {"include": ["${env:SECRET}"]}}, "topics.include[0]: a variable is"),
        ({**ENDS, "bootstrap": "evil:9092"}, "bootstrap: unknown key"),
    ],
)
def test_one_that_is_wrong_waits_and_harms_no_other(
    tmp_path: Path, content: Any, problem: str
) -> None:
    good = {**ENDS, "topics": {"include": ["b"]}}
    found = merged(tmp_path, before=good, bad=content, after={**good, "target": "far"})
    assert names(found) == ["one", "before", "after"]
    assert [*found.waits] == ["bad"]
    assert any(problem in text for text in found.waits[LinkName("bad")]), found.waits


def test_of_two_that_exclude_each_other_the_older_one_counts(tmp_path: Path) -> None:
    same = {**ENDS, "topics": {"include": ["b"]}}
    found = merged(tmp_path, older=same, newer=same)
    assert names(found) == ["one", "older"]
    assert "(older) already writes" in found.waits[LinkName("newer")][0]


def test_the_files_own_link_counts_whatever_its_case(tmp_path: Path) -> None:
    found = merged(tmp_path, One={**ENDS, "topics": {"include": ["b"]}})
    assert names(found) == ["one"]
    assert "heliostat.yaml has a link of that name" in found.waits[LinkName("One")][0]


def steps(step: dict[str, Any]) -> dict[str, Any]:
    topics = {"include": ["b"]}
    return {**ENDS, "topics": topics, "pipelines": [{"name": "p", "topics": "b", "steps": [step]}]}


REACHING = [
    ({**ENDS, "topics": {"include": ["b"], "start": {"offsets": "/etc/passwd"}}}, "/etc/passwd"),
    ({**ENDS, "topics": {"include": ["b"]}, "access": {"users_file": "/etc/u"}}, "/etc/u"),
    (steps({"function": "os:system"}), "os:system"),
    (steps({"where": "reflect('java.lang.System', 'exit', 1) = ''"}), "reflect"),
    (steps({"where": "`java_method`('a.B', 'c') = ''"}), "java_method"),
    (steps({"where": "exists (select 1 from text.`/etc/passwd`)"}), "select"),
    (steps({"where": "exists ( FROM text.`/etc/passwd`)"}), "FROM"),
    (steps({"set": {"value": "(/**/ select 1)"}}), "select"),
    (steps({"json_fields": {"schema_ddl": "a int", "where": "Reflect('a') = 1"}}), "Reflect"),
]


@pytest.mark.parametrize(("content", "word"), REACHING)
def test_what_reaches_out_must_be_allowed(tmp_path: Path, content: Any, word: str) -> None:
    assert [*merged(tmp_path, two=content).waits] == ["two"]
    [told] = merged(tmp_path, two=content).waits[LinkName("two")]
    assert "taken from the file only" in told
    assert word in told
    allowed = ONE + 'service: {allow: ["(?s).*"]}\n'
    assert merged(tmp_path, allowed, two=content).waits == {}


@pytest.mark.parametrize(
    "expression", ["extract(year from timestamp) > 2024", "value = 'a from b'", "selected > 3"]
)
def test_usual_expressions_are_taken(tmp_path: Path, expression: str) -> None:
    assert merged(tmp_path, two=steps({"where": expression})).waits == {}


def test_a_file_without_links_needs_a_home(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"links: must not be empty, unless service\.home"):
        config_file(tmp_path, "links: []\n")
    text = "links: []\nservice: {home: far}\n"
    assert config_file(tmp_path, text).config.links == ()
    assert names(merged(tmp_path, text, two=ENDS)) == ["two"]


def test_deep_nesting_is_a_problem_of_its_own(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    assert "nested so deeply" in merged(tmp_path, two={"topics": deep}).waits[LinkName("two")][0]
