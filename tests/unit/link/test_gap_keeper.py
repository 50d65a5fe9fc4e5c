"""The driver's turn: facts first, rows before anything is passed, each thing done once (I6)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import Mock
from uuid import UUID

import pytest
from support.ledger import KeptTopic, ledger_on

from heliostat.clusters.admin import EARLIEST, EpochEnd, ListedOffset
from heliostat.clusters.admin.values import ConfigEntry, ConfigSource
from heliostat.config import GapsConfig, LinkConfig
from heliostat.link.gap_choices import Cause, Choice
from heliostat.link.gap_keeper import GapKeeper
from heliostat.link.gap_rows import Memory
from heliostat.link.gaps import Decision, GapRow
from heliostat.link.state import Starts
from heliostat.names import (
    ClusterId,
    LeaderEpoch,
    Offset,
    PartitionId,
    TopicName,
    TopicPartition,
)
from heliostat.records.lane import PartitionReport, PartitionSpec, PartitionState
from heliostat.records.offset_map import Break, MapReader
from heliostat.topics.topic_plan import Refusal, TopicPlan
from heliostat.topics.values import MirrorRecord, SourceTopic

T = TopicName("t")
P = TopicPartition(T, PartitionId(0))
OLD_ID, NEW_ID, TARGET_ID = UUID(int=1), UUID(int=2), UUID(int=3)
RECORD = MirrorRecord(T, T, OLD_ID, TARGET_ID, ClusterId("c"), "earliest", 1)
NOW_MS = 1000


class Side:
    """A cluster of one partition; what it is told to do is noted in `done`."""

    def __init__(self, start: int, end: int, done: list[str]) -> None:
        self.start, self.end, self.done = start, end, done
        self.epoch_end = EpochEnd(LeaderEpoch(-1), Offset(-1))
        self.leader_epoch = 0
        self.asked_epochs = 0

    def list_offsets(self, specs: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {
            p: ListedOffset(
                Offset(self.start if spec == EARLIEST else self.end), -1, LeaderEpoch(0)
            )
            for p, spec in specs.items()
        }

    def list_log_ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Any]:
        return {p: Offset(self.end) for p in partitions}

    def epoch_ends(self, epochs: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        self.asked_epochs += 1
        return dict.fromkeys(epochs, self.epoch_end)

    def describe_topics(self, names: Any = None) -> dict[TopicName, Any]:
        leader = SimpleNamespace(partition=0, leader_epoch=self.leader_epoch)
        info = SimpleNamespace(error=None, partitions=[leader])
        return dict.fromkeys([T] if names is None else names, info)

    def delete_records(self, before: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        self.done += [f"empty {p} to {offset}" for p, offset in before.items()]
        return dict(before)

    def delete_topics(self, names: list[TopicName]) -> dict[TopicName, Any]:
        self.done += [f"delete {name}" for name in names]
        return dict.fromkeys(names)


class Turns:
    """A keeper in a world: source [150, 200), target [0, 100)."""

    def __init__(self, policy: Literal["stop", "continue", "restart"] = "stop") -> None:
        self.done: list[str] = []
        self.source, self.target = Side(150, 200, self.done), Side(0, 100, self.done)
        self.kept = KeptTopic()
        self.ledger = ledger_on(self.kept)
        write_many = self.kept.write_many

        def noted(values: dict[str, Any]) -> None:
            self.done.extend(f"write {key.split('/')[0]}" for key in values)
            write_many(values)

        self.kept.write_many = noted  # type: ignore[method-assign]  # to see the order
        self.events = Mock()
        self.clock = SimpleNamespace(wall_ms=lambda: NOW_MS, monotonic_s=lambda: 1.0)
        link = LinkConfig(name="l", source="a", target="b", gaps=GapsConfig(policy=policy))
        self.keeper = GapKeeper(
            link,
            self.source,  # type: ignore[arg-type]  # stand-ins
            self.target,  # type: ignore[arg-type]  # stand-ins
            self.ledger,
            maps=MapReader,
            clock=self.clock,  # type: ignore[arg-type]  # a stand-in
            events=self.events,
        )
        self.keeper.begin()
        delete = ConfigEntry("delete", ConfigSource.DEFAULT, True, False, False)
        self.topic = SourceTopic(T, OLD_ID, 1, 1, {"cleanup.policy": delete})
        self.starts = {T: Starts(TARGET_ID, {PartitionId(0): Offset(0)})}
        self.refuse: dict[TopicName, Refusal] = {}

    def turn(self, *reports: PartitionReport) -> dict[TopicName, MirrorRecord | None]:
        memory = Memory({T: RECORD}, self.starts, {T: self.topic})
        self.keeper.hear(reports, memory)
        return self.keeper.settle(TopicPlan(refuse=self.refuse), reports, memory)

    def rows(self) -> list[GapRow]:
        return list(self.ledger.rows.values())

    def spec(self) -> PartitionSpec:
        spec = PartitionSpec(P, P, OLD_ID, TARGET_ID, Offset(0), 1 << 20, needs_keys=False)
        return self.keeper.with_gaps({P: spec})[P]

    def decide(self, choice: Choice, code: str = "SOURCE_OVERTOOK", *, whole: bool = False) -> None:
        which = None if whole else PartitionId(0)
        self.ledger.decide(Decision(T, which, code, choice, "ops", 7))
        self.done.clear()


def stopped(
    position: int = 100, code: str = "SOURCE_OVERTOOK", since_ms: int = 5
) -> PartitionReport:
    state = PartitionState.DIVERGED if code == "FOREIGN_TAIL" else PartitionState.GAP
    return PartitionReport(P, P, state, position, 200, 0, 0, -1, -1, since_ms, code, "gone")


def copying(position: int, copied_to: int, epoch: int) -> PartitionReport:
    return PartitionReport(
        P,
        P,
        PartitionState.COPYING,
        position,
        200,
        0,
        0,
        -1,
        -1,
        5,
        copied_to=copied_to,
        copied_epoch=epoch,
    )


def test_by_default_it_waits() -> None:
    world = Turns()
    world.turn(stopped())
    assert (world.rows(), world.spec().jump) == ([], None)


def test_an_operator_may_stop_what_the_policy_would_do() -> None:
    world = Turns("continue")
    world.decide(Choice.WAIT)
    world.turn(stopped())
    assert (world.rows(), world.spec().jump) == ([], None)


def test_by_policy_it_goes_on_behind_a_recorded_gap_once() -> None:
    world = Turns("continue")
    world.turn(stopped())
    world.turn(stopped())  # a late report; the lane has not gone on yet
    (row,) = world.rows()
    assert (row.first, row.last, row.count) == (100, 149, 50)
    assert (row.decided_by, row.cause, row.is_done) == ("policy", Cause.SOURCE_OVERTOOK, True)
    assert world.spec().jump == Break(100, 150)
    assert world.done == ["write gap"]


def test_what_goes_meanwhile_is_a_gap_of_its_own() -> None:
    world = Turns("continue")
    world.turn(stopped())
    world.source.start = 170
    world.clock.wall_ms = lambda: NOW_MS + 1
    world.turn(stopped(since_ms=NOW_MS + 1))
    assert [(row.first, row.last) for row in world.rows()] == [(100, 149), (150, 169)]
    assert world.spec().jump == Break(100, 170)


def test_a_restart_is_recorded_first_and_finished_by_whoever_comes() -> None:
    world = Turns()
    world.decide(Choice.RESTART)
    world.turn(stopped())
    assert world.done == [
        "write gap",
        "write decision",  # carried out: it goes
        "empty t-0 to 100",
        "write gap",  # done
    ]
    (row,) = world.rows()
    assert (row.decided_by, row.is_done) == ("user ops", True)
    assert world.spec().jump == Break(100, 150)
    world.ledger.record([replace(row, is_done=False)])  # as if the driver had died in between
    assert world.spec().jump is None
    world.done.clear()
    world.turn()
    assert world.done == ["empty t-0 to 100", "write gap"]


def test_a_late_report_of_a_gap_that_is_none_changes_nothing() -> None:
    world = Turns("continue")
    world.source.start = 0
    world.turn(stopped())
    assert world.rows() == []


def test_a_target_whose_end_may_still_move_is_looked_at_twice() -> None:
    world = Turns("continue")
    world.turn(stopped(position=95))  # the report is older than what has landed
    assert world.rows() == []
    world.turn(stopped(position=95))
    assert [row.first for row in world.rows()] == [100]


@pytest.mark.parametrize("code", ["source_recreated", "target_recreated", "FOREIGN_TAIL"])
def test_a_mirror_is_made_anew_as_a_whole(code: str) -> None:
    world = Turns()
    reports = [stopped(code=code)] if code == "FOREIGN_TAIL" else []
    if not reports:
        world.refuse = {T: Refusal(code, "it is another", "")}
    assert world.turn(*reports) == {}
    world.decide(Choice.RESTART, code, whole=True)
    assert world.turn(*reports) == {T: None}
    assert world.done[:3] == ["write gap", "delete t", "write gap"]
    assert world.ledger.decisions == {}
    world.done.clear()
    assert world.turn(*reports) == {}  # the same report, or a plan that saw the old topic
    assert world.done == []


def test_a_source_made_anew_may_go_on_behind_the_old_records() -> None:
    world = Turns("continue")
    world.refuse = {T: Refusal("source_recreated", "it is another", "")}
    world.topic = replace(world.topic, topic_id=NEW_ID)
    world.source.start, world.source.end = 0, 10
    assert world.turn() == {T: replace(RECORD, source_id=NEW_ID)}
    (row,) = world.rows()
    assert (row.first, row.last, row.count) == (100, None, None)
    assert world.spec().jump == Break(100, 0)


def test_continuing_behind_foreign_records_is_refused_and_said_once() -> None:
    world = Turns("continue")
    for _ in range(2):
        assert world.turn(stopped(code="FOREIGN_TAIL")) == {}
    assert world.rows() == []
    world.events.warn.assert_called_once()


def test_a_truncated_source_is_found_by_its_epochs_and_copied_on_from_there() -> None:
    world = Turns("continue")
    world.source.start, world.source.end, world.source.leader_epoch = 0, 500, 3
    world.turn(copying(100, 100, 3))
    assert world.spec().truncated == ""
    world.source.leader_epoch = 4
    world.source.epoch_end = EpochEnd(LeaderEpoch(3), Offset(90))
    world.turn(copying(100, 100, 3))
    assert "from offset 90 on" in world.spec().truncated
    world.turn(stopped(code="SOURCE_TRUNCATED"))
    (row,) = world.rows()
    assert (row.first, row.last, row.count) == (90, 99, 0)
    assert world.spec().jump == Break(100, 90)
    assert world.spec().truncated == ""
    world.turn(stopped(code="SOURCE_TRUNCATED"))
    assert len(world.rows()) == 1


def test_what_was_copied_survives_a_restart_of_the_driver() -> None:
    world = Turns()
    world.turn(copying(100, 100, 3))
    again = Turns()
    again.kept.kept.update(world.kept.kept)
    again.keeper.begin()
    again.source.epoch_end = EpochEnd(LeaderEpoch(3), Offset(90))
    again.turn()  # nothing is reported yet
    assert again.spec().truncated


def test_leaders_that_did_not_change_are_not_asked_again() -> None:
    world = Turns()
    world.source.leader_epoch = 3
    world.turn(copying(100, 100, 3))
    world.turn(copying(110, 110, 3))
    assert world.source.asked_epochs <= 1


def test_what_the_target_lost_is_recorded_as_copied_again() -> None:
    world = Turns()
    world.turn(copying(100, 100, 3))
    world.turn(copying(60, -1, -1))
    (row,) = world.rows()
    assert (row.cause, row.first, row.last, row.count) == (Cause.TARGET_TRUNCATED, 60, 99, 0)


def test_a_deleted_mirror_takes_along_what_the_source_has_no_more() -> None:
    world = Turns()
    world.keeper.note_anew(RECORD, world.starts[T], {PartitionId(0): Offset(150)})
    (row,) = world.rows()
    assert (row.cause, row.first, row.last, row.count) == (Cause.TARGET_DELETED, 0, 149, None)
    world.keeper.note_anew(RECORD, world.starts[T], {PartitionId(0): Offset(0)})
    assert len(world.rows()) == 1


def test_sums_for_the_status() -> None:
    world = Turns("continue")
    world.turn(stopped())
    assert world.keeper.told() == {"rows": 1, "records_lost": 50, "unknown": 0}
