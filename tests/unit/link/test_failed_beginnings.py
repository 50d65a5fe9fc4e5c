"""A link's beginning fails at each of its writes; whoever goes on is the same link.

Simulated clusters, the product's planning and state; another driver begins where one has failed.
"""

from __future__ import annotations

import itertools
from typing import Any
from unittest.mock import Mock

import pytest
from sim.sim_clock import SimClock
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import SimulatedCluster

from heliostat.config import ClusterConfig, LinkConfig
from heliostat.errors import BrokerError
from heliostat.link.beginnings import Beginnings
from heliostat.link.identity import known_of, own_identity
from heliostat.link.known import Known
from heliostat.link.mirror_memory import MirrorMemory
from heliostat.link.planning import Planner
from heliostat.link.start_offsets import StartOffsets
from heliostat.names import LinkName, TopicName
from heliostat.other_links.claims import Claims
from heliostat.state.link_state import LinkState
from heliostat.topics.apply import apply_plan

LINK = LinkConfig.model_validate(
    {"name": "l", "source": "a", "target": "b", "topics": {"include": ["t.*"], "start": "latest"}}
)
NEVER, BORN_LATER = 10**6, 5
"""Records of a topic that is created after the first attempt."""


class Rows:
    """The state topic: each row is a step, at one of which a write fails."""

    topic = TopicName("heliostat.l.state")

    def __init__(self, fails_at: int, *, is_durable: bool) -> None:
        self.log: list[tuple[str, Any]] = []
        self._fails_at, self._is_durable = fails_at, is_durable

    @property
    def has_failed(self) -> bool:
        return self._fails_at < 0

    def read_all(self) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for key, value in self.log:
            rows.pop(key, None)
            if value is not None:
                rows[key] = value
        return rows

    def write(self, key: str, value: Any) -> None:
        self.write_many({key: value})

    def write_many(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            self._fails_at -= 1
            if self._fails_at != -1:
                self.log.append((key, value))
                continue
            if self._is_durable:
                self.log.append((key, value))
            raise BrokerError("the leader went", kafka_code=6)


class World:
    """Both clusters, and the rows that one driver leaves to the next."""

    def __init__(self, fails_at: int, *, is_durable: bool) -> None:
        self.source, self.target = SimulatedCluster("s"), SimulatedCluster("t")
        self.source.create("t.first", partitions=2)
        self.source.create("t.second")
        self.source.append("t.first", 7)
        self.source.append("t.first", 3, partition=1)
        self.rows = Rows(fails_at, is_durable=is_durable)
        self.claim = 0
        self.known = Known({}, {})
        self.refused: Any = {}

    def begin(self) -> None:
        """Begin as another driver does: who the link is, its topics, where they begin."""
        self.claim += 1
        state = LinkState(LINK, ClusterConfig(bootstrap=("127.0.0.1:1",)))
        state._state = self.rows  # type: ignore[assignment]  # a stand-in
        state.promotions._write = self.rows.write_many
        state.claim = self.claim
        source, target = SimulatedAdmin(self.source), SimulatedAdmin(self.target)
        stored, producer_id = own_identity(state, LinkName("l"), target, SimClock(0))
        known = self.known = known_of(stored, producer_id)
        upstream = Mock(feeds=lambda _: {}, notes=())
        no_others: Any = Mock(return_value=Claims())
        planner = Planner(LINK, source, target, state, no_others, no_others, upstream)
        mirrors = MirrorMemory(state, no_others, upstream)
        starts = StartOffsets(state, Beginnings(source, Mock()), Mock())
        _, plan = planner.plan(known)
        mirrors.announce(known, plan)
        applied = apply_plan(plan, target)
        mirrors.remember(known, plan, applied)
        self.refused = plan.refuse
        starts.look_up(known, applied.mirrors)

    def values(self, prefix: str) -> list[Any]:
        """Return all values that were ever durable under keys that begin so."""
        return [value for key, value in self.rows.log if key.startswith(prefix)]

    def begins(self, topic: str) -> dict[int, int]:
        return dict(self.known.starts[TopicName(topic)].offsets)


def worlds() -> list[World]:
    """Return one for each write of a beginning, which fails there, with its row durable or not."""
    made = list[World]()
    for is_durable in (False, True):
        for number in itertools.count():
            world = World(number, is_durable=is_durable)
            try:
                world.begin()
            except BrokerError:
                made.append(world)
            else:
                break
    return made


WORLDS = len(worlds())


def test_each_write_fails_once() -> None:
    keys = {key.partition("/")[0] for world in worlds() for key, _ in world.rows.log}
    assert keys == {"producer", "producers", "beginning", "making", "mirror", "start"}
    assert WORLDS >= 2 * 9


@pytest.mark.parametrize("number", range(WORLDS))
def test_who_goes_on_after_a_failed_write_is_the_same_link(number: int) -> None:
    """Given a beginning that failed / when topics come, and another driver begins twice / then no

    row that says who the link is, or where a mirror begins, is written over by another; and what
    is younger than the link is copied whole.
    """
    world = worlds()[number]
    had_begun = bool(world.values("beginning"))
    begun = {key: value for key, value in world.rows.read_all().items() if key[:6] == "start/"}
    world.source.create("t.young")
    world.source.append("t.young", BORN_LATER)
    world.source.append("t.first", 9)
    for _ in range(2):
        world.begin()
        assert not world.refused
        assert world.known.mirrors.keys() == {"t.first", "t.second", "t.young"}
    ids = {value["producer_id"] for value in world.values("producer") if "producer_id" in value}
    assert ids == {world.known.producer_id}
    assert all(set(value["ids"]) == ids for value in world.values("producers"))
    assert len({str(value) for value in world.values("beginning")}) == 1
    assert begun.items() <= world.rows.read_all().items()
    assert world.begins("t.young") == {0: 0 if had_begun else BORN_LATER}
