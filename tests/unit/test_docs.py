"""The documents are correct: generated pages are up to date, verbs and states are listed."""

import re
from pathlib import Path

import pytest
from support.tools import ROOT, load_tool

from heliostat.cli.main import VERBS
from heliostat.config import load_config
from heliostat.records.copier.lane import CopySettings
from heliostat.records.copier.lane_memory import process_bytes_max

reference = load_tool("generate_reference")
licences = load_tool("licences")

SCRIPTS = sorted(file.name for file in (ROOT / "scripts").iterdir() if file.is_file())


def test_references_are_up_to_date() -> None:
    assert reference.stale_pages(reference.FOLDER, reference.pages()) == []


def test_changed_missing_and_foreign_pages_are_stale(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("old\n")
    (tmp_path / "foreign.md").write_text("by hand\n")
    said = reference.stale_pages(tmp_path, {"a.md": "new\n", "b.md": "text\n"})
    assert {"-old", "+new", "+text", "foreign.md: no page of this tool"} <= set(said)


@pytest.mark.parametrize("verb", VERBS)
def test_verb_is_in_the_operators_guide(verb: str) -> None:
    assert f"heliostat {verb}" in (ROOT / "docs" / "operators.md").read_text()


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_says_what_it_does(script: str) -> None:
    shebang, comment = (ROOT / "scripts" / script).read_text().splitlines()[:2]
    assert shebang.startswith("#!")
    assert re.fullmatch(r"# .{20,}", comment)


def test_states_are_explained_to_operators() -> None:
    guide = (ROOT / "docs" / "stops.md").read_text()
    assert [state.name for state in reference.PartitionState if state.name not in guide] == []


def test_changelog_has_its_three_parts() -> None:
    newest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    assert re.findall(r"^### (.+)$", newest, flags=re.MULTILINE) == [
        "Safety",
        "Operators",
        "Internals",
    ]


def test_decisions_are_numbered_and_complete() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [int(file.name[:4]) for file in records] == list(range(len(records)))
    for file in records:
        headings = re.findall(r"^## (.+)$", file.read_text(), flags=re.MULTILINE)
        assert headings == ["Context", "Decision", "Facts", "What would change it"], file.name


def test_example_configuration_is_accepted() -> None:
    assert load_config(ROOT / "docs" / "examples" / "heliostat.yaml").links


def test_every_locked_package_has_an_accepted_licence() -> None:
    found, in_page = list(licences.packages()), list(licences.page_packages())
    of_site = list(licences.site_packages())
    assert len(found) > 30
    refused = [each for each in (*found, *in_page, *of_site) if not each.is_allowed]
    assert [(each.name, each.licence) for each in refused] == []
    assert licences.PAGE.read_text() == licences.page(found, in_page, of_site)


@pytest.mark.parametrize(
    ("facts", "licence"),
    [
        ({"License-Expression": ["MIT"], "License": ["GPL"]}, "MIT"),
        ({"License": ["Apache 2"]}, "Apache-2.0"),
        ({"Classifier": ["License :: OSI Approved :: MIT License", "Framework :: X"]}, "MIT"),
        ({"License": ["BSD"], "Classifier": ["License :: OSI Approved :: ISC"]}, "ISC"),
        ({"License": ["see the file"]}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_licence_is_read_from_package_metadata(facts: dict[str, list[str]], licence: str) -> None:
    assert licences.licence_of(facts) == licence


@pytest.mark.parametrize(
    ("expression", "permitted"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("unknown", False),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("Apache-2.0 AND (MIT OR GPL-3.0-only)", False),
        ("BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0", True),
    ],
)
def test_licence_expression_is_checked_against_the_list(expression: str, permitted: bool) -> None:
    assert licences.permits(expression) is permitted


def test_lock_file_is_read_by_name_and_version() -> None:
    text = "Type_x==1.2 \\\n    --hash=sha256:00\nb.c==3 ; python_version > '3'\n"
    assert licences.locked(text) == {"type-x": "1.2", "b-c": "3"}


def test_a_lane_needs_what_the_guide_says() -> None:
    needed = process_bytes_max(CopySettings())
    assert f"count {needed >> 20} MiB a lane" in (ROOT / "docs" / "spark.md").read_text()
    assert needed % (1 << 20) == 0
