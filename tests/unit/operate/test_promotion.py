"""A promotion that is cut short at each of its steps, and called again: the same comes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

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
from heliostat.state.promotions import PromotedMirror
from heliostat.topics.values import MirrorRecord

T, U = TopicName("t"), TopicName("u")
RECORDS = {
    name: MirrorRecord(name, name, UUID(int=1), UUID(int=2), ClusterId("a"), "earliest", 1)
    for name in (T, U)
}
STEPS = ("look", "wishes", "fence", "claim", "state", "ends", "ends written")


class Killed(BaseException):
    """The process ends here."""


class World:
    """What lies at the target, and a process that may end behind any step."""

    def __init__(self, *, has_owner: bool) -> None:
        self.has_owner = has_owner
        self.wishes: dict[TopicName, Promotion] = {}
        self.mirrors: dict[TopicName, MirrorRecord] = dict(RECORDS)
        self.promoted: dict[TopicName, PromotedMirror] = {}
        self.killed_after = ""
        self.end = 10
        """Of each mirror: the link appends until it is fenced."""

    def _is_fenced(self) -> bool:
        return self.promoted.keys() >= {T, U}

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
        if self.has_owner:
            self.record(self.wishes.values())
        self.passed("fence")
        return self.has_owner, "nobody answers"

    def claim(self, _link: object, _state: object, rows: Iterable[Promotion]) -> None:
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


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Callable[[World], None]:
    """Let the verb see a world."""

    def in_place(world: World) -> None:
        @contextmanager
        def desk(*_: object) -> Iterator[Any]:
            wishes = SimpleNamespace(promotions=dict(world.wishes))
            book = SimpleNamespace(read=lambda: None, wishes=wishes, write=world.write)
            clock = SimpleNamespace(wall_ms=lambda: 7)
            yield SimpleNamespace(book=book, clock=clock, reader=None, target=None)

        monkeypatch.setattr(verb, "wish_desk", desk)
        state = SimpleNamespace(close=lambda: None)
        monkeypatch.setattr(verb, "LinkState", lambda *_: state)
        monkeypatch.setattr(verb, "promotable", world.stored)
        monkeypatch.setattr(verb, "await_owner", world.await_owner)
        monkeypatch.setattr(verb, "_claim", world.claim)
        monkeypatch.setattr(verb, "ends_now", world.ends_now)

    return in_place


def called(by: str = "ann") -> Promoted:
    link: Any = SimpleNamespace(state=SimpleNamespace(replication_factor=1))
    config: Any = None
    return promote(config, link, [T, U], PromotedBy.FAILOVER, by=by)


@pytest.mark.parametrize("has_owner", [True, False], ids=["owner", "lease"])
@pytest.mark.parametrize("step", STEPS)
def test_a_promotion_that_is_killed_goes_on_when_it_is_called_again(
    put: Callable[[World], None], step: str, *, has_owner: bool
) -> None:
    """Given a run that ends behind a step / when another is called / then both rows stand, the

    first one's, with ends that nothing was appended behind, and a third one tells the same.
    """
    world = World(has_owner=has_owner)
    put(world)
    world.killed_after = step
    try:
        called()
    except Killed:
        pass
    else:
        assert has_owner
        assert step in {"claim", "state"}, "only an owner spares these steps"
    world.killed_after = ""
    again = called("bob")
    assert world.promoted.keys() == {T, U}
    assert not world.mirrors
    assert {each.by for each in again.promotions} == {"bob" if step == "look" else "ann"}
    for each in again.promotions:
        assert each.ends is not None
        assert each.ends.partitions[PartitionId(0)].target_end == world.end
        assert world.wishes[each.topic] == each
    assert called("eve").promotions == again.promotions
    assert again.fenced_by is (FencedBy.OWNER if has_owner else FencedBy.LEASE)
