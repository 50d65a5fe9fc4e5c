"""`heliostat adopt` through the command line: question, output and exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from heliostat.cli import adopt as door
from heliostat.mm2.adopt_plan import (
    AdoptionPlan,
    Handback,
    HandbackPlan,
    PartitionAdoption,
    Peer,
    TopicAdoption,
)
from heliostat.mm2.resume_point import NoResumePoint
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName
from heliostat.topics.values import MirrorRecord

RECORD = MirrorRecord(TopicName("t"), TopicName("A.t"), None, None, ClusterId("c"), "earliest", 1)
ZERO = Offset(0)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "heliostat.yaml"
    content = {
        "clusters": {"A": {"bootstrap": "a:1"}, "B": {"bootstrap": "b:1"}},
        "links": [{"name": "l", "source": "A", "target": "B"}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


class Done:
    """Stand-in of the operations that the command calls."""

    def __init__(self, *, reason: str = "") -> None:
        self.reason = reason
        self.peer: Peer | None = None
        self.called = False
        self.written = False

    def adopt(
        self, _config: object, _link: object, peer: Peer | None, agree: Callable[..., bool]
    ) -> object:
        self.peer = peer
        found = NoResumePoint(self.reason) if self.reason else None
        row = PartitionAdoption(PartitionId(0), None, ZERO, ZERO, found)
        self.called = True
        plan = AdoptionPlan(LinkName("l"), peer, (TopicAdoption(RECORD, (row,)),))
        self.written = agree(plan)
        return plan

    def hand_back(
        self, _config: object, _link: object, peer: Peer, agree: Callable[..., bool]
    ) -> object:
        row = Handback(RECORD.source, RECORD.target, PartitionId(0), Offset(7), Offset(9), None)
        plan = HandbackPlan(LinkName("l"), peer, (row,))
        self.written = agree(plan)
        return plan


def call(
    monkeypatch: pytest.MonkeyPatch, done: Done, config: Path, *words: str, says: str = ""
) -> tuple[int, str]:
    monkeypatch.setattr(door, "adopt", done.adopt)
    monkeypatch.setattr(door, "hand_back", done.hand_back)
    found = CliRunner().invoke(door.adopt_command, ["-c", str(config), *words], input=says)
    return found.exit_code, found.stdout


@pytest.mark.parametrize(("says", "written"), [("y\n", True), ("n\n", False)])
def test_the_plan_is_shown_before_the_question(
    monkeypatch: pytest.MonkeyPatch, config: Path, says: str, *, written: bool
) -> None:
    done = Done()
    code, out = call(monkeypatch, done, config, says=says)
    assert (code, done.written) == (0, written)
    assert out.count("adopt: t → A.t") == 1


def test_with_yes_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    done = Done()
    code, out = call(monkeypatch, done, config, "--yes", "--json", "--group", "g")
    assert (code, done.written) == (0, True)
    assert json.loads(out)["group"] == "g"


def test_refusals_give_the_exit_code(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    code, out = call(monkeypatch, Done(reason="records are alike"), config, "--yes")
    assert code == 1
    assert "records are alike" in out


def test_handing_back_shows_where_mirror_maker_continues(
    monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    code, out = call(monkeypatch, Done(), config, "--back", "--yes")
    assert code == 0
    assert "t-0: MirrorMaker 2 continues with source offset 9, at target offset 7" in out


def test_copies_of_any_tool_are_taken_over_without_positions(
    monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    done = Done()
    code, text = call(monkeypatch, done, config, "--by-contents", "--yes")
    assert (code, done.called, done.peer) == (0, True, None)
    assert "link l, by contents" in text
    for words in (["--back"], ["--alias", "S"], ["--workers-run-on"]):
        done = Done()
        code, _ = call(monkeypatch, done, config, "--by-contents", "--yes", *words)
        assert (code, done.called) == (2, False)
