"""What documents show is real: links and anchors, commands, configurations, figures."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import click
import main as bench
import pytest
import yaml
from support import documents
from support.tools import ROOT, load_tool

from heliostat.cli.main import root
from heliostat.config import SecurityConfig, load_config
from heliostat.config.model import Config, LinkSettings
from heliostat.errors import ConfigError

site_files = load_tool("site_files")

WHOLE = set(Config.model_fields) | {"defaults"}
OF_A_LINK = set(LinkSettings.model_fields)
OF_SECURITY = set(SecurityConfig.model_fields)


@pytest.mark.parametrize("file", documents.DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_and_their_anchors_are_there(file: Path) -> None:
    broken = []
    for link in documents.LINK.findall(file.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        is_page = bool(anchor) and target.suffix == ".md"
        if not target.exists() or (is_page and anchor not in documents.anchors(target)):
            broken.append(link)
    assert broken == []


def told(words: list[str]) -> str | None:
    """What our own parser has against a command; None if nothing."""
    command: click.Command = root
    context = click.Context(root, info_name="heliostat")
    try:
        while isinstance(command, click.Group):
            if not words or words[0].startswith("-"):
                return None  # options of the program itself
            _, sub, words = command.resolve_command(context, words)
            assert sub is not None
            context, command = click.Context(sub, parent=context, info_name=sub.name), sub
        command.parse_args(context, list(words))
    except click.exceptions.Exit:
        return None  # --help, --version
    except click.UsageError as error:
        text = error.format_message()
        return None if "does not exist" in text or "No such file" in text else text
    return None


def test_commands_are_taken_by_our_own_parser() -> None:
    commands = list(documents.commands("heliostat"))
    assert len(commands) > 150
    refused = [(place, words, told(words)) for place, words in commands]
    assert [row for row in refused if row[2] is not None] == []


def test_a_wrong_command_is_found() -> None:
    assert told(["status", "--no-such-option"]) is not None
    assert told(["no-such-verb"]) is not None


def test_commands_of_the_benchmark_are_taken_by_its_parser(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n".join(file.read_text() for file in documents.DOCUMENTS)
    commands = set(re.findall(r"`bench/compare ([^`]+)`", text))
    assert len(commands) > 15
    for words in sorted(commands):
        shown = re.sub(r" ?\[[^\]]*\]|\|\w+", "", words)  # without options and alternatives
        given = shown.replace("SCENARIO", "bulk").replace(" N", " 5").split()
        monkeypatch.setattr("sys.argv", ["bench/compare", *given])
        try:
            bench.arguments()
        except SystemExit:
            pytest.fail(f"bench/compare {words}: {capsys.readouterr().err}")


def whole(value: dict[str, Any]) -> dict[str, Any] | None:
    """A configuration that contains what a document shows; None if it is none of ours."""
    value = value.get("config", value) if "podMonitor" in value else value  # values of the chart
    keys = set(value)
    if keys <= OF_A_LINK:
        value = {"links": [dict(value)]}
    elif keys <= OF_SECURITY and "protocol" in keys:
        value = {"clusters": {"a": {"security": dict(value)}}}
    elif keys == {"conf"}:
        value = {"spark": dict(value)}
    elif not keys <= WHOLE:
        return None
    links = [dict(link) for link in value.get("links") or [{}]]
    for link in links:
        link.setdefault("name", "a-to-b")
        link.setdefault("source", "a")
        link.setdefault("target", "b")
        topics = dict(link.get("topics") or {})
        link["topics"] = documents.TOPICS_OF_AN_EXAMPLE | topics
    clusters = {name: dict(cluster) for name, cluster in (value.get("clusters") or {}).items()}
    home = (value.get("service") or {}).get("home")
    for name in {link[side] for link in links for side in ("source", "target")} | {home} - {None}:
        clusters.setdefault(name, {})
    for name, cluster in clusters.items():
        cluster.setdefault("bootstrap", [f"{name}:9092"])
        if any("schemas" in link for link in links):
            cluster.setdefault("schema_registry", {"urls": f"https://{name}:8081"})
    return {**value, "links": links, "clusters": clusters}


@cache
def configurations() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for place, value in documents.configurations():
        made = whole(value)
        if made is not None:
            found.append((place, made))
    return found


def test_configurations_are_accepted_by_our_own_loader(tmp_path: Path) -> None:
    assert len(configurations()) > 20
    refused = []
    for place, value in configurations():
        file = tmp_path / "heliostat.yaml"
        file.write_text(yaml.safe_dump(value))
        try:
            load_config(file, env={})
        except ConfigError as error:  # all at once, with their places
            refused.append((place, str(error)))
    assert refused == []


def table(text: str, first: str) -> dict[str, dict[str, str]]:
    """The rows of the first table with a column of this name: column by column, by first cell."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    begin = next(number for number, row in enumerate(rows) if first in row)
    columns = rows[begin]
    return {row[0]: dict(zip(columns, row[1:], strict=False)) for row in rows[begin + 1 :]}


def test_readme_says_of_others_what_the_comparison_says() -> None:
    shown = table((ROOT / "README.md").read_text(), "Cluster Linking")
    full = table((ROOT / "docs" / "compared.md").read_text(), "Cluster Linking")
    assert len(shown) > 6
    assert {feature: row.items() <= full[feature].items() for feature, row in shown.items()} == (
        dict.fromkeys(shown, True)
    )


def test_every_page_is_in_the_sites_navigation() -> None:
    text = re.sub(r"!!python\S+", "", (ROOT / "mkdocs.yml").read_text())
    listed = set(re.findall(r"[\w/.-]+\.md", str(yaml.safe_load(text)["nav"])))
    pages = {
        site_files.place(str(file.relative_to(ROOT)))
        for file in (ROOT / "docs").rglob("*.md")
        if not {"adr", "examples"} & set(file.parts)  # listed by the site itself
    }
    outside = {site_files.place(path) for path in site_files.OUTSIDE}
    assert listed == pages | outside | {"adr/index.md", "examples/index.md"}


def test_links_lead_to_places_of_the_site() -> None:
    there = {"a.md", "adr/1.md", "project/ARCHITECTURE.md"}
    text = "[a](../ARCHITECTURE.md#x) [b](adr/1.md) [c](../src/heliostat/errors.py) [d](gone.md)"
    made = site_files.relinked(text, "docs/a.md", there)
    assert made == "[a](project/ARCHITECTURE.md#x) [b](adr/1.md) c [d](gone.md)"
    made = site_files.relinked("[a](docs/a.md) [e](docs/adr/1.md)", "ARCHITECTURE.md", there)
    assert made == "[a](../a.md) [e](../adr/1.md)"


def test_lists_and_tables_are_such_in_the_site_too() -> None:
    """Python-Markdown wants an empty line before a list or table, four spaces below an item."""
    odd = []
    for file in documents.DOCUMENTS:
        before, is_fenced, in_list = "", False, False
        for number, line in enumerate(file.read_text().splitlines(), 1):
            is_fenced ^= bool(documents.FENCE.match(line))
            is_item = re.match(r"([-*]|\d+\.) ", line) is not None
            is_plain = bool(before) and not before.startswith(("#", " ", "|", "-", "*", "<!--"))
            if not is_fenced and is_plain and not re.match(r"\d+\. ", before) and not in_list:
                odd += [f"{file.name}:{number}"] * (is_item or line.startswith("|"))
            if not is_fenced and in_list and not before and re.match(r" {1,3}\S", line):
                odd.append(f"{file.name}:{number}")
            in_list = is_item or (in_list and (not line or line.startswith(" ") or bool(before)))
            before = line
    assert odd == []
