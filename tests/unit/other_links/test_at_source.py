"""What feeds a source, read from states there; and links that start in every order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from support.topic_plans import mirror, target, topic

from heliostat.clusters.admin import ClusterAdmin
from heliostat.config import ClusterConfig, LinkConfig
from heliostat.errors import BrokerError
from heliostat.names import ClusterId, LinkName, TopicName
from heliostat.other_links import at_target as other_links
from heliostat.other_links.at_source import (
    HOLD_TURNS,
    Upstream,
    blind_note,
    feeds_at,
    left_out_notes,
)
from heliostat.state.link_state import (
    MAKING_PREFIX,
    MIRROR_PREFIX,
    START_PREFIX,
    begun_of,
    starts_in,
)
from heliostat.topics.plan import plan_topics
from heliostat.topics.values import ClusterTopic, Feed, MirrorRecord, SourceTopics

REFRESH_S = 10.0
Rows = dict[str, dict[str, Any]]


@dataclass
class Site:
    """A cluster: its topics by number, and what links remember there."""

    topics: dict[TopicName, int] = field(default_factory=dict)
    states: dict[LinkName, Rows] = field(default_factory=dict)
    leaderless: frozenset[TopicName] = frozenset()
    """State topics that no broker leads."""

    @property
    def names(self) -> tuple[TopicName, ...]:
        states = [TopicName(f"heliostat.{link}.state") for link in self.states]
        return tuple(sorted([*self.topics, *states]))

    def described(self) -> dict[TopicName, Any]:
        led, gone = [SimpleNamespace(leader=1)], [SimpleNamespace(leader=None)]
        return {
            name: SimpleNamespace(partitions=gone if name in self.leaderless else led)
            for name in self.names
        }


class World:
    """Clusters, and time as drivers measure it."""

    def __init__(self, *names: str) -> None:
        self.sites = {name: Site() for name in names}
        self.now_s = 0.0
        self.made = 100

    def monotonic_s(self) -> float:
        return self.now_s

    def create(self, site: str, name: str) -> TopicName:
        self.made += 1
        self.sites[site].topics.setdefault(TopicName(name), self.made)
        return TopicName(name)

    def open(self, access: Any, topic: TopicName) -> Any:
        """As `KeyedTopic`."""
        [(address, _)] = [each.split(":") for each in access.bootstrap]
        link = LinkName(topic.removeprefix("heliostat.").removesuffix(".state"))
        assert topic not in self.sites[address].leaderless, "nobody answers"
        rows = self.sites[address].states.get(link, {})
        return SimpleNamespace(read_sound=lambda: (dict(rows), {}), close=lambda: None)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World("a", "b", "c")
    monkeypatch.setattr(other_links, "KeyedTopic", made.open)
    return made


def cluster(site: str) -> ClusterConfig:
    return ClusterConfig(bootstrap=(f"{site}:1",))


class Driver:
    """A link's turns, with all that others may do between two of its steps."""

    def __init__(self, world: World, here: str, there: str, **topics: Any) -> None:
        self.world, self.here, self.there = world, here, there
        settings = {"include": [".*"], "refresh_interval_s": REFRESH_S, **topics}
        self.link = LinkConfig.model_validate(
            {"name": f"{here}{there}", "source": here, "target": there, "topics": settings}
        )
        self.source, self.target = world.sites[here], world.sites[there]
        admin = SimpleNamespace(describe_topics=self.source.described)
        self.upstream = Upstream(
            self.link,
            cluster(here),
            cast("ClusterAdmin", admin),
            ClusterId(there),
            cast("Any", world),
        )
        self.rows: Rows = {}
        self.copies: dict[TopicName, TopicName] = {}

    def known(self) -> dict[TopicName, MirrorRecord]:
        found = (MirrorRecord.from_json(v) for k, v in self.rows.items() if k[:7] == MIRROR_PREFIX)
        return {record.source: record for record in found}

    def forget(self, names: Any) -> None:
        for name in names:
            self.rows.pop(f"{MIRROR_PREFIX}{name}", None)
            self.rows.pop(f"{START_PREFIX}{name}", None)

    def turn(self) -> Iterator[None]:
        """One turn as `link.flow` takes it; ends of all topics stay 0: nothing else decides."""
        self.target.states.setdefault(self.link.name, self.rows)
        yield
        names, ids = self.source.names, dict(self.source.topics)
        yield
        topics = {name: topic(name, 1, number) for name, number in ids.items()}
        unled = self.source.leaderless
        seen = SourceTopics(ClusterId(self.here), names, topics, leaderless=unled)
        seen = replace(seen, feeds=self.upstream.feeds(seen))
        there = target(*(mirror(name, 1, 0, n) for name, n in self.target.topics.items()))
        there = replace(there, cluster_id=ClusterId(self.there))
        known = self.known()
        yield
        begun = begun_of(known, starts_in(self.rows))
        plan = plan_topics(self.link, seen, there, known, begun=begun)
        self.copies = {m.source: m.target for m in plan.mirrors if m.source in begun}
        self.forget(plan.let_go)
        yield
        created = [each.target for each in plan.create]
        for record in plan.remember:
            if record.target in created:
                self.rows[f"{MAKING_PREFIX}{record.source}"] = record.to_json()
        yield
        for name in created:
            self.world.create(self.there, name)
            yield
        for record in plan.remember:
            made = replace(record, target_id=UUID(int=self.target.topics[record.target]))
            self.rows[f"{MIRROR_PREFIX}{record.source}"] = made.to_json()
            self.rows.pop(f"{MAKING_PREFIX}{record.source}", None)
        yield
        claims = {
            name: record
            for name, record in self.known().items()
            if name not in begun and any(each.source == name for each in plan.mirrors)
        }
        again = self.upstream.look_again(seen, claims, created)
        yield
        self.forget(again.let_go)
        for name in claims.keys() - again.not_yet.keys():
            claim = claims[name]
            self.rows[f"{START_PREFIX}{name}"] = {"target_id": str(claim.target_id), "starts": {}}
            self.copies[name] = claim.target
        yield


