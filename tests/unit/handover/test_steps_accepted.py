"""What a switch waits for, unless it is accepted: unknown transactions, groups of others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.handover.test_steps import OPTIONS, World, conductor, failed_at

from heliostat.handover.run import RunKind, RunState


def test_transactions_that_no_broker_tells_are_waited_for_unless_that_is_accepted() -> None:
    told, untold = "orders-0: a transaction is open", "orders-0: not authorized"
    accepted = replace(OPTIONS, accepted=("transactions_unknown",))
    state, name, text = failed_at(World(unknown=(untold,)))
    assert (state, name) == (RunState.WENT_BACK, "still")
    assert untold in text
    assert conductor(World(unknown=(untold,)), accepted).go().state is RunState.DONE
    state, name, text = failed_at(World(unknown=(untold,), transactions=[told]), accepted)
    assert (state, name) == (RunState.WENT_BACK, "still")
    assert text.endswith(told)


@pytest.mark.parametrize("is_synced", [True, False])
def test_groups_that_the_link_does_not_sync_are_waited_for_too(*, is_synced: bool) -> None:
    """Given a group at the source that is not the link's / when the link is switched / then it is

    waited for and named, unless that was accepted: then it reads on, and the step says so.
    """
    apart = "audit (app at 10.0.0.9)"

    def stop(world: World) -> None:
        world.apart = (apart,) if world.at_s < 40.0 else ()

    world = World(is_synced=is_synced, apart=(apart,), on_sleep=stop)
    run = conductor(world).go()
    assert run.state is RunState.DONE
    assert world.at_s >= 40.0
    assert apart not in run.step("groups").text
    state, name, text = failed_at(World(is_synced=is_synced, apart=(apart,)))
    assert (state, name) == (RunState.WENT_BACK, "groups")
    assert apart in text
    accepted = replace(OPTIONS, accepted=("groups_apart",))
    run = conductor(World(is_synced=is_synced, apart=(apart,)), accepted).go()
    assert run.state is RunState.DONE
    assert f"as accepted, others read on at the source: {apart}" in run.step("groups").text
    assert ("groups.sync is off" in run.step("groups").text) is not is_synced


def test_which_groups_read_how_much_again_is_told() -> None:
    """Given groups of merged topics / when both links end / then the step says what they read

    again, those with most first.
    """
    world = World(RunKind.FINISH, rereads={"audit": 7, "billing": 1204})
    step = conductor(world).go().step("groups")
    assert step.text.endswith("read records again: billing 1,204; audit 7")
    assert step.facts["rereads"] == world.rereads
