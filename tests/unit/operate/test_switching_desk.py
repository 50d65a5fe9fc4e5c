"""A switch's own desk on two simulated clusters: each step with each fault, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sim.sim_clock import SimClock
from support.simulated_admin import SimulatedAdmin
from support.simulated_cluster import Call, SimulatedCluster
from typing_extensions import override
from unit.operate import test_promotion as promoting

from heliostat.clusters.recent_records import RecentRecords
from heliostat.config import Config
from heliostat.handover.desk import Answer, FenceAnswer, Problem, SwitchOptions
from heliostat.handover.promotion import FencedBy
from heliostat.handover.run import Run, RunKind, RunState
from heliostat.handover.steps import Conductor, new_steps
from heliostat.names import ClusterId, GroupId, Offset, PartitionId, TopicName, TopicPartition
from heliostat.operate import promotion as verb
from heliostat.operate.switching import desk as module
from heliostat.operate.switching.groups import readers_at
from heliostat.records.copier.lane import PartitionReport, PartitionState
from heliostat.state.connections import LinkConnections
from heliostat.topics.values import MirrorRecord

NOW_MS, RECORDS = 1_800_000_000_000, 10
NO_RIGHT, NO_LEADER = 29, 5
TOPICS = (TopicName("t"), TopicName("u"))
PLACES = tuple(TopicPartition(name, PartitionId(number)) for name in TOPICS for number in (0, 1))
[FIRST, *_] = PLACES
CONFIG = Config.model_validate(
    {
        "clusters": {alias: {"bootstrap": [f"{alias}:1"]} for alias in ("east", "west")},
        "links": [
            {"name": "l", "source": "east", "target": "west", "groups": {"sync": False}},
        ],
    }
)
ENDS_NOW = verb.ends_now
OPTIONS = SwitchOptions(still_s=2.0, lag_s=20.0, records_s=20.0, groups_s=20.0, watch_s=2.0)


class World(promoting.World):
    """What `promote` finds beside the logs; with each step a link appends that is not out."""

    def __init__(self, fence: FencedBy, target: SimulatedCluster) -> None:
        super().__init__(fence)
        self._target = target
        self.mirrors = {
            name: MirrorRecord(
                name, name, None, target.topics[name].topic_id, ClusterId("east"), "earliest", 1
            )
            for name in TOPICS
        }

    @override
    def passed(self, step: str) -> None:
        if not self._is_fenced():
            self._target.append(TOPICS[1], 1)
        super().passed(step)


@dataclass
class Stage:
    """Both clusters, the link's reports, and a run."""

    clock: SimClock = field(default_factory=lambda: SimClock(NOW_MS))
    source: SimulatedCluster = field(default_factory=SimulatedCluster)
    target: SimulatedCluster = field(default_factory=SimulatedCluster)
    position: dict[TopicPartition, int] = field(default_factory=dict)
    is_copying: bool = True
    """Whether the link has a driver."""
    is_fenced: bool = False
    rows: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        for cluster in (self.source, self.target):
            for name in TOPICS:
                cluster.create(name, 2)
            for place in PLACES:
                cluster.append(place.topic, RECORDS, partition=place.partition)
        self.copy()

    def copy(self) -> None:
        """Copy what is missing, as the link does between two looks."""
        for place in PLACES if self.is_copying else ():
            here, there = (each.log(place) for each in (self.source, self.target))
            assert here is not None
            assert there is not None
            if here.end > there.end:
                rest = here.end - there.end
                self.target.append(place.topic, rest, partition=place.partition)
            self.position[place] = here.end

    def reports(self) -> list[PartitionReport]:
        """Return what the link reports last."""
        self.copy()
        at: dict[str, Any] = dict.fromkeys(
            ("high_watermark", "records", "bytes", "last_timestamp_ms", "caught_up_ms", "since_ms"),
            0,
        )
        state = PartitionState.COPYING
        return [
            PartitionReport(place, place, state, self.position[place], **at, target_end=end)
            for place in PLACES
            if (end := self.position.get(place, -1)) >= 0
        ]

    def desk(self) -> Desk:
        """Return the desk of one process."""
        progress = cast("RecentRecords", self)
        both = cast("LinkConnections", SimpleNamespace(target=None))
        order = module.Order(CONFIG, CONFIG.links[0], TOPICS, "a test")
        admins = SimulatedAdmin(self.source), SimulatedAdmin(self.target)
        made = Desk(order, both, *admins, progress)
        made.stage = self
        return made

    def run(self) -> Run:
        """Switch, or go on with it."""
        steps = tuple(new_steps())
        run = Run("r", RunKind.SWITCH, TOPICS, OPTIONS.to_json(), "a test", 0, steps)
        begun = self.rows[-1] if self.rows else run
        return Conductor(self.desk(), begun, OPTIONS, save=self.rows.append).go()

    # what stands for the link's reports, and their reader

    @property
    def board(self) -> Any:
        return SimpleNamespace(reports=self.reports)

    def exists(self) -> bool:
        return True

    def begin(self) -> None:
        pass

    def read(self, _timeout_s: float) -> int:
        return 0


