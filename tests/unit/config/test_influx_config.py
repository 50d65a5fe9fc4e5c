"""InfluxDB in the configuration: what is accepted, refused, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from heliostat.config import Config, load_config
from heliostat.errors import ConfigError

CANARY = "canary-19be44"
FILE = """
clusters: {east: {bootstrap: "127.0.0.1:9092"}, west: {bootstrap: "127.0.0.1:9093"}}
links: [{name: l, source: east, target: west}]
metrics: %s
"""


def load(folder: Path, metrics: str) -> Config:
    path = folder / "heliostat.yaml"
    path.write_text(FILE % metrics, encoding="utf-8")
    return load_config(path, {"SECRET": CANARY})


def test_there_is_none_unless_it_is_named(tmp_path: Path) -> None:
    assert load(tmp_path, "{}").metrics.influx is None
    influx = load(tmp_path, "{influx: {url: 'http://db:8086/'}}").metrics.influx
    assert influx is not None
    assert (influx.url, influx.database, influx.every_s) == ("http://db:8086", "heliostat", 10)


REFUSED = {
    "url: 'ftp://db:8086'": "is no address such as",
    f"url: 'https://me:{CANARY}@db:8086'": "must have no user and password",
    f"url: 'https://db:8086/?p={CANARY}'": "must end with the path",
    f"url: 'https://db', username: me, password: {CANARY}": "a secret is never written here",
    "url: 'https://db', username: me, password: '${env:SECRET}'": "a secret is never written here",
    "url: 'https://db', username: me": "username and password belong together",
    "url: 'http://db', username: me, password: {env: SECRET}": "only with an https address",
    "url: 'http://db', ca_file: /ca.pem": "ca_file only with an https address",
    f"url: 'https://db', pasword: {CANARY}": "did you mean password?",
    "url: 'https://db', every_s: 0.5": "every_s",
}


@pytest.mark.parametrize("influx", REFUSED)
def test_what_is_refused_says_why_and_quotes_no_secret(influx: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"{{influx: {{{influx}}}}}")
    assert REFUSED[influx] in str(refused.value)
    assert CANARY not in str(refused.value)


def test_a_misspelt_section_is_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"{{influxdb: {{password: {CANARY}}}}}")
    assert CANARY not in str(refused.value)
