"""The ZooKeeper that brokers before KRaft need: one process, started from the same jars."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from heliostat.errors import SandboxError
from heliostat_sandbox.ports import LOOPBACK
from heliostat_sandbox.process import OwnProcess

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
HEAP_MB = 128
READY_TIMEOUT_S = 60.0
"""Measured 1 s; a multiple on a busy machine."""
LOOK_S = 0.05
SETTINGS = """\
dataDir={data}
clientPort={port}
clientPortAddress={host}
maxClientCnxns=0
admin.enableServer=false
"""


def start_zookeeper(java: Path, jars: Sequence[Path], folder: Path, port: int) -> OwnProcess:
    """Start a ZooKeeper in a new `folder`, and wait until it listens.

    Raises
    ------
    SandboxError
        It ended, or did not listen in time.
    """
    folder.mkdir()
    settings, output = folder / "zookeeper.properties", folder / "zookeeper.out"
    text = SETTINGS.format(data=folder / "data", port=port, host=LOOPBACK)
    settings.write_text(text, encoding="utf-8")
    command = (
        *(str(java), f"-Xmx{HEAP_MB}m", "-Djava.awt.headless=true"),
        *("-cp", ":".join(map(str, jars)), MAIN_CLASS, str(settings)),
    )
    process = OwnProcess.start(command, output=output, folder=folder, dies_with_owner=True)
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while not _listens(port):
        if not process.is_alive() or time.monotonic() > deadline_s:
            end_zookeeper(process)
            said = output.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise SandboxError("ZooKeeper did not become ready", port=port, said=said)
        time.sleep(LOOK_S)
    return process


def end_zookeeper(process: OwnProcess) -> None:
    """Kill it; its folder is deleted with the cluster's."""
    process.signal(signal.SIGKILL)
    process.wait(READY_TIMEOUT_S)


def _listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
