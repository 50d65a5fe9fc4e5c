"""Links that connectors are stand beside those made by API, and fit the file as these do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unit.connect.technote import UPLOADS, stored

from heliostat.config import read_config_file
from heliostat.config.defined import with_definitions
from heliostat.connect.home_contents import home_contents
from heliostat.definitions.definition import Definition, DefinitionKey, DefinitionKind

FILE = """\
clusters:
  src: {bootstrap: "broker-src:29093"}
  destn: {bootstrap: "broker-destn:29092"}
service: {home: destn}
links: []
"""


def test_the_three_uploads_fit_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "heliostat.yaml"
    path.write_text(FILE)
    file = read_config_file(path)
    made = DefinitionKey(DefinitionKind.LINK, "by-api")
    rows = {
        each.key: replace(each.to_definition(), generation=each.generation)
        for each in stored(*UPLOADS)
    }
    rows[made] = Definition(made, {"source": "destn", "target": "src"}, "ann", 1)
    whole = with_definitions(file, home_contents(file, rows))
    assert whole.waits == {}
    assert {link.name for link in whole.config.links} == {"src-to-destn", "by-api"}
