"""Processes of ours: started, identified by pid and start time, and reliably ended.

A process that belongs to its owner ends with it, whatever kills the owner. A small shell guards
it: it waits on a pipe that closes when the owner is gone. (Linux's PR_SET_PDEATHSIG would follow
the *thread* that started the process, so a broker started by a short-lived thread would die.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from heliostat.errors import SandboxError

GUARD = """\
read -r word
[ "$word" = released ] && exit
kill -KILL "-$1"
tries=0
while kill -0 "-$1" 2>/dev/null && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
rm -rf -- "$2"
rmdir -- "${2%/*}"
"""
"""Shell script of the guard: also deletes the process's folder, and the cluster's when empty."""
START_TIME_SLACK_S = 1.0
"""psutil computes start times from the boot time, which shifts when the wall clock is set."""
LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Pid and start time, which identify a process even if its pid is used again."""

    pid: int
    started_at_s: float

    def find(self) -> psutil.Process | None:
        """Return the process; None if it has ended, or another process has its pid."""
        try:
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.started_at_s) > START_TIME_SLACK_S:
                return None
            # A JVM's first thread may be a zombie while other threads, and its ports, still exist.
            ended = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
        except psutil.NoSuchProcess:
            return None
        return None if ended else process


class OwnProcess:
    """A running program, in a process group of its own.

    Parameters
    ----------
    identity
        Pid and start time.
    child
        Its handle, if it is a child of this process.
    guard
        The shell that ends it when this process is gone.
    """

    def __init__(
        self,
        identity: ProcessId,
        child: subprocess.Popen[bytes] | None = None,
        guard: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.identity = identity
        self._child = child
        self._guard = guard

    @classmethod
    def start(
        cls, command: Sequence[str], *, output: Path, folder: Path, dies_with_owner: bool
    ) -> OwnProcess:
        """Start `command` in its own `folder`; its output is appended to `output`.

        With `dies_with_owner` the process ends and the folder is deleted when this process is gone.

        Raises
        ------
        SandboxError
            It can't be started.
        """
        with output.open("ab") as file:
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    start_new_session=True,  # Ctrl-C at the terminal must not reach it
                )
            except OSError as error:
                raise SandboxError("a process can't be started", command=command[0]) from error
        guard = _guard(child.pid, folder) if dies_with_owner else None
        try:
            started_at_s = psutil.Process(child.pid).create_time()
        except psutil.NoSuchProcess:  # ended already, but not reaped: the pid is still its own
            started_at_s = time.time()
        return cls(ProcessId(child.pid, started_at_s), child, guard)

    @property
    def pid(self) -> int:
        """Process id."""
        return self.identity.pid

    def is_alive(self) -> bool:
        """Return whether it exists (also if paused)."""
        if self._child is not None:
            if self._child.poll() is None:
                return True
            self.let_go()
            return False
        return self.identity.find() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if it still runs."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; return whether it ended within `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(LOOK_S)
        return True

    def let_go(self) -> None:
        """End the guard, so that the process may outlive this one."""
        guard, self._guard = self._guard, None
        if guard is None or guard.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            guard.stdin.write(b"released\n")
            guard.stdin.close()
        guard.wait()


def _guard(pid: int, folder: Path) -> subprocess.Popen[bytes]:
    """Start the shell that ends the process group of `pid` when this process is gone."""
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", str(pid), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