class Desk(module.LinkDesk):
    """The desk itself, but for the rules of a fence, preflight's questions, and the registry."""

    stage: Stage

    @override
    def problems(self) -> Sequence[Problem]:
        return ()

    @override
    def put_up_fence(self) -> FenceAnswer:
        self.stage.is_fenced = True
        return FenceAnswer(is_whole=True, by_rules=True, text="nobody may write")

    @override
    def lift_fence(self) -> str:
        self.stage.is_fenced = False
        return "lifted"

    @override
    def open_target(self) -> Answer:
        return Answer("opened")


put = promoting.put
"""The fixture that lets `promote` see a world."""


def staged(
    monkeypatch: pytest.MonkeyPatch, put: Callable[[promoting.World], None]
) -> tuple[Stage, World]:
    """Return clusters and what else `promote` finds, with logs that it asks itself."""
    stage = Stage()
    monkeypatch.setattr(module, "SystemClock", lambda: stage.clock)
    monkeypatch.setattr(module, "StatusReader", lambda _name, progress: progress)
    world = World(FencedBy.OWNER, stage.target)
    put(world)
    monkeypatch.setattr(verb, "ends_now", ENDS_NOW)
    monkeypatch.setattr(verb, "ClusterAdmin", lambda _: SimulatedAdmin(stage.target))
    equal = SimpleNamespace(of=lambda *_: SimpleNamespace(source_of=lambda end: end))
    monkeypatch.setattr(verb, "read_maps", lambda *_: equal)
    monkeypatch.setattr(verb, "read_copied", lambda *_: {})
    return stage, world


@pytest.fixture
def both(
    monkeypatch: pytest.MonkeyPatch, put: Callable[[promoting.World], None]
) -> tuple[Stage, World]:
    return staged(monkeypatch, put)


@pytest.fixture
def stage(both: tuple[Stage, World]) -> Stage:
    return both[0]


@pytest.fixture
def world(both: tuple[Stage, World]) -> World:
    return both[1]


def ends(cluster: SimulatedCluster) -> dict[TopicPartition, Offset]:
    found: Mapping[TopicPartition, Any] = SimulatedAdmin(cluster).list_log_ends(PLACES)
    return dict(found)


def judge(stage: Stage, world: World, run: Run) -> None:
    """A run has given the mirrors away, and names what they lack, or nothing is changed."""
    if run.state is not RunState.DONE:
        assert run.state in (RunState.WENT_BACK, RunState.FAILED), run
        assert not world.promoted
        return
    named = "; ".join(run.step("watch").facts.get("written", []))
    assert {name for name, wish in world.wishes.items() if wish.ends is not None} == set(TOPICS)
    for name, wish in world.wishes.items():
        assert wish.ends is not None
        for number, part in wish.ends.partitions.items():
            place = TopicPartition(name, number)
            assert part.target_end == ends(stage.target)[place], "appended behind its end"
            assert part.target_end >= ends(stage.source)[place] or f"{place}: 1 records" in named


