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
from heliostat.handover.desk import Problem, SwitchOptions, Weight
from heliostat.handover.run import Run, RunKind, RunState
from heliostat.handover.steps import new_steps
from heliostat.names import (
    LinkName,
    Offset,
    PartitionId,
    ProducerId,
    TopicName,
    TopicPartition,
)
from heliostat.operate import crossing, source_writers, turning
from heliostat.operate import switch as verb
from heliostat.operate.crossing import Crossed, Crossing, Stage
from heliostat.operate.source_writers import SourceWriter, SourceWriters, Writing
from heliostat.operate.switch import SwitchPlan, SwitchWish
from heliostat.operate.turning import Turned

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


def test_mirrors_are_merged_once_they_were_looked_at(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run asks for no name, and its exit code says whether all can be merged."""
    calls: list[Any] = []
    there = TopicPartition(TopicName("orders"), PartitionId(0))

    def turn(_: object, __: object, topics: Any, by: str, *, dry_run: bool) -> Turned:
        calls.append((topics, by, dry_run))
        refused = {TopicName("keys"): "keys is compacted"} if dry_run and not topics else {}
        return Turned(LinkName(LINK), {there: Offset(7)}, (there.topic,), refused, dry_run)

    monkeypatch.setattr(turning, "turn_in_place", turn)
    words = "switch", LINK, "--rolling", "--by", "ann"
    tried = heliostat(config, *words, "--dry-run")
    assert (tried.returncode, tried.stdout) == (1, "")
    assert "keys is compacted" in tried.stderr
    assert "none would be" in tried.stderr
    assert heliostat(config, *words, "--topics", "orders", "--dry-run").returncode == 0
    assert heliostat(config, *words, questions="m\n").returncode == 2
    done = heliostat(config, *words, "--yes")
    assert (done.returncode, done.stdout) == (0, "orders:0:7\n")
    assert heliostat(config, *words, "--yes", "--json").json["cuts"] == {"orders": {"0": 7}}
    of = ("orders",)
    asked = [((), True), (of, True), ((), False), ((), False)]
    assert calls == [(topics, "ann", dry_run) for topics, dry_run in asked]


def test_what_is_merged_is_told(config: Path) -> None:
    """Given a link that merges nothing / when it is asked / then that is said, and no cluster is

    asked.
    """
    answer = heliostat(config, "switch", LINK, "--rolling", "--last")
    assert (answer.returncode, "merges no topics" in answer.stdout) == (0, True)


def crossed(*positions: int) -> Crossed:
    """Return that partitions of a topic have come so far, of 10 each."""
    rows = tuple(
        Crossing(
            *(TopicPartition(TopicName("orders"), PartitionId(number)), Offset(10)),
            *(Stage.PASSED if position >= 10 else Stage.WAITS, position, 1_500),
        )
        for number, position in enumerate(positions)
    )
    why = (Problem("GAP", "orders-1 is at a gap", "decide", Weight.STOPS),)
    return Crossed(LinkName(LINK), 1_000, rows, 1.0, () if min(positions) >= 10 else why)


def test_topics_that_cross_are_waited_for(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given topics in both ways / when one has stopped / then exit code 1, and its code."""
    asked: list[Any] = []
    came_to = [crossed(10, 12), crossed(10, 12), crossed(10, 3)]

    def wait(_: object, __: object, topics: Any, within_s: float, tell: Any) -> Crossed:
        asked.append((topics, within_s))
        tell(())
        return came_to.pop(0)

    monkeypatch.setattr(crossing, "wait_until_crossed", wait)
    words = "switch", LINK, "--rolling", "--wait", "orders,keys", "--wait", "last"
    answer = heliostat(config, *words, "--records-wait", "7")
    assert answer.returncode == 0
    assert "orders: all that a had is at b, 0.5 s after it was asked (ends 0: 10, 1: 10)" in (
        answer.stdout
    )
    assert heliostat(config, *words, "--json").json["has_crossed"]
    assert asked == [(("orders", "keys", "last"), 7.0), (("orders", "keys", "last"), 300.0)]
    answer = heliostat(config, *words)
    assert answer.returncode == 1
    assert "[GAP] orders-1 is at a gap (hint: decide)" in answer.stdout
    assert "orders: 1 of 2 partitions have crossed" in answer.stdout


def test_who_writes_is_named_with_what_is_not_known(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = TopicPartition(TopicName("orders"), PartitionId(1))
    writer = SourceWriter(ProducerId(7), "pay", {place: Writing(1_000, Offset(5))})
    answers = [SourceWriters((writer,), ("orders-0: no Read",)), SourceWriters((writer,))]
    monkeypatch.setattr(source_writers, "writers_of", lambda *_: answers.pop(0))
    answer = heliostat(config, "switch", LINK, "--rolling", "--writers")
    assert "producer 7 (pay): orders, last at 1970-01-01 00:00:01Z" in answer.stdout
    assert "not known: orders-0: no Read" in answer.stderr
    [row] = heliostat(config, "switch", LINK, "--rolling", "--writers", "--json").json["writers"]
    assert row["transactional_id"] == "pay"


@pytest.mark.parametrize(
    "words",
    [
        ("--wait", "orders"),
        ("--writers",),
        ("--rolling", "--wait", "orders", "--writers"),
        ("--rolling", "--wait", "orders", "--topics", "keys"),
        ("--rolling", "--wait", ","),
        ("--rolling", "--wait", "orders", "--last"),
        ("--rolling", "--writers", "--dry-run"),
        ("--rolling", "--last", "--dry-run"),
        ("--rolling", "--back"),
    ],
)
def test_options_that_do_not_go_together(config: Path, words: tuple[str, ...]) -> None:
    assert heliostat(config, "switch", LINK, *words).returncode == 2
