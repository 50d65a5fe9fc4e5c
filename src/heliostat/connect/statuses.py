"""How a connector is, in Kafka Connect's words, by the status of its link; pure.

Clients have closed lists of states, so there is no word of ours in it; what we know beyond them is
in the traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from heliostat.connect.plugins import CONNECT_VERSION
from heliostat.status.values import LinkStatus, PartitionProblem, PartitionStatus
from heliostat.wishes.restarts import Phase
from heliostat.wishes.wish import WishedState

RUNNING, PAUSED, STOPPED = "RUNNING", "PAUSED", "STOPPED"
UNASSIGNED, FAILED, RESTARTING = "UNASSIGNED", "FAILED", "RESTARTING"
TRACES_MAX = 20
"""Most partitions told in a trace."""
ASSIGNED_MAX = 100
"""Most partitions named in a task's configuration."""
_OF_LINK = {
    "running": RUNNING,
    "paused": PAUSED,
    "stopped": STOPPED,
}
"""By the link's state; of any other one it has no owner that renews its record."""
_OF_WISH = {WishedState.PAUSED: PAUSED, WishedState.STOPPED: STOPPED}
OF_STATE = {state: wish for wish, state in _OF_WISH.items()}
"""What was wished of a connector that is shown so; of one that is shown otherwise, that it runs."""


@dataclass(frozen=True, slots=True)
class Task:
    """A lane of a link, or the work of a partner."""

    state: str
    partitions: tuple[str, ...] = ()
    trace: str = ""

    def to_json(self, task: int, worker_id: str) -> dict[str, Any]:
        """Return its status."""
        return _state_json(self.state, worker_id, self.trace) | {"id": task}


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """A connector as it is now."""

    state: str
    worker_id: str
    tasks: tuple[Task, ...] = ()
    trace: str = ""

    def to_json(self, name: str) -> dict[str, Any]:
        """Return its status."""
        return {
            "name": name,
            "connector": _state_json(self.state, self.worker_id, self.trace),
            "tasks": [
                task.to_json(number, self.worker_id) for number, task in enumerate(self.tasks)
            ],
            "type": "source",
        }

    def restarting(self, *, only_failed: bool) -> ConnectorView:
        """Return the view in which everything that is begun anew says so."""

        def again(state: str) -> bool:
            return state == FAILED or not only_failed

        return ConnectorView(
            RESTARTING if again(self.state) else self.state,
            self.worker_id,
            tuple(
                Task(RESTARTING, task.partitions) if again(task.state) else task
                for task in self.tasks
            ),
            "" if again(self.state) else self.trace,
        )


def _state_json(state: str, worker_id: str, trace: str) -> dict[str, Any]:
    row = {"state": state, "worker_id": worker_id, "version": CONNECT_VERSION}
    return row | ({"trace": trace} if trace else {})


def refused_view(problems: Iterable[tuple[str, str]], worker_id: str) -> ConnectorView:
    """Return the view of a connector that is no link any more, as the file has changed."""
    text = "\n".join(f"{field}: {text}" for field, text in problems)
    return ConnectorView(FAILED, worker_id, (), text)


def link_view(
    status: LinkStatus | None, partitions: Sequence[PartitionStatus], worker_id: str
) -> ConnectorView:
    """Return the view of a connector that is a link.

    Parameters
    ----------
    status
        The link; None: nobody follows it yet.
    partitions
        Its partitions.
    worker_id
        Where its owner runs.
    """
    if status is None:
        return ConnectorView(UNASSIGNED, worker_id)
    if status.state == "halted":
        return _halted(status, worker_id)
    state = _OF_LINK.get(status.state, UNASSIGNED)
    if state == STOPPED:
        return ConnectorView(state, worker_id)
    tasks = _tasks(status, partitions, state) if state in {RUNNING, PAUSED} else ()
    return ConnectorView(state, worker_id, tasks)


def _halted(status: LinkStatus, worker_id: str) -> ConnectorView:
    """Return that a link has failed, or that it is to begin again by itself."""
    if status.restarts and status.restarts["phase"] == Phase.WAITS.value:
        return ConnectorView(RESTARTING, worker_id)
    lines = [status.state_in_words(), *status.troubles]
    return ConnectorView(FAILED, worker_id, (), "\n".join(lines))


def _tasks(
    status: LinkStatus, partitions: Sequence[PartitionStatus], state: str
) -> tuple[Task, ...]:
    """Return a task for each lane; what no lane has is the first one's."""
    lanes = sorted({int(lane["lane"]) for lane in status.lanes} | {p.lane for p in partitions})
    lanes = [lane for lane in lanes if lane >= 0]
    if not lanes and partitions:
        lanes = [-1]
    by_lane: dict[int, list[PartitionStatus]] = {lane: [] for lane in lanes}
    for partition in partitions:
        by_lane[partition.lane if partition.lane in by_lane else lanes[0]].append(partition)
    stopped = {
        (problem.source, problem.partition): problem
        for problem in status.problems
        if problem.is_stopped
    }
    tasks: list[Task] = []
    for rows in by_lane.values():
        named = tuple(f"{row.source}-{row.partition}" for row in rows)
        wrong = [stopped[key] for row in rows if (key := (row.source, row.partition)) in stopped]
        shown = FAILED if wrong and state == RUNNING else state
        tasks.append(Task(shown, named, _trace(wrong) if shown == FAILED else ""))
    return tuple(tasks)


def _trace(problems: Sequence[PartitionProblem]) -> str:
    """Return a line about each partition that waits for a person."""
    lines = [
        f"{problem.source}-{problem.partition}: {problem.code}: {problem.reason} "
        f"(since {_time(problem.since_ms)}; heliostat explain {problem.source} says what to do)"
        for problem in problems[:TRACES_MAX]
    ]
    if len(problems) > TRACES_MAX:
        lines.append(f"and {len(problems) - TRACES_MAX} more partitions")
    return "\n".join(lines)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def partner_view(
    wished: WishedState, links: Sequence[ConnectorView], worker_id: str
) -> ConnectorView:
    """Return the view of a checkpoint or heartbeat connector.

    Parameters
    ----------
    links
        The links it belongs to; none: it is stored, and begins with the first one.
    """
    state = _OF_WISH.get(wished, RUNNING)
    if state == STOPPED or not links:
        return ConnectorView(state, worker_id)
    working = [link for link in links if link.state in {RUNNING, PAUSED, RESTARTING}]
    if not working:
        idle = RUNNING if any(link.state == STOPPED for link in links) else UNASSIGNED
        return ConnectorView(state if state == PAUSED else idle, links[0].worker_id)
    return ConnectorView(state, working[0].worker_id, (Task(state),))


def task_config(config: Mapping[str, str], number: int, task: Task) -> dict[str, str]:
    """Return a task's configuration: its connector's, and its partitions, a hundred at most."""
    named = task.partitions[:ASSIGNED_MAX]
    more = len(task.partitions) - len(named)
    text = ",".join(named) + (f",… and {more} more" if more else "")
    own = config.get("connector.class", "")
    return {
        **config,
        "task.class": own.removesuffix("Connector") + "Task",
        "task.index": str(number),
        "task.assigned.partitions": text,
    }