def comes_back(drivers: list[Driver]) -> bool:
    """Whether a record would reach a cluster again by what is copied at this moment."""
    ways: dict[tuple[str, TopicName], list[tuple[str, TopicName]]] = {}
    for driver in drivers:
        for here, there in driver.copies.items():
            ways.setdefault((driver.here, here), []).append((driver.there, there))

    def reaches(place: tuple[str, TopicName], been: frozenset[str]) -> bool:
        return any(
            there[0] in been or reaches(there, been | {there[0]}) for there in ways.get(place, ())
        )

    return any(reaches(place, frozenset({place[0]})) for place in ways)


def run_in_some_order(world: World, drivers: list[Driver], seed: int, rounds: int = 14) -> None:
    """Each link takes a turn a round, step by step beside the others; some begin rounds later."""
    rng = random.Random(seed)
    begins = {id(driver): rng.choice((0, 0, 1, 2, 3)) for driver in drivers}
    for number in range(rounds):
        turns = [driver.turn() for driver in drivers if begins[id(driver)] <= number]
        while turns:
            turn = rng.choice(turns)
            for _ in range(rng.choice((1, 1, 2, 9))):
                if next(turn, turn) is turn:
                    turns.remove(turn)
                    break
                assert not comes_back(drivers), (seed, number)
        world.now_s += REFRESH_S


@pytest.mark.parametrize("ring", ["ab", "ba", "abc", "cba"])
@pytest.mark.parametrize("seed", range(40))
def test_all_but_one_link_of_a_ring_copy_whatever_the_order(
    world: World, ring: str, seed: int
) -> None:
    """Given a topic that is empty everywhere / when all start / then all but one link copy it."""
    for site in ring:
        world.create(site, "t")
    pairs = zip(ring, ring[1:] + ring[0], strict=True)
    drivers = [Driver(world, here, there) for here, there in pairs]
    run_in_some_order(world, drivers, seed)
    assert sum(bool(driver.copies) for driver in drivers) == len(ring) - 1


@pytest.mark.parametrize("there_already", [(), ("a.q",), ("a.q", "b.r"), ("b.a.q",)])
@pytest.mark.parametrize("seed", range(30))
def test_two_links_with_prefixes_copy_each_topic_one_way(
    world: World, seed: int, there_already: tuple[str, ...]
) -> None:
    """Given `.*` both ways / when both start in any order / then no topic is copied back."""
    world.create("a", "q")
    world.create("b", "r")
    for name in there_already:
        world.create("b" if name.startswith("a.") else "a", name)
    drivers = [
        Driver(world, here, there, naming={"prefix": f"{here}."}) for here, there in ("ab", "ba")
    ]
    run_in_some_order(world, drivers, seed)
    copies = {(d.here, name) for d in drivers for name in d.copies}
    assert (("a", "q") in copies) != (("b", "a.q") in copies)
    assert ("b", "r") in copies or "b.r" in there_already
    if not there_already:
        assert set(world.sites["a"].topics) == {"q", "b.r"}
        assert set(world.sites["b"].topics) == {"r", "a.q"}


