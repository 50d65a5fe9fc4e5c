"""Each example is whole: its file loads, its page's commands are commands, nothing is twice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from support.shipped import EXAMPLES, readme_commands
from support.tools import ROOT
from unit.connect.technote import UPLOADS

from heliostat.cli import main as cli
from heliostat.config import Config, load_config
from heliostat.operate.examples import example_files
from heliostat.topics.select import selection_of

NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/heliostat.yaml"))
VARIABLE = re.compile(r"\$\{env:(\w+)\}|\{env: (\w+)\}")
MONITORING = ROOT / "deploy" / "monitoring"


def variables(name: str) -> set[str]:
    text = (EXAMPLES / name / "heliostat.yaml").read_text(encoding="utf-8")
    return {inside or secret for inside, secret in VARIABLE.findall(text)}


def config_of(example: str) -> Config:
    """Load an example with made-up addresses."""
    values = {
        "BOOTSTRAP": "kafka-{}.example.org:9092",
        "REGISTRY": "https://{}.example.org",
        "LISTEN": "127.0.0.1:8083",
        "URL": "http://127.0.0.1:8086",
        "DATABASE": "heliostat",
        "SECRETS": "/etc/heliostat/efd",
        "PASSWORD": "",
    }
    env = {name: values[name.split("_")[-1]].format(name.lower()) for name in variables(example)}
    return load_config(EXAMPLES / example / "heliostat.yaml", env)


def test_there_are_these_examples() -> None:
    assert NAMES == ["both-ways", "efd", "move-one-topic", "one-topic", "technote", "three-sites"]
    assert {path.name for path in EXAMPLES.iterdir()} == {*NAMES, "heliostat.yaml"}
    listed = example_files()
    for name in NAMES:
        assert {f"{name}/heliostat.yaml", f"{name}/README.md"} <= listed.keys()
    assert "monitoring/carry.py" in listed


@pytest.mark.parametrize("name", NAMES)
def test_it_loads(name: str) -> None:
    config = config_of(name)
    links = {"both-ways": 2, "one-topic": 2, "three-sites": 3, "technote": 0}
    assert len(config.links) == links.get(name, 1)


@pytest.mark.parametrize("name", NAMES)
def test_its_page_names_all_variables(name: str) -> None:
    folder = EXAMPLES / name
    text = "".join(path.read_text() for path in (*folder.glob("*.md"), *folder.glob("*.env")))
    assert [variable for variable in variables(name) if variable not in text] == []


def _parses(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    name = words[0]
    context = command.make_context(name, words[1:], parent=parent, **command.context_settings)
    if isinstance(command, click.Group):
        inner = [*context._protected_args, *context.args]
        inner_command = command.get_command(context, inner[0])
        assert inner_command is not None, inner
        _parses(inner_command, inner, context)


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_its_page_are_commands(name: str, tmp_path: Path) -> None:
    commands = list(readme_commands(name))
    assert commands
    for program, *words in commands:
        if program == "python":
            file = words[0].partition("examples/")[2]
            assert file == "monitoring/carry.py"
            assert words[2].partition("examples/")[2] in {
                path.rpartition("/")[0] for path in example_files()
            }
            continue
        _parses(cli.root, ["heliostat", *words])


@pytest.mark.parametrize(
    ("topic", "is_wanted"),
    [
        ("lsst.sal.MTM1M3.forceActuatorData", True),
        ("lsst.sal.ScriptQueue.logevent_nextVisit", True),
        ("lsst.sal.MTMount.command_moveToTarget", True),
        ("lsst.MTCamera.focal_plane_Reb", True),
        ("lsst.obsenv.summary", True),
        ("lsst.sal.Test.scalars", False),
        ("registry-schemas", False),
        ("usdf.lsst.sal.MTMount.azimuth", False),
        ("lsst.square.metrics", False),
    ],
)
def test_the_efd_link_selects(topic: str, is_wanted: bool) -> None:
    [link] = config_of("efd").links
    assert selection_of(link).selects(topic) is is_wanted


def test_the_efd_pack_has_no_monitoring_of_its_own() -> None:
    """Boards, scripts and Telegraf's input lie in one place, and read what the file writes."""
    assert [path for path in EXAMPLES.rglob("*") if path.suffix in {".tick", ".conf"}] == []
    assert not any("cells" in path.read_text() for path in EXAMPLES.rglob("*.json"))
    env = dict(
        line.split("=", 1)
        for line in (EXAMPLES / "efd" / "efd.env").read_text().splitlines()
        if not line.startswith("#")
    )
    assert env.keys() == variables("efd") - {"SUMMIT_PASSWORD"}
    load_config(EXAMPLES / "efd" / "heliostat.yaml", env)
    for script in (MONITORING / "kapacitor").glob("*.tick"):
        assert f'dbrp "{env["INFLUX_DATABASE"]}"."autogen"' in script.read_text()
    board = (MONITORING / "chronograf" / "heliostat.json").read_text()
    assert f'\\"{env["INFLUX_DATABASE"]}\\"..' in board
    telegraf = (MONITORING / "telegraf" / "heliostat.conf").read_text()
    assert f"http://{env['HELIOSTAT_LISTEN']}/metrics" in telegraf


def test_the_technote_s_files_are_as_there() -> None:
    files = [
        json.loads((EXAMPLES / "technote" / f"{name}-connector.json").read_text())
        for name in ("heartbeat", "checkpoint", "mirror-source")
    ]
    assert files == list(UPLOADS)
