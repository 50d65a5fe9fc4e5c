"""`heliostat links`: what files say of links, and what is printed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from support.home import HomeLog

from heliostat.cli.links import answer_lines, content_in, link_lines, links_group
from heliostat.errors import ConfigError
from heliostat.names import LinkName, Offset, TopicName
from heliostat.operate import (
    definition_reach,
    home,
    link_definitions,
    link_removal,
    link_states,
)
from heliostat.operate.link_definitions import DefinitionAnswer, LinkDefinition, Origin

TEXT = """
clusters:
  summit: {bootstrap: ["127.0.0.1:9092"]}
  usdf: {bootstrap: ["127.0.0.1:9192"]}
service: {home: usdf}
links: []
"""
TWO = {"source": "summit", "target": "usdf", "topics": {"include": ["b"]}}


class NamedText(io.StringIO):
    name = "link.yaml"


def test_a_file_is_read_as_json_has_it() -> None:
    text = "topics:\n  start: {timestamp: 2026-11-01T00:00:00Z}\n  include: [a]\n"
    assert content_in(NamedText(text)) == {
        "topics": {"start": {"timestamp": "2026-11-01T00:00:00Z"}, "include": ["a"]}
    }


@pytest.mark.parametrize(
    "text", ["a: [", "- a", "", "a: !!python/name:os.system x", "a: !!set {b}"]
)
def test_what_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"link\.yaml"):
        content_in(NamedText(text))


def run(tmp_path: Path, *words: str, text: str | None = None) -> Any:
    file = tmp_path / "heliostat.yaml"
    file.write_text(TEXT)
    words = (words[0], "-c", str(file), *words[1:])
    return CliRunner().invoke(links_group, list(words), input=text, catch_exceptions=False)


def test_all_verbs_of_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = HomeLog()
    for module in (home, link_definitions, link_removal):
        monkeypatch.setattr(module, "home_book", log.book)
    source = {TopicName("b"): 2, TopicName("c"): 3}
    monkeypatch.setattr(definition_reach, "ask_partitions", lambda *_: source)
    status = SimpleNamespace(link="two", state="running", owner={"host": "here"})
    monkeypatch.setattr(link_states, "statuses_apart", lambda _: [(status, None)])
    made = run(tmp_path, "create", "two", "-", "--by", "ann", text=json.dumps(TWO))
    assert made.output == "link two is created (generation 0)\n"
    line = "two: summit → usdf, running at here, of the home, generation 0 by ann"
    assert run(tmp_path, "list").output == f"{line}\n"
    shown = run(tmp_path, "show", "two").output
    assert shown.splitlines()[:3] == [f"# {line}", "source: summit", "target: usdf"]
    tried = run(tmp_path, "change", "two", "-", "--dry-run", text="topics: {include: [c]}")
    assert tried.output.splitlines() == [
        "link two would be changed; nothing was changed",
        "  differs: topics.include",
        "  selects 1 topics with 3 partitions now",
        "  1 topics with 3 partitions begin to be copied",
        "  1 topics with 2 partitions are copied no more; their mirrors stay",
    ]
    words = ("change", "two", "-", "--json", "--if-generation", "0")
    changed = run(tmp_path, *words, text="topics: {include: [c]}")
    assert json.loads(changed.output)["generation"] == 1
    log.append(log.rows[0].key, log.rows[0].definition)
    assert run(tmp_path, "delete", "two", "--why", "over").output == "link two is deleted\n"
    assert (
        run(tmp_path, "list", "--json").output
        == json.dumps({"items": [], "home": "usdf", "error": None}, indent=2) + "\n"
    )


def test_what_is_told_of_links_and_changes() -> None:
    link = LinkDefinition(
        LinkName("a"), Origin.HOME, {"source": "s"}, Offset(3), "ann", 1, "so", ("target: missing",)
    )
    assert link_lines(link) == [
        "a: s → ?, waits, of the home, generation 3 by ann: so",
        "  target: missing",
    ]
    answer = DefinitionAnswer(
        *(LinkName("a"), "deleted", None, None, (), ("b stays",), (TopicName("t"),)), is_tried=True
    )
    assert answer_lines(answer) == [
        "link a would be deleted; nothing was changed",
        "  topic t would be deleted",
        "  b stays",
    ]