def test_a_mirror_of_a_mirror_waits_if_its_topic_existed_before(world: World) -> None:
    """Given a chain into an empty topic / then it waits some turns; into a new one it does not."""
    for site in "abc":
        world.create(site, "t")
    first, second = Driver(world, "a", "b"), Driver(world, "b", "c")
    list(first.turn())
    waited = 0
    while not second.copies and waited < 10:
        list(second.turn())
        world.now_s += REFRESH_S
        waited += 1
    assert waited == HOLD_TURNS + 1
    world.create("a", "new")
    list(first.turn())
    list(second.turn())
    assert second.copies == {"t": "t", "new": "new"}
    assert second.known()[TopicName("t")].through == (ClusterTopic(ClusterId("a"), TopicName("t")),)


def feeds_of(world: World, site: str) -> tuple[Feed, ...]:
    here = world.sites[site]
    topics = {name: topic(name, 1, number) for name, number in here.topics.items()}
    return feeds_at(cluster(site), SourceTopics(ClusterId(site), here.names, topics))[0]


def test_a_link_of_our_own_name_at_the_source_is_another_one(world: World) -> None:
    """Given both directions are called alike, in two files / then each sees the other's mirrors."""
    world.create("a", "t")
    here = Driver(world, "a", "b")
    list(here.turn())
    assert [each.link for each in feeds_of(world, "b")] == ["ab"]
    assert feeds_of(world, "a") == ()


def test_a_recreated_topic_is_no_mirror(world: World) -> None:
    world.create("a", "t")
    driver = Driver(world, "a", "b")
    list(driver.turn())
    [made] = feeds_of(world, "b")
    assert made.has_begun
    del world.sites["b"].topics[TopicName("t")]
    world.create("b", "t")
    assert feeds_of(world, "b") == ()


def test_a_mirror_is_noted_before_its_topic_is_created(world: World) -> None:
    """Given a turn that is about to create a topic / then its state has it, not begun yet."""
    world.create("a", "t")
    turn = Driver(world, "a", "b").turn()
    while "t" not in world.sites["b"].topics:
        next(turn)
    assert [(each.record.source, each.has_begun) for each in feeds_of(world, "b")] == [("t", False)]


def test_a_missing_right_to_read_states_is_reported() -> None:
    link = LinkConfig(name="l", source="a", target="b")

    def seen(code: int) -> tuple[str, ...]:
        error = BrokerError("no", kafka_code=code)
        answer = {TopicName("heliostat.l.state"): SimpleNamespace(error=error)}
        admin = SimpleNamespace(describe_topics=lambda _: answer)
        return blind_note(link, cast("ClusterAdmin", admin))

    assert seen(3) == ()
    assert "no right to read topics heliostat.* at a" in seen(29)[0]


def test_a_state_without_a_leader_holds_up_only_what_is_new(world: World) -> None:
    """Given mirrors of a chain / when the broker of the first link's state is gone / then

    topics go on as they were, and new ones wait.
    """
    world.create("a", "t")
    first, second = Driver(world, "a", "b"), Driver(world, "b", "c")
    for _ in range(HOLD_TURNS + 2):
        list(first.turn())
        list(second.turn())
        world.now_s += REFRESH_S
    assert second.copies == {"t": "t"}
    state = TopicName("heliostat.ab.state")
    world.sites["b"].leaderless = frozenset({state})
    world.create("b", "own")
    for _ in range(HOLD_TURNS + 2):
        list(second.turn())
        world.now_s += REFRESH_S
    assert second.copies == {"t": "t"}
    assert any(str(state) in note for note in second.upstream.notes)
    world.sites["b"].leaderless = frozenset()
    list(second.turn())
    assert second.copies == {"t": "t", "own": "own"}


def test_a_state_that_was_never_read_is_named(world: World) -> None:
    list(Driver(world, "a", "b").turn())
    world.sites["b"].leaderless = frozenset({TopicName("heliostat.ab.state")})
    with pytest.raises(BrokerError, match=r"heliostat\.ab\.state at the source has no leader"):
        list(Driver(world, "b", "c").turn())


def test_topics_left_out_are_one_note() -> None:
    link = LinkConfig(name="l", source="a", target="b")
    assert left_out_notes(link, []) == ()
    names = [TopicName(f"t{number}") for number in range(5)]
    assert left_out_notes(link, names) == (
        "5 topic(s) come from b and are not mirrored back: t0, t1, t2 and 2 more",
    )
