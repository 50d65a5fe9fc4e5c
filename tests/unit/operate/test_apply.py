"""`apply`: by whom it is done, what became of each change, and what is printed of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from heliostat.changes import Change, Fate
from heliostat.cli.apply import apply_command
from heliostat.clock import SystemClock
from heliostat.config import load_config
from heliostat.errors import BrokerError, Refused
from heliostat.operate import apply
from heliostat.operate.apply import ApplyAnswer, HowToApply, apply_link
from heliostat.operate.apply_parts import PartLook
from heliostat.wishes.order import Ended, Orders, OrderStanding, OrderVerb, Stage

CONFIG = """
clusters: {a: {bootstrap: [a:9092]}, b: {bootstrap: [b:9092]}}
links: [{name: l, source: a, target: b}]
"""
NEW = Change("create_topic", "t", "create t", "it has no mirror")
SET = Change("set_config", "u: retention.ms", "set retention.ms=5 of u", "the source has it")
UNSET = Change("unset_config", "u: x", "unset x of u", "the source no longer sets it", True)
GROUP = Change("publish_offsets", "g", "publish offset of group g", "to be published", version="1")


class FakePart:
    """What it changes, and what of it the target refuses."""

    def __init__(self, *changes: Change) -> None:
        self.left = list(changes)
        self.refuses: dict[str, str] = {}
        self.fails: BrokerError | None = None
        self.refused: Mapping[str, str] = {}
        self.allowed_by: list[str] = []

    def look(self) -> PartLook:
        return PartLook(tuple(self.left), self.refused, ("v: replication factor is 1",))

    def carry_out(
        self, _state: object, guard: Callable[[], None], *, allow_delete: bool
    ) -> Mapping[str, str]:
        guard()
        if self.fails is not None:
            raise self.fails
        self.left = [
            each
            for each in self.left
            if each.item.partition(": ")[0] in self.refuses
            or (each.is_deletion and not allow_delete)
        ]
        return self.refuses

    def allow(self, by: str) -> None:
        self.allowed_by.append(by)

    def reasons(self, refused: Mapping[str, str]) -> Mapping[str, str]:
        return refused


class Scene:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.config_file = folder / "heliostat.yaml"
        self.config_file.write_text(CONFIG)
        self.part, self.other = FakePart(NEW, SET, UNSET), FakePart(GROUP)
        self.status = SimpleNamespace(state="no_owner", refused={})
        self.wishes = Mock(promotions={})
        self.wishes.is_stopped.return_value = False
        self.ordered: list[OrderVerb] = []
        self.waits = ""
        self.at_order: Callable[[], None] = lambda: None
        self.ownership = Mock(claim_number=3)
        state = Mock()
        state.read.return_value.promoted = {}
        monkeypatch.setattr(apply, "wish_desk", self.desk)
        monkeypatch.setattr(apply, "parts_of", lambda *_: (self.part, self.other))
        monkeypatch.setattr(apply, "claimed", lambda *_: nullcontext(self.ownership))
        monkeypatch.setattr(apply, "LinkState", lambda *_: state)
        monkeypatch.setattr(apply, "await_orders", self.order)
        monkeypatch.setattr(apply, "LOOK_AGAIN_S", 0.01)

    @contextmanager
    def desk(self, *_: object) -> Iterator[Any]:
        board = Mock()
        board.status.return_value = self.status
        yield SimpleNamespace(
            book=Mock(wishes=self.wishes, orders=Orders()),
            reader=SimpleNamespace(board=board),
            clock=SystemClock(),
            target=None,
        )

    def order(self, _r: object, _b: object, orders: list[Any], *_: object) -> tuple[Any, str]:
        self.ordered += [each.verb for each in orders]
        self.at_order()
        ended = None if self.waits else Ended(Stage.DONE, "looked", 1)
        return (OrderStanding(orders[0], None, ended),), self.waits

    def apply(self, **how: Any) -> ApplyAnswer:
        config = load_config(self.config_file)
        return apply_link(config, config.links[0], HowToApply("a test", within_s=0.05, **how))

    def command(self, *words: str, answer: str = "") -> Result:
        given = ["-c", str(self.config_file), "--wait", "0.05", *words]
        return CliRunner().invoke(apply_command, given, input=answer)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scene:
    return Scene(monkeypatch, tmp_path)


def fates(answer: ApplyAnswer) -> dict[str, str]:
    return {each.change.item: each.fate.value for each in answer.outcomes}


ALL_DONE = {"t": "done", "u: retention.ms": "done", "u: x": "done", "g": "done"}


def test_without_an_owner_the_link_is_claimed_and_deletions_are_held_back(scene: Scene) -> None:
    answer = scene.apply()
    assert fates(answer) == {**ALL_DONE, "u: x": "held_back"}
    assert (answer.by_owner, answer.is_done, scene.ordered) == (False, False, [])
    assert scene.ownership.hold.call_count == 2, "each part checks that the link is ours"
    assert fates(scene.apply(allow_delete=True)) == {"u: x": "done"}
    last = scene.apply(allow_delete=True)
    assert (last.outcomes, last.is_done, last.is_tried) == ((), True, False)


def test_a_dry_run_changes_nothing(scene: Scene) -> None:
    answer = scene.apply(dry_run=True)
    assert set(fates(answer).values()) == {"planned", "held_back"}
    assert answer.is_tried
    assert len(scene.part.left) == 3
    assert not scene.ownership.mock_calls


def test_what_fails_is_named_with_its_reason(scene: Scene) -> None:
    scene.part.refuses = {"u": "POLICY_VIOLATION"}
    scene.other.fails = BrokerError("no coordinator", kafka_code=15)
    found = {each.change.item: each for each in scene.apply(allow_delete=True).outcomes}
    assert found["t"].fate is Fate.DONE
    assert (found["u: retention.ms"].fate, found["u: retention.ms"].text) == (
        Fate.FAILED,
        "POLICY_VIOLATION",
    )
    assert found["g"].fate is Fate.FAILED
    assert "no coordinator" in found["g"].text


def test_a_link_that_is_to_do_nothing_or_gives_mirrors_away_is_left_alone(scene: Scene) -> None:
    scene.wishes.promotions = {"t": object()}
    with pytest.raises(Refused, match="given away"):
        scene.apply()
    scene.wishes.is_stopped.return_value = True
    with pytest.raises(Refused, match="do nothing"):
        scene.apply()
    assert len(scene.part.left) == 3


@pytest.mark.parametrize("state", ["running", "paused", "stopped"])
def test_an_owner_is_ordered_to_do_it(scene: Scene, state: str) -> None:
    scene.status.state = state

    def done() -> None:
        scene.part.left = []
        scene.other.left = [Change("publish_offsets", "g", "publish", "more", version="2")]

    scene.at_order = done
    answer = scene.apply(allow_delete=True)
    assert fates(answer) == ALL_DONE, "the group goes on by itself"
    assert scene.part.allowed_by == scene.other.allowed_by == ["a test"]
    assert (answer.by_owner, scene.ordered) == (True, [OrderVerb.APPLY])
    assert not scene.ownership.mock_calls, "nobody claims it"


def test_what_a_running_link_has_not_done_is_told(scene: Scene) -> None:
    scene.status.state, scene.status.refused = "running", {"t": "the quota is used up"}
    found = {each.change.item: each for each in scene.apply().outcomes}
    assert (found["t"].fate, found["t"].text) == (Fate.FAILED, "the quota is used up")
    assert found["g"].text == "looked"
    scene.waits = "its driver does not report"
    found = {each.change.item: each for each in scene.apply().outcomes}
    assert (found["t"].fate, found["t"].text) == (Fate.WAITS, scene.waits)


def test_it_asks_and_prints_what_became_of_each(scene: Scene) -> None:
    refused = scene.command(answer="n\n")
    assert refused.exit_code == 0, refused.output
    assert "create t: it has no mirror" in refused.output
    assert "nothing was changed" in refused.output
    assert len(scene.part.left) == 3
    done = scene.command("l", answer="y\n")
    assert done.exit_code == 1, done.output
    assert "3 changes done, 1 held back (--allow-delete)" in done.output
    assert "done: create t" in done.output
    assert "differs: v: replication factor is 1" in done.output
    last = scene.command("--yes", "--allow-delete")
    assert last.exit_code == 0, last.output
    again = scene.command("--yes", "--allow-delete")
    assert (again.exit_code, again.output.splitlines()[0]) == (0, "link l: nothing to change")
    scene.part.refused = {"w": "it is another's"}
    assert scene.command("--yes").exit_code == 1


def test_a_cluster_that_does_not_answer_is_an_error_of_that_link(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Mock(side_effect=BrokerError("no right", kafka_code=29))
    monkeypatch.setattr(apply, "parts_of", failing)
    answer = scene.command("--json")
    assert answer.exit_code == 3
    assert "no right" in answer.output
