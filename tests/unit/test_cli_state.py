"""`heliostat state rebuild` through the command line: question, output and exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from heliostat.cli import state as door
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName
from heliostat.rebuild.compared_rows import OpenPipes
from heliostat.rebuild.plan import PartitionRebuild, RebuildPlan, TopicRebuild
from heliostat.rebuild.proof import Kind, NotProved, Proof
from heliostat.topics.values import MirrorRecord

RECORD = MirrorRecord(TopicName("t"), TopicName("A.t"), None, None, ClusterId("c"), "earliest", 1)
ZERO, SEVEN = Offset(0), Offset(7)


class Done:
    """Stand-in of the operations that the command calls."""

    def __init__(self, *, reason: str = "") -> None:
        found = NotProved(reason, 3) if reason else Proof(Kind.EXACT, ZERO, SEVEN, 7)
        row = PartitionRebuild(PartitionId(0), SEVEN, SEVEN, found)
        self.plan = RebuildPlan(LinkName("l"), (TopicRebuild(RECORD, (row,)),))
        self.asked: list[Any] = []
        self.written = False

    def look(
        self, _config: object, _link: object, _open_pipes: OpenPipes, topics: str | None
    ) -> RebuildPlan:
        self.asked.append(topics)
        return self.plan

    def rebuild(
        self,
        _config: object,
        _link: object,
        _open_pipes: OpenPipes,
        topics: str | None,
        agree: Callable[..., bool],
    ) -> RebuildPlan:
        self.asked.append(topics)
        self.written = bool(self.plan.taken) and agree(self.plan)
        return self.plan


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    file = tmp_path / "heliostat.yaml"
    content = {
        "clusters": {"A": {"bootstrap": "a:1"}, "B": {"bootstrap": "b:1"}},
        "links": [{"name": "l", "source": "A", "target": "B"}],
    }
    file.write_text(yaml.safe_dump(content))

    def invoked(done: Done, *words: str, says: str = "") -> tuple[int, str]:
        monkeypatch.setattr(door, "plan_rebuild", done.look)
        monkeypatch.setattr(door, "rebuild_state", done.rebuild)
        found = CliRunner().invoke(
            door.state_group, ["rebuild", "-c", str(file), *words], input=says
        )
        return found.exit_code, found.output

    return invoked


Call = Callable[..., tuple[int, str]]


@pytest.mark.parametrize(("says", "written"), [("y\n", True), ("n\n", False)])
def test_the_plan_is_shown_before_the_question(call: Call, says: str, *, written: bool) -> None:
    done = Done()
    code, out = call(done, "l", says=says)
    assert (code, done.written) == (0, written)
    assert out.count("rebuild: t → A.t") == 1


def test_with_yes_nothing_is_asked(call: Call) -> None:
    done = Done()
    code, out = call(done, "--yes", "--json", "--topics", "t.*")
    assert (code, done.written, done.asked) == (0, True, ["t.*"])
    assert json.loads(out)["topics"][0]["partitions"][0]["goes_on_at"] == 7


def test_a_dry_run_writes_nothing(call: Call) -> None:
    done = Done()
    code, out = call(done, "--dry-run")
    assert (code, done.written) == (0, False)
    assert "rebuild: t → A.t" in out


@pytest.mark.parametrize("words", [["--yes"], [], ["--dry-run"]])
def test_refusals_are_shown_and_give_the_exit_code(call: Call, words: list[str]) -> None:
    code, out = call(Done(reason="records differ"), *words)
    assert code == 1
    assert out.count("records differ") == 1


def test_an_invalid_pattern_is_named(call: Call) -> None:
    code, out = call(Done(), "--topics", "(")
    assert code == 2
    assert "--topics" in out
