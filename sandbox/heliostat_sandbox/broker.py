"""One real Kafka broker on loopback: a plain `java` process with a folder of its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from heliostat.errors import HeliostatError, SandboxError
from heliostat.names import BrokerId, Endpoint
from heliostat_sandbox.process import OwnProcess
from heliostat_sandbox.protocol import ask_metadata

PAUSE_TIMEOUT_S = 5.0
"""Threads stop within milliseconds, except one that waits for the disk."""

MAIN_CLASS = "kafka.Kafka"
READY_TIMEOUT_S = 60.0
"""Measured 3 to 5 s on two cores; a multiple for several brokers at once on a busy machine."""
STOP_TIMEOUT_S = 40.0
"""A controlled shutdown takes a second; a broker without a controller gives up after 30 s."""
KILL_TIMEOUT_S = 15.0
"""The kernel frees the memory; seconds at most."""
LOOK_S = 0.05
LOG_TAIL_LINES = 25
"""Lines of broker.log shown in an error: enough for the last stack trace with its cause."""


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """Everything needed to start one broker, repeatedly.

    Parameters
    ----------
    broker_id
        Broker id, also its id as a controller.
    endpoint
        Address for clients.
    folder
        Has server.properties, broker.log, its output, and `data`.
    command
        Command line that starts it.
    dies_with_owner
        Whether it ends with the process that starts it.
    on_start
        Called after each start: a named cluster saves the new pid.
    """

    broker_id: BrokerId
    endpoint: Endpoint
    folder: Path
    command: Sequence[str]
    dies_with_owner: bool
    on_start: Callable[[], None] | None = None


class Broker:
    """A broker of a sandbox cluster; every method may be called in any state.

    Parameters
    ----------
    plan
        What to start.
    process
        The process, if it already runs.
    """

    def __init__(self, plan: BrokerPlan, process: OwnProcess | None = None) -> None:
        self._plan = plan
        self._process = process

    @property
    def broker_id(self) -> BrokerId:
        """The broker's `node.id`, counted from 1."""
        return self._plan.broker_id

    @property
    def endpoint(self) -> Endpoint:
        """Address for clients."""
        return self._plan.endpoint

    @property
    def folder(self) -> Path:
        """Its files: settings, logs, data."""
        return self._plan.folder

    @property
    def log_folder(self) -> Path:
        """Folder of the partitions' logs (`log.dirs`)."""
        return self._plan.folder / "data"

    @property
    def command(self) -> Sequence[str]:
        """Command line that starts it."""
        return self._plan.command

    @property
    def process(self) -> OwnProcess | None:
        """The process that was started last."""
        return self._process

    @property
    def pid(self) -> int:
        """Process id of the broker that was started last.

        Raises
        ------
        SandboxError
            It was never started.
        """
        if self._process is None:
            raise SandboxError("the broker was never started", broker=self.broker_id)
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether the process exists (also if paused)."""
        return self._process is not None and self._process.is_alive()

    def is_paused(self) -> bool:
        """Return whether it is frozen."""
        return self.is_alive() and _is_frozen(self.pid)

    def launch(self) -> None:
        """Start the process on its port and in its folder, without waiting. See `start`."""
        if not self.is_alive():
            self._process = OwnProcess.start(
                self._plan.command,
                output=self.folder / "broker.out",
                folder=self.folder,
                dies_with_owner=self._plan.dies_with_owner,
            )
            if self._plan.on_start is not None:
                self._plan.on_start()

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start it on its port and in its folder, and wait until it serves."""
        self.launch()
        self.wait_ready(timeout_s)

    def stop(self) -> None:
        """Stop it like an operator: SIGTERM, controlled shutdown.

        Raises
        ------
        SandboxError
            It still ran after `STOP_TIMEOUT_S`, and was killed.
        """
        if self._process is None:
            return
        self._process.signal(signal.SIGTERM)
        self._process.signal(signal.SIGCONT)  # a paused process handles no other signal
        if not self._process.wait(STOP_TIMEOUT_S):
            self.kill()
            raise SandboxError(
                "a broker did not stop in time and was killed",
                broker=self.broker_id,
                timeout_s=STOP_TIMEOUT_S,
                log=self.log_tail(),
            )

    def kill(self) -> None:
        """End it at once, as a crash would: SIGKILL.

        Raises
        ------
        SandboxError
            The kernel did not end it.
        """
        if self._process is None:
            return
        self._process.signal(signal.SIGKILL)
        if not self._process.wait(KILL_TIMEOUT_S):
            raise SandboxError("a broker can't be killed", pid=self.pid)

    def restart(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Stop it cleanly, start it again, wait until it serves."""
        self.stop()
        self.start(timeout_s)

    def pause(self) -> None:
        """Freeze it (SIGSTOP): when this returns, connections are open but nothing answers."""
        if self._process is None:
            return
        self._process.signal(signal.SIGSTOP)
        deadline_s = time.monotonic() + PAUSE_TIMEOUT_S
        while not _is_frozen(self.pid):  # each thread may answer until it has stopped itself
            if time.monotonic() > deadline_s:
                raise SandboxError("a broker does not stop at SIGSTOP", pid=self.pid)
            time.sleep(0.001)

    def resume(self) -> None:
        """Let it continue (SIGCONT)."""
        if self._process is not None:
            self._process.signal(signal.SIGCONT)

    def let_go(self) -> None:
        """Let it outlive this process."""
        if self._process is not None:
            self._process.let_go()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until it answers and is, unfenced, in the metadata that it serves.

        Raises
        ------
        SandboxError
            It ended, or was not ready within `timeout_s`; the text has the end of broker.log.
        """
        deadline_s = time.monotonic() + timeout_s
        why = "not asked yet"
        while time.monotonic() < deadline_s:
            if not self.is_alive():
                raise SandboxError(
                    "a broker ended while it started", broker=self.broker_id, log=self.log_tail()
                )
            try:
                if self.broker_id in self.known_brokers():
                    return
                why = "it is not in its own metadata yet"
            except HeliostatError as error:
                why = str(error)
            time.sleep(LOOK_S)
        raise SandboxError(
            "a broker did not become ready in time",
            broker=self.broker_id,
            timeout_s=timeout_s,
            why=why,
            log=self.log_tail(),
        )

    def known_brokers(self) -> set[BrokerId]:
        """Return the brokers that are registered and unfenced, by this one's metadata.

        Raises
        ------
        ConnectionLost
            It does not answer.
        """
        return set(ask_metadata(self.endpoint, []).brokers)

    def log_tail(self) -> str:
        """Return the last lines of broker.log, or of its output if there is no log."""
        for name in ("broker.log", "broker.out"):
            path = self.folder / name
            if path.is_file() and path.stat().st_size:
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
                return "\n".join(["", *lines[-LOG_TAIL_LINES:]])
        return "(no log)"


def _is_frozen(pid: int) -> bool:
    """Return whether all threads of a process are stopped (proc(5): the state after the name)."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(") ")[2].startswith("T") for stat in stats)
