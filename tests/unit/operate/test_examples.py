"""Files that come with the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.tools import ROOT

from heliostat.cli.examples import examples_command
from heliostat.errors import Refused
from heliostat.operate import examples
from heliostat.operate.examples import copy_examples, example_files, example_text

CONFIG = "heliostat.yaml"


def test_all_of_both_folders_are_there() -> None:
    names = set(example_files())

    assert {CONFIG, "systemd/heliostat@.service", "monitoring/grafana/heliostat.json"} <= names
    assert example_text(CONFIG) == (ROOT / "docs" / "examples" / CONFIG).read_text()


def test_an_installed_package_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("examples", "deploy/systemd"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x").write_text(folder)
    monkeypatch.setattr(examples, "PACKAGE", tmp_path)

    assert sorted(example_files()) == ["systemd/x", "x"]


def test_an_unknown_one_is_refused_with_where_to_look() -> None:
    with pytest.raises(Refused, match="no example 'x'") as refused:
        example_text("x")
    assert "heliostat examples" in refused.value.hint


def test_all_are_copied_once_and_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    assert len(copy_examples(folder)) == len(example_files())
    assert copy_examples(folder) == []
    (folder / CONFIG).write_text("mine")
    (folder / "systemd/heliostat@.service").unlink()
    with pytest.raises(Refused, match=CONFIG):
        copy_examples(folder)
    assert (folder / CONFIG).read_text() == "mine"
    assert not (folder / "systemd/heliostat@.service").exists()


def test_the_command_line_lists_prints_and_copies(tmp_path: Path) -> None:
    def said(*words: str) -> tuple[int, str]:
        outcome = CliRunner().invoke(examples_command, words)
        return outcome.exit_code, outcome.output

    assert said() == (0, "".join(f"{name}\n" for name in example_files()))
    assert said(CONFIG) == (0, example_text(CONFIG))
    assert said("--to", str(tmp_path)) == (
        0,
        f"{len(example_files())} files copied to {tmp_path}\n",
    )
    assert said("--to", str(tmp_path)) == (0, "all are there already\n")
    assert said(CONFIG, "--to", str(tmp_path))[0] == 2
