"""A link takes no new identity while its state may hold one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from sim.sim_clock import SimClock

from heliostat.errors import StateIncomplete
from heliostat.link.identity import LOOKS, estranged, whole_state
from heliostat.names import ClusterId, LinkName, TopicName
from heliostat.state.link_state import Stored
from heliostat.topics.values import MirrorRecord

LINK = LinkName("l")
PRODUCER: dict[str, Any] = {"producer": {"producer_id": 7}}
FORMER: dict[str, Any] = {"producers": {"ids": [5, 7]}}
BEGINNING = {"beginning/0": {"topics": ["t"]}}
T = TopicName("t")
RECORD = MirrorRecord(T, T, None, None, ClusterId("c"), "earliest", 1)
MIRROR = {"mirror/t": RECORD.to_json()}
STARTED: dict[str, Any] = {"target_id": None, "starts": {"0": 0}}
BY_DRIVER = {**MIRROR, "start/t": STARTED}
ADOPTED = {**MIRROR, "start/t": {**STARTED, "adopted": {"0": 9}}}
HANDED_BACK = {"handed-back/t": {"to": "MirrorMaker 2"}, "start/t": STARTED}


@dataclass
class Topic:
    """What each look at the state topic gives; the last one again and again."""

    looks: list[dict[str, dict[str, Any]]]
    count: int = field(default=0)

    def read(self) -> Stored:
        rows = self.looks[min(self.count, len(self.looks) - 1)]
        self.count += 1
        return stored(rows)


def stored(rows: dict[str, dict[str, Any]]) -> Stored:
    state = Stored()
    for key, value in rows.items():
        state.take(key, value)
    return state


@pytest.mark.parametrize(
    ("claim", "rows"),
    [
        (1, {}),
        (1, ADOPTED),
        (5, {}),
        (5, PRODUCER),
        (5, {**PRODUCER, **BEGINNING, **BY_DRIVER}),
        (5, {**PRODUCER, **ADOPTED}),
        (5, ADOPTED),
        (5, HANDED_BACK),
    ],
    ids=[
        "first",
        "adopted",
        "blank",
        "claimed",
        "whole",
        "adopted, begun",
        "adopted anew",
        "handed back",
    ],
)
def test_a_state_that_lacks_nothing_is_read_once(claim: int, rows: dict[str, Any]) -> None:
    topic = Topic([rows])
    whole_state(LINK, topic.read, claim, SimClock(0))
    assert topic.count == 1


def test_rows_that_are_missing_are_looked_for_again() -> None:
    whole = {**PRODUCER, **BEGINNING, **BY_DRIVER}
    topic = Topic([BY_DRIVER, {**BEGINNING, **BY_DRIVER}, whole])
    assert whole_state(LINK, topic.read, 2, SimClock(0)).producer_id == 7


@pytest.mark.parametrize(
    ("rows", "lacks"),
    [
        ({**BEGINNING, **BY_DRIVER}, "its producer id"),
        ({**PRODUCER, **BY_DRIVER}, "when the link began"),
        ({**FORMER, **ADOPTED}, "its producer id"),
    ],
)
def test_rows_that_stay_missing_halt_the_link(rows: dict[str, Any], lacks: str) -> None:
    topic = Topic([rows])
    with pytest.raises(StateIncomplete, match=lacks):
        whole_state(LINK, topic.read, 2, SimClock(0))
    assert topic.count == LOOKS


def stopped(code: str) -> dict[str, Any]:
    row = {"target": "t", "target_partition": 0, "position": 9, "since_ms": 1, "reason": ""}
    return {"stop/t/0": {**row, "state": "diverged", "code": code}}


@pytest.mark.parametrize(
    ("rows", "topics"),
    [
        ({**PRODUCER, **BEGINNING, **BY_DRIVER}, set()),
        ({**PRODUCER, **BY_DRIVER, **stopped("FOREIGN_TAIL")}, {T}),
        ({**PRODUCER, **BY_DRIVER, **stopped("TOO_LARGE")}, set()),
        ({**PRODUCER, **stopped("FOREIGN_TAIL")}, set()),
        ({**BEGINNING, **BY_DRIVER}, {T}),
        ({**FORMER, **ADOPTED}, {T}),
        (ADOPTED, set()),
    ],
    ids=["well", "foreign", "other", "unlisted", "no id", "no id any more", "no id yet"],
)
def test_mirrors_that_a_link_may_not_know_as_its_own(
    rows: dict[str, Any], topics: set[TopicName]
) -> None:
    assert estranged(stored(rows)) == topics
