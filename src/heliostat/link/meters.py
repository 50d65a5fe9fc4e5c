"""What a driver has counted and used, for its report: metrics show it wherever they are served."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from heliostat.clock import Clock
from heliostat.link.troubles import Troubles
from heliostat.ops.process_use import ProcessUse, use_of
from heliostat.ops.request_times import RequestTimes
from heliostat.status.board import StatusBoard

USE_EVERY_S = 5.0


class DriverProcesses:
    """What the driver's own process and Spark's JVM have used.

    Parameters
    ----------
    jvm_pid
        Returns the id of the JVM's process; None: there is none, or it is not ours.
    clock
        The clock.
    """

    def __init__(self, jvm_pid: Callable[[], int | None], clock: Clock) -> None:
        self._jvm_pid = jvm_pid
        self._clock = clock
        self._again_s = 0.0
        self._known: dict[str, ProcessUse] = {}

    def report(self) -> Mapping[str, ProcessUse]:
        """Return it by process, as it was some seconds ago at most."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._again_s:
            self._again_s = now_s + USE_EVERY_S
            pids = {"driver": os.getpid(), "jvm": self._jvm_pid()}
            uses = {name: use_of(pid) for name, pid in pids.items() if pid is not None}
            self._known = {name: use for name, use in uses.items() if use is not None}
        return self._known


class Meters:
    """The meters of one link.

    Parameters
    ----------
    processes
        Returns what the processes of its driver have used.
    troubles, board
        Count failures of the driver, and codes that lanes report.
    sides
        The side of a cluster, by its alias.
    """

    def __init__(
        self,
        processes: Callable[[], Mapping[str, ProcessUse]],
        troubles: Troubles,
        board: StatusBoard,
        sides: Mapping[str, str],
    ) -> None:
        self._processes = processes
        self._troubles = troubles
        self._board = board
        self._sides = sides

    def report(self, times: Mapping[str, Iterable[RequestTimes]]) -> dict[str, object]:
        """Return the meters' part of the driver's report.

        Parameters
        ----------
        times
            How long requests took, by the side that was asked.
        """
        errors = {
            (code, self._sides.get(alias, "")): count
            for (code, alias), count in self._troubles.counts().items()
        }
        for code, count in self._board.codes().items():
            errors[code, ""] = errors.get((code, ""), 0) + count
        return {
            "processes": {name: list(use) for name, use in self._processes().items()},
            "errors": [[*key, count] for key, count in sorted(errors.items())],
            "admin": [
                [side, name, round(seconds, 4), counts]
                for side, every in times.items()
                for each in every
                for name, seconds, counts in each.rows()
            ],
        }
