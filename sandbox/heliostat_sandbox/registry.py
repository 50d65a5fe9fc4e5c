"""A schema registry of the sandbox: Apicurio, one process, its contents in its memory.

It speaks Confluent's API under `/apis/ccompat/v7`, with ids of its own. It has no modes and no
contexts (asked of 2.5.11.Final: tests/kafka/test_registry_contract.py).
"""

from __future__ import annotations

import http.client
import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from heliostat.errors import SandboxError
from heliostat_sandbox.jars import APICURIO, ensure_jars
from heliostat_sandbox.java import find_java
from heliostat_sandbox.ports import LOOPBACK, free_ports
from heliostat_sandbox.process import OwnProcess, ProcessId

MAIN_CLASS = "io.quarkus.runner.GeneratedMain"
API = "/apis/ccompat/v7"
HEAP_MB = 256
READY_TIMEOUT_S = 120.0
"""Measured 5 s; a multiple on a busy machine."""
LOOK_S = 0.1
LOOK_TIMEOUT_S = 5.0
END_TIMEOUT_S = 30.0


class SandboxRegistry:
    """A running Apicurio; also a context manager that ends it.

    Parameters
    ----------
    command
        Command line that starts it.
    folder
        Folder of its own, deleted at the end.
    port
        Its port on loopback.
    process
        Its process, if it runs already.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        folder: Path,
        port: int,
        process: OwnProcess | None = None,
    ) -> None:
        self.command = command
        self.folder = folder
        self.port = port
        self._process = process

    @classmethod
    def start(cls) -> Self:
        """Start a registry on a free port, and wait until it answers.

        Raises
        ------
        SandboxError
            Its jars can't be fetched, it ended, or it did not answer in time.
        """
        jars = ensure_jars(APICURIO)
        folder = Path(tempfile.mkdtemp(prefix="heliostat-registry-"))
        (port,) = free_ports(1)
        # The runner's jar names the others with their folder, which the cache has not.
        first = sorted(jars, key=lambda jar: not jar.name.endswith("-runner.jar"))
        command = (
            *(str(find_java()), f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={port}"),
            *(f"-Djava.io.tmpdir={folder}", "-Djava.awt.headless=true"),
            *("-cp", ":".join(map(str, first)), MAIN_CLASS),
        )
        registry = cls(command, folder, port)
        try:
            registry.resume()
        except BaseException:
            registry.stop()
            raise
        return registry

    @property
    def url(self) -> str:
        """Address of Confluent's API, without a slash at the end."""
        return f"http://{LOOPBACK}:{self.port}{API}"

    @property
    def identity(self) -> ProcessId:
        """Pid and start time of the registry that was started last.

        Raises
        ------
        SandboxError
            None was started.
        """
        if self._process is None:
            raise SandboxError("the registry was never started")
        return self._process.identity

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.is_alive()

    def let_go(self) -> None:
        """Let it outlive this process."""
        if self._process is not None:
            self._process.let_go()

    def resume(self) -> None:
        """Start it on its port if it does not run, empty, and wait until it answers."""
        if self.is_alive:
            return
        output = self.folder / "registry.out"
        self._process = OwnProcess.start(
            self.command, output=output, folder=self.folder, dies_with_owner=True
        )
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not self._answers():
            if not self._process.is_alive() or time.monotonic() > deadline_s:
                self.kill()
                said = output.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise SandboxError("the registry did not answer", port=self.port, said=said)
            time.sleep(LOOK_S)

    def kill(self) -> None:
        """Kill the process, which loses its contents; `resume` starts it again."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
            self._process.wait(END_TIMEOUT_S)
            self._process.let_go()

    def stop(self) -> None:
        """End it and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=LOOK_TIMEOUT_S)
        try:
            connection.request("GET", f"{API}/subjects")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