@pytest.mark.parametrize("fence", FencedBy)
def test_a_switch_gives_away_all_that_the_source_has(
    stage: Stage, world: World, fence: FencedBy
) -> None:
    world.fence = fence
    stage.source.append(FIRST.topic, 3)
    run = stage.run()
    assert run.state is RunState.DONE, run
    judge(stage, world, run)
    assert f"2 mirrors are given away, fenced by {fence.words}" in run.step("promotion").text
    assert run.step("last_look").facts["ends"] == {"t": [RECORDS + 3, RECORDS], "u": [RECORDS] * 2}


def silent(stage: Stage, cluster: SimulatedCluster, _: Call) -> None:
    """No broker answers this request."""
    del stage
    cluster.is_down = True


def one_silent(stage: Stage, cluster: SimulatedCluster, call: Call) -> None:
    """One broker does not: a partition has no leader."""
    del stage
    cluster.fail(call.method, NO_LEADER, FIRST, times=1)


def dies(stage: Stage, *_: object) -> None:
    """The driver dies, and a producer has written since."""
    stage.copy()
    if stage.is_copying and not stage.is_fenced:
        stage.source.append(FIRST.topic, 1)
    stage.is_copying = False


def writes(stage: Stage, *_: object) -> None:
    """A super user writes, fence or not."""
    stage.source.append(FIRST.topic, 1)


@pytest.mark.parametrize("at_source", [True, False])
@pytest.mark.parametrize("fault", [silent, one_silent, dies, writes])
def test_each_fault_at_each_request_loses_nothing_in_silence(
    monkeypatch: pytest.MonkeyPatch,
    put: Callable[[promoting.World], None],
    fault: Callable[[Stage, SimulatedCluster, Call], None],
    *,
    at_source: bool,
) -> None:
    """Given a fault at one request of a switch / when it has ended / then the mirrors given away

    have all that the source has, or what they lack is named, or nothing was given away.
    """
    states: list[RunState] = []
    count, place = 1, 0
    while place < count:
        stage, world = staged(monkeypatch, put)
        cluster = stage.source if at_source else stage.target
        seen: list[Call] = []

        def answered(
            call: Call,
            *,
            stage: Stage = stage,
            cluster: SimulatedCluster = cluster,
            seen: list[Call] = seen,
            place: int = place,
        ) -> None:
            cluster.is_down = False
            seen.append(call)
            if len(seen) == place + 1:
                fault(stage, cluster, call)

        cluster.answered = answered
        run = stage.run()
        cluster.answered, cluster.is_down = cluster.calls.append, False
        judge(stage, world, run)
        states.append(run.state)
        count, place = len(seen) if not place else count, place + 1
    assert RunState.DONE in states
    assert count > (20 if at_source else 5)
    goes_back = fault in {dies, writes} or (fault is one_silent and at_source)
    assert (RunState.WENT_BACK in states) == goes_back


def test_a_driver_that_begins_meanwhile_gives_the_mirrors_up(stage: Stage, world: World) -> None:
    """Given a link that appends until it is fenced, and a driver that begins while its leases are

    waited out / when it is switched / then that one is asked, and nothing comes behind the ends.
    """
    world.fence, world.begins = FencedBy.LEASE, True
    run = stage.run()
    assert run.state is RunState.DONE, run
    judge(stage, world, run)
    assert run.step("promotion").facts["fenced_by"] == "owner"


