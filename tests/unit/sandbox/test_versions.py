"""Which versions of Kafka a sandbox offers."""

import pytest
from click.testing import CliRunner

from heliostat.errors import Refused
from heliostat_sandbox import KAFKA_2_8, KAFKA_3_9, named
from heliostat_sandbox.commands import sandbox_group
from heliostat_sandbox.jars import read_lock
from heliostat_sandbox.versions import VERSIONS


def test_the_jars_of_every_version_are_locked() -> None:
    locked = read_lock()
    for version in VERSIONS.values():
        assert f"kafka_2.13-{version.name}.jar" in locked[version.jars].checksums


def test_the_command_line_passes_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(named, "up", lambda names, **options: asked.update(options))
    monkeypatch.setattr(named, "status", lambda names: [])
    done = CliRunner().invoke(sandbox_group, ["up", "old", "--version", KAFKA_3_9])
    assert done.exit_code == 0, done.output
    assert asked["version"] == KAFKA_3_9


def test_a_named_cluster_needs_no_zookeeper(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(Refused, match="ZooKeeper"):
        named.up(["old"], version=KAFKA_2_8)
    assert named.known_names() == []
