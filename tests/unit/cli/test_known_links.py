"""Verbs know the links of the home; one that is away costs those of the file nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.home import HomeLog

from heliostat import cli
from heliostat.cli.known_links import known_config
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind
from heliostat.errors import ConnectionLost
from heliostat.operate import home

TEXT = """
clusters:
  summit: {bootstrap: ["127.0.0.1:9092"]}
  usdf: {bootstrap: ["127.0.0.1:9192"]}
service: {home: usdf}
links: [{name: one, source: summit, target: usdf, topics: {include: [a]}}]
"""


def test_links_of_file_and_home_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, log = tmp_path / "heliostat.yaml", HomeLog()
    file.write_text(TEXT)
    monkeypatch.setattr(home, "home_book", log.book)
    key = DefinitionKey(DefinitionKind.LINK, "two")
    log.append(key, Definition(key, {"source": "summit", "target": "usdf"}, "ann", 5))
    assert [link.name for link in known_config(file).links] == ["one", "two"]
    log.lost = ConnectionLost("it is away")
    assert [link.name for link in known_config(file).links] == ["one"]
    assert "links of the home are not known: it is away" in capsys.readouterr().err
    assert [link.name for link in known_config(file, "one").links] == ["one"]
    assert capsys.readouterr().err == ""
    with pytest.raises(ConnectionLost):
        known_config(file, "two")


def test_every_verb_for_links_knows_those_of_the_home() -> None:
    """Given a verb that reads the file alone / then it shows that file, or has just written it."""
    modules = Path(str(cli.__file__)).parent.glob("*.py")
    alone = {module.stem for module in modules if "load_config" in module.read_text()}
    assert alone == {"configuration", "import_mm2", "init", "scan"}
