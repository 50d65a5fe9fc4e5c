"""States of connectors by those of their links, in words that Connect's clients know."""

from __future__ import annotations

import pytest
from unit.connect.kept import link_status, partition

from heliostat.connect.statuses import (
    ASSIGNED_MAX,
    TRACES_MAX,
    Task,
    link_view,
    partner_view,
    task_config,
)
from heliostat.wishes.restarts import Phase, RestartMemory
from heliostat.wishes.wish import WishedState


@pytest.mark.parametrize(
    ("state", "shown", "tasks"),
    [
        ("running", "RUNNING", 1),
        ("paused", "PAUSED", 1),
        ("stopped", "STOPPED", 0),
        ("silent", "UNASSIGNED", 0),
        ("no_owner", "UNASSIGNED", 0),
        ("unreachable", "UNASSIGNED", 0),
        ("unknown", "UNASSIGNED", 0),
    ],
)
def test_state_of_a_link(state: str, shown: str, tasks: int) -> None:
    rows = [partition("t")]
    view = link_view(link_status("l", state, rows), rows, "w:1")
    assert (view.state, len(view.tasks), view.trace) == (shown, tasks, "")
    partner = partner_view(WishedState.RUNNING, [view], "w:1")
    alive = state in {"running", "paused"}
    assert partner.state == ("RUNNING" if alive or state == "stopped" else "UNASSIGNED")
    assert len(partner.tasks) == alive


@pytest.mark.parametrize(
    ("phase", "shown"),
    [(Phase.WAITS, "RESTARTING"), (Phase.GAVE_UP, "FAILED"), (Phase.REFUSED, "FAILED")],
)
def test_a_link_that_halted(phase: Phase, shown: str) -> None:
    status = link_status("l", "halted", [])
    memory = RestartMemory(phase, 3, 7, 3, "CODE", "it must not go on", 1, 2)
    status.restarts = {**memory.to_json(), "text": "later"}
    view = link_view(status, [], "w:1")
    assert (view.state, "it must not go on" in view.trace) == (shown, shown == "FAILED")


def test_a_link_that_nobody_follows_is_unassigned() -> None:
    assert link_view(None, [], "w:1").state == "UNASSIGNED"


def test_what_no_lane_has_is_told_by_the_first_and_traces_are_bounded() -> None:
    rows = [partition("t", number, lane=-1, state="BLOCKED") for number in range(30)]
    (task,) = link_view(link_status("l", "running", rows), rows, "w:1").tasks
    assert task.state == "FAILED"
    assert len(task.trace.splitlines()) == TRACES_MAX + 1
    assert task.trace.endswith("and 10 more partitions")


def test_a_tasks_configuration_names_a_hundred_partitions() -> None:
    named = tuple(f"t-{number}" for number in range(ASSIGNED_MAX + 5))
    config = task_config({"connector.class": "a.BConnector"}, 3, Task("RUNNING", named))
    assert (config["task.class"], config["task.index"]) == ("a.BTask", "3")
    assert config["task.assigned.partitions"].endswith("t-99,… and 5 more")
