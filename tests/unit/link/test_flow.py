"""The order of a reconciliation's steps, where it matters."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from heliostat.link import flow
from heliostat.link.flow import Reconciler
from heliostat.link.known import Known
from heliostat.link.wish_part import Steering
from heliostat.names import ProducerId
from heliostat.wishes.wish import Wishes

PARTS = (
    *("link", "target", "state", "lanes", "lane_count", "events", "planner", "mirrors", "starts"),
    *("notes", "gaps", "maps", "compacted_later", "deletions"),
)


@pytest.mark.parametrize("fails", [False, True])
def test_gaps_hear_that_lanes_were_told_once_they_are(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """Given settled gaps / then lanes are told, and only then are their reports believed again."""
    for name in ("apply_plan", "count_topics", "why_nothing_selected", "why_not_exact"):
        monkeypatch.setattr(flow, name, Mock(return_value=None))
    done: list[str] = []
    parts: dict[str, Any] = {name: Mock() for name in PARTS}
    plan = Mock(refuse={}, notes=(), let_go=(), follow={}, drift=())
    parts["link"].pipelines = ()
    parts["lane_count"].return_value = 1
    parts["state"].missing.return_value = ()
    parts["planner"].plan.return_value = Mock(names=(), topics={}), plan
    parts["planner"].notes.return_value = ()
    parts["gaps"].settle.return_value = {}
    parts["gaps"].told.side_effect = lambda: done.append("told")
    parts["maps"].with_lost.return_value = {}
    parts["maps"].notes.return_value = ()
    parts["notes"].old_backlog.return_value = ()
    parts["compacted_later"].hold.return_value = plan, ()
    parts["deletions"].turn.return_value = ()
    applied = Mock(mirrors=(), grown=(), configured=(), failed={})
    parts["mirrors"].leave_circles.return_value = applied, ()
    parts["starts"].begin_later.return_value = {}

    def assign(_wanted: object, _limits: object) -> None:
        done.append("assigned")
        if fails:
            raise ConnectionError

    parts["lanes"].assign.side_effect = assign
    parts["steering"] = Steering(parts["lanes"].assign, Wishes, Mock())
    turn = Reconciler(**parts)
    known = Known({}, {}, producer_id=ProducerId(1))
    if fails:
        with pytest.raises(ConnectionError):
            turn.run(known, {})
    else:
        turn.run(known, {})
    assert done == (["assigned"] if fails else ["assigned", "told"])
