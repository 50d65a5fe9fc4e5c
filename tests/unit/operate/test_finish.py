"""The finish of a rolling switch: the link back rests and ends, and two logs that others write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from heliostat.clock import SystemClock
from heliostat.config import Config, LinkConfig
from heliostat.errors import BrokerError, Refused
from heliostat.gaps.ledger import CopiedTopic, CopyNote
from heliostat.handover.desk import Answer, Problem, SwitchOptions, Weight
from heliostat.handover.promotion import PartitionPromotion, PromotedBy, Promotion
from heliostat.handover.run import RunKind
from heliostat.names import ClusterId, LinkName, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate import promotion as promoting
from heliostat.operate.crossing import Crossed, Crossing, Stage
from heliostat.operate.switch import SwitchPlan, SwitchWish, plan_switch
from heliostat.operate.switching import finishing
from heliostat.operate.switching import link_back as of_back
from heliostat.operate.switching.desk import LinkDesk, Order, _why_not_landed
from heliostat.operate.switching.finishing import FinishDesk, copied_by
from heliostat.operate.switching.link_back import LinkBack, link_back_of
from heliostat.other_links.at_target import StateAt
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.state.link_state import Stored
from heliostat.topics.values import MirrorRecord
from heliostat.wishes.wish import Place, Wish, WishedState, Wishes

T, U = TopicName("t"), TopicName("u")
ZERO, ONE = PartitionId(0), PartitionId(1)
WHY = "run 5f3c"


def config(*back: dict[str, Any], **topics: Any) -> Config:
    merged = {"include": ["t", "u"], "naming": "merge", **topics}
    links = [{"name": "away", "source": "a", "target": "b", "topics": merged}, *back]
    clusters = {alias: {"bootstrap": [f"{alias}:9092"]} for alias in ("a", "b")}
    return Config.model_validate({"clusters": clusters, "links": links})


def a_link_back(name: str, *include: str, naming: Any = "merge") -> dict[str, Any]:
    topics = {"include": list(include), "naming": naming}
    return {"name": name, "source": "b", "target": "a", "topics": topics}


def test_the_link_back_is_the_one_that_brings_these_topics() -> None:
    other = a_link_back("other", "x"), a_link_back("mirrors", "t", naming={"prefix": "b."})
    one = config(*other, a_link_back("back", "t"))
    back = link_back_of(one, one.links[0], [T, U])
    assert back is not None
    assert back.name == "back"
    none = config(*other)
    assert link_back_of(none, none.links[0], [T, U]) is None
    two = config(a_link_back("one", "t"), a_link_back("two", "u"))
    with pytest.raises(Refused, match="several links lead back from b to a: one, two"):
        link_back_of(two, two.links[0], [T, U])
    assert link_back_of(two, two.links[0], [U]) == two.links[2]


class World:
    """The wishes of the link back, and what was given away of it."""

    def __init__(self, *wishes: Wish) -> None:
        self.wishes = Wishes()
        self.mirrors: dict[TopicName, Any] = {T: object()}
        self.given: list[TopicName] = []
        for each in wishes:
            self.wishes.take(each)

    @property
    def position(self) -> Offset:
        return Offset(0)

    def read(self) -> None:
        pass

    def write(self, rows: Iterable[Wish], _: object) -> Offset:
        for each in rows:
            self.wishes.take(each)
        return Offset(1)

    def put(self, rows: Mapping[str, None]) -> Offset:
        for key in rows:
            self.wishes.forget(Place.of_key(key))
        return Offset(1)

    @contextmanager
    def desk(self, *_: object) -> Iterator[Any]:
        yield SimpleNamespace(book=self, reader=None, clock=SystemClock(), target=None)

    def promote(
        self, _: object, link: LinkConfig, names: Iterable[TopicName], how: PromotedBy, **__: object
    ) -> Any:
        assert how is PromotedBy.FINISH
        self.given = list(names)
        return SimpleNamespace(promotions=tuple(self.given))

    def stored(self, *_: object) -> Any:
        stored = SimpleNamespace(mirrors=self.mirrors, promoted={})
        return SimpleNamespace(read=lambda: stored, close=lambda: None)

    def paused(self) -> set[str]:
        return {str(each.place) for each in self.wishes.pauses()}


def back_of(world: World, monkeypatch: pytest.MonkeyPatch) -> LinkBack:
    monkeypatch.setattr(of_back, "wish_desk", world.desk)
    monkeypatch.setattr(of_back, "LinkState", world.stored)
    monkeypatch.setattr(of_back, "promote", world.promote)
    monkeypatch.setattr(of_back, "await_owner", lambda *_: (False, "the link has no owner now"))
    both = config(a_link_back("back", "t", "u"))
    return LinkBack(both, both.links[1], (T, U), "ann", WHY)


def paused(topic: TopicName, number: PartitionId | None = None) -> Wish:
    return Wish(Place(topic, number), WishedState.PAUSED, "joe", 1, "a disk is full")


def test_only_what_the_run_has_paused_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given what an operator had paused / when the link back rests and goes on, each twice, as

    after a crash / then all its topics rested, and what was paused before still is.
    """
    for before in ((), (paused(U),), (paused(T, ONE),)):
        world = World(*before)
        back, was = back_of(world, monkeypatch), world.paused()
        for _ in range(2):
            assert "no owner" in back.rest()
        assert {T, U} <= world.paused()
        for said in ("back goes on", "back was not paused"):
            assert back.go_on() == said
        assert world.paused() == was


