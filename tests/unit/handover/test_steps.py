"""A switch carried out, cut short anywhere, carried on or taken back, by a desk that is made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.made_up_switch import TOPIC, Desk, Killed, World

from heliostat.errors import ConnectionLost
from heliostat.handover.desk import (
    Compared,
    Problem,
    SwitchOptions,
    Weight,
)
from heliostat.handover.run import Run, RunKind, Runs, RunState, StepState
from heliostat.handover.steps import CHANGES_NOTHING, STEPS, Conductor, new_steps

OPTIONS = SwitchOptions(verify=Compared.ALL)


KINDS = pytest.mark.parametrize("kind", [RunKind.SWITCH, RunKind.FINISH])


def new_run(kind: RunKind = RunKind.SWITCH) -> Run:
    steps = tuple(new_steps(kind))
    return Run("r1", kind, (TOPIC,), OPTIONS.to_json(), "a test", 0, steps)


def conductor(world: World, options: SwitchOptions = OPTIONS) -> Conductor:
    desk = Desk(world)
    run = world.rows[-1] if world.rows else new_run(world.kind)
    return Conductor(desk, run, options, save=desk.save, is_resumed=bool(world.rows))


@KINDS
def test_a_switch_goes_through_all_steps(kind: RunKind) -> None:
    world = World(kind)
    run = conductor(world).go()
    assert run.state is RunState.DONE
    assert {step.state for step in run.steps} == {StepState.DONE}
    assert world.is_promoted
    assert world.is_fenced  # the old primary stays closed
    assert world.is_open
    assert world.has_back_ended == ("rest" in {step.name for step in run.steps})
    assert run == world.run()


def calls_of(kind: RunKind) -> int:
    """Return how many calls a whole run makes."""
    world = World(kind)
    conductor(world).go()
    return len(world.calls)


FULL = calls_of(RunKind.SWITCH)


@KINDS
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("then", ["go", "back"])
def test_a_run_that_dies_anywhere_is_carried_on_or_taken_back(
    then: str, kind: RunKind, *, after_effect: bool
) -> None:
    """Given a run killed at one call of its desk / when the verb is called again / then it ends

    whole: switched or as before, and never between.
    """
    for killed_at in range(calls_of(kind)):
        world = World(kind, killed_at=killed_at, after_effect=after_effect)
        with pytest.raises(Killed):
            conductor(world).go()
        if not world.rows:
            continue
        again = conductor(world)
        if then == "back" and again.may_go_back:
            assert not world.is_promoted
            run = again.go_back()
            assert run.state is RunState.WENT_BACK
            assert not world.is_fenced
            assert not world.is_promoted
            assert not world.has_back_ended
        else:
            run = again.go()
            assert run.state is RunState.DONE, (killed_at, run)
            assert world.is_promoted
            assert world.is_open
            assert world.has_back_ended == (kind is RunKind.FINISH)
        assert not world.back_rests
        assert world.run() == run


@KINDS
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_run_that_dies_while_it_goes_back_goes_on_back(
    kind: RunKind, *, after_effect: bool
) -> None:
    world = World(kind, writes_past_fence=True)
    conductor(world).go()
    for killed_at in range(len(world.calls)):
        cut = World(kind, writes_past_fence=True, killed_at=killed_at, after_effect=after_effect)
        with pytest.raises(Killed):
            conductor(cut).go()
        if not cut.rows:
            continue
        is_back = cut.run().state in (RunState.GOING_BACK, RunState.WENT_BACK)
        cut.writes_past_fence = not is_back
        run = cut.run() if cut.run().state.is_over else conductor(cut).go()
        assert run.state is RunState.WENT_BACK
        assert not cut.is_fenced
        assert not cut.back_rests
        assert not cut.is_promoted


@pytest.mark.parametrize("name", [name for name in STEPS if name not in CHANGES_NOTHING])
def test_a_cluster_that_is_away_for_a_moment_is_asked_again(name: str) -> None:
    first = {
        "rest": "rest",
        "fence": "put_up_fence",
        "still": "open_transactions",
        "records": "copied",
        "groups": "groups",
        "contents": "compare",
        "last_look": "copied",
        "promotion": "promote",
        "opening": "open_target",
        "watch": "written_after",
    }[name]
    away = World(RunKind.FINISH)
    desk = Desk(away)
    lost = False

    def save(row: Run) -> None:
        nonlocal lost
        desk.save(row)
        if row.step(name).state is StepState.RUNNING and not lost and not row.step(name).text:
            lost, away.lost = True, 1

    Conductor(desk, new_run(away.kind), OPTIONS, save=_unlost(away, save)).go()
    assert away.run().state is RunState.DONE
    assert first in away.calls


def _unlost(world: World, save: Callable[[Run], None]) -> Callable[[Run], None]:
    """Return a way to save that the loss of a cluster does not concern."""

    def saved(run: Run) -> None:
        left, world.lost = world.lost, 0
        save(run)
        world.lost = world.lost or left

    return saved


def failed_at(world: World, options: SwitchOptions = OPTIONS) -> tuple[RunState, str, str]:
    run = conductor(world, options).go()
    step = next(each for each in run.steps if each.state is StepState.FAILED)
    assert not world.is_promoted
    assert not world.is_fenced
    return run.state, step.name, step.text


def test_preflight_names_all_problems_at_once() -> None:
    world = World(
        problems=[
            Problem("not_running", "the link is paused", "resume it", Weight.STOPS),
            Problem("one_way", "orders is filtered", "accept it", Weight.ASKS),
            Problem("groups_reading", "a group reads", "stop it", Weight.TOLD),
        ]
    )
    state, name, text = failed_at(world)
    assert (state, name) == (RunState.FAILED, "preflight")
    assert "paused" in text
    assert "filtered" in text
    assert "a group reads" not in text
    del world.problems[0]
    world.rows.clear()
    run = conductor(world, replace(OPTIONS, accepted=("one_way",))).go()
    assert run.state is RunState.DONE


@KINDS
def test_a_run_that_is_carried_on_in_vain_leaves_no_fence(kind: RunKind) -> None:
    """Given a run killed anywhere / when its link has stopped since / then what it had changed is

    taken back, and the run does not say that it has changed nothing.
    """
    stopped = Problem("not_running", "the link is stopped", "start it", Weight.STOPS)
    for killed_at in range(1, calls_of(kind)):
        world = World(kind, killed_at=killed_at, after_effect=True)
        with pytest.raises(Killed):
            conductor(world).go()
        if world.rows and conductor(world).may_go_back:
            world.problems.append(stopped)
            assert conductor(world).go().state is RunState.WENT_BACK
            assert not world.is_fenced
            assert not world.back_rests


def test_a_lag_that_stays_ends_the_run_before_anything_is_changed() -> None:
    state, name, _ = failed_at(World(source_end=5_000))
    assert (state, name) == (RunState.FAILED, "lag")


def test_a_producer_that_writes_past_the_fence_is_named_and_the_run_goes_back() -> None:
    state, name, text = failed_at(World(writes_past_fence=True))
    assert (state, name) == (RunState.WENT_BACK, "still")
    assert "orders-0: 1 records came, by producer 7" in text


def test_without_rules_an_operator_has_a_while_to_stop_producers() -> None:
    def stop(world: World) -> None:
        world.writes_past_fence = world.at_s < 40.0
        world.position = world.source_end

    assert conductor(World(can_fence=False, on_sleep=stop)).go().state is RunState.DONE
    world = World(can_fence=False, writes_past_fence=True)
    assert failed_at(world)[:2] == (RunState.WENT_BACK, "still")
    assert world.at_s >= OPTIONS.producers_s


def test_open_transactions_are_waited_for_and_named() -> None:
    line = "orders-0: a transaction of producer 7 (payments) is open"

    def end(world: World) -> None:
        if world.at_s > 20.0:
            world.transactions.clear()

    assert conductor(World(transactions=[line], on_sleep=end)).go().state is RunState.DONE
    state, name, text = failed_at(World(transactions=[line]))
    assert (state, name) == (RunState.WENT_BACK, "still")
    assert line in text


def test_last_records_groups_and_contents_that_lack_send_the_run_back() -> None:
    late = World(position=9)
    assert failed_at(late)[:2] == (RunState.WENT_BACK, "records")
    reading = World(reading=("billing (app at 10.0.0.7)",))
    state, name, text = failed_at(reading)
    assert (state, name) == (RunState.WENT_BACK, "groups")
    assert "billing (app at 10.0.0.7)" in text
    assert failed_at(World(behind=("billing: orders-0",)))[:2] == (RunState.WENT_BACK, "groups")


def test_contents_are_compared_while_producers_go_on_and_the_rest_behind_the_fence() -> None:
    """Given producers that write until the fence / when all is compared / then what was copied

    before it is compared once, only the rest behind it, and how long that takes is told; what
    differs ends the run before anything is changed, or sends it back.
    """
    world = World(source_end=1_000, position=990)
    desk, told = Desk(world), []

    def save(run: Run) -> None:
        desk.save(run)
        told.extend(step.text for step in run.steps if step.state is StepState.RUNNING)
        if run.step("fence").state is StepState.RUNNING:
            world.source_end = world.position = 1_200

    run = Conductor(desk, new_run(), OPTIONS, save=save).go()
    assert run.state is RunState.DONE
    assert world.compared == [(0, False), (990, True)]
    assert run.step("comparison").text == "compared; 10 offsets have come since, some 0 s"
    assert "compares the other 210 offsets, some 0 s" in told
    assert failed_at(World(different=("orders-0: 3 differ",)))[:2] == (
        RunState.FAILED,
        "comparison",
    )
    late = World()

    def differ(run: Run) -> None:
        Desk(late).save(run)
        if run.step("fence").state is StepState.RUNNING:
            late.different = ("orders-0: 3 differ",)

    back = Conductor(Desk(late), new_run(), OPTIONS, save=differ).go()
    assert (back.state, back.step("contents").state) == (RunState.WENT_BACK, StepState.FAILED)


def test_a_run_of_an_older_version_is_carried_on_behind_its_promotion() -> None:
    world = World(killed_at=FULL - 2, after_effect=True)
    with pytest.raises(Killed):
        conductor(world).go()
    begun = world.run()
    assert not begun.may_go_back
    steps = tuple(step for step in begun.steps if step.name != "comparison")
    world.rows.append(replace(begun, steps=steps))
    assert conductor(world).go().state is RunState.DONE


def test_what_is_written_between_the_steps_is_seen_before_the_promotion() -> None:
    world = World()
    desk = Desk(world)

    def save(run: Run) -> None:
        desk.save(run)
        if run.step("contents").state is StepState.RUNNING and world.source_end == 10:
            world.source_end = world.position = 11

    run = Conductor(desk, new_run(), OPTIONS, save=save).go()
    assert run.state is RunState.WENT_BACK
    assert "orders-0: 1 records came" in run.step("last_look").text
    assert not world.is_promoted


@pytest.mark.parametrize("looks", [3, 10**6])
def test_a_lane_that_begins_before_the_last_look_is_waited_for(looks: int) -> None:
    world = World()
    desk = Desk(world)

    def save(run: Run) -> None:
        desk.save(run)
        if run.step("last_look").state is StepState.RUNNING and not run.step("last_look").text:
            world.unreported = looks

    run = Conductor(desk, new_run(), OPTIONS, save=save).go()
    assert world.is_promoted == (looks == 3)
    assert run.state is (RunState.DONE if looks == 3 else RunState.WENT_BACK)
    assert ("is not known" in run.step("last_look").text) == (looks != 3)


def test_what_was_not_reported_does_not_count_as_compared() -> None:
    world = World()
    desk = Desk(world)

    def save(run: Run) -> None:
        desk.save(run)
        if run.step("comparison").state is StepState.RUNNING and not run.step("comparison").text:
            world.unreported = 1

    assert Conductor(desk, new_run(), OPTIONS, save=save).go().state is RunState.DONE
    assert world.compared == [(0, False), (0, True)]


def test_what_is_written_at_the_source_afterwards_is_named() -> None:
    run = conductor(World(is_written_after=True)).go()
    assert run.state is RunState.DONE
    assert "orders-0: 1 records came" in run.step("watch").text


def test_a_cluster_that_stays_away_leaves_the_run_as_it_is() -> None:
    world = World()
    again = conductor(world)
    world.lost = 0
    desk = Desk(world)

    def save(run: Run) -> None:
        left, world.lost = world.lost, 0
        desk.save(run)
        world.lost = 99 if run.step("records").state is StepState.RUNNING else left

    with pytest.raises(ConnectionLost):
        Conductor(desk, again.run, OPTIONS, save=save).go()
    assert world.run().state is RunState.UNDER_WAY
    world.lost = 0
    assert conductor(world).go().state is RunState.DONE


def test_there_is_no_way_back_after_the_promotion() -> None:
    world = World()
    conductor(world).go()
    with pytest.raises(ValueError, match="past its promotion"):
        conductor(world).go_back()


def test_the_last_run_is_the_one_written_last() -> None:
    runs = Runs()
    first, second = new_run(), replace(new_run(), id="r2")
    for run in (first, second, first):
        runs.take(run.key, run.to_json())
    runs.take(second.beats_key, {"beats": 3})
    assert runs.last() == first
    assert runs.last(RunKind.FAILOVER) is None
    assert runs.beats_of(second) == 3
    runs.take(first.key, None)
    assert runs.last() == second
    with pytest.raises(ValueError, match="another run"):
        runs.take("run/other", first.to_json())
