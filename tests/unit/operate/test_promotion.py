"""A promotion that is cut short at each of its steps, and called again: the same comes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from typing_extensions import override

from heliostat.handover.promotion import (
    FencedBy,
    MirrorEnds,
    PartitionPromotion,
    PromotedBy,
    Promotion,
)
from heliostat.names import ClusterId, Offset, PartitionId, TopicName
from heliostat.operate import promotion as verb
from heliostat.operate.promotion import Promoted, promote
from heliostat.state.claimed import DrivenElsewhere
from heliostat.state.promotions import PromotedMirror
from heliostat.topics.values import MirrorRecord

T, U = TopicName("t"), TopicName("u")
RECORDS = {
    name: MirrorRecord(name, name, UUID(int=1), UUID(int=2), ClusterId("a"), "earliest", 1)
    for name in (T, U)
}
STEPS = ("look", "wishes", "fence", "rules", "claim", "state", "lifted", "ends", "ends written")
SPARED = {
    FencedBy.OWNER: {"rules", "claim", "state"},
    FencedBy.DENY_RULE: {"claim", "state", "lifted"},
    FencedBy.LEASE: set[str](),
}


class Killed(BaseException):
    """The process ends here."""


class World:
    """What lies at the target, and a process that may end behind any step."""

    def __init__(self, fence: FencedBy) -> None:
        self.fence = fence
        self.is_denied = False
        self.wishes: dict[TopicName, Promotion] = {}
        self.mirrors: dict[TopicName, MirrorRecord] = dict(RECORDS)
        self.promoted: dict[TopicName, PromotedMirror] = {}
        self.killed_after = ""
        self.begins = False
        """Whether a driver begins while leases are waited out."""
        self.end = 10
        """Of each mirror: the link appends until it is fenced."""

    def _is_fenced(self) -> bool:
        return self.is_denied or self.promoted.keys() >= {T, U}

    def passed(self, step: str) -> None:
        if not self._is_fenced():
            self.end += 1
        if step == self.killed_after:
            raise Killed(step)

    def write(self, rows: Iterable[Promotion], _: object = None) -> Offset:
        rows = list(rows)
        self.wishes |= {each.topic: each for each in rows}
        self.passed("ends written" if rows[0].ends else "wishes")
        return Offset(1)

    def record(self, rows: Iterable[Promotion]) -> None:
        for each in rows:
            record = self.mirrors.pop(each.topic, None)
            if record is not None:
                self.promoted[each.topic] = PromotedMirror(each, record)

    def await_owner(self, *_: object) -> tuple[bool, str]:
        if self.fence is FencedBy.OWNER:
            self.record(self.wishes.values())
        self.passed("fence")
        return self.fence is FencedBy.OWNER, "nobody answers"

    def why_no_rule(self, *_: object) -> str:
        self.is_denied = self.fence is FencedBy.DENY_RULE
        self.passed("rules")
        return "" if self.is_denied else "no authorizer"

    def let_in_again(self, *_: object) -> None:
        assert self.promoted.keys() >= {T, U}, "the link is let in before it has given them up"
        self.is_denied = False
        self.passed("lifted")

    def claim(self, _link: object, _state: object, rows: Iterable[Promotion]) -> None:
        if self.begins:
            self.fence = FencedBy.OWNER
            raise DrivenElsewhere("link l is driven by another instance", hint="stop it")
        self.passed("claim")
        self.record(rows)
        self.passed("state")

    def ends_now(
        self, _desk: object, _link: object, records: Mapping[TopicName, MirrorRecord], _: object
    ) -> dict[TopicName, MirrorEnds]:
        assert self._is_fenced(), "ends were read of mirrors that the link may still write"
        at = PartitionPromotion(Offset(self.end), Offset(self.end))
        ends = {
            name: MirrorEnds(name, ClusterId("a"), ClusterId("b"), None, None, {PartitionId(0): at})
            for name in records
        }
        self.passed("ends")
        return ends

    def stored(self, _state: object, _topics: Collection[str] = ()) -> Any:
        found = SimpleNamespace(mirrors=dict(self.mirrors), promoted=dict(self.promoted))
        self.passed("look")
        return found


class SilentWorld(World):
    """Where no driver answers, whatever it says of itself."""

    @override
    def await_owner(self, *_: object) -> tuple[bool, str]:
        return False, "nobody answers"


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Callable[[World], None]:
    """Let the verb see a world."""

    def in_place(world: World) -> None:
        @contextmanager
        def desk(*_: object) -> Iterator[Any]:
            wishes = SimpleNamespace(promotions=dict(world.wishes))
            book = SimpleNamespace(read=lambda: None, wishes=wishes, write=world.write)
            clock = SimpleNamespace(wall_ms=lambda: 7)
            yield SimpleNamespace(book=book, clock=clock, reader=None, target=None, link="l")

        monkeypatch.setattr(verb, "wish_desk", desk)
        state = SimpleNamespace(close=lambda: None)
        monkeypatch.setattr(verb, "LinkState", lambda *_: state)
        monkeypatch.setattr(verb, "promotable", world.stored)
        monkeypatch.setattr(verb, "await_owner", world.await_owner)
        monkeypatch.setattr(verb, "_why_no_rule", world.why_no_rule)
        monkeypatch.setattr(verb, "let_in_again", world.let_in_again)
        monkeypatch.setattr(verb, "open_to_writers", lambda *_: None)
        monkeypatch.setattr(verb, "_claim", world.claim)
        monkeypatch.setattr(verb, "ends_now", world.ends_now)

    return in_place


def called(by: str = "ann") -> Promoted:
    topics = SimpleNamespace(merges=False)
    link: Any = SimpleNamespace(state=SimpleNamespace(replication_factor=1), topics=topics)
    config: Any = None
    return promote(config, link, [T, U], PromotedBy.FAILOVER, by=by)


@pytest.mark.parametrize("fence", FencedBy)
@pytest.mark.parametrize("step", STEPS)
def test_a_promotion_that_is_killed_goes_on_when_it_is_called_again(
    put: Callable[[World], None], step: str, fence: FencedBy
) -> None:
    """Given a run that ends behind a step / when another is called / then both rows stand, the

    first one's, with ends that nothing was appended behind, and a third one tells the same.
    """
    world = World(fence)
    put(world)
    world.killed_after = step
    try:
        called()
    except Killed:
        pass
    else:
        assert step in SPARED[fence], "every other step is gone through"
    world.killed_after = ""
    again = called("bob")
    if fence is not FencedBy.DENY_RULE:
        assert world.promoted.keys() == {T, U}
        assert not world.mirrors
    assert {each.by for each in again.promotions} == {"bob" if step == "look" else "ann"}
    for each in again.promotions:
        assert each.ends is not None
        assert each.ends.partitions[PartitionId(0)].target_end == world.end
        assert world.wishes[each.topic] == each
    assert called("eve").promotions == again.promotions
    assert again.fenced_by is fence


def test_rules_are_lifted_once_the_link_has_given_its_mirrors_up(
    put: Callable[[World], None],
) -> None:
    """Given mirrors from which rules keep the link out / when a driver is back and it is called

    again / then it says that they are given up, no rule is left, and the ends are the same.
    """
    world = World(FencedBy.DENY_RULE)
    put(world)
    first = called()
    world.fence = FencedBy.OWNER
    assert world.is_denied
    again = called()
    assert not world.is_denied
    assert again.promotions == first.promotions
    assert again.fenced_by is FencedBy.OWNER


def test_a_driver_that_begins_while_leases_are_waited_out_is_asked(
    put: Callable[[World], None],
) -> None:
    """Given a silent driver / when another one takes the link over meanwhile / then that one gives

    the mirrors up, and nobody has to call the verb again; one that does not answer refuses it.
    """
    world = World(FencedBy.LEASE)
    world.begins = True
    put(world)
    given = called()
    assert given.fenced_by is FencedBy.OWNER
    assert all(each.ends is not None for each in given.promotions)
    silent = SilentWorld(FencedBy.LEASE)
    silent.begins = True
    put(silent)
    with pytest.raises(DrivenElsewhere):
        called()
