"""A drill on two clusters that are made up: cut short anywhere, then cleaned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from heliostat.errors import BrokerError, HeliostatError, Refused
from heliostat.handover.drill import (
    Came,
    DrillLook,
    DrillNote,
    DrillWish,
    MissingRight,
    Part,
    Way,
    new_note,
)
from heliostat.handover.drill_report import Check, DrillState, Measured, Size, Verdict
from heliostat.handover.drill_steps import STEPS, clean_all, rehearse, step_names
from heliostat.names import LinkName

LINK = LinkName("east-to-west")
DRAWN = "0a1b2c3d"
WHOLE = DrillWish(partitions=25, failover=True, by="a test")
MOMENTS = 57
"""Three of each call of a whole drill."""
FOREIGN = {"source topic orders", "source topic drill-of-somebody", "target group drill-readers"}


class Killed(BaseException):
    """The process dies here."""


@dataclass
class World:
    """Two clusters; what a process that dies leaves behind."""

    things: set[str] = field(default_factory=lambda: set(FOREIGN))
    notes: dict[str, DrillNote] = field(default_factory=dict)
    missing: tuple[MissingRight, ...] = ()
    is_under_way: bool = False
    wrong: str = ""
    """A step whose figures are wrong."""
    fails: str = ""
    """What is refused."""
    calls: int = 0
    killed_at: int = -1
    """Before, within or after the effect of a call, three numbers for each."""


class Desk:
    """The desk of one process; dies where the world says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.did: list[str] = []
        self.is_dead = False

    def _do(self, name: str, *things: str, gone: bool = False) -> None:
        world = self.world
        if self.is_dead:
            raise Killed
        moment, world.calls = world.calls, world.calls + 3
        self.did.append(name)
        if world.fails == name:
            raise BrokerError(f"{name} is refused", kafka_code=29)
        rows = sorted(things)
        for number, count in enumerate((0, len(rows) // 2, len(rows))):
            changed = set(rows[:count])
            world.things = world.things - changed if gone else world.things | changed
            if moment + number == world.killed_at:
                self.is_dead = True
                raise Killed

    def wall_ms(self) -> int:
        return 1

    def monotonic_s(self) -> float:
        return float(self.world.calls)

    def look(self) -> DrillLook:
        self._do("look")
        return DrillLook(Size(500, 20, 7, 3), self.world.missing, ("schemas are not rehearsed",))

    def left_behind(self) -> Sequence[DrillNote]:
        self._do("left_behind")
        if self.world.is_under_way:
            raise Refused("a drill is under way")
        return list(self.world.notes.values())

    def existing(self, note: DrillNote) -> Sequence[str]:
        self._do("existing")
        return sorted(each for each in self.world.things if note.id in each)

    def write(self, note: DrillNote) -> None:
        self._do("write")
        self.world.notes[note.id] = DrillNote.from_json(note.to_json())

    def _require_noted(self, note: DrillNote) -> None:
        assert note.id in self.world.notes, "made before it is noted"

    def make_topics(self, note: DrillNote) -> Came:
        self._require_noted(note)
        self._do("topics", *(f"source topic {name}" for name in note.topics))
        return Came("made")

    def start_link(self, note: DrillNote, way: Way, *, groups: bool) -> Came:
        assert way is Way.THERE
        self._require_noted(note)
        made = [f"target topic {name}" for name in (*note.topics, f"heliostat.{note.links[way]}.s")]
        if groups:
            made += [f"source group {name}" for name in note.groups]
        self._do("link", *made)
        return Came("copies")

    def go_back(self, note: DrillNote) -> Came:
        self._do("back", f"source rule {note.id}")
        return Came("went back", (), Measured(10, 2, {"still": 3.0, "promotion": 1.0}))

    def switch(self, note: DrillNote, way: Way) -> Came:
        name = "switch" if way is Way.THERE else "return"
        at = "source" if way is Way.THERE else "target"
        self._do(name, f"{at} rule {note.id}", f"target group {note.groups[0]}")
        lost = 1 if self.world.wrong == name else 0
        checks = (Check("records lost", 0, lost),)
        return Came("switched", checks, Measured(25, 2, {"still": 4.0, "promotion": 2.0}))

    def reverse(self, note: DrillNote, way: Way) -> Came:
        names = {Way.BACK: "reverse", Way.THERE: "again"}
        self._do(names[way], f"source topic heliostat.{note.links[Way.BACK]}.s")
        return Came("reversed")

    def fail_over(self, note: DrillNote) -> Came:
        self._do("failover", f"target rule {note.id}")
        return Came("given away")

    def stop(self) -> None:
        self._do("stop")

    def await_no_owner(self, note: DrillNote) -> None:
        self._do("await_no_owner")

    def _remove(self, kind: str, note: DrillNote) -> None:
        own = [each for each in self.world.things if f" {kind} " in each and note.id in each]
        self._do(f"delete {kind}", *own, gone=True)

    def lift_rules(self, note: DrillNote) -> None:
        self._remove("rule", note)

    def delete_groups(self, note: DrillNote) -> None:
        self._remove("group", note)

    def delete_topics(self, note: DrillNote) -> None:
        assert not any(" rule " in each for each in self.world.things)
        self._remove("topic", note)

    def forget(self, note: DrillNote) -> None:
        assert self.world.things == FOREIGN, "forgotten before it is gone"
        self._do("forget")
        self.world.notes.pop(note.id, None)


def test_a_drill_goes_through_all_steps_and_leaves_nothing() -> None:
    world, told = World(), list[str]()
    report = rehearse(Desk(world), LINK, WHOLE, DRAWN, lambda step: told.append(step.name))
    assert told == [step.name for step in report.steps] == [*STEPS, "clean"] == step_names(WHOLE)
    assert report.verdict is Verdict.READY
    assert world.calls == MOMENTS
    assert (world.things, world.notes) == (FOREIGN, {})
    assert "schemas are not rehearsed" in report.markdown()


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_whatever_dies_the_next_one_finds_all_that_is_left(moment: int) -> None:
    """Given a drill that dies anywhere / when the cleaning dies, too / then nothing is left."""
    world = World(killed_at=moment)
    with pytest.raises(Killed):
        rehearse(Desk(world), LINK, WHOLE, DRAWN)
    made = world.things - FOREIGN
    assert not made or DRAWN in world.notes
    for killed_at in range(0, 18, 4):
        world.calls, world.killed_at = 0, killed_at
        try:
            clean_all(Desk(world))
        except Killed:
            continue
    world.killed_at = -1
    clean_all(Desk(world))
    assert (world.things, world.notes) == (FOREIGN, {})


def test_a_second_drill_cleans_what_the_first_has_left() -> None:
    world = World(killed_at=40)
    with pytest.raises(Killed):
        rehearse(Desk(world), LINK, WHOLE, DRAWN)
    report = rehearse(Desk(world), LINK, WHOLE, "ffffffff")
    assert report.cleaned == (DRAWN,)
    assert (world.things, world.notes) == (FOREIGN, {})


def test_names_of_others_are_refused_before_anything_is_made() -> None:
    taken = f"target topic drill-{LINK}-{DRAWN}-1"
    world = World(things={*FOREIGN, taken})
    desk = Desk(world)
    with pytest.raises(Refused, match="not this drill's, and there already"):
        rehearse(desk, LINK, WHOLE, DRAWN)
    assert world.things == {*FOREIGN, taken}
    assert "write" not in desk.did


def test_a_drill_under_way_is_left_alone() -> None:
    world = World(is_under_way=True)
    for verb in (lambda: rehearse(Desk(world), LINK, WHOLE, DRAWN), lambda: clean_all(Desk(world))):
        with pytest.raises(Refused, match="under way"):
            verb()
    assert world.things == FOREIGN


@pytest.mark.parametrize(
    ("part", "left_out", "verdict"),
    [
        (Part.RULES, set(), Verdict.IN_PART),
        (Part.GROUPS, set(), Verdict.IN_PART),
        (Part.NOTHING, set(), Verdict.IN_PART),
        (
            Part.WAY_BACK,
            {"reverse", "return", "again", "failover", "recover"},
            Verdict.IN_PART,
        ),
        (Part.ALL, set(), Verdict.NOT_READY),
    ],
)
def test_a_missing_right_is_named_and_the_rest_is_rehearsed(
    part: Part, left_out: set[str], verdict: Verdict
) -> None:
    world = World(missing=(MissingRight("west", "Create on topics drill-*", part),))
    report = rehearse(Desk(world), LINK, WHOLE, DRAWN)
    states = {step.name: step.state for step in report.steps}
    assert {name for name, state in states.items() if state is DrillState.LEFT_OUT} == left_out
    assert report.verdict is verdict
    assert "right missing at west: Create on topics drill-*" in list(report.lines())
    assert (part is Part.ALL) == (not report.steps)
    why = {step.text for step in report.steps if step.name in left_out}
    assert why <= {"missing at west: Create on topics drill-*"}
    assert world.things == FOREIGN


def _fails(world: World) -> None:
    world.fails = "switch"


def _is_wrong(world: World) -> None:
    world.wrong = "switch"


@pytest.mark.parametrize("wrong", [_fails, _is_wrong])
def test_what_is_wrong_is_in_the_verdict(wrong: Callable[[World], None]) -> None:
    world = World()
    wrong(world)
    report = rehearse(Desk(world), LINK, WHOLE, DRAWN)
    assert report.verdict is Verdict.NOT_READY
    assert "switch: " in report.verdict_text()
    assert world.things == FOREIGN


def test_what_could_not_be_removed_is_told() -> None:
    world = World(fails="delete topic")
    report = rehearse(Desk(world), LINK, WHOLE, DRAWN)
    assert report.verdict is Verdict.NOT_READY
    assert f"heliostat drill {LINK} --clean" in report.left
    assert world.notes


def test_times_are_scaled_to_the_link_with_how_they_were_computed() -> None:
    report = rehearse(Desk(World()), LINK, DrillWish(partitions=25, still_s=2.0), DRAWN)
    scaled = {step.name: step for step in report.scaled}
    # 2 s of 4 are waited (10 s by a real switch); 1 s more for 15 partitions more.
    still = scaled["still"]
    assert still.least_s == pytest.approx(10 + 2 + 475 / 15)
    assert still.most_s == pytest.approx(10 + 2 * 20)
    assert "2.0 s for 25 partitions, times 500/25" in still.how
    assert report.to_json()["scaled"]["steps"]
    assert "a switch of 500 partitions and 7 groups would take" in report.verdict_text()


@pytest.mark.parametrize("partitions", [1, 10, 11, 50])
def test_names_are_told_from_others(partitions: int) -> None:
    note = new_note(LinkName("a" * 100), DrillWish(partitions=partitions), DRAWN, 1)
    assert note.partitions == partitions
    assert all(len(name) <= 100 for name in note.links.values())
    assert all(note.is_own(name) for name in note.names())
    assert not note.is_own("drill-orders")
    row = note.to_json()
    row["topics"] = {"orders": 1}
    with pytest.raises(ValueError, match="orders"):
        DrillNote.from_json(row)
    assert isinstance(BrokerError("x"), HeliostatError)