def test_what_is_not_copied_or_not_known_is_told(stage: Stage) -> None:
    """Given a driver that has died, a mirror that lacks what was reported, and a silent broker."""
    desk = stage.desk()
    assert not desk.copied().lines()
    stage.is_copying = False
    stage.source.append("t", 2)
    assert desk.copied().lines() == ["t-0: 2 records are missing"]
    stage.target.append("u", 1)
    [*_, told] = desk.copied().lines()
    assert told == f"u-0: u-0 ends at {RECORDS + 1}, and the link reported {RECORDS}"
    stage.source.fail("list_log_ends", NO_LEADER, PLACES[1])
    assert desk.copied().unknown[PLACES[1]].startswith("its end is not known: ")
    stage.position.pop(PLACES[3])
    assert desk.copied().unknown[PLACES[3]] == "the link has not reported it yet"


def test_what_is_written_after_the_last_look_is_named(stage: Stage) -> None:
    """Given records of before the watch and within it / when the source is watched / then both."""
    desk = stage.desk()
    before = {TOPICS[0]: [RECORDS, RECORDS], TOPICS[1]: [RECORDS, RECORDS]}
    assert desk.written_after(before, 2.0) == []
    assert desk.written_after({}, 2.0) == []
    stage.source.append("u", 4)
    assert desk.written_after(before, 2.0) == ["u-0: 4 records came"]

    def answered(call: Call) -> None:
        stage.source.calls.append(call)
        if len(stage.source.asked("list_log_ends")) == 6:  # the last look of the watch
            stage.source.append_open("t", 7, NOW_MS)

    stage.source.calls.clear()
    stage.source.transactional_ids[7] = "payments"
    stage.source.answered = answered
    before[TOPICS[1]] = [RECORDS + 4, RECORDS]
    while not (named := desk.written_after(before, 2.0)):
        pass
    assert named == ["t-0: 1 records came, by producer 7 (payments)"]


def test_transactions_are_named_and_those_nobody_tells_of_as_well(stage: Stage) -> None:
    desk = stage.desk()
    stage.source.append_open("t", 7, NOW_MS)
    stage.source.transactional_ids[7] = "payments"
    stage.source.fail("open_transactions", NO_RIGHT, PLACES[2])
    seen = desk.open_transactions()
    line = f"t-0: a transaction of producer 7 (payments) is open since offset {RECORDS}"
    assert seen.lines == (line,)
    [untold] = seen.unknown
    assert untold.startswith("u-0: ")
    assert seen.awaited(["transactions_unknown"]) == [line]


def test_everybody_who_reads_at_the_source_is_seen(stage: Stage) -> None:
    """Given groups with and without members, commits and rights / when it is asked who reads these

    topics / then those with members are named that have committed, read or asked for one of them,
    and those of which it is not known.
    """
    source = stage.source
    source.commit("idle", FIRST, 3)
    source.join("committed", "app")
    source.commit("committed", FIRST, 3)
    source.join("fresh", "app", TOPICS[1], kind="consumer")
    source.join("elsewhere", "app", TopicName("others"))
    source.join("secret", "app")
    source.join("workers", "app", TOPICS[0]).protocol = "connect"
    source.join("shared", "app", TOPICS[0], kind="share")
    source.fail("committed_offsets", NO_RIGHT, GroupId("secret"))
    readers, unknown = readers_at(SimulatedAdmin(source), set(TOPICS))
    assert list(readers) == ["committed", "fresh", "secret"]
    assert readers[GroupId("fresh")] == "fresh (app at /127.0.0.1)"
    assert readers[GroupId("secret")].startswith("secret (what it reads is not known: ")
    assert unknown == ()
    source.fail("list_groups", NO_RIGHT)
    readers, [silent_one] = readers_at(SimulatedAdmin(source), set(TOPICS))
    assert not readers
    assert silent_one.startswith("those of broker 1: ")
    seen = stage.desk().groups()
    assert (seen.is_synced, seen.reading, seen.apart) == (False, (silent_one,), ())