def test_the_link_back_ends_and_leaves_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    back = back_of(world, monkeypatch)
    back.rest()
    assert back.give_away() == "back has given 1 topics away"
    assert (world.given, world.paused()) == ([T], set())
    world.mirrors.clear()
    assert back.give_away() == "back has never copied them"


def report(state: PartitionState, position: int = 7) -> PartitionReport:
    one = TopicPartition(T, ZERO)
    return PartitionReport(one, one, state, position, 7, 0, 0, -1, -1, 0, reason="it was cut")


def test_only_the_link_says_what_of_a_merged_topic_is_copied() -> None:
    """Given no log end of the target / when its position is at the source's end / then all is

    there, unless the partition is stopped: its position may be one of a log that was cut.
    """
    assert not _why_not_landed(report(PartitionState.COPYING), None)
    assert not _why_not_landed(report(PartitionState.RETRYING), None)
    for state in (each for each in PartitionState if each.is_stopped):
        assert _why_not_landed(report(state), None) == f"it is {state.value}: it was cut"


class Back:
    """The link back, as far as a desk asks it."""

    topics = (T,)
    link = SimpleNamespace(name="back")

    def __init__(self, calls: list[str], **mirrors: object) -> None:
        self._calls = calls
        self.mirrors = mirrors

    def stored(self) -> Any:
        return SimpleNamespace(mirrors=self.mirrors, promoted={})

    def rest(self) -> str:
        self._calls.append("rest")
        return "it rests"

    def go_on(self) -> str:
        self._calls.append("go on")
        return "it goes on"

    def give_away(self) -> str:
        self._calls.append("end back")
        return "it has ended"


def desk_of(back: Back | None) -> FinishDesk:
    desk = FinishDesk.__new__(FinishDesk)
    both = config()
    desk._order = Order(both, both.links[0], (T, U), "ann", WHY)
    desk._both = desk._source = cast("Any", SimpleNamespace(source=None))
    desk._back = cast("Any", back)
    return desk


def test_the_link_back_goes_on_behind_the_fence_and_ends_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    answers = {"lift_fence": "lifted", "promote": Answer("both", {"fenced_by": "owner"})}
    for name, answer in answers.items():
        monkeypatch.setattr(
            LinkDesk, name, lambda _, name=name, answer=answer: calls.append(name) or answer
        )
    desk = desk_of(Back(calls))
    assert desk.rest().text == "it rests"
    assert desk.lift_fence() == "lifted; it goes on"
    assert desk.promote() == Answer("it has ended; both", {"fenced_by": "owner"})
    assert calls == ["rest", "lift_fence", "go on", "end back", "promote"]
    alone = desk_of(None)
    assert alone.rest().text == "no link leads back"
    assert (alone.lift_fence(), alone.promote().text) == ("lifted", "no link leads back; both")


