"""Topics are brought up to date once, whatever fails in the middle: done again it goes on.

Both clusters are simulated; what the link knows is durable as its rows are written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import Call, SimulatedCluster

from heliostat.config import FORCED_CONFIGS, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, LinkTakenOver
from heliostat.link.compacted_later import CompactedLater
from heliostat.link.known import Known
from heliostat.link.mirror_memory import MirrorMemory
from heliostat.link.planning import Planner
from heliostat.link.topics_once import TopicsOnce
from heliostat.names import TopicName
from heliostat.other_links.at_source import Again
from heliostat.other_links.at_target import plan_beside
from heliostat.other_links.claims import Claims
from heliostat.topics.changes import topic_changes, without_deletions
from heliostat.topics.observe import observe
from heliostat.topics.topic_plan import TopicPlan
from heliostat.topics.values import MirrorRecord, SourceTopics

NOT_AUTHORIZED, NOT_LEADER, POLICY = 29, 6, 44
NAMES = [TopicName(letter) for letter in "abcd"]
LINK = LinkConfig.model_validate(
    {"name": "l", "source": "a", "target": "b", "topics": {"include": ["[a-d]"]}}
)


class Died(BaseException):
    """The process was killed."""


@dataclass
class Rows:
    """What a link knows, durable; each write may be the last thing that a process does."""

    mirrors: dict[TopicName, MirrorRecord] = field(default_factory=dict)
    making: set[TopicName] = field(default_factory=set)
    beginning: frozenset[TopicName] | None = None
    step: Callable[[], None] = lambda: None

    def put_beginning(self, names: Iterable[TopicName]) -> None:
        self.step()
        self.beginning = (self.beginning or frozenset()).union(names)

    def put_making(self, records: Iterable[MirrorRecord]) -> None:
        self.step()
        self.making |= {record.source for record in records}

    def put_mirrors(
        self, records: Mapping[TopicName, MirrorRecord], made: Iterable[TopicName] = ()
    ) -> None:
        self.step()
        self.mirrors |= records
        self.making -= set(made)

    def drop_mirrors(self, names: Iterable[TopicName]) -> None:
        self.step()
        for name in names:
            self.mirrors.pop(name, None)


class NoFeeds:
    """No other link writes at the source."""

    notes: tuple[str, ...] = ()

    def feeds(self, _: SourceTopics) -> tuple[()]:
        return ()

    def look_again(self, *_: object) -> Again:
        return Again()


class Time:
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return round(self.now_s * 1000)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def nobody(*_: Collection[TopicName]) -> Claims:
    return Claims()


class World:
    def __init__(self) -> None:
        self.source, self.target = SimulatedCluster("A"), SimulatedCluster("B")
        self.rows = Rows()
        self.guard: Callable[[], None] = lambda: None

    def known(self) -> Known:
        rows = self.rows
        return Known(dict(rows.mirrors), {}, making=set(rows.making), at_beginning=rows.beginning)

    def plan(self) -> TopicPlan:
        """What `plan` says: read only."""
        source, target = SimulatedAdmin(self.source), SimulatedAdmin(self.target)
        known = self.known()
        seen, there = observe(source, target, LINK, known.mirrors)
        seen = replace(seen, at_beginning=known.at_beginning)
        return plan_beside(LINK, seen, there, known, claimed=Claims(), other_links=nobody)

    def apply(self, *, allow_delete: bool = False) -> dict[TopicName, BrokerError]:
        source, target = SimulatedAdmin(self.source), SimulatedAdmin(self.target)
        upstream, rows = NoFeeds(), self.rows
        planner = Planner(
            LINK,
            source,
            target,
            rows,  # type: ignore[arg-type]  # a part of it
            claimed=nobody,
            other_links=nobody,
            upstream=upstream,  # type: ignore[arg-type]  # as above
        )
        mirrors = MirrorMemory(rows, nobody, upstream)  # type: ignore[arg-type]  # as above
        later = CompactedLater(source)
        once = TopicsOnce(target, planner, mirrors, later, self.guard, Time())
        return dict(once.run(self.known(), allow_delete=allow_delete).failed)

    def changed(self) -> dict[TopicName, tuple[int, dict[str, str]]]:
        """What the target has."""
        return {
            name: (len(topic.logs), dict(topic.configs))
            for name, topic in self.target.topics.items()
        }


def own(world: World, name: TopicName) -> dict[str, str]:
    forced = {*FORCED_CONFIGS, "max.message.bytes"}
    configs = world.target.topics[name].configs
    return {key: value for key, value in configs.items() if key not in forced}


def begun() -> World:
    """Topics a to c are mirrored; then a grew, b is set otherwise, c no longer sets what it did."""
    world = World()
    for name in NAMES[:3]:
        world.source.create(name, configs={"retention.ms": "5"})
    assert world.apply() == {}
    assert world.plan().is_empty
    a, b, c, d = NAMES
    SimulatedAdmin(world.source).grow_partitions({a: 3})
    world.source.topics[b].change({"retention.ms": "6"})
    world.source.topics[c].change({"retention.ms": None})
    world.source.create(d)
    return world


def test_applied_once_the_plan_is_empty_and_again_it_writes_nothing() -> None:
    world = begun()
    assert {each.kind for each in topic_changes(world.plan())} == {
        "create_topic",
        "grow_topic",
        "set_config",
        "unset_config",
    }
    assert world.apply(allow_delete=True) == {}
    assert topic_changes(world.plan()) == ()
    world.target.calls.clear()
    world.rows.step = lambda: pytest.fail("a row was written")
    assert world.apply(allow_delete=True) == {}
    for method in ("create_topics", "grow_partitions", "alter_configs"):
        assert not [items for items in world.target.asked(method) if items], method


def test_nothing_is_unset_unless_it_is_allowed_and_it_is_still_known_as_ours() -> None:
    world = begun()
    c = NAMES[2]
    assert world.apply() == {}
    [left] = topic_changes(world.plan())
    assert (left.kind, left.item, left.is_deletion) == ("unset_config", "c: retention.ms", True)
    assert own(world, c) == {"retention.ms": "5"}
    assert world.apply(allow_delete=True) == {}
    assert own(world, c) == {}
    assert world.plan().is_empty


@pytest.mark.parametrize("code", [NOT_AUTHORIZED, POLICY])
@pytest.mark.parametrize(
    ("method", "name", "kind"),
    [
        ("create_topics", "d", "create_topic"),
        ("grow_partitions", "a", "grow_topic"),
        ("alter_configs", "b", "set_config"),
    ],
)
def test_one_that_is_refused_is_named_and_all_others_are_done(
    method: str, name: str, kind: str, code: int
) -> None:
    world = begun()
    world.target.fail(method, code, TopicName(name))
    failed = world.apply(allow_delete=True)
    assert {topic: error.kafka_code for topic, error in failed.items()} == {name: code}
    assert {(each.kind, each.item[0]) for each in topic_changes(world.plan())} == {(kind, name)}
    world.target.heal()
    assert world.apply(allow_delete=True) == {}
    assert world.plan().is_empty


def test_another_owner_stops_it_before_it_writes() -> None:
    world = begun()
    before = world.changed()

    def lost() -> None:
        raise LinkTakenOver("by another")

    world.guard = lost
    with pytest.raises(LinkTakenOver):
        world.apply(allow_delete=True)
    assert world.changed() == before


@pytest.mark.parametrize("ends", [Died, ConnectionLost])
def test_cut_short_anywhere_it_goes_on_where_it_was(ends: type[BaseException]) -> None:
    """Given each step in turn as the last one / when applied again / then all is done, once."""
    steps = 0
    whole = begun()
    assert whole.apply(allow_delete=True) == {}
    wanted = whole.changed()
    while True:  # ends: it was not cut short any more
        world = begun()
        left = [steps]

        def step(left: list[int] = left) -> None:
            if left[0] == 0:
                left[0] = -1
                raise ends("cut short")
            left[0] -= 1

        def called(call: Call, world: World = world, step: Callable[[], None] = step) -> None:
            step()
            world.target.calls.append(call)

        world.rows.step, world.target.answered = step, called
        try:
            world.apply(allow_delete=True)
        except ends:
            world.rows.step, world.target.answered = lambda: None, world.target.calls.append
            assert world.apply(allow_delete=True) == {}
        else:
            assert steps > 10, "each request and each row was the last one"
            return
        assert world.changed() == wanted, steps
        assert world.plan().is_empty, steps
        assert not world.rows.making
        steps += 1


Sides = Mapping[TopicName, tuple[int, dict[str, str]]]
SETTINGS = st.dictionaries(
    st.sampled_from(["retention.ms", "flush.ms", "segment.bytes"]), st.integers(1, 9).map(str)
)
SIDES = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(1, 3), SETTINGS))


@settings(max_examples=40)
@given(SIDES, SIDES, st.booleans(), st.sets(st.sampled_from(NAMES)))
def test_applied_the_plan_holds_only_what_was_not_allowed(
    first: Sides,
    second: Sides,
    allow_delete: object,
    foreign: Collection[TopicName],
) -> None:
    world = World()
    for side in (first, second):
        for name, (count, values) in side.items():
            if name in world.source.topics:
                topic = world.source.topics[name]
                topic.change({**dict.fromkeys(topic.configs), **values})
                if count > len(topic.logs):
                    SimulatedAdmin(world.source).grow_partitions({name: count})
            else:
                world.source.create(name, count, values)
        for name in foreign & world.target.topics.keys():
            world.target.topics[name].change({"retention.ms": "77"})
        before = topic_changes(world.plan())
        assert world.apply(allow_delete=bool(allow_delete)) == {}
        plan = world.plan()
        after = topic_changes(plan)
        assert {each.key for each in after} <= {each.key for each in before}
        assert all(each.is_deletion and not allow_delete for each in after)
        assert not (allow_delete and any(each.difference.is_mended for each in plan.drift))
        rest = without_deletions(plan, world.rows.mirrors)
        assert topic_changes(rest) == (), "nothing else"
