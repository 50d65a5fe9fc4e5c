"""Waiting until what a source has is at the target: by reports that came after its ends were."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sim.sim_clock import SimClock

from heliostat.clusters.admin import OpenTransaction, PartitionInfo, TopicInfo
from heliostat.clusters.recent_records import Recent
from heliostat.errors import BrokerError, ConnectionLost
from heliostat.names import (
    BrokerId,
    LaneId,
    LeaderEpoch,
    LinkName,
    Offset,
    PartitionId,
    ProducerId,
    TopicName,
    TopicPartition,
)
from heliostat.operate.crossing import (
    Crossed,
    Crossing,
    LinkReports,
    Stage,
    Waiting,
    crossing_of,
)
from heliostat.records.copier.lane import PartitionReport, PartitionState, RoundReport
from heliostat.records.transport.progress_reports import encode_progress

NOW_MS = 1_800_000_000_000
ORDERS = TopicName("orders")
A, B = (TopicPartition(ORDERS, PartitionId(number)) for number in (0, 1))
COPYING, BLOCKED, GAP = PartitionState.COPYING, PartitionState.BLOCKED, PartitionState.GAP


def report(
    where: TopicPartition, position: int, state: PartitionState = COPYING, code: str = ""
) -> PartitionReport:
    known = (where, where, state, position, position)
    return PartitionReport(*known, 0, 0, -1, -1, NOW_MS, code=code, reason="why" if code else "")


@pytest.mark.parametrize(
    ("found", "open_below", "stage", "code"),
    [
        (None, (), Stage.WAITS, ""),
        (None, ("one",), Stage.WAITS, "open_transactions"),
        (report(A, 9), (), Stage.WAITS, ""),
        (report(A, -1), (), Stage.WAITS, ""),
        (report(A, 10), (), Stage.PASSED, ""),
        (report(A, 99), (), Stage.PASSED, ""),
        (report(A, 10), ("one",), Stage.WAITS, "open_transactions"),
        (report(A, 9), ("one",), Stage.WAITS, "open_transactions"),
        (report(A, 9, PartitionState.RETRYING, "LEASE"), (), Stage.WAITS, "LEASE"),
        (report(A, 9, PartitionState.PAUSED), (), Stage.STOPPED, "paused"),
        (report(A, 10, PartitionState.PAUSED), (), Stage.PASSED, ""),
        (report(A, 9, BLOCKED, "CORRUPT"), (), Stage.STOPPED, "CORRUPT"),
        (report(A, 10, BLOCKED, "CORRUPT"), (), Stage.PASSED, ""),
        (report(A, 10, GAP, "SOURCE_TRUNCATED"), (), Stage.STOPPED, "SOURCE_TRUNCATED"),
        (report(A, 9, BLOCKED, "CORRUPT"), ("one",), Stage.STOPPED, "CORRUPT"),
    ],
)
def test_a_partition_passes_by_position_and_transactions(
    found: PartitionReport | None, open_below: tuple[str, ...], stage: Stage, code: str
) -> None:
    """Given an end of 10 / then only a position from there on, with nothing open, is enough."""
    now = crossing_of(Crossing(A, Offset(10)), found, open_below, NOW_MS)
    assert (now.stage, now.code) == (stage, code)
    assert (now.passed_ms == NOW_MS) == (stage is Stage.PASSED)
    assert bool(now.text) == (stage is not Stage.PASSED)


@pytest.mark.parametrize("stage", [Stage.PASSED, Stage.STOPPED])
def test_what_is_decided_stays(stage: Stage) -> None:
    row = replace(Crossing(A, Offset(10)), stage=stage)
    assert crossing_of(row, report(A, 3), ("one",), NOW_MS) is row


@dataclass
class Scene:
    """A link whose lane and driver report each second, and its source, over time."""

    ends: dict[TopicPartition, int] = field(default_factory=lambda: {A: 10, B: 20})
    positions: dict[TopicPartition, int] = field(default_factory=lambda: {A: 10, B: 20})
    states: dict[TopicPartition, tuple[PartitionState, str]] = field(default_factory=dict)
    driver: dict[str, Any] = field(default_factory=dict)
    opened: dict[TopicPartition, int] = field(default_factory=dict)
    events: list[tuple[float, Callable[[Scene], object]]] = field(default_factory=list)
    """What happens how many seconds after the ends were asked."""
    clock: SimClock = field(default_factory=lambda: SimClock(NOW_MS))
    rows: list[Recent] = field(default_factory=list)
    place: int = 0
    asked_s: float = 1e18
    reports: bool = True
    lane_reports: bool = True
    cannot_tell: bool = False

    def exists(self) -> bool:
        return True

    def newest(self) -> tuple[int, Offset]:
        self.place = len(self.rows)
        return self.rows[-1].timestamp_ms, Offset(self.place)

    def seek(self, from_ms: int) -> Offset:
        self.place = 0
        return Offset(from_ms * 0)

    def read_to(self, end: Offset) -> Iterator[Recent]:
        yield from self.rows[self.place : end]
        self.place = end

    def poll(self, timeout_s: float) -> list[Recent]:
        self.clock.sleep(timeout_s)
        while self.events and self.clock.now_s >= self.asked_s + self.events[0][0]:
            self.events.pop(0)[1](self)
        if not self.rows or self.clock.wall_ms() - self.rows[-1].timestamp_ms >= 1000:
            self.write()
        rows, self.place = self.rows[self.place :], len(self.rows)
        return rows

    def write(self) -> None:
        now_ms, every = self.clock.wall_ms(), []
        for where, position in self.positions.items():
            state, code = self.states.get(where, (COPYING, ""))
            every.append(report(where, position, state, code))
        lane = RoundReport(LaneId(0), 1, 0, 0, 0, "", every)
        lane.lane_partitions, lane.plan = len(every), 1
        values = [("driver", {"state": "running", "at_ms": now_ms, "instance": "a", **self.driver})]
        if self.lane_reports:
            values += [
                ("lane/0", json.loads(each))
                for each in encode_progress(lane, every, now_ms, is_whole=True)
            ]
        for key, value in values if self.reports else ():
            self.rows.append(Recent(key, value, now_ms, len(self.rows)))

    def describe_topics(self, names: Iterable[TopicName]) -> Mapping[TopicName, TopicInfo]:
        parts = tuple(
            PartitionInfo(each.partition, BrokerId(1), LeaderEpoch(0), (), ()) for each in self.ends
        )
        return {name: TopicInfo(name, None, parts, is_internal=False) for name in names}

    def list_log_ends(
        self, partitions: Iterable[TopicPartition], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        assert confirmed
        self.asked_s = self.clock.now_s
        no_leader = BrokerError("it has no leader", kafka_code=5)
        return {p: no_leader if self.cannot_tell else Offset(self.ends[p]) for p in partitions}

    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[OpenTransaction, ...] | BrokerError]:
        return {
            p: (OpenTransaction(ProducerId(7), Offset(self.opened[p]), 1),)
            if p in self.opened
            else ()
            for p in partitions
        }

    def transactional_ids(self, producers: Iterable[ProducerId]) -> Mapping[ProducerId, str]:
        return dict.fromkeys(producers, "pay")

    def wait(self, within_s: float = 60.0) -> Crossed:
        for _ in range(3):
            self.write()
            self.clock.sleep(1.0)
        topic: Any = self
        reports = LinkReports(LinkName("l"), topic)
        self.told: list[int] = []

        def tell(rows: Iterable[Crossing]) -> None:
            self.told.append(sum(row.stage is Stage.PASSED for row in rows))

        return Waiting(LinkName("l"), self, reports, self.clock, tell).wait([ORDERS], within_s)


def test_what_others_write_meanwhile_is_not_waited_for() -> None:
    """Given a partition behind / when it passes the end asked for / then that is told at once."""

    def moves(scene: Scene) -> None:
        scene.ends = {A: 500, B: 600}
        scene.positions = {A: 11, B: 20}

    scene = Scene(positions={A: 4, B: 20}, events=[(5.0, moves)])
    found = scene.wait()
    assert found.is_whole
    assert 5.0 <= found.took_s < 9.0
    a, b = found.rows
    assert (a.end, b.end) == (10, 20)
    assert b.passed_ms < a.passed_ms
    assert (scene.told[0], scene.told[-1]) == (1, 2)
    assert found.to_json()["topics"] == {"orders": True}
    assert found.to_json()["partitions"][0]["passed_ms"] == a.passed_ms


def test_reports_from_before_the_ends_were_asked_prove_nothing() -> None:
    """Given lanes that are silent since / when old positions would do / then it has not passed."""
    scene = Scene(positions={A: 99, B: 99})

    def ask(
        partitions: Iterable[TopicPartition], *, confirmed: bool = False
    ) -> Mapping[TopicPartition, Offset | BrokerError]:
        scene.lane_reports = False
        return Scene.list_log_ends(scene, partitions, confirmed=confirmed)

    scene.list_log_ends = ask  # type: ignore[method-assign] # from there on lanes are silent
    found = scene.wait(8.0)
    assert not found.is_whole
    assert {row.position for row in found.rows} == {-1}
    assert {each.code for each in found.problems} == {"not_crossed"}
    assert "not reported it since" in found.problems[0].text


def test_an_open_transaction_stands_in_the_way_until_it_has_ended() -> None:
    scene = Scene(opened={A: 9, B: 20}, events=[(4.0, lambda now: now.opened.pop(A))])
    found = scene.wait()
    assert found.is_whole
    assert found.took_s >= 4.0  # what is open from B's end on is not waited for


def test_one_that_hangs_is_named() -> None:
    found = Scene(opened={A: 9}).wait(6.0)
    [problem] = found.problems
    assert problem.code == "open_transactions"
    assert "producer 7 (pay) is open since offset 9" in problem.text
    assert [row.stage for row in found.rows] == [Stage.WAITS, Stage.PASSED]


def stops(scene: Scene) -> None:
    scene.states[A] = (BLOCKED, "CORRUPT_BATCH")


def ends(scene: Scene) -> None:
    scene.driver = {"state": "ended"}


def falls_silent(scene: Scene) -> None:
    scene.reports = False


def is_paused(scene: Scene) -> None:
    scene.driver = {"wishes": {"paused": [{"place": "orders"}], "paused_count": 1}}


@pytest.mark.parametrize("since_s", [None, 2.0])
@pytest.mark.parametrize(
    ("happens", "code", "at_most_s"),
    [
        (stops, "CORRUPT_BATCH", 4.0),
        (ends, "not_running", 4.0),
        (falls_silent, "not_running", 10.0),
        (is_paused, "paused", 4.0),
    ],
)
def test_what_would_be_waited_for_in_vain_is_told_at_once(
    happens: Callable[[Scene], None], code: str, at_most_s: float, since_s: float | None
) -> None:
    """Given a partition that has stopped, or no owner, before or meanwhile / then it is told."""
    scene = Scene(positions={A: 4, B: 20})
    if since_s is None:
        if happens is falls_silent:
            scene.write()
            scene.clock.sleep(30.0)
        happens(scene)
    else:
        scene.events = [(since_s, happens)]
    found = scene.wait()
    assert not found.is_whole
    assert code in {each.code for each in found.problems}, found.problems
    assert all(each.hint for each in found.problems)
    assert found.took_s <= at_most_s


def test_an_end_that_is_not_told_is_an_error() -> None:
    with pytest.raises(ConnectionLost, match="orders-0 can't be read"):
        Scene(cannot_tell=True).wait()