def test_what_of_other_links_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a third site's link into the source, and a link back that has no driver and brings one

    of two topics / when the finish is planned / then the first stops it, and the others are told.
    """
    record = MirrorRecord(T, T, None, None, ClusterId("c"), "earliest", 2, is_merged=True)
    rows = {f"mirror/{T}": record.to_json()}
    states = [StateAt(LinkName("third"), rows), StateAt(LinkName("apart"), {})]
    asked: list[LinkName | None] = []

    leaderless: set[str] = set()

    def look(_: object, __: object, but: LinkName | None) -> Any:
        asked.append(but)
        return SimpleNamespace(states=states, leaderless=frozenset(leaderless))

    status = SimpleNamespace(state="no_owner", state_in_words=lambda: "nobody runs it")
    monkeypatch.setattr(finishing, "target_states", look)
    monkeypatch.setattr(finishing, "link_picture", lambda *_: SimpleNamespace(status=status))
    desk = desk_of(Back([]))
    [fed] = desk._of_others()
    assert (fed.code, fed.weight) == ("fed_by_others", Weight.STOPS)
    assert "link third writes t" in fed.text
    assert asked == ["back"]
    states[0] = StateAt(LinkName("third"), {f"making/{T}": record.to_json()})
    assert [each.code for each in desk._of_others()] == ["fed_by_others"]  # it is about to
    states[:] = [StateAt(LinkName("odd"), {}, "topic x has records that are not its link's own")]
    leaderless |= {"heliostat.back.state", "heliostat.hidden.state"}
    [unknown] = desk._of_others()
    assert (unknown.code, unknown.weight) == ("feeds_unknown", Weight.ASKS)
    assert unknown.text.endswith(
        "hidden.state has no leader; topic x has records that are not its link's own"
    )
    told = list(desk._of_back())
    assert [each.code for each in told] == ["no_link_back", "back_not_begun", "back_not_running"]
    assert {each.weight for each in told} == {Weight.TOLD}
    assert [each.code for each in desk_of(None)._of_back()] == ["no_link_back"]

    def refuse(*_: object) -> Any:
        raise BrokerError("not authorized")

    monkeypatch.setattr(finishing, "target_states", refuse)
    [unknown] = desk._of_others()
    assert (unknown.code, unknown.weight) == ("feeds_unknown", Weight.ASKS)


def test_mirrors_are_to_be_merged_first() -> None:
    record = MirrorRecord(T, T, None, None, ClusterId("c"), "earliest", 2)
    stored = Stored(mirrors={T: record, U: replace(record, source=U, is_merged=True)})
    [told] = finishing._of_mirrors(stored, desk_of(None)._order)
    assert (told.code, told.weight, told.text) == ("not_merged", Weight.STOPS, "not merged yet: t")


def test_what_crossed_by_later_reports_is_what_is_copied() -> None:
    """Given what waiting came to / when the switch asks / then what did not pass is not known, and

    a link that has ended before is no proof of anything.
    """
    rows = Crossing(TopicPartition(T, ZERO), Offset(7), Stage.PASSED, 7)
    late = Crossing(
        TopicPartition(T, ONE), Offset(9), Stage.WAITS, 8, text="1 offsets are to cross"
    )
    stopped = Problem("not_running", "its driver has ended", "run it", Weight.STOPS)
    whole = copied_by(Crossed(LinkName("away"), 0, (rows,), 1.0), [T])
    assert (whole.ends, whole.missing, whole.unknown) == ({rows.partition: 7}, {}, {})
    part = copied_by(Crossed(LinkName("away"), 0, (rows, late), 1.0, (stopped,)), [T])
    assert part.lines() == ["t-1: 1 offsets are to cross"]
    none = copied_by(Crossed(LinkName("away"), 0, (), 1.0, (stopped,)), [T])
    assert none.lines() == ["t--1: its driver has ended"]


def test_a_merged_topic_ends_where_the_link_says() -> None:
    record = MirrorRecord(T, T, UUID(int=1), UUID(int=2), ClusterId("a"), "earliest", 2)
    logs = {TopicPartition(T, ZERO): Offset(90), TopicPartition(T, ONE): Offset(80)}
    noted = CopiedTopic(str(UUID(int=1)), {ZERO: CopyNote(40, 3)})
    told = {TopicPartition(T, ZERO): 50, TopicPartition(T, ONE): -1}
    found = promoting._merged(record, logs, noted, told)
    assert {number: (each.source_end, each.target_end) for number, each in found.items()} == {
        ZERO: (50, 90),
        ONE: (0, 80),
    }
    assert found[ZERO].epoch == (3, 40)
    assert found[ONE] == PartitionPromotion(Offset(0), Offset(80))


def test_a_run_of_another_kind_is_refused() -> None:
    merged, plain = config(), config(naming="same")
    with pytest.raises(Refused, match="merges its topics"):
        plan_switch(merged, merged.links[0], SwitchWish())
    with pytest.raises(Refused, match="merges no topics"):
        plan_switch(plain, plain.links[0], SwitchWish(finishes=True))


def test_its_steps_let_the_link_back_rest_before_the_fence() -> None:
    wish = SwitchWish(finishes=True)
    plan = SwitchPlan(LinkName("away"), (T,), SwitchOptions(), (), wish.kind)
    steps = plan.to_json()["steps"]
    assert steps[steps.index("rest") + 1] == "fence"
    assert "rest" not in SwitchPlan(LinkName("away"), (T,), SwitchOptions(), ()).to_json()["steps"]
    assert wish.kind is RunKind.FINISH


def test_a_topic_of_a_finished_switch_says_so() -> None:
    row = Promotion(T, PromotedBy.FINISH, "ann", 1)
    assert row.words() == "its rolling switch was finished by ann: no link copies it any more"
    assert Promotion.from_json(row.key, row.to_json()) == row
