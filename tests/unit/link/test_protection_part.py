"""Protection beside copying: it tells what changes, and whatever fails there halts nothing."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from sim.sim_clock import SimClock

from heliostat.access import ClusterAccess
from heliostat.clusters.foreign_records import ForeignRecords
from heliostat.config import LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, Refused
from heliostat.fencing.cannot import Cannot, Why
from heliostat.fencing.fence import Standing
from heliostat.fencing.protection import Protection
from heliostat.handover.promotion import MirrorEnds, PromotedBy, Promotion
from heliostat.link import protection_part
from heliostat.link.known import Known
from heliostat.link.protection_part import ProtectionPart
from heliostat.link.side_parts import SideParts
from heliostat.names import BrokerId, TopicName
from heliostat.ops.events import Events
from heliostat.state.promotions import PromotedMirror
from heliostat.status.snapshot import _protection

A, B, C = (TopicName(name) for name in "abc")


def link(*, protect: bool = True) -> LinkConfig:
    topics = {"include": ["a"], "protect": protect}
    return LinkConfig.model_validate({"name": "l", "source": "x", "target": "y", "topics": topics})


@pytest.fixture
def events() -> Events:
    return Events(lambda: 0, None)


def part(
    monkeypatch: pytest.MonkeyPatch, events: Events, keeper: Any, *, protect: bool = True
) -> ProtectionPart:
    for name in ("ClusterAdmin", "RuleBook"):
        monkeypatch.setattr(protection_part, name, MagicMock())
    made = ProtectionPart(
        link(protect=protect),
        target_access=ClusterAccess(("y:1",)),
        principal="User:l",
        mirrors=lambda: {A},
        foreign=ForeignRecords(),
        clock=SimClock(7),
        events=events,
    )
    made._keeper = keeper
    return made


def test_changes_are_told_once(monkeypatch: pytest.MonkeyPatch, events: Events) -> None:
    open_to_all = Cannot(Why.EVERYBODY, "User:*", (A,))
    first = Protection(1, 0, 1, laid=("User:o may not write any more (1 rules)",))
    then = Protection(1, 0, 1, cannot=(open_to_all,))
    keeper = Mock(step=Mock(side_effect=[first, then, then]))
    made = part(monkeypatch, events, keeper)
    for _ in range(3):
        made.turn()
    told = events.recent(10)
    assert len(told) == 2
    assert "mirrors protected: User:o may not write any more" in told[0]
    assert "WARN mirrors can't be protected: a: a rule lets User:* write" in told[1]
    assert _protection({"protection": made.report()}) == [
        "0 of 1 mirrors are protected",
        f"can't be protected: {open_to_all.text()}",
    ]


@pytest.mark.parametrize(
    "error", [Refused("is no state topic"), BrokerError("by policy", kafka_code=44)]
)
def test_what_would_halt_a_link_is_said_instead(
    monkeypatch: pytest.MonkeyPatch, events: Events, error: Exception
) -> None:
    made = part(monkeypatch, events, Mock(step=Mock(side_effect=error)))
    made.turn()
    [line] = events.recent(10)
    assert "the target refuses: " in line


def test_what_passes_is_tried_again(monkeypatch: pytest.MonkeyPatch, events: Events) -> None:
    made = part(monkeypatch, events, Mock(step=Mock(side_effect=ConnectionLost("silent"))))
    with pytest.raises(ConnectionLost):
        made.turn()


def test_without_protect_what_is_left_is_lifted(
    monkeypatch: pytest.MonkeyPatch, events: Events
) -> None:
    keeper = Mock(lift_all=Mock(side_effect=[Standing((BrokerId(1),)), Standing()]))
    made = part(monkeypatch, events, keeper, protect=False)
    made.turn()
    made.turn()
    assert len(events.recent(10)) == 1
    assert not keeper.step.called
    assert _protection({"protection": made.report()}) == []


def test_a_promoted_mirror_stays_closed_until_its_ends_are_noted() -> None:
    """Given mirrors that are given away / when the ends of one are noted / then it alone opens."""

    def record(name: TopicName) -> Any:
        return Mock(target=TopicName(f"m.{name}"))

    def given(name: TopicName, ends: MirrorEnds | None) -> Promotion:
        return Promotion(name, PromotedBy.SWITCH, "a test", 0, ends=ends)

    promotions = {B: given(B, None), C: given(C, Mock())}
    known = Known({A: record(A)}, {})
    known.promoted = {name: PromotedMirror(each, record(name)) for name, each in promotions.items()}
    parts = SideParts.__new__(SideParts)
    parts._known = known
    parts._context = Mock(wishes=lambda: Mock(promotions=promotions))
    assert parts._protected() == {"m.a", "m.b"}
