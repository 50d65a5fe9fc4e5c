"""The driver's turn: facts first, rows before records are skipped, each step once (I6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sim.partition_log import PartitionLog
from support.gap_turns import (
    NEW_ID,
    NOT_LEADER,
    NOW_MS,
    OLD_ID,
    RECORD,
    TARGET_ID,
    P,
    T,
    Turns,
    copying,
    ended,
    log_of,
    side,
    stopped,
    write,
)
from support.simulated_cluster import Call

from heliostat.gaps.choices import Cause, GapChoice
from heliostat.gaps.ledger import CopiedTopic, CopyNote, GapDecision
from heliostat.names import Offset, PartitionId, TopicName, TopicPartition
from heliostat.offsets.offset_map import Break
from heliostat.records.copier.lane import PartitionSpec
from heliostat.state.link_state import Starts
from heliostat.topics.topic_plan import RefusedTopic


def test_by_default_it_waits() -> None:
    world = Turns()
    world.turn(stopped())
    assert (world.rows(), world.spec().jump) == ([], None)


def test_an_operator_may_stop_what_the_policy_would_do() -> None:
    world = Turns("continue")
    world.decide(GapChoice.WAIT)
    world.turn(stopped())
    assert (world.rows(), world.spec().jump) == ([], None)


def test_by_policy_it_continues_after_a_recorded_gap_once() -> None:
    world = Turns("continue")
    world.turn(stopped())
    world.turn(stopped())  # a late report; the lane has not gone on yet
    (row,) = world.rows()
    assert (row.first, row.last, row.count) == (100, 149, 50)
    assert (row.decided_by, row.cause, row.is_done) == ("policy", Cause.SOURCE_OVERTOOK, True)
    assert world.spec().jump == Break(100, 150)
    assert world.done == ["write gap"]


def test_records_that_expire_meanwhile_are_another_gap() -> None:
    world = Turns("continue")
    world.turn(stopped())
    world.told()
    log_of(world.source).delete_before(170)
    world.clock.wall_ms = lambda: NOW_MS + 1
    world.turn(stopped())
    assert [(row.first, row.last) for row in world.rows()] == [(100, 149), (150, 169)]
    assert world.spec().jump == Break(100, 170)


def test_a_restart_is_recorded_first_and_finished_by_the_next_driver() -> None:
    world = Turns()
    world.decide(GapChoice.RESTART)
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


def test_a_recreated_mirror_is_not_emptied_by_an_earlier_decision() -> None:
    """Given a driver that died before it emptied a mirror / when it was recreated / then unchanged.

    DeleteRecords goes by name: others' records would be gone.
    """
    world = Turns()
    world.decide(GapChoice.RESTART)
    world.turn(stopped())
    (row,) = world.rows()
    world.ledger.record([replace(row, is_done=False)])
    world.target.topics[T].topic_id = UUID(int=9)
    world.done.clear()
    world.turn()
    assert world.done == ["write gap"]
    assert world.rows()[0].is_done
    world.ledger.record([replace(row, is_done=False, target_id="")])  # of a broker without ids
    world.turn()
    assert "empty t-0 to 100" in world.done


def test_a_row_that_names_another_topic_than_the_mirror_deletes_nothing() -> None:
    """Given a row that others wrote into the ledger / when a driver comes / then all stays."""
    world = Turns()
    world.decide(GapChoice.RESTART)
    world.turn(stopped())
    (row,) = world.rows()
    others = [{"mirror": TopicName("o")}, {"topic": TopicName("x")}, {"mirror_partition": 1}]
    world.ledger.rows.clear()
    world.ledger.record(replace(row, is_done=False, **changes) for changes in others)
    world.done.clear()
    world.turn()
    assert not any(done.startswith("empty") for done in world.done)


def test_a_mirror_recreated_while_it_is_emptied_is_reported() -> None:
    world = Turns()
    world.decide(GapChoice.RESTART)
    note = world.target.answered

    def recreated(call: Call) -> None:
        note(call)
        if call.method == "delete_records":
            world.target.topics[T].topic_id = UUID(int=9)

    world.target.answered = recreated
    world.turn(stopped())
    told = [call.args[0] for call in world.events.warn.call_args_list]
    assert any("recreated at the target while its mirror was emptied" in text for text in told)


def test_a_late_report_without_a_gap_changes_nothing() -> None:
    world = Turns("continue", side(OLD_ID, 0, 200))
    world.turn(stopped())
    assert world.rows() == []


def test_a_target_whose_end_may_still_move_is_read_twice() -> None:
    world = Turns("continue")
    world.turn(stopped(position=95))  # the report is older than what has landed
    assert world.rows() == []
    world.turn(stopped(position=95))
    assert [row.first for row in world.rows()] == [100]


@pytest.mark.parametrize("code", ["source_recreated", "target_recreated", "FOREIGN_TAIL"])
def test_all_partitions_of_a_mirror_are_recreated_together(code: str) -> None:
    world = Turns()
    reports = [stopped(code=code)] if code == "FOREIGN_TAIL" else []
    if not reports:
        world.refuse = {T: RefusedTopic(code, "it is another", "")}
    assert world.turn(*reports) == {}
    world.decide(GapChoice.RESTART, code, whole=True)
    assert world.turn(*reports) == {T: None}
    assert world.done[:3] == ["write gap", "delete t", "write gap"]
    assert world.ledger.decisions == {}
    world.done.clear()
    assert world.turn(*reports) == {}  # the same report, or a plan that saw the old topic
    assert world.done == []


def test_a_recreated_source_may_continue_after_the_old_records() -> None:
    world = Turns("continue")
    world.refuse = {T: RefusedTopic("source_recreated", "it is another", "")}
    world.topic = replace(world.topic, topic_id=NEW_ID)
    world.source.delete(T)
    world.source.create(T).topic_id = NEW_ID
    write(world.source, 10)
    assert world.turn() == {T: replace(RECORD, source_id=NEW_ID)}
    (row,) = world.rows()
    assert (row.first, row.last, row.count) == (100, None, None)
    assert world.spec().jump == Break(100, 0)


def test_continuing_after_foreign_records_is_refused_and_logged_once() -> None:
    world = Turns("continue")
    for _ in range(2):
        assert world.turn(stopped(code="FOREIGN_TAIL")) == {}
    assert world.rows() == []
    world.events.warn.assert_called_once()


def test_a_truncated_source_is_found_by_its_epochs_and_continues_there() -> None:
    world = Turns("continue", side(OLD_ID, 0, 100, 3))
    world.turn(copying(100, 100, 3))
    assert world.spec().truncated == ""
    log_of(world.source).truncate(90)
    write(world.source, 500)
    world.turn(copying(100, 100, 3))
    assert "from offset 90 on" in world.spec().truncated
    world.turn(stopped(code="SOURCE_TRUNCATED"))
    (row,) = world.rows()
    assert (row.first, row.last, row.count) == (90, 99, 0)
    assert world.spec().jump == Break(100, 90)
    assert world.spec().truncated == ""
    world.turn(stopped(code="SOURCE_TRUNCATED"))
    assert len(world.rows()) == 1


def test_a_truncated_source_of_an_exact_mirror_needs_a_new_mirror() -> None:
    """Given an exact mirror / when its source was truncated / then the mirror is recreated.

    `continue` would leave it stuck, by policy too; emptied, its log still ends where it did.
    """
    world = Turns("continue", side(OLD_ID, 0, 100, 3), offsets="exact")
    world.turn(copying(100, 100, 3))
    log_of(world.source).truncate(90)
    write(world.source, 500)
    world.turn(copying(100, 100, 3))
    assert world.turn(stopped(code="SOURCE_TRUNCATED")) == {}
    assert world.rows() == []
    assert "would go back" in str(world.events.warn.call_args)
    world.decide(GapChoice.RESTART, "SOURCE_TRUNCATED")
    assert world.turn(stopped(code="SOURCE_TRUNCATED")) == {T: None}
    assert world.done[:3] == ["write gap", "delete t", "write gap"]
    (row,) = world.rows()
    assert (row.first, row.last, row.count, row.jump, row.is_done) == (90, 99, 0, None, True)
    assert (world.ledger.decisions, world.spec().truncated) == ({}, "")
    world.done.clear()
    assert world.turn(stopped(code="SOURCE_TRUNCATED")) == {}
    assert world.done == ["write copied"]  # that nothing of the new one is copied yet


def test_copy_progress_survives_a_restart_of_the_driver() -> None:
    world = Turns()
    world.turn(copying(100, 100, 3))
    again = Turns(source=side(OLD_ID, 0, 90, 3))
    log_of(again.source).lead(4)
    write(again.source, 200)
    again.kept.kept.update(world.kept.kept)
    again.keeper.begin()
    again.turn()  # nothing is reported yet
    assert again.spec().truncated


def test_unchanged_leaders_are_not_asked_again() -> None:
    world = Turns(source=side(OLD_ID, 0, 200, 3))
    world.turn(copying(100, 100, 3))
    world.turn(copying(110, 110, 3))
    assert len(world.source.asked("epoch_ends")) <= 1


def test_records_that_the_target_lost_are_recorded_as_copied_again() -> None:
    world = Turns()
    world.turn(copying(100, 100, 3))
    log_of(world.target).truncate(60)
    world.turn(copying(60, -1, -1))
    (row,) = world.rows()
    assert (row.cause, row.first, row.last, row.count) == (Cause.TARGET_TRUNCATED, 60, 99, 0)


SHOWN = [
    (100, None, [(40, 99)]),
    (100, 60, [(60, 99), (40, 59)]),
    (100, 40, [(40, 99)]),
    (100, 30, [(30, 99)]),
    (80, None, [(40, 99)]),
    (80, 60, [(60, 79), (40, 59), (80, 99)]),
    (80, 40, [(40, 79), (80, 99)]),
]


@pytest.mark.parametrize(("known", "seen", "expected"), SHOWN)
def test_a_rounds_loss_is_recorded_once_besides_reports(
    known: int, seen: int | None, expected: list[Any]
) -> None:
    """Given 100 copied, of which the target keeps 40 / when copied again / then recorded once."""
    world = Turns()
    world.turn(copying(known, known, 3))
    if seen is not None:
        world.turn(copying(seen, -1, -1))
    world.turn(copying(120, 120, 3))
    world.clock.wall_ms = lambda: NOW_MS + 1
    world.lose(40, 100)
    world.keeper.round_ended({world.spec().source: world.spec()}, ended(120, 3, 120))
    for _ in range(2):
        world.turn(copying(120, 120, 3))
    assert [(row.first, row.last) for row in world.rows()] == expected
    assert all(row.cause is Cause.TARGET_TRUNCATED for row in world.rows())


def test_a_rounds_loss_is_recorded_also_when_the_driver_stops() -> None:
    world = Turns()
    world.turn(copying(100, 100, 3))
    world.lose(40, 100)
    world.keeper.close()
    assert [(row.first, row.last) for row in world.rows()] == [(40, 99)]


def test_a_round_of_a_deleted_topic_reports_no_loss_for_the_new_one() -> None:
    world = Turns()
    world.turn(copying(100, 100, 3))
    world.lose(40, 100, NEW_ID)
    world.turn(copying(100, 100, 3))
    assert world.rows() == []


def test_deleting_a_mirror_loses_records_expired_at_the_source() -> None:
    world = Turns()
    world.keeper.record_deleted_mirror(RECORD, world.starts[T], {PartitionId(0): Offset(150)})
    (row,) = world.rows()
    assert (row.cause, row.first, row.last, row.count) == (Cause.TARGET_DELETED, 0, 149, None)
    world.keeper.record_deleted_mirror(RECORD, world.starts[T], {PartitionId(0): Offset(0)})
    assert len(world.rows()) == 1


def test_progress_of_a_deleted_mirror_does_not_apply_to_the_next() -> None:
    """Given a mirror copied to 100 / when deleted and recreated / then no record is lost."""
    world = Turns()
    world.turn(copying(100, 100, 3))
    world.keeper.record_deleted_mirror(RECORD, world.starts[T], {PartitionId(0): Offset(0)})
    assert world.keeper.copied([world.spec()]) == ()
    world.turn(copying(40, 40, 3))
    assert world.rows() == []
    assert world.keeper.copied([world.spec()]) == ((0, 40, 3, -1),)


def test_the_end_of_a_round_is_passed_to_the_next() -> None:
    world = Turns()
    world.keeper.round_ended({world.spec().source: world.spec()}, ended(70, 3, 68))
    assert world.keeper.copied([world.spec()]) == ((0, 70, 3, 68),)
    world.keeper.close()
    assert world.ledger.copied[T].partitions == {PartitionId(0): CopyNote(70, 3, 68)}


def test_a_decision_is_settled_by_any_code_of_its_cause() -> None:
    """Given a decision on APPENDED_ELSEWHERE / when FOREIGN_TAIL is seen / then settled, removed.

    Kept, it would delete the mirror once more.
    """
    world = Turns()
    world.decide(GapChoice.RESTART, "APPENDED_ELSEWHERE", whole=True)
    world.turn(stopped(code="FOREIGN_TAIL"))
    assert "delete t" in world.done
    assert not world.ledger.decisions


@pytest.mark.parametrize(
    ("source_id", "counts"), [(str(OLD_ID), True), ("", True), (str(NEW_ID), False)]
)
def test_a_decision_is_about_the_topic_of_its_time(source_id: str, *, counts: bool) -> None:
    """Given a decision about a topic that was deleted since / when a partition of its successor has

    the same trouble / then nobody has decided about that; one of an earlier version counts.
    """
    world = Turns()
    where = (T, PartitionId(0), "SOURCE_OVERTOOK", GapChoice.CONTINUE, "ops", 7)
    world.ledger.decide(GapDecision(*where, source_id))
    world.ledger.read()
    world.turn(stopped())
    assert (len(world.rows()) == 1) is counts
    assert not world.ledger.decisions
    said = " ".join(call.args[0] for call in world.events.warn.call_args_list)
    assert ("a topic of this name that was deleted" in said) is not counts


def test_sums_for_the_status() -> None:
    world = Turns("continue")
    world.turn(stopped())
    told = world.keeper.report()
    skipped = told.pop("skipped")
    assert set(skipped.values()) == {0}, "retention took them: nobody skipped them"
    assert told == {
        "rows": 1,
        "records_lost": 50,
        "unknown": 0,
        "dead_letters": 0,
    }


def test_a_report_from_before_lanes_were_told_is_late() -> None:
    """Given a gap recorded now / when a lane that knows nothing of it reports / then it is no new

    gap, whatever its clock says; with the next plan the lane takes the partition anew.
    """
    world = Turns("continue")
    before = world.spec().attempt
    world.turn(stopped())
    log_of(world.source).delete_before(170)
    world.turn(stopped(since_ms=NOW_MS + 600_000))
    assert [(row.first, row.last) for row in world.rows()] == [(100, 149)]
    assert world.spec().attempt > before


@pytest.mark.parametrize("lane_ms", [-600_000, 0, 600_000])
def test_a_clock_that_was_ahead_delays_and_doubles_nothing(lane_ms: int) -> None:
    """Given a driver whose clock is 600 s ahead when it records a gap / when it is right again /

    then the next gap is recorded once and passed at once, also by the driver after it.
    """
    world = Turns("continue")
    world.clock.wall_ms = lambda: NOW_MS + 600_000
    world.turn(stopped())
    world.told()
    assert world.spec().jump == Break(100, 150)
    world.clock.wall_ms = lambda: NOW_MS
    log_of(world.source).delete_before(170)
    for _ in range(5):
        world.turn(stopped(since_ms=NOW_MS + lane_ms))
        world.told()
    assert [(row.first, row.last) for row in world.rows()] == [(100, 149), (150, 169)]
    assert world.spec().jump == Break(100, 170)
    world.ledger.read()
    assert world.spec().jump == Break(100, 170)


def test_a_target_at_the_reported_end_is_decided_on_at_once() -> None:
    world = Turns("continue")
    world.turn(stopped(position=100))
    assert [row.first for row in world.rows()] == [100]


def test_a_target_that_still_moves_is_not_decided_on() -> None:
    """Given late appends / when its end moves between turns / then it must be stable first (I4)."""
    world = Turns("continue")
    for end in (100, 105, 110):
        write(world.target, end)
        world.turn(stopped(position=95))
        assert world.rows() == []
    world.turn(stopped(position=95))
    assert [row.first for row in world.rows()] == [110]


def test_a_mirror_is_not_deleted_while_a_partition_is_unknown() -> None:
    """Given two partitions, one without a leader / when the topic is restarted / then it waits."""
    world = Turns("restart")
    other = TopicPartition(T, PartitionId(1))
    world.starts = {T: Starts(TARGET_ID, dict.fromkeys([P.partition, other.partition], Offset(0)))}
    for cluster, start, end in ((world.source, 150, 200), (world.target, 0, 100)):
        cluster.topics[T].logs.append(PartitionLog())
        log = cluster.append(T, end, partition=other.partition)
        log.delete_before(start)
    world.source.fail("list_offsets", NOT_LEADER, other)
    world.refuse = {T: RefusedTopic("source_recreated", "it is another", "")}
    assert world.turn() == {}
    assert (world.rows(), world.done) == ([], [])
    world.source.heal()
    assert world.turn() == {T: None}
    assert sorted(row.partition for row in world.rows()) == [0, 1]


def test_a_gap_concerns_the_mirror_that_it_was_recorded_for() -> None:
    """Given a recorded jump / when the target topic has another id / then it does not apply."""
    world = Turns("continue")
    world.turn(stopped())
    spec = PartitionSpec(P, P, OLD_ID, NEW_ID, Offset(0), 1 << 20, is_compacted=False)
    assert world.spec().jump is not None
    assert world.keeper.with_gaps({P: spec})[P].jump is None


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (Cause.TARGET_DIVERGED, 100),
        (Cause.TARGET_UNKNOWN, 100),
        (Cause.SOURCE_TRUNCATED, 100),
        (Cause.SOURCE_OVERTOOK, None),
        (Cause.RECORD_FAILED, None),
    ],
)
def test_it_is_known_before_which_offset_a_mirror_may_have_records_of_others(
    cause: Cause, expected: int | None
) -> None:
    world = Turns("continue")
    world.turn(stopped())
    (row,) = world.rows()
    world.ledger.record([replace(row, cause=cause, at_ms=row.at_ms + 1)])
    name = P, str(TARGET_ID)
    assert world.keeper.others_before() == ({} if expected is None else {name: expected})


def test_only_what_is_durably_noted_as_copied_counts() -> None:
    """Given notes of a topic / then they hold for the topic of that id only."""
    world = Turns()
    assert world.keeper.noted(world.spec()) == -1
    row = {PartitionId(0): CopyNote(Offset(70), 3)}
    world.ledger.put_copied({T: CopiedTopic(str(OLD_ID), row)})
    assert world.keeper.noted(world.spec()) == 70
    assert world.keeper.noted(replace(world.spec(), source_topic_id=NEW_ID)) == -1
