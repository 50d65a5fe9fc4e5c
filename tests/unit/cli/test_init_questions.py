"""What `heliostat init` asks for security, and what it writes of the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from heliostat.cli import init
from heliostat.config.one_cluster import cluster_at


def answers(*lines: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the keys that these answers, each by Enter, come to."""
    keys: dict[str, Any] = {}

    @click.command()
    def ask() -> None:
        keys.update(init._asked_security(before or {}))

    result = CliRunner().invoke(ask, input="".join(f"{line}\n" for line in lines))
    assert result.exit_code == 0, result.output
    return keys


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ca.pem", "client.pem", "client.key", "password"):
        (tmp_path / name).write_text("x")
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    return tmp_path


@pytest.mark.parametrize(
    ("lines", "keys"),
    [
        (["PLAINTEXT"], {}),
        (["SSL", "-", "-"], {"protocol": "SSL"}),
        (["SSL", "ca.pem", "-"], {"protocol": "SSL", "ca_file": "ca.pem"}),
        (
            ["SSL", "ca.pem", "client.pem", "client.key", "n"],
            {
                "protocol": "SSL",
                "ca_file": "ca.pem",
                "certificate_file": "client.pem",
                "key_file": "client.key",
            },
        ),
        (
            ["SSL", "-", "client.pem", "client.key", "y", "./password"],
            {
                "protocol": "SSL",
                "certificate_file": "client.pem",
                "key_file": "client.key",
                "key_password": {"file": "password"},
            },
        ),
        (
            ["SASL_SSL", "-", "SCRAM-SHA-512", "mirror", "KAFKA_PASSWORD"],
            {
                "protocol": "SASL_SSL",
                "mechanism": "SCRAM-SHA-512",
                "username": "mirror",
                "password": {"env": "KAFKA_PASSWORD"},
            },
        ),
    ],
)
def test_answers_are_keys_that_a_configuration_takes(
    lines: list[str], keys: dict[str, Any], files: Path
) -> None:
    """Given answers / then files are named whole, secrets only by where they are."""

    def whole(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: whole(part, name) for name, part in value.items()}
        return str(files / value) if key == "file" or key.endswith("_file") else value

    assert answers(*lines) == whole(keys)
    cluster_at("summit:9093", answers(*lines))


@pytest.mark.usefixtures("files")
def test_a_second_try_proposes_what_was_answered_before() -> None:
    """Given answers that did not work / when all are confirmed / then they are the same."""
    first = answers("SSL", "ca.pem", "client.pem", "client.key", "n")
    assert answers("", "", "", "", "", before=first) == first
