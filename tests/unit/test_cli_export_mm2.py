"""`heliostat export-mm2` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from heliostat.cli.main import run

TEXT = """
clusters: {A: {bootstrap: ['a:1']}, B: {bootstrap: ['b:1']}}
links: [{name: a-to-b, source: A, target: B, topics: {include: [x], exclude: ['\\..*']}}]
"""


@pytest.fixture
def given(tmp_path: Path) -> str:
    file = tmp_path / "heliostat.yaml"
    file.write_text(TEXT)
    return str(file)


def test_the_resource_is_on_standard_output_and_notes_on_the_other(given: str, capsys) -> None:
    assert run(["export-mm2", "-c", given]) == 0
    out, err = capsys.readouterr()
    assert yaml.safe_load(out)["kind"] == "KafkaMirrorMaker2"
    assert "# to do: choose replication.factor" in out
    assert "to do  choose replication.factor" in err


def test_connectors_go_into_a_file_that_the_import_reads(
    given: str, tmp_path: Path, capsys
) -> None:
    output = tmp_path / "connectors.json"
    asked = ["export-mm2", "a-to-b", "-c", given, "--as", "connectors", "-o", str(output)]
    assert run(asked) == 0
    assert capsys.readouterr().out == ""
    assert run(["import-mm2", str(output)]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["links"][0]["topics"]["include"] == ["x"]


def test_machines_get_all_of_it_and_differences_the_exit_code(given: str, capsys) -> None:
    text = Path(given).read_text()
    Path(given).write_text(text.replace("topics: {", "gaps: {policy: continue}, topics: {"))
    assert run(["export-mm2", "-c", given, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["link"] == "a-to-b"
    assert found["form"] == "strimzi"
    assert any("gaps" in line for line in found["differences"])
    assert found["always"]


def test_a_file_that_cant_be_written_is_told(given: str, tmp_path: Path, capsys) -> None:
    assert run(["export-mm2", "-c", given, "-o", str(tmp_path)]) == 2
    assert run(["export-mm2", "-c", given, "-o", str(tmp_path / "x" / "y")]) == 2
    assert "can't be written" in capsys.readouterr().err
