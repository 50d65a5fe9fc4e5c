"""`heliostat import-mm2` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heliostat.cli.main import run
from heliostat.config import load_config

TEXT = (
    "clusters = A, B\nA.bootstrap.servers = ${env:BOOT}\nB.bootstrap.servers = b:1\n"
    "A->B.enabled = true\nA->B.topics = a\nsync.topic.acls.enabled = false\nfoo = bar\n"
)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    file = tmp_path / "mm2.properties"
    file.write_text(TEXT)
    return file


def test_the_file_is_written_and_each_property_listed(given: Path, tmp_path: Path, capsys) -> None:
    output = tmp_path / "heliostat.yaml"
    assert run(["import-mm2", str(given), "-o", str(output)]) == 0
    assert load_config(output, env={"BOOT": "a:1"}).links[0].topics.include == ("a",)
    out, err = capsys.readouterr()
    assert out == ""
    assert "used" in err
    assert "foo: MirrorMaker 2 drops it" in err


def test_without_a_file_the_yaml_alone_is_on_standard_output(
    given: Path, tmp_path: Path, capsys
) -> None:
    assert run(["import-mm2", str(given)]) == 0
    file = tmp_path / "heliostat.yaml"
    file.write_text(capsys.readouterr().out)
    assert load_config(file, env={"BOOT": "a:1"}).links[0].name == "A-to-B"


def test_machines_get_all_of_it(given: Path, capsys) -> None:
    assert run(["import-mm2", str(given), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["config"]["links"][0]["source"] == "A"
    assert {each["fate"] for each in found["properties"]} >= {"used", "without effect"}


def test_differences_give_the_exit_code(given: Path, capsys) -> None:
    given.write_text(TEXT + "A->B.transforms = x\n")
    assert run(["import-mm2", str(given)]) == 1
    assert "differs  A->B: transform x is not carried over" in capsys.readouterr().err


def test_an_invalid_result_is_reported(given: Path, capsys) -> None:
    given.write_text(TEXT.replace("b:1", "b"))
    assert run(["import-mm2", str(given)]) == 2
    assert "not host:port" in capsys.readouterr().err


def test_addresses_of_registries_may_be_variables(given: Path, capsys) -> None:
    given.write_text(TEXT + "A->B.topics = a, _schemas\n")
    assert run(["import-mm2", str(given)]) == 1
    out, err = capsys.readouterr()
    assert "${env:A_SCHEMA_REGISTRY}" in out
    assert "to do  write the address of A's schema registry into" in err


def test_a_file_that_can_not_be_written_is_one_line(given: Path, tmp_path: Path, capsys) -> None:
    """Given a place without permission, or none / when written there / then said, no traceback."""
    output = tmp_path / "none" / "heliostat.yaml"
    assert run(["import-mm2", str(given), "-o", str(output)]) == 2
    err = capsys.readouterr().err
    assert f"{output} can't be written: No such file or directory" in err
    assert "Traceback" not in err
