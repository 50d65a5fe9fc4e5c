"""`heliostat switch`, and each command of the guide to failing over: what is asked and written."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from support.command import heliostat

from heliostat.cli.main import root
from heliostat.handover.desk import SwitchOptions
from heliostat.handover.run import Run, RunKind, RunState
from heliostat.handover.steps import new_steps
from heliostat.names import LinkName, TopicName
from heliostat.operate import switch as verb
from heliostat.operate.switch import SwitchPlan, SwitchWish

GUIDE = Path(__file__).parents[3] / "docs" / "failover.md"
CONFIG = """
clusters: {a: {bootstrap: [a:9092]}, b: {bootstrap: [b:9092]}}
links: [{name: summit-to-usdf, source: a, target: b}]
"""
LINK = "summit-to-usdf"


def commands() -> list[str]:
    """Return the commands of the guide."""
    text = GUIDE.read_text()
    of_blocks = re.findall(r"^ +(heliostat [^#\n]+)", text, re.MULTILINE)
    of_lines = re.findall(r"`(heliostat [a-z]+ [a-z-]+-to-[^`]+)`", text)
    return sorted({line.strip() for line in [*of_blocks, *of_lines]})


@pytest.mark.parametrize("line", commands())
def test_each_command_of_the_guide_is_one(line: str, tmp_path: Path) -> None:
    """Given a line of the guide / when it is typed / then its verb takes all of its options."""
    file = tmp_path / "heliostat.yaml"
    file.write_text(CONFIG)
    _, *words = shlex.split(line)
    group: click.Command = root
    context = click.Context(root, info_name="heliostat")
    while isinstance(group, click.Group):
        name, *words = words
        command = group.get_command(context, name)
        assert command is not None, name
        group, context = command, click.Context(command, context, info_name=name)
    group.make_context(name, [*words, "-c", str(file)], parent=context.parent)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "heliostat.yaml"
    file.write_text(CONFIG)
    return file


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SwitchWish]:
    """What the verb is called with; its run ends as is asked."""
    wishes: list[SwitchWish] = []
    began = Run(
        *("0a", RunKind.SWITCH, (TopicName("orders"),), SwitchOptions().to_json()),
        *("ann", 1, tuple(new_steps())),
    )

    def switch(_config: object, _link: object, wish: SwitchWish, told: Any) -> Run:
        wishes.append(wish)
        run = replace(began, state=RunState.WENT_BACK if wish.goes_back else RunState.DONE)
        told(run)
        return run

    def plan(_config: object, _link: object, wish: SwitchWish) -> SwitchPlan:
        wishes.append(wish)
        return SwitchPlan(LinkName(LINK), (TopicName("orders"),), wish.options, ())

    monkeypatch.setattr(verb, "switch", switch)
    monkeypatch.setattr(verb, "plan_switch", plan)
    return wishes


def test_the_name_is_typed_unless_it_is_tried_or_said(config: Path, asked: list[Any]) -> None:
    assert heliostat(config, "switch", LINK, questions="m\n").returncode == 2
    assert not asked
    assert heliostat(config, "switch", LINK, questions=f"{LINK}\n").returncode == 0
    assert heliostat(config, "switch", LINK, "--yes").returncode == 0
    assert heliostat(config, "switch", LINK, "--dry-run").returncode == 0
    assert len(asked) == 3


def test_going_back_and_taking_over_are_wished(config: Path, asked: list[SwitchWish]) -> None:
    assert heliostat(config, "switch", LINK, "--back", "--yes").returncode == 0
    assert heliostat(config, "switch", LINK, "--resume", "--yes").returncode == 0
    words = ("--topics", "orders,payments", "--lag-threshold", "100", "--accept", "one_way")
    assert heliostat(config, "switch", LINK, *words, "--yes").returncode == 0
    back, taken, chosen = asked
    assert (back.goes_back, back.takes_over) == (True, False)
    assert (taken.goes_back, taken.takes_over) == (False, True)
    assert chosen.topics == ("orders", "payments")
    assert (chosen.options.lag_threshold, chosen.options.accepted) == (100, ("one_way",))


def test_the_report_is_written_whole(config: Path, asked: list[Any], tmp_path: Path) -> None:
    for name in ("switch.md", "switch.json"):
        words = ("--yes", "--report", str(tmp_path / name), "--json")
        assert heliostat(config, "switch", LINK, *words).json["id"] == "0a"
    assert json.loads((tmp_path / "switch.json").read_text())["state"] == "done"
    assert (tmp_path / "switch.md").read_text().startswith("# ")
    assert len(asked) == 2


def test_a_rolling_switch_is_finished_as_a_run(config: Path, asked: list[SwitchWish]) -> None:
    assert heliostat(config, "switch", LINK, "--finish", "--yes").returncode == 2
    for words in (["--yes"], ["--dry-run"], ["--back", "--yes"], ["--resume", "--yes"]):
        answer = heliostat(config, "switch", LINK, "--rolling", "--finish", *words)
        assert answer.returncode == 0, answer.said
    assert [each.finishes for each in asked] == [True] * 4
    assert (asked[2].goes_back, asked[3].takes_over) == (True, True)
    assert heliostat(config, "switch", LINK, "--rolling", "--dry-run").returncode == 2
