"""Shell completion: verbs, options and links of the file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, get_completion_class

from heliostat.cli.main import root

FILE = "links: [{name: summit-to-usdf}, {name: usdf-to-summit}, {name: 3}, nothing]\n"


def offered(*words: str) -> list[str]:
    shell = BashComplete(root, {}, "heliostat", "_HELIOSTAT_COMPLETE")
    return sorted(item.value for item in shell.get_completions(list(words[:-1]), words[-1]))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("sta",), ["start", "state", "status"]),
        (("--v",), ["--version"]),
        (("status", "--so"), ["--sort"]),
        (("status", "--link", "su"), ["summit-to-usdf"]),
        (("status", "-c", "gone.yaml", "--link", "su"), []),
        (("pause", "usdf"), ["usdf-to-summit"]),
    ],
)
def test_a_shell_is_offered_what_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heliostat.yaml").write_text(FILE)

    assert offered(*words) == names


def test_verbs_are_offered_without_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "heliostat.cli.adopt", raising=False)

    assert "adopt" in offered("")
    assert "heliostat.cli.adopt" not in sys.modules


def test_a_file_that_is_none_offers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heliostat.yaml").write_text("links: {")

    assert offered("pause", "") == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(name: str) -> None:
    kind = get_completion_class(name)
    assert kind is not None

    assert "_HELIOSTAT_COMPLETE" in kind(root, {}, "heliostat", "_HELIOSTAT_COMPLETE").source()
